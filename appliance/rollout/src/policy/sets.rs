//! The sets as they are now.

use std::collections::BTreeMap;

use firesteel_kube::{EventSubject, Status};
use firesteel_plan::policy::{
    Catalogue, CatalogueMatch, FormerImage, PolicySet, SetIntent, SetKey, SetKind, StubOutcome,
};
use firesteel_resources::machine_set::{self, TemplateImage};
use firesteel_resources::{HostGroup, ObjectMeta};
use firesteel_runtime::regarding;
use serde_json::Value;

use super::stubs::{Rewrite, stub_name_of};
use crate::{RolloutController, groups::readable};

/// All sets, and what is needed to change them.
#[derive(Debug, Default)]
pub(super) struct PolicySets {
    pub(super) sets: Vec<PolicySet>,
    pub(super) places: BTreeMap<SetKey, SetObject>,
    /// The release of the image that machines of each set get now.
    pub(super) releases: BTreeMap<SetKey, String>,
    /// Images that groups have or had.
    pub(super) former: Vec<FormerImage>,
    /// Something of them could not be read, and is to be looked at again.
    pub(super) is_partial: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetObject {
    pub(super) regarding: EventSubject,
    /// The image that its template named.
    pub(super) image: Option<TemplateImage>,
    pub(super) rewrite: Option<Rewrite>,
}

impl PolicySets {
    /// Notes of each set of machines which image of a stream it names, and what it named when it was last looked at.
    pub(super) fn recognise(&mut self, catalogue: &Catalogue, images: &mut BTreeMap<SetKey, FormerImage>) {
        for set in self.sets.iter_mut().filter(|set| set.wants == SetIntent::SameStream) {
            set.followed = images.get(&set.key).map(|former| former.image.stream.clone());
            let CatalogueMatch::Of(stream, _) = catalogue.known(&set.current, &set.preferred_streams()) else {
                continue;
            };
            if let Some(named) = catalogue.named(&set.current, stream) {
                self.releases.insert(set.key.clone(), named.image.release.clone());
                images.insert(set.key.clone(), named);
            }
        }
    }
}

impl RolloutController {
    pub(super) async fn sets(&self) -> Result<PolicySets, Status> {
        let mut all = PolicySets::default();
        let (groups, _) = self.inner.group_values.list(None).await?;
        for group in groups.into_iter().filter_map(|object| readable::<HostGroup>("HostGroup", object)) {
            self.add_group(&group, &mut all).await;
        }
        let kinds = [
            (SetKind::MachineApiSet, &self.inner.machine_api_sets),
            (SetKind::ClusterApiSet, &self.inner.cluster_api_sets),
        ];
        for (kind, objects) in kinds {
            let (sets, _) = objects.list(None).await?;
            for set in sets {
                self.add_machines(kind, &set, &mut all).await;
            }
        }
        Ok(all)
    }

    /// The stub in a Secret that a set names, and what it is to become. A Secret that cannot be read is one set's
    /// trouble.
    async fn stub_of_set(
        &self,
        namespace: &str,
        name: Option<&str>,
        all: &mut PolicySets,
    ) -> (StubOutcome, Option<Rewrite>) {
        let Some(name) = name else { return (StubOutcome::NotReferenced, None) };
        self.stub_in(namespace, name).await.unwrap_or_else(|status| {
            tracing::warn!(namespace, secret = name, error = %status.message, "a stub cannot be read");
            all.is_partial = true;
            (StubOutcome::Refused(format!("Secret {name} cannot be read from the store")), None)
        })
    }

    async fn add_group(&self, group: &HostGroup, all: &mut PolicySets) {
        let secret = stub_name_of(group);
        let (stub, rewrite) = self.stub_of_set(&group.metadata.namespace, secret.as_deref(), all).await;
        let set = PolicySet::of_group(group, stub);
        let metadata = &group.metadata;
        let status = &group.status;
        if let Some(current) = status.current.as_ref().filter(|current| !current.release.is_empty()) {
            all.releases.insert(set.key.clone(), current.release.clone());
        }
        let now = [&status.golden, &status.current, &status.previous].into_iter().flatten();
        let had = now.chain(status.history.iter().map(|entry| &entry.image));
        all.former.extend(had.cloned().map(FormerImage::disk));
        let regarding = regarding("firesteel.dev/v1alpha1", "HostGroup", metadata);
        all.places.insert(set.key.clone(), SetObject { regarding, image: None, rewrite });
        all.sets.push(set);
    }

    async fn add_machines(&self, kind: SetKind, object: &Value, all: &mut PolicySets) {
        let Some(metadata) = readable::<ObjectMeta>("MachineSet", object["metadata"].clone()) else { return };
        let secret = match kind {
            SetKind::MachineApiSet => machine_set::user_data(object),
            SetKind::HostGroup | SetKind::ClusterApiSet => None,
        };
        let (stub, rewrite) = self.stub_of_set(&metadata.namespace, secret, all).await;
        let set = PolicySet::of_machine_set(kind, &metadata, object, stub);
        let image = match kind {
            SetKind::MachineApiSet => machine_set::image(object),
            SetKind::HostGroup | SetKind::ClusterApiSet => None,
        };
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let place = SetObject { regarding: regarding(api_version, "MachineSet", &metadata), image, rewrite };
        all.places.insert(set.key.clone(), place);
        all.sets.push(set);
    }
}
