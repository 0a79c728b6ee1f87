//! What the policy remembers from pass to pass, and over a restart: a part of the MachineConfiguration's status, so
//! that it is stored in one write with what people read.

use std::collections::BTreeMap;

use firesteel_plan::policy::{FormerImage, PolicyMemory, SetKey};
use firesteel_plan::skew::Recorded;
use firesteel_resources::MachineConfiguration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PersistedPolicy {
    /// Writes and failures.
    pub(super) sets: PolicyMemory,
    pub(super) skew: Recorded,
    /// The image of a stream that a set of machines named last: it follows that stream after the release is forgotten.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) images: BTreeMap<SetKey, FormerImage>,
    /// The version of the appliance that has looked at all hosts last.
    pub(super) version: String,
}

impl PersistedPolicy {
    /// Reads the memory. One of a newer appliance that cannot be read begins again: it holds counts, and no truth.
    pub(super) fn of(configuration: &MachineConfiguration) -> Self {
        let stored = &configuration.status.boot_image_memory;
        if stored.is_null() {
            return Self::default();
        }
        Self::deserialize(stored).unwrap_or_else(|error| {
            tracing::warn!(%error, "what was remembered of boot images cannot be read; it begins anew");
            Self::default()
        })
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Why nothing is written yet after an upgrade of the appliance: hosts that this version has not looked at. Notes
    /// the version once it has looked at all.
    pub(super) fn upgrade(&mut self, own: &str, unseen: &[String]) -> Option<String> {
        const NAMES_MAX: usize = 5;
        if self.version.is_empty() || unseen.is_empty() || self.version == own {
            own.clone_into(&mut self.version);
            return None;
        }
        let names = unseen.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = if unseen.len() > NAMES_MAX { ", …" } else { "" };
        Some(format!(
            "the upgrade of the appliance from {} to {own} (it has not looked at {} of the hosts yet: {names}{more})",
            self.version,
            unseen.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::host_group::ImageReference;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_upgrade_lasts_until_all_hosts_were_looked_at() {
        let mut kept = PersistedPolicy::default();
        assert_eq!(kept.upgrade("1.0", &["a/b".into()]), None, "the first start is none");
        assert_eq!((kept.upgrade("1.0", &["a/b".into()]), kept.version.as_str()), (None, "1.0"));
        let told = kept.upgrade("1.1", &["a/b".into()]).unwrap_or_default();
        assert!(told.contains("from 1.0 to 1.1") && told.contains("a/b"), "{told}");
        assert_eq!(kept.version, "1.0");
        assert_eq!((kept.upgrade("1.1", &[]), kept.version.as_str()), (None, "1.1"));
    }

    #[test]
    fn it_is_read_again_and_what_cannot_be_read_begins_anew() {
        let mut configuration = MachineConfiguration::default();
        assert_eq!(PersistedPolicy::of(&configuration), PersistedPolicy::default());
        let mut kept = PersistedPolicy { version: "1".into(), ..PersistedPolicy::default() };
        kept.images.insert(
            SetKey::new(firesteel_plan::policy::SetKind::MachineApiSet, "a", "b"),
            FormerImage::disk(ImageReference { digest: "d".into(), ..ImageReference::default() }),
        );
        configuration.status.boot_image_memory = kept.to_value();
        assert_eq!(PersistedPolicy::of(&configuration), kept);
        configuration.status.boot_image_memory = json!({"sets": 7});
        assert_eq!(PersistedPolicy::of(&configuration), PersistedPolicy::default());
    }
}
