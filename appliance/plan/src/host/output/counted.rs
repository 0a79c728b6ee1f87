//! What a step is counted as: the numbers of `/metrics` that tell of hosts, in upstream's meanings.
//!
//! A count is read off what the step changed, never off what it says: a host that shows the same error for
//! hours was counted once. The caller counts a step when its memory is stored, so that one that is made again
//! after a conflict is not counted twice. Only a deletion that is held up is counted at each look, as upstream
//! does it: nothing changes there.

use firesteel_resources::bare_metal_host::{
    ErrorType, OperationMetric, ProvisioningState, annotations::DeleteAction, requests,
};

use crate::{
    evidence::Shows,
    host::model::{
        effect::Step,
        memory::{HostMemory, State, work::Failure},
        orders::BmcAction,
        seen::{BmcFaultKind, CredentialsSeen, Seen, UserDataSeen},
    },
};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Counted {
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
        operation: Operation,
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
pub enum Operation {
    Register,
    Inspect,
    Provision,
    Deprovision,
}

/// What the step `step`, made of `seen`, counts as.
#[must_use]
pub fn counted(seen: &Seen, step: &Step) -> Vec<Counted> {
    let (before, after) = (&seen.memory, &step.memory);
    let mut counts = Vec::new();
    let (from, to) = (before.state.word(), after.state.word());
    if from != to {
        counts.push(Counted::StateChanged { from, to });
        match after.state {
            State::Registering => counts.push(Counted::RegistrationRequired),
            State::Unmanaged => counts.push(Counted::BecameUnmanaged),
            State::New
            | State::Inspecting
            | State::Preparing
            | State::Available
            | State::Provisioning
            | State::Provisioned
            | State::ExternallyProvisioned
            | State::Deprovisioning
            | State::PoweringOff
            | State::Deleting => {}
        }
    }
    if let Some(failure) = new_failure(before, after) {
        counts.push(Counted::Failed(failure.kind));
        let is_held_up = failure.kind == ErrorType::Provisioning;
        if is_held_up && matches!(seen.user_data, UserDataSeen::Missing | UserDataSeen::Invalid(_)) {
            counts.push(Counted::UserDataUnusable);
        }
    }
    if step.events.iter().any(|event| event.reason == "BMCCredentialError") {
        match seen.credentials {
            CredentialsSeen::Missing => counts.push(Counted::CredentialsMissing),
            CredentialsSeen::Empty => counts.push(Counted::CredentialsInvalid),
            CredentialsSeen::Ready { .. } => {}
        }
    }
    counts.extend(bmc_call(seen, after));
    counts.extend(operations(before, after));
    counts.extend(ends(seen, step));
    counts.extend(written(seen, after));
    if after.attempt > before.attempt {
        counts.push(Counted::AttemptBegun);
    }
    if before.claimants.is_none() && after.claimants.is_some() {
        counts.push(Counted::SecondClaimant);
    }
    if before.delayed.is_none() && after.delayed.is_some() {
        counts.push(Counted::Delayed { deprovisioning: after.state == State::Deprovisioning });
    }
    if before.bmc.good_credentials.is_some()
        && after.bmc.good_credentials.is_some()
        && before.bmc.good_credentials != after.bmc.good_credentials
    {
        counts.push(Counted::CredentialsUpdated);
    }
    counts
}

/// What an installation wrote, once it is proven.
fn written(seen: &Seen, after: &HostMemory) -> Option<Counted> {
    let is_proven = seen.memory.state == State::Provisioning && after.state == State::Provisioned;
    let receipts = &seen.agent.as_ref().filter(|_| is_proven)?.shown;
    receipts.iter().find_map(|receipt| match &receipt.shows {
        Shows::Written(write) => Some(Counted::Written { bytes: write.written_bytes }),
        Shows::Cleared { .. } | Shows::HandedOff(_) | Shows::BootEntry(_) | Shows::Leaving | Shows::Other => None,
    })
}

fn new_failure<'a>(before: &HostMemory, after: &'a HostMemory) -> Option<&'a Failure> {
    let mark = |failure: &Failure| (failure.kind, failure.at, failure.count);
    after.failure.as_ref().filter(|failure| before.failure.as_ref().map(mark) != Some(mark(failure)))
}

/// The outcome of the call that this step took.
fn bmc_call(seen: &Seen, after: &HostMemory) -> Vec<Counted> {
    let Some(pending) = &seen.memory.bmc.call else { return Vec::new() };
    let is_awaited = after.bmc.call.as_ref().is_some_and(|call| call.call.ticket == pending.call.ticket);
    let outcome = seen.bmc.last.as_ref().filter(|outcome| outcome.ticket == pending.call.ticket && !is_awaited);
    match outcome.map(|outcome| &outcome.result) {
        None => Vec::new(),
        Some(Ok(())) => match pending.call.action {
            BmcAction::Probe | BmcAction::ReadOnce | BmcAction::TakeBootBack => Vec::new(),
            BmcAction::NetBoot | BmcAction::PowerOn | BmcAction::Cycle => vec![Counted::PowerOrdered { on: true }],
            BmcAction::PowerOff { .. } => vec![Counted::PowerOrdered { on: false }],
        },
        Some(Err(fault)) => match fault.kind {
            BmcFaultKind::Credentials => vec![Counted::NoManagementAccess, Counted::LoginRefused],
            BmcFaultKind::Unreachable => vec![Counted::NoManagementAccess],
            BmcFaultKind::Unsupported
            | BmcFaultKind::Refused
            | BmcFaultKind::NoSecret
            | BmcFaultKind::EmptySecret
            | BmcFaultKind::HeldBack { .. } => Vec::new(),
        },
    }
}

/// Operations that this step ended.
fn operations<'a>(before: &'a HostMemory, after: &'a HostMemory) -> impl Iterator<Item = Counted> + 'a {
    let (old, new) = (&before.history, &after.history);
    let pairs = [
        (Operation::Register, &old.register, &new.register),
        (Operation::Inspect, &old.inspect, &new.inspect),
        (Operation::Provision, &old.provision, &new.provision),
        (Operation::Deprovision, &old.deprovision, &new.deprovision),
    ];
    // A history that came with a moved host is none of ours.
    pairs.into_iter().filter(|(_, old, new)| old.end.is_none() && old.start == new.start).filter_map(
        |(operation, _, OperationMetric { start, end })| {
            let seconds = (*end)?.duration_since((*start)?).as_secs_f64();
            Some(Counted::Took { operation, seconds })
        },
    )
}

/// What a deletion went without.
fn ends(seen: &Seen, step: &Step) -> Vec<Counted> {
    let (before, after) = (&seen.memory, &step.memory);
    let gave_up = |reason: &str| step.events.iter().any(|event| event.reason == reason);
    let mut counts = Vec::new();
    if gave_up("DeprovisioningGaveUp") {
        counts.push(Counted::GaveUpCleaning);
    }
    if gave_up("PowerOffGaveUp") {
        counts.push(Counted::GaveUpPowerOff);
    }
    // As the last state leaves its tombstone.
    let is_let_go = before.state != State::Deleting && after.state == State::Deleting;
    if is_let_go && after.leaves_data() {
        counts.push(Counted::ReleasedUncleaned);
    }
    let metadata = &seen.host.metadata;
    let detached = requests(metadata).detached;
    let is_held_up = detached.is_some_and(|detached| detached.delete_action == DeleteAction::Delay);
    if metadata.is_deleting() && is_held_up && !matches!(after.state, State::PoweringOff | State::Deleting) {
        counts.push(Counted::DeletionDelayed);
    }
    counts
}
