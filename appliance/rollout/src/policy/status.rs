//! The MachineConfiguration's status. Pure.

use firesteel_plan::policy::PolicyStep;
use firesteel_plan::skew::{self, Upgradeable};
use firesteel_resources::condition::{Condition, find_condition, set_condition};
use firesteel_resources::{ConditionStatus, machine_configuration::MachineConfigurationStatus};
use jiff::Timestamp;

use super::persisted_policy::PersistedPolicy;

/// Whether the age of boot images stands against an upgrade (upstream has it on the cluster operator).
pub(super) const UPGRADEABLE: &str = "Upgradeable";

pub(super) fn status(
    old: &MachineConfigurationStatus,
    generation: i64,
    decided: &PolicyStep,
    skew: &skew::SkewDecision,
    kept: &PersistedPolicy,
    now: Timestamp,
) -> MachineConfigurationStatus {
    let mut status = old.clone();
    status.observed_generation = generation;
    status.managed_boot_images_status = Some(decided.effective.clone());
    status.boot_image_skew_enforcement_status = Some(skew.status.clone());
    status.skipped_boot_images.clone_from(&decided.skipped);
    status.boot_image_memory = kept.to_value();
    let upgradeable = match &skew.upgradeable {
        Upgradeable::NotChecked(why) => Condition::new(UPGRADEABLE, ConditionStatus::Unknown, "NotChecked", why),
        Upgradeable::Yes(why) => Condition::new(UPGRADEABLE, true, "BootImagesNewEnough", why),
        Upgradeable::No(why) => Condition::new(UPGRADEABLE, false, skew::REASON, why),
    };
    for condition in decided.conditions.iter().cloned().chain([upgradeable.observed(generation)]) {
        // The reason is what brought the change about, and no news by itself.
        let before = find_condition(&status.conditions, &condition.type_);
        let reason = before
            .filter(|before| (before.status, &before.message) == (condition.status, &condition.message))
            .map_or(condition.reason.clone(), |before| before.reason.clone());
        set_condition(&mut status.conditions, Condition { reason, ..condition }, now);
    }
    status
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use firesteel_plan::policy::{Catalogue, DEGRADED, PROGRESSING, PolicyInputs, Trigger, decide};
    use firesteel_resources::MachineConfiguration;

    use super::*;

    fn decided(trigger: Trigger) -> (PolicyStep, skew::SkewDecision) {
        let (catalogue, fleet) = (Catalogue::default(), BTreeSet::new());
        let mut policy = MachineConfiguration::default();
        policy.metadata.generation = 3;
        let seen = PolicyInputs {
            policy: Some(&policy),
            catalogue: &catalogue,
            sets: &[],
            fleet: &fleet,
            upgrade: None,
            trigger,
            now: Timestamp::UNIX_EPOCH,
        };
        let decided = decide(&seen, &Default::default());
        let skew_seen = skew::SkewInputs {
            wanted: None,
            effective: &decided.effective,
            decisions: &decided.decisions,
            releases: &BTreeMap::new(),
            minimum: skew::MinimumVersions::default(),
        };
        let skew = skew::decide(&skew_seen, &skew::Recorded::default());
        (decided, skew)
    }

    #[test]
    fn the_same_again_changes_nothing_whatever_rang() {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let (first, skew) = decided(Trigger::Started);
        let one = status(&MachineConfigurationStatus::default(), 3, &first, &skew, &PersistedPolicy::default(), at(1));
        for type_ in [PROGRESSING, DEGRADED, UPGRADEABLE] {
            assert!(
                find_condition(&one.conditions, type_).is_some_and(|found| found.observed_generation == 3),
                "{type_}"
            );
        }
        let (again, skew) = decided(Trigger::GroupChanged);
        assert_eq!(status(&one, 3, &again, &skew, &PersistedPolicy::default(), at(9)), one);
    }
}
