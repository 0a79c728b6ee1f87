//! A host and its agent as the tests of the planner begin with them.

use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::BmcDetails;
use jiff::{SignedDuration, Timestamp};

use crate::host::model::{AgentInputs, AgentWork, CredentialsInputs, HostInputs, HostMemory, HostState};

/// The moment of the step.
pub(crate) fn now() -> Timestamp {
    at(0)
}

/// A moment, in seconds from that of the step.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365) + SignedDuration::from_secs(seconds)
}

/// A host `a` with a BMC, in its third attempt.
pub(crate) fn with_bmc(state: HostState) -> HostInputs {
    let mut seen = without_bmc(state);
    let bmc = BmcDetails { address: "redfish://b/1".into(), credentials_name: "s".into(), ..BmcDetails::default() };
    seen.host.spec.bmc = Some(bmc);
    seen.credentials = CredentialsInputs::Ready { version: "1".into() };
    seen
}

/// Makes inputs of a host without a BMC.
pub(crate) fn without_bmc(state: HostState) -> HostInputs {
    let mut host = BareMetalHost::default();
    host.metadata.name = "a".into();
    host.spec.online = true;
    let memory = HostMemory { attempt: 3, state, ..HostMemory::default() };
    HostInputs::new(host, memory, at(-86_400), 7)
}

/// The agent of an attempt, which reported a moment ago and has no plan.
pub(crate) fn agent(attempt: u64) -> AgentInputs {
    AgentInputs {
        attempt,
        bound_at: at(-60),
        last_report_at: now(),
        plan: 0,
        work: AgentWork::Idle,
        progress_at: now(),
        left: false,
        left_at: None,
        rebooted: false,
        shown: Vec::new(),
        promised: None,
        network: None,
        can_erase: true,
        cleaned: Vec::new(),
        unseen: Vec::new(),
        cannot_stop: None,
    }
}
