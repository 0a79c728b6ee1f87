//! What a step is counted as: the numbers of `/metrics` about hosts, in upstream's meanings.
//!
//! A count is read off what the step changed, never off what it says: a host that shows the same error for
//! hours was counted once. The caller counts a step when its memory is stored, so that one that is made again
//! after a conflict is not counted twice. Only a deletion that is held up is counted at each look, as upstream
//! does it: nothing changes there.

use firesteel_resources::bare_metal_host::annotations::DeleteAction;
use firesteel_resources::bare_metal_host::{ErrorType, OperationMetric, ProvisioningState, requests};

use crate::host::model::{
    BmcAction, BmcFaultKind, CredentialsInputs, HostFailure, HostInputs, HostMemory, HostState, HostStep,
    UserDataInputs,
};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum HostCount {
    StateChanged {
        from: ProvisioningState,
        to: ProvisioningState,
    },
    /// The host came into an error, or into the same one again.
    Failed(ErrorType),
    /// The BMC carried an order out. A reset counts as one to switch on.
    PowerOrdered {
        on: bool,
    },
    CredentialsMissing,
    CredentialsInvalid,
    /// The BMC gave no access: it cannot be reached, or refuses the login.
    NoManagementAccess,
    /// The BMC refused the login.
    LoginRefused,
    /// Another version of the credentials was accepted.
    CredentialsUpdated,
    /// The user data is missing or unfit, and that is what holds the host up.
    UserDataUnusable,
    Delayed {
        deprovisioning: bool,
    },
    Took {
        operation: TimedOperation,
        seconds: f64,
    },
    RegistrationRequired,
    BecameUnmanaged,
    GaveUpCleaning,
    GaveUpPowerOff,
    /// The host is detached in a way that holds its deletion up.
    DeletionDelayed,
    /// A boot of the host got its number.
    AttemptBegun,
    /// More than one machine claimed to be the host.
    SecondClaimant,
    /// The host was let go with a disk that is not clean.
    ReleasedUncleaned,
    /// An image was written and read back, and its host is provisioned.
    Written {
        bytes: u64,
    },
}

/// What upstream measures the duration of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimedOperation {
    Register,
    Inspect,
    Provision,
    Deprovision,
}

/// What the step `step`, made of `seen`, counts as.
#[must_use]
pub fn counted(seen: &HostInputs, step: &HostStep) -> Vec<HostCount> {
    let (before, after) = (&seen.memory, &step.memory);
    let mut counts = Vec::new();
    let (from, to) = (before.state.word(), after.state.word());
    if from != to {
        counts.push(HostCount::StateChanged { from, to });
        if after.state == HostState::Registering {
            counts.push(HostCount::RegistrationRequired);
        }
        if after.state == HostState::Unmanaged {
            counts.push(HostCount::BecameUnmanaged);
        }
    }
    if let Some(failure) = new_failure(before, after) {
        counts.push(HostCount::Failed(failure.kind));
        let is_held_up = failure.kind == ErrorType::Provisioning;
        if is_held_up && matches!(seen.user_data, UserDataInputs::Missing | UserDataInputs::Invalid(_)) {
            counts.push(HostCount::UserDataUnusable);
        }
    }
    if step.events.iter().any(|event| event.reason == "BMCCredentialError") {
        match seen.credentials {
            CredentialsInputs::Missing => counts.push(HostCount::CredentialsMissing),
            CredentialsInputs::Empty => counts.push(HostCount::CredentialsInvalid),
            CredentialsInputs::Ready { .. } => {}
        }
    }
    counts.extend(bmc_call(seen, after));
    counts.extend(operations(before, after));
    counts.extend(ends(seen, step));
    counts.extend(written(seen, after));
    if after.attempt > before.attempt {
        counts.push(HostCount::AttemptBegun);
    }
    if before.claimants.is_none() && after.claimants.is_some() {
        counts.push(HostCount::SecondClaimant);
    }
    if before.delayed.is_none() && after.delayed.is_some() {
        counts.push(HostCount::Delayed { deprovisioning: after.state == HostState::Deprovisioning });
    }
    if before.bmc.good_credentials.is_some()
        && after.bmc.good_credentials.is_some()
        && before.bmc.good_credentials != after.bmc.good_credentials
    {
        counts.push(HostCount::CredentialsUpdated);
    }
    counts
}

/// What an installation wrote, once it is proven.
fn written(seen: &HostInputs, after: &HostMemory) -> Option<HostCount> {
    let is_proven = seen.memory.state == HostState::Provisioning && after.state == HostState::Provisioned;
    let receipts = &seen.agent.as_ref().filter(|_| is_proven)?.shown;
    let write = receipts.iter().find_map(|receipt| receipt.shows.written())?;
    Some(HostCount::Written { bytes: write.written_bytes })
}

fn new_failure<'a>(before: &HostMemory, after: &'a HostMemory) -> Option<&'a HostFailure> {
    let mark = |failure: &HostFailure| (failure.kind, failure.at, failure.count);
    after.failure.as_ref().filter(|failure| before.failure.as_ref().map(mark) != Some(mark(failure)))
}

/// The outcome of the call that this step took.
fn bmc_call(seen: &HostInputs, after: &HostMemory) -> Vec<HostCount> {
    let Some(pending) = &seen.memory.bmc.call else { return Vec::new() };
    let is_awaited = after.bmc.call.as_ref().is_some_and(|call| call.call.ticket == pending.call.ticket);
    let outcome = seen.bmc.last.as_ref().filter(|outcome| outcome.ticket == pending.call.ticket && !is_awaited);
    match outcome.map(|outcome| &outcome.result) {
        None => Vec::new(),
        Some(Ok(())) => match pending.call.action {
            BmcAction::Probe | BmcAction::ReadOnce | BmcAction::TakeBootBack | BmcAction::Inspect => Vec::new(),
            BmcAction::NetBoot | BmcAction::PowerOn | BmcAction::Cycle => vec![HostCount::PowerOrdered { on: true }],
            BmcAction::PowerOff { .. } => vec![HostCount::PowerOrdered { on: false }],
        },
        Some(Err(fault)) => match fault.kind {
            BmcFaultKind::Credentials => vec![HostCount::NoManagementAccess, HostCount::LoginRefused],
            BmcFaultKind::Unreachable => vec![HostCount::NoManagementAccess],
            BmcFaultKind::Unsupported
            | BmcFaultKind::Refused
            | BmcFaultKind::NoSecret
            | BmcFaultKind::EmptySecret
            | BmcFaultKind::HeldBack { .. } => Vec::new(),
        },
    }
}

/// Operations that this step ended.
fn operations<'a>(before: &'a HostMemory, after: &'a HostMemory) -> impl Iterator<Item = HostCount> + 'a {
    let (old, new) = (&before.history, &after.history);
    let pairs = [
        (TimedOperation::Register, &old.register, &new.register),
        (TimedOperation::Inspect, &old.inspect, &new.inspect),
        (TimedOperation::Provision, &old.provision, &new.provision),
        (TimedOperation::Deprovision, &old.deprovision, &new.deprovision),
    ];
    // A history that came with a moved host is none of ours.
    pairs.into_iter().filter(|(_, old, new)| old.end.is_none() && old.start == new.start).filter_map(
        |(operation, _, OperationMetric { start, end })| {
            let seconds = (*end)?.duration_since((*start)?).as_secs_f64();
            Some(HostCount::Took { operation, seconds })
        },
    )
}

/// What a deletion went without.
fn ends(seen: &HostInputs, step: &HostStep) -> Vec<HostCount> {
    let (before, after) = (&seen.memory, &step.memory);
    let gave_up = |reason: &str| step.events.iter().any(|event| event.reason == reason);
    let mut counts = Vec::new();
    if gave_up("DeprovisioningGaveUp") {
        counts.push(HostCount::GaveUpCleaning);
    }
    if gave_up("PowerOffGaveUp") {
        counts.push(HostCount::GaveUpPowerOff);
    }
    // As the last state leaves its tombstone.
    let is_let_go = before.state != HostState::Deleting && after.state == HostState::Deleting;
    if is_let_go && after.leaves_data() {
        counts.push(HostCount::ReleasedUncleaned);
    }
    let metadata = &seen.host.metadata;
    let detached = requests(metadata).detached;
    let is_held_up = detached.is_some_and(|detached| detached.delete_action == DeleteAction::Delay);
    if metadata.is_deleting() && is_held_up && !matches!(after.state, HostState::PoweringOff | HostState::Deleting) {
        counts.push(HostCount::DeletionDelayed);
    }
    counts
}

#[cfg(test)]
mod tests;
