//! Sets are changed: the stub first, for an image that cannot read its stub boots into nothing.

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::policy::{SetKey, SetKind};
use firesteel_resources::machine_set::{self, TemplateImage};
use firesteel_resources::{HostGroup, host_group::ImageReference};
use serde_json::Value;

use super::sets::SetObject;
use crate::RolloutController;

impl RolloutController {
    /// Carries a patch out.
    ///
    /// # Errors
    /// When the store refuses it, or the set is not what was looked at any more.
    pub(super) async fn patch_set(
        &self,
        key: &SetKey,
        place: &SetObject,
        reference: Option<&ImageReference>,
        stub: bool,
    ) -> Result<(), Status> {
        if let Some(rewrite) = place.rewrite.as_ref().filter(|_| stub) {
            self.rewrite_stub(&key.namespace, rewrite).await?;
        }
        let Some(image) = reference else { return Ok(()) };
        match key.kind {
            SetKind::HostGroup => {
                let write = |group: &mut HostGroup| group.status.golden = Some(image.clone());
                self.inner.host_groups.modify(&key.namespace, &key.name, ObjectPart::Status, write).await.map(drop)
            }
            SetKind::MachineApiSet => self.patch_template(key, place.image.as_ref(), image).await,
            SetKind::ClusterApiSet => {
                Err(Status::internal("the image stands in a template of a kind that is not here"))
            }
        }
    }

    async fn patch_template(
        &self,
        key: &SetKey,
        was: Option<&TemplateImage>,
        image: &ImageReference,
    ) -> Result<(), Status> {
        let wanted = TemplateImage { url: image.url.clone(), checksum: image.digest.clone() };
        let write = |set: &mut Value| {
            // Another image since then is its owner's word, to be looked at first.
            if machine_set::image(set).as_ref() == was {
                machine_set::set_image(set, &wanted);
            }
        };
        let stored = self.inner.machine_api_sets.modify(&key.namespace, &key.name, ObjectPart::Main, write).await?;
        match stored {
            Some(set) if machine_set::image(&set).as_ref() != Some(&wanted) => {
                Err(Status::internal("its template was changed meanwhile"))
            }
            // One that is gone needs nothing.
            Some(_) | None => Ok(()),
        }
    }
}
