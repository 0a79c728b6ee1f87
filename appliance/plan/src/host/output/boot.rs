//! What follows from the stored memory and is published before anything acts on it: what a boot
//! of the host gets, and which plan its agent runs.

use crate::host::model::{HostMemory, HostState, IssuedPlan};

/// What a client with one of [`HostMemory::macs`] gets when it netboots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostBootEntry {
    /// The agent, with a sealed token for this attempt.
    Agent { attempt: u64 },
    /// Nothing yet: it waits and asks again.
    Wait,
    /// Its own disk; by the GUID of the GPT where we wrote one.
    LocalDisk { disk_guid: Option<String> },
    /// The agent without a host, as for any unknown machine.
    Discovery,
    /// Nothing: the firmware goes on with its next entry.
    Nothing,
}

#[must_use]
pub fn boot_entry(memory: &HostMemory) -> HostBootEntry {
    match &memory.state {
        HostState::New => HostBootEntry::Discovery,
        // No work is to begin on it; what its firmware boots next is its owner's affair.
        state if state.gets_agent() && memory.detached.is_some() && *state != HostState::Available => {
            HostBootEntry::Nothing
        }
        HostState::Unmanaged
        | HostState::Registering
        | HostState::Inspecting
        | HostState::Preparing
        | HostState::Available
        | HostState::Provisioning
        | HostState::Deprovisioning => agent(memory),
        HostState::Provisioned => disk(memory),
        HostState::ExternallyProvisioned => HostBootEntry::LocalDisk { disk_guid: None },
        HostState::PoweringOff | HostState::Deleting if memory.applied.is_some() => disk(memory),
        HostState::PoweringOff | HostState::Deleting => HostBootEntry::Nothing,
    }
}

/// The plan that the agent of [`HostMemory::attempt`] runs or has run; not one that it is asked to stop.
#[must_use]
pub fn current_plan(memory: &HostMemory) -> Option<&IssuedPlan> {
    memory.plan.as_ref().filter(|issued| issued.stopped.is_none())
}

fn agent(memory: &HostMemory) -> HostBootEntry {
    // Where no boot is ordered, a boot by itself is waited for.
    let is_given = memory.opened || matches!(memory.state, HostState::Unmanaged | HostState::Available);
    match memory.attempt {
        0 => HostBootEntry::Discovery,
        attempt if is_given => HostBootEntry::Agent { attempt },
        _ => HostBootEntry::Wait,
    }
}

fn disk(memory: &HostMemory) -> HostBootEntry {
    HostBootEntry::LocalDisk {
        disk_guid: memory.applied.as_ref().map(|applied| applied.disk_guid.clone()).filter(|guid| !guid.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::Image;
    use jiff::Timestamp;

    use super::*;
    use crate::host::model::{InstalledSystem, PlanKind, StoppedPlan};

    #[test]
    fn a_boot_gets_what_its_state_says() {
        use HostBootEntry as B;
        use HostState as H;
        let agent = || B::Agent { attempt: 4 };
        let (no_disk, disk) = (B::LocalDisk { disk_guid: None }, B::LocalDisk { disk_guid: Some("g".into()) });
        // Before a boot is ordered and after, detached before and after, and detached with an OS.
        for (state, unopened, opened, detached) in [
            (H::New, B::Discovery, B::Discovery, B::Discovery),
            (H::Unmanaged, agent(), agent(), B::Nothing),
            (H::Registering, B::Wait, agent(), B::Nothing),
            (H::Inspecting, B::Wait, agent(), B::Nothing),
            (H::Preparing, B::Wait, agent(), B::Nothing),
            (H::Available, agent(), agent(), agent()),
            (H::Provisioning, B::Wait, agent(), B::Nothing),
            (H::Deprovisioning, B::Wait, agent(), B::Nothing),
            (H::Provisioned, no_disk.clone(), no_disk.clone(), disk.clone()),
            (H::ExternallyProvisioned, no_disk.clone(), no_disk.clone(), no_disk.clone()),
            (H::PoweringOff, B::Nothing, B::Nothing, disk.clone()),
            (H::Deleting, B::Nothing, B::Nothing, disk),
        ] {
            let at = Timestamp::UNIX_EPOCH;
            let memory = HostMemory { attempt: 4, ..HostMemory { state: state.clone(), ..HostMemory::default() } };
            let applied = InstalledSystem::of_others(Image::default(), 1, at);
            let applied = Some(InstalledSystem { disk_guid: "g".into(), ..applied });
            let with_os = HostMemory { opened: true, detached: Some(at), applied, ..memory.clone() };
            let ordered = HostMemory { opened: true, ..memory.clone() };
            let found = [&memory, &ordered, &with_os].map(boot_entry);
            assert_eq!(found, [unopened, opened, detached], "{state:?}");
        }
    }

    #[test]
    fn a_host_without_a_number_boots_as_any_machine_and_one_without_a_mark_by_its_own_order() {
        let unnumbered = HostMemory { state: HostState::Available, opened: true, ..HostMemory::default() };
        assert_eq!(boot_entry(&unnumbered), HostBootEntry::Discovery);
        let applied = Some(InstalledSystem::of_others(Image::default(), 1, Timestamp::UNIX_EPOCH));
        for state in [HostState::Provisioned, HostState::PoweringOff, HostState::Deleting] {
            let memory = HostMemory { state, applied: applied.clone(), ..HostMemory::default() };
            assert_eq!(boot_entry(&memory), HostBootEntry::LocalDisk { disk_guid: None });
        }
    }

    #[test]
    fn a_plan_is_current_until_its_agent_is_asked_to_stop() {
        let at = Timestamp::UNIX_EPOCH;
        let issued = IssuedPlan { number: 3, plan: PlanKind::Inspect, issued_at: at, stopped: None };
        let stopped = IssuedPlan { stopped: Some(StoppedPlan { since: at, why: "no".into() }), ..issued.clone() };
        for (plan, current) in [(None, None), (Some(issued.clone()), Some(&issued)), (Some(stopped), None)] {
            let memory = HostMemory { plan, ..HostMemory::default() };
            assert_eq!(current_plan(&memory), current);
        }
    }
}
