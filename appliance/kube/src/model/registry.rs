//! The table of kinds that one server serves.

use std::sync::Arc;

use firesteel_store::GroupResource;

use crate::model::{convert::KindVersion, kind::KindInfo, versions::Maturity};

/// All kinds of a server, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Vec<Arc<KindInfo>>,
}

impl Registry {
    pub fn new(kinds: impl IntoIterator<Item = KindInfo>) -> Self {
        let mut kinds: Vec<KindInfo> = kinds.into_iter().collect();
        let all: Vec<(&str, &str, KindVersion)> =
            kinds.iter().map(|kind| (kind.group, kind.plural, KindVersion::of(kind))).collect();
        for kind in &mut kinds {
            let stored = kind.stored_at.unwrap_or((kind.group, kind.plural));
            let own = all.iter().filter(|(group, plural, _)| (*group, *plural) == stored);
            let versions: Vec<KindVersion> = own.map(|(_, _, version)| version.clone()).collect();
            if versions.len() > 1 || kind.stored_at.is_some() {
                kind.versions = versions.into();
            }
        }
        Self { kinds: kinds.into_iter().map(Arc::new).collect() }
    }

    pub fn kinds(&self) -> &[Arc<KindInfo>] {
        &self.kinds
    }

    /// Each kind that has stored objects once, in the version in which they are stored.
    pub(crate) fn stored_kinds(&self) -> impl Iterator<Item = &Arc<KindInfo>> {
        self.kinds.iter().filter(|kind| kind.is_stored())
    }

    /// Where those of them are in the store whose history is short.
    pub fn short_histories(&self) -> impl Iterator<Item = GroupResource> {
        self.stored_kinds().filter(|kind| kind.has_short_history).map(|kind| kind.stored_resource())
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<KindInfo>> {
        self.kinds.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind of stored objects.
    pub(crate) fn stored(&self, resource: &GroupResource) -> Option<&Arc<KindInfo>> {
        self.stored_kinds().find(|kind| *kind.group == *resource.group && *kind.plural == *resource.resource)
    }

    /// The kind of a type, in the version in which its objects are stored: "metal3.io", "BareMetalHost".
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<KindInfo>> {
        self.kinds.iter().find(|info| info.conversion.is_none() && info.group == group && info.kind == kind)
    }

    /// Groups other than the core one in order of appearance, each with its versions: the first is
    /// the preferred one.
    pub fn groups(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let mut groups: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| !kind.group.is_empty()) {
            match groups.iter_mut().find(|(group, _)| *group == kind.group) {
                Some((_, versions)) if versions.contains(&kind.version) => {}
                Some((_, versions)) => versions.push(kind.version),
                None => groups.push((kind.group, vec![kind.version])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(Maturity::of(version)));
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_mature_version_comes_first() {
        let versions = ["v1alpha1", "v2beta1", "v1", "v1beta2", "x", "v10", "v2", "v1alpha10"];
        let registry = Registry::new(versions.map(|version| KindInfo::cluster("a.example", version, "Toy", "toys")));
        let order = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha10", "v1alpha1", "x"];
        assert_eq!(registry.groups(), [("a.example", order.to_vec())]);
    }
}
