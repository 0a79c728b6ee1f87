//! The working copy of a step by itself: what each of its words leaves in the memory, and when.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod agents;
mod calls;
mod draft;
mod failures;
mod gates;

use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::BmcDetails;
use jiff::{SignedDuration, Timestamp};

use crate::disk::{CleaningMethod, DiskIdentity, NextOwner};
use crate::host::model::{
    AgentInputs, CredentialsInputs, ErasePlan, HostInputs, HostMemory, HostState, IssuedPlan, PlanKind,
};
use crate::host::sample;
use crate::host::turn::StepDraft;

/// So many seconds after the step's own time, which is [`at`] zero.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// A host with a BMC and its credentials, and nothing else.
fn seen(memory: HostMemory) -> HostInputs {
    let mut host = BareMetalHost::default();
    host.metadata.name = "a".into();
    host.metadata.generation = 1;
    let bmc = BmcDetails { address: "redfish://b/1".into(), credentials_name: "s".into(), ..BmcDetails::default() };
    host.spec.bmc = Some(bmc);
    let mut seen = HostInputs::new(host, memory, at(-1_000_000), 0);
    seen.credentials = CredentialsInputs::Ready { version: "1".into() };
    seen
}

fn draft(seen: &HostInputs) -> StepDraft<'_> {
    StepDraft::new(seen, at(0))
}

fn in_state(state: HostState) -> HostMemory {
    HostMemory { state, attempt: 5, ..HostMemory::default() }
}

/// The agent of attempt 5, heard so many seconds ago.
pub(crate) fn agent(heard: i64) -> AgentInputs {
    AgentInputs { bound_at: at(-100_000), last_report_at: at(-heard), progress_at: at(-heard), ..sample::agent(5) }
}

fn issued(number: u32, plan: PlanKind) -> IssuedPlan {
    IssuedPlan { number, plan, issued_at: at(-50), stopped: None }
}

fn erase() -> PlanKind {
    PlanKind::Erase(ErasePlan {
        method: CleaningMethod::Full,
        disks: vec![DiskIdentity { serial: "A".into(), ..DiskIdentity::default() }],
        next: NextOwner::Another,
        own_names: Vec::new(),
        overridden: Vec::new(),
        named: Vec::new(),
    })
}
