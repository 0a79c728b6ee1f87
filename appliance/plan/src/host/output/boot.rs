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
