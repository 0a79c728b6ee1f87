//! The deletion of a host, as an answer to who asked for it: what is done to its disks, and what that waits for.
//!
//! | state | a deletion |
//! |---|---|
//! | new, unmanaged, registering | nothing was installed from here: the object goes |
//! | inspecting, preparing, available | disks with an owner's data are erased for the next one, other disks are left |
//! | externally provisioned | its disks are left |
//! | provisioning, provisioned, deprovisioning | its disks are cleaned |
//! | detached | the object goes, and the host keeps what it runs |

use firesteel_resources::bare_metal_host::annotations::{self, DeleteAction};
use firesteel_resources::bare_metal_host::requests;
use firesteel_resources::host_journal::{DELETION, RequestOutcome};
use firesteel_resources::{BareMetalHost, HardwareRecord};

use crate::disk::NextOwner;
use crate::host::model::{HostMemory, HostState};
use crate::host::rules::consumer_data;
use crate::host::turn::StepDraft;

const BY_FORCE: &str = "the host is forgotten at once, and no disk of it is cleaned; a tombstone keeps the machine's \
                        identity if data is left on it";

/// What a deletion comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionFate {
    /// It is nearly over.
    UnderWay,
    /// The object goes, and the host keeps what it runs.
    Detached,
    /// No disk is cleaned.
    LeavesDisks,
    /// No disk is cleaned, because an owner's OS is kept.
    KeepsOs,
    /// No disk is cleaned, because its owner does not want it.
    IsNotToClean,
    /// Disks are cleaned for this owner.
    Cleans(NextOwner),
}

impl DeletionFate {
    /// Decides what a deletion of this host would come to now, or comes to.
    pub(crate) fn of(host: &BareMetalHost, memory: &HostMemory, record: Option<&HardwareRecord>) -> Self {
        let detached = requests(&host.metadata).detached;
        let goes_detached = detached.is_some_and(|detached| detached.delete_action == DeleteAction::Delete);
        let next = consumer_data::next_of(&host.spec, memory, record, true);
        let is_kept = host.spec.externally_provisioned;
        if goes_detached && memory.state != HostState::Deleting {
            return Self::Detached;
        }
        match memory.state {
            HostState::PoweringOff | HostState::Deleting => Self::UnderWay,
            HostState::ExternallyProvisioned => Self::KeepsOs,
            HostState::Inspecting | HostState::Preparing | HostState::Available if is_kept => Self::KeepsOs,
            HostState::Preparing | HostState::Available if next == NextOwner::Another => Self::Cleans(next),
            HostState::New
            | HostState::Unmanaged
            | HostState::Registering
            | HostState::Inspecting
            | HostState::Preparing
            | HostState::Available => Self::LeavesDisks,
            HostState::Provisioning | HostState::Provisioned | HostState::Deprovisioning => {
                // What was decided of the disks before is carried out.
                let is_open = memory.wipe.is_none() && next == NextOwner::Same;
                if is_kept && memory.frozen.is_some() {
                    Self::KeepsOs
                } else if is_open && consumer_data::targets(memory, next).is_empty() {
                    Self::LeavesDisks
                } else if is_open && !host.spec.cleans() {
                    Self::IsNotToClean
                } else {
                    Self::Cleans(next)
                }
            }
        }
    }

    /// Says what is done to the host.
    pub(crate) fn text(self, memory: &HostMemory) -> &'static str {
        match self {
            Self::UnderWay => "the host is nearly gone",
            Self::Detached => "the host is detached: its object goes, and it keeps what it runs",
            Self::LeavesDisks if memory.leaves_data() => {
                "no disk is cleaned, and data may be left on them: a tombstone keeps the machine's identity"
            }
            Self::LeavesDisks => "no disk is cleaned, because nothing is known to be installed on the host",
            Self::KeepsOs => "no disk is cleaned, because spec.externallyProvisioned keeps the OS",
            Self::IsNotToClean => "no disk is cleaned, because spec.automatedCleaningMode is disabled",
            Self::Cleans(_) => "its disks are cleaned as `firesteel plan` shows, and then the host is let go",
        }
    }
}

/// Answers a deletion and a release by force, once.
pub(crate) fn acknowledge(turn: &mut StepDraft<'_>) {
    let Some(asked_at) = turn.seen.host.metadata.deletion_timestamp else { return };
    if turn.requests.release_force {
        let value = turn.seen.host.metadata.annotation(annotations::RELEASE_FORCE).unwrap_or_default();
        answer_once(turn, annotations::RELEASE_FORCE, value, BY_FORCE);
    }
    let detached = turn.requests.detached;
    let text = if turn.requests.release_force {
        BY_FORCE.to_owned()
    } else if detached.is_some_and(|detached| detached.delete_action == DeleteAction::Delay) {
        format!("it waits until the host is attached again: remove the annotation {}", annotations::DETACHED)
    } else {
        let fate = DeletionFate::of(&turn.seen.host, &turn.memory, turn.seen.hardware.as_ref());
        let text = fate.text(&turn.memory);
        if matches!(fate, DeletionFate::Cleans(_)) { turn.with_obstacles(text) } else { text.to_owned() }
    };
    answer_once(turn, DELETION, &asked_at.to_string(), &text);
}

fn answer_once(turn: &mut StepDraft<'_>, request: &str, value: &str, text: &str) {
    if !turn.answers.of(request).is_some_and(|last| last.answers(request, value)) {
        turn.answer_to(request, value, RequestOutcome::Accepted, text);
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::bare_metal_host::CleaningMode;

    use super::DeletionFate::{Cleans, Detached, IsNotToClean, KeepsOs, LeavesDisks, UnderWay};
    use super::*;
    use crate::disk::{CleaningMethod, DiskChoice, DiskIdentity};
    use crate::host::model::{
        DiskPlan, ErasureSummary, Frozen, FrozenWhy, HostInputs, InstalledSystem, PendingErasure,
    };
    use crate::host::sample::{now, with_bmc};

    fn fate(seen: &HostInputs) -> DeletionFate {
        DeletionFate::of(&seen.host, &seen.memory, seen.hardware.as_ref())
    }

    fn kept(seen: &mut HostInputs) {
        seen.host.spec.externally_provisioned = true;
    }

    fn tenant(seen: &mut HostInputs) {
        seen.memory.tenant = Some("one".into());
    }

    fn unclean(seen: &mut HostInputs) {
        seen.host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled);
    }

    fn installed(seen: &mut HostInputs) {
        seen.memory.disk_dirty = true;
        seen.memory.disk = Some(DiskPlan {
            choice: DiskChoice {
                disk: DiskIdentity { serial: "A".into(), ..DiskIdentity::default() },
                ..DiskChoice::default()
            },
            inspected_in: 1,
            hints: Default::default(),
            chosen_at: now(),
        });
    }

    fn frozen(seen: &mut HostInputs) {
        seen.memory.frozen = Some(Frozen {
            why: FrozenWhy::Unread,
            disk: "sda".into(),
            guid: "a".into(),
            message: "it is".into(),
            since: now(),
        });
    }

    fn erased(seen: &mut HostInputs) {
        let erased = ErasureSummary {
            method: CleaningMethod::Full,
            disks: Vec::new(),
            is_all: true,
            is_whole: true,
            proven: String::new(),
            claimed: String::new(),
        };
        let (attempt, plan) = (3, 2);
        seen.memory.wipe = Some(PendingErasure {
            attempt,
            plan,
            since: now(),
            erased,
            asked_at: None,
            unverified: Vec::new(),
            accepted_at: None,
        });
    }

    fn detach(seen: &mut HostInputs, value: &str) {
        seen.host.metadata.annotations.insert(annotations::DETACHED.into(), value.into());
    }

    /// What a host is deleted with, and what its deletion comes to.
    type Row = (HostState, &'static [fn(&mut HostInputs)], DeletionFate);

    #[test]
    fn a_deletion_does_to_the_disks_what_state_and_owner_ask_for() {
        use HostState as S;
        let (same, another) = (Cleans(NextOwner::Same), Cleans(NextOwner::Another));
        let rows: &[Row] = &[
            (S::New, &[], LeavesDisks),
            (S::Unmanaged, &[], LeavesDisks),
            (S::Registering, &[tenant], LeavesDisks),
            (S::Inspecting, &[tenant], LeavesDisks),
            (S::Inspecting, &[kept], KeepsOs),
            (S::Preparing, &[], LeavesDisks),
            (S::Preparing, &[tenant], another),
            (S::Preparing, &[tenant, kept], KeepsOs),
            (S::Available, &[], LeavesDisks),
            (S::Available, &[tenant], another),
            (S::Available, &[kept], KeepsOs),
            (S::ExternallyProvisioned, &[tenant], KeepsOs),
            (S::Provisioned, &[installed], same),
            (S::Provisioned, &[installed, kept], same),
            (S::Provisioned, &[installed, frozen], same),
            (S::Provisioned, &[installed, kept, frozen], KeepsOs),
            (S::Provisioned, &[installed, unclean], IsNotToClean),
            (S::Provisioned, &[installed, unclean, tenant], another),
            (S::Provisioned, &[installed, unclean, erased], same),
            (S::Provisioned, &[], LeavesDisks),
            (S::Provisioned, &[tenant], another),
            (S::Deprovisioning, &[erased], same),
            (S::Provisioning, &[installed], same),
            (S::PoweringOff, &[tenant], UnderWay),
            (S::Deleting, &[], UnderWay),
            (S::Deleting, &[|seen| detach(seen, "")], UnderWay),
            (S::Provisioned, &[installed, |seen| detach(seen, "")], Detached),
            (S::Provisioned, &[installed, |seen| detach(seen, r#"{"deleteAction":"delay"}"#)], same),
        ];
        for (index, (state, changes, expected)) in rows.iter().enumerate() {
            let mut seen = with_bmc(state.clone());
            changes.iter().for_each(|change| change(&mut seen));
            assert_eq!(fate(&seen), *expected, "row {index}: {state:?}");
        }
    }

    #[test]
    fn what_is_left_on_the_disks_is_said_in_answer_to_a_deletion() {
        let memory = |disk_dirty, detached| HostMemory {
            disk_dirty,
            detached,
            applied: detached.map(|at| InstalledSystem::of_others(Default::default(), 1, at)),
            ..HostMemory::default()
        };
        for (fate, memory, part) in [
            (UnderWay, memory(true, None), "nearly gone"),
            (Detached, memory(true, None), "keeps what it runs"),
            (LeavesDisks, memory(true, None), "data may be left on them: a tombstone keeps the machine's identity"),
            (LeavesDisks, memory(false, None), "nothing is known to be installed"),
            (LeavesDisks, memory(true, Some(now())), "nothing is known to be installed"),
            (KeepsOs, memory(true, None), "spec.externallyProvisioned keeps the OS"),
            (IsNotToClean, memory(true, None), "spec.automatedCleaningMode is disabled"),
            (Cleans(NextOwner::Same), memory(true, None), "its disks are cleaned"),
        ] {
            let text = fate.text(&memory);
            assert!(text.contains(part), "{fate:?}: {text}");
        }
    }
}
