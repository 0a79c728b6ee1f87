//! The sets as they are now.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_kube::{Regarding, Status};
use firesteel_plan::policy::{Entry, Set, SetKey, SetKind, Stub};
use firesteel_resources::{
    HostGroup, ObjectMeta,
    host_group::ImageReference,
    machine_set::{self, TemplateImage},
};
use serde_json::Value;

use super::stubs::Rewrite;
use crate::{Control, events::regarding, groups::readable};

/// All sets, and what is needed to change them.
#[derive(Debug, Default)]
pub(super) struct Sets {
    pub(super) sets: Vec<Set>,
    pub(super) places: BTreeMap<SetKey, SetPlace>,
    /// The release of the image that machines of each set get now.
    pub(super) releases: BTreeMap<SetKey, String>,
    /// The image of a stream that each set of machines names now.
    pub(super) images: BTreeMap<SetKey, ImageReference>,
    /// Images that groups have or had.
    pub(super) former: Vec<ImageReference>,
    /// Secrets with stubs of theirs.
    pub(super) secrets: BTreeSet<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetPlace {
    pub(super) regarding: Regarding,
    /// The image that its template named.
    pub(super) image: Option<TemplateImage>,
    pub(super) rewrite: Option<Rewrite>,
}

impl Control {
    pub(super) async fn sets(&self) -> Result<Sets, Status> {
        let mut all = Sets::default();
        let (groups, _) = self.inner.group_values.list(None).await?;
        for group in groups.into_iter().filter_map(|object| readable::<HostGroup>("HostGroup", object)) {
            self.add_group(&group, &mut all).await?;
        }
        let entries = self.inner.streams.entries();
        let kinds = [
            (SetKind::MachineApiSet, &self.inner.machine_api_sets),
            (SetKind::ClusterApiSet, &self.inner.cluster_api_sets),
        ];
        for (kind, objects) in kinds {
            let (sets, _) = objects.list(None).await?;
            for set in sets {
                self.add_machines(kind, &set, &entries, &mut all).await?;
            }
        }
        Ok(all)
    }

    async fn add_group(&self, group: &HostGroup, all: &mut Sets) -> Result<(), Status> {
        let (stub, secret) = self.stub_of_group(group).await?;
        let set = Set::of_group(group, stub);
        let metadata = &group.metadata;
        all.secrets.extend(secret.map(|name| (metadata.namespace.clone(), name)));
        let status = &group.status;
        if let Some(current) = status.current.as_ref().filter(|current| !current.release.is_empty()) {
            all.releases.insert(set.key.clone(), current.release.clone());
        }
        let now = [&status.golden, &status.current, &status.previous].into_iter().flatten();
        all.former.extend(now.cloned().chain(status.history.iter().map(|entry| entry.image.clone())));
        let place =
            SetPlace { regarding: regarding("firesteel.dev/v1alpha1", "HostGroup", metadata), ..SetPlace::default() };
        all.places.insert(set.key.clone(), place);
        all.sets.push(set);
        Ok(())
    }

    async fn add_machines(
        &self,
        kind: SetKind,
        object: &Value,
        entries: &[Entry],
        all: &mut Sets,
    ) -> Result<(), Status> {
        let Some(metadata) = readable::<ObjectMeta>("MachineSet", object["metadata"].clone()) else { return Ok(()) };
        let secret = match kind {
            SetKind::MachineApiSet => machine_set::user_data(object),
            SetKind::HostGroup | SetKind::ClusterApiSet => None,
        };
        let (stub, rewrite) = match secret {
            Some(name) => self.stub_in(&metadata.namespace, name).await?,
            None => (Stub::NotReferenced, None),
        };
        let set = Set::of_machine_set(kind, &metadata, object, stub);
        all.secrets.extend(secret.map(|name| (metadata.namespace.clone(), name.to_owned())));
        let image = match kind {
            SetKind::MachineApiSet => machine_set::image(object),
            SetKind::HostGroup | SetKind::ClusterApiSet => None,
        };
        let is_it = |entry: &&Entry| {
            image.as_ref().is_some_and(|image| entry.image.digest.eq_ignore_ascii_case(&image.checksum))
        };
        if let Some(entry) = entries.iter().find(is_it) {
            all.releases.insert(set.key.clone(), entry.image.release.clone());
            all.images.insert(set.key.clone(), entry.image.clone());
        }
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let place = SetPlace { regarding: regarding(api_version, "MachineSet", &metadata), image, rewrite };
        all.places.insert(set.key.clone(), place);
        all.sets.push(set);
        Ok(())
    }
}
