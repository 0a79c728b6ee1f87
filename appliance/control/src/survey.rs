//! How the hosts are at one moment.

use std::collections::BTreeMap;

use firesteel_plan::host::progress_outlook::{HostOutlook, of_fleet};
use firesteel_resources::bare_metal_host::ProvisioningState;
use firesteel_runtime::HostKey;
use jiff::Timestamp;

use crate::standing::{SurveyedHost, error_label};
use crate::{images, views::Views};

/// How the hosts are at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetSurvey {
    /// Hosts by upstream's word for their state; `new` where it is empty.
    pub states: BTreeMap<&'static str, u64>,
    /// Hosts in an error, by its type and by what they wait for: `edit`, `retry` or `cause`.
    pub errors: BTreeMap<(&'static str, &'static str), u64>,
    /// Holds, for each working state, the seconds for which the slowest host has made no progress.
    pub still_seconds: BTreeMap<&'static str, f64>,
    pub delayed: u64,
    pub frozen: u64,
    /// Is paused or detached.
    pub held: u64,
    /// The whole fleet is halted: no disk is changed.
    pub is_halted: bool,
    /// Hosts whose BMC refused the login, and has taken none since.
    pub refused: u64,
    /// Hosts that more than one machine claims to be.
    pub claimed: u64,
    /// Hosts by what is to be expected of them: `done`, `progressing` or `will-not-finish`.
    pub outlooks: BTreeMap<&'static str, u64>,
    /// Steps that are due or wait for their time.
    pub queued: u64,
    /// Machines that are not adopted, whose agent was heard since the start.
    pub discovered: u64,
    /// Images that hosts want now, by `ready`, `fetching` or `failed`.
    pub images: BTreeMap<&'static str, u64>,
}

impl FleetSurvey {
    /// Surveys all that the views know.
    pub(crate) fn of(views: &Views, now: Timestamp) -> Self {
        let mut survey = Self {
            is_halted: views.halts.oldest().is_some(),
            discovered: views.discovered.len() as u64,
            // Those that are known as well are counted below.
            frozen: views.unreadable.keys().filter(|key| !views.hosts.contains_key(key)).count() as u64,
            ..Self::default()
        };
        for view in views.hosts.values() {
            let is_counted = view.standing.as_ref().is_some_and(|standing| standing.is_frozen);
            survey.frozen += u64::from(view.damage.is_some() && !is_counted);
            if let Some(standing) = &view.standing {
                survey.take(standing, view.agent.progress_at, now);
            }
        }
        for image in views.images.values() {
            *survey.images.entry(images::word(image)).or_default() += 1;
        }
        survey
    }

    fn take(&mut self, standing: &SurveyedHost, progress_at: Option<Timestamp>, now: Timestamp) {
        let state = if standing.state == ProvisioningState::New { "new" } else { standing.state.word() };
        *self.states.entry(state).or_default() += 1;
        if let Some((kind, waits)) = standing.failure {
            *self.errors.entry((error_label(kind), waits.word())).or_default() += 1;
        }
        if standing.is_at_work() {
            let moved_at = progress_at.map_or(standing.moved_at, |at| at.max(standing.moved_at));
            let still = now.duration_since(moved_at).as_secs_f64().max(0.0);
            let longest = self.still_seconds.entry(state).or_default();
            *longest = longest.max(still);
        }
        *self.outlooks.entry(standing.prospect.at(progress_at, now).word()).or_default() += 1;
        self.delayed += u64::from(standing.is_delayed);
        self.frozen += u64::from(standing.is_frozen);
        self.held += u64::from(standing.is_held);
        self.refused += u64::from(standing.is_refused);
        self.claimed += u64::from(standing.is_claimed);
    }
}

/// Whether the fleet gets where it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Progressing as long as any host does; of those that will not finish each is named all the same.
    pub outlook: HostOutlook,
    pub done: u64,
    pub progressing: u64,
    /// Hosts that need a person, sorted. The host's status says why.
    pub will_not_finish: Vec<HostKey>,
}

impl Fleet {
    pub(crate) fn of(hosts: impl Iterator<Item = (HostKey, HostOutlook)>) -> Self {
        let (mut done, mut progressing, mut will_not_finish) = (0, 0, Vec::new());
        for (key, outlook) in hosts {
            match outlook {
                HostOutlook::Done => done += 1,
                HostOutlook::Progressing => progressing += 1,
                HostOutlook::WillNotFinish => will_not_finish.push(key),
            }
        }
        will_not_finish.sort();
        let any =
            [(progressing > 0, HostOutlook::Progressing), (!will_not_finish.is_empty(), HostOutlook::WillNotFinish)];
        let outlook = of_fleet(any.into_iter().filter(|(is_so, _)| *is_so).map(|(_, outlook)| outlook));
        Self { outlook, done, progressing, will_not_finish }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_plan::host::progress_outlook::Prospect;

    use firesteel_resources::bare_metal_host::ErrorType;

    use super::*;
    use crate::standing::ErrorWait;

    fn key(name: String) -> HostKey {
        HostKey { namespace: "default".into(), name }
    }

    #[test]
    fn who_works_and_does_not_come_on_shows_and_who_is_held_does_not() {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let standing = |state, is_held| SurveyedHost {
            state,
            failure: None,
            moved_at: at(100),
            prospect: Prospect::Is(HostOutlook::Done),
            is_held,
            is_halted: false,
            is_delayed: false,
            is_frozen: false,
            is_refused: false,
            is_claimed: false,
        };
        let mut survey = FleetSurvey::default();
        survey.take(&standing(ProvisioningState::Provisioning, false), None, at(400));
        survey.take(&standing(ProvisioningState::Provisioning, false), Some(at(390)), at(400));
        survey.take(&standing(ProvisioningState::Inspecting, false), Some(at(350)), at(400));
        survey.take(&standing(ProvisioningState::Deprovisioning, true), None, at(400));
        let halted = SurveyedHost { is_halted: true, ..standing(ProvisioningState::Deprovisioning, false) };
        survey.take(&halted, None, at(400));
        survey.take(&standing(ProvisioningState::Provisioned, false), None, at(400));
        let waits = SurveyedHost {
            failure: Some((ErrorType::Registration, ErrorWait::Edit)),
            ..standing(ProvisioningState::New, false)
        };
        survey.take(&waits, None, at(400));
        assert_eq!(survey.still_seconds, BTreeMap::from([("provisioning", 300.0), ("inspecting", 50.0)]));
        assert_eq!((survey.states["provisioning"], survey.states["new"], survey.held), (2, 1, 1));
        assert_eq!(survey.errors, BTreeMap::from([(("registration error", "edit"), 1)]));
        assert_eq!(survey.outlooks, BTreeMap::from([("done", 7)]));
    }

    #[test]
    fn a_fleet_names_who_needs_somebody_while_others_come_on() {
        let of = |outlooks: &[(&str, HostOutlook)]| {
            Fleet::of(outlooks.iter().map(|(name, outlook)| (key((*name).to_owned()), *outlook)))
        };
        let mixed = of(&[
            ("b", HostOutlook::WillNotFinish),
            ("c", HostOutlook::Progressing),
            ("a", HostOutlook::WillNotFinish),
        ]);
        assert_eq!((mixed.outlook, mixed.progressing), (HostOutlook::Progressing, 1));
        assert_eq!(mixed.will_not_finish, [key("a".into()), key("b".into())]);
        assert_eq!(of(&[("a", HostOutlook::Done)]).outlook, HostOutlook::Done);
        assert_eq!(
            of(&[("a", HostOutlook::Done), ("b", HostOutlook::WillNotFinish)]).outlook,
            HostOutlook::WillNotFinish
        );
        assert_eq!(of(&[]).outlook, HostOutlook::Done);
    }
}
