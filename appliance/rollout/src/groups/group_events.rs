//! What is worth an event, of what changed in a group's status. Pure.

use firesteel_facts::shown_url;
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::host_group::{CanaryState, DEGRADED, HostGroupStatus, ImageReference};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupEventText {
    pub(super) reason: &'static str,
    pub(super) is_warning: bool,
    pub(super) message: String,
}

pub(super) fn changes(before: &HostGroupStatus, after: &HostGroupStatus) -> Vec<GroupEventText> {
    let mut told = Vec::new();
    let mut tell = |reason, is_warning, message| told.push(GroupEventText { reason, is_warning, message });
    let state = |status: &HostGroupStatus| {
        status.canary.as_ref().map(|canary| (canary.image.clone(), canary.state, canary.since))
    };
    if state(before) != state(after)
        && let Some(canary) = &after.canary
    {
        let name = name(&canary.image);
        match canary.state {
            CanaryState::Trying => tell("CanaryStarted", false, format!("{name} is tried before the group gets it")),
            CanaryState::Promoted => tell("CanaryPromoted", false, format!("the canaries of {name} are running")),
            CanaryState::Halted => {
                tell("CanaryHalted", true, format!("the rollout of {name} stopped: {}", canary.message))
            }
        }
    }
    if before.current != after.current
        && let Some(current) = &after.current
    {
        let by = after.history.iter().rev().find(|entry| entry.host.is_empty()).map_or("", |entry| entry.by.as_str());
        tell("ImageChanged", false, format!("hosts that are installed get {} now (by {by})", name(current)));
    }
    let degraded = |status: &HostGroupStatus| {
        let found = find_condition(&status.conditions, DEGRADED)?;
        (found.status == ConditionStatus::True).then(|| (found.reason.clone(), found.message.clone()))
    };
    match (degraded(before), degraded(after)) {
        (was, Some((reason, message))) if was.as_ref().is_none_or(|was| was.0 != reason || was.1 != message) => {
            tell("GroupDegraded", true, format!("{reason}: {message}"));
        }
        (Some(_), None) => tell("GroupRecovered", false, "the group is as it should be".to_owned()),
        (_, _) => {}
    }
    told
}

/// Names an image for people.
pub(crate) fn name(image: &ImageReference) -> String {
    if image.stream.is_empty() { shown_url(&image.url) } else { format!("{} of {}", image.release, image.stream) }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::condition::Condition;
    use firesteel_resources::host_group::{Canary, HistoryEntry};

    use super::*;

    fn image(release: &str) -> ImageReference {
        ImageReference { stream: "stable".into(), release: release.into(), ..ImageReference::default() }
    }

    fn reasons(before: &HostGroupStatus, after: &HostGroupStatus) -> Vec<&'static str> {
        changes(before, after).into_iter().map(|told| told.reason).collect()
    }

    #[test]
    fn each_change_is_told_once() {
        let mut before = HostGroupStatus::default();
        let mut after =
            HostGroupStatus { canary: Some(Canary { image: image("2"), ..Canary::default() }), ..before.clone() };
        assert_eq!(reasons(&before, &after), ["CanaryStarted"]);
        before = after.clone();
        assert!(reasons(&before, &after).is_empty());
        after.canary = Some(Canary { image: image("2"), state: CanaryState::Promoted, ..Canary::default() });
        after.current = Some(image("2"));
        after.history = vec![HistoryEntry { by: "ann".into(), image: image("2"), ..HistoryEntry::default() }];
        let told = changes(&before, &after);
        assert_eq!(told.iter().map(|one| one.reason).collect::<Vec<_>>(), ["CanaryPromoted", "ImageChanged"]);
        assert!(told[1].message.contains("2 of stable") && told[1].message.contains("by ann"), "{}", told[1].message);
        before = after.clone();
        after.canary =
            Some(Canary { image: image("3"), state: CanaryState::Halted, message: "late".into(), ..Canary::default() });
        after.conditions = vec![Condition::new(DEGRADED, true, "Conflict", "a (also of b)")];
        let told = changes(&before, &after);
        assert!(told.iter().all(|one| one.is_warning) && told.len() == 2, "{told:?}");
        before = after.clone();
        after.conditions.clear();
        assert_eq!(reasons(&before, &after), ["GroupRecovered"]);
    }
}
