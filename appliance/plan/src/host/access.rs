//! Access to the BMC: the Secret, the login, and how often a login may be tried.
//!
//! A BMC locks an account after some refused logins (five in most, three in some, within ten minutes), and
//! then nobody gets in, its owner included. So logins that are refused are counted: within
//! [`Limits::login_window`](crate::host::Limits::login_window) the same credentials are tried twice at most,
//! and others, which an edit brings, until [`Limits::logins_refused_max`](crate::host::Limits::logins_refused_max)
//! were refused in all. Hosts that share an account at one BMC are counted together.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::{SignedDuration, Timestamp};

use crate::host::{
    bmc::{Call, call, credentials, fault_text},
    effect::{BmcAction, EventKind, Reason},
    history,
    limits::Limits,
    memory::State,
    seen::{BmcFault, BmcFaultKind, CredentialsSeen},
    turn::{Turn, later},
};

/// Times that the same credentials may be refused within the window: the first try, and one in case that the
/// BMC was not itself.
const SAME_REFUSED_MAX: usize = 2;

/// Whether a login may be tried now.
pub(super) fn may_log_in(turn: &Turn<'_>) -> Result<(), BmcFault> {
    let fault = |kind, message: String| Err(BmcFault { kind, message });
    match turn.seen.credentials {
        CredentialsSeen::Missing => return fault(BmcFaultKind::NoSecret, String::new()),
        CredentialsSeen::Empty => return fault(BmcFaultKind::EmptySecret, String::new()),
        CredentialsSeen::Ready { .. } => {}
    }
    let memory = &turn.memory.bmc;
    let refused: Vec<Timestamp> = memory.refused.iter().chain(&turn.seen.bmc.refused_elsewhere).copied().collect();
    let is_same = memory.refused_credentials.is_some() && memory.refused_credentials == credentials(turn);
    match earliest(refused, is_same, turn.limits(), turn.now) {
        None => Ok(()),
        Some(at) => fault(BmcFaultKind::HeldBack { until: at }, format!("it is not tried again before {at:.0}")),
    }
}

/// When the next login may be tried; `None`: now.
fn earliest(mut refused: Vec<Timestamp>, is_same: bool, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    let until = |at: Timestamp| later(at, limits.login_window);
    refused.retain(|at| until(*at) > now);
    refused.sort_unstable();
    let most = if is_same { SAME_REFUSED_MAX.min(limits.logins_refused_max) } else { limits.logins_refused_max };
    let place = refused.len().checked_sub(most.max(1))?;
    refused.get(place).map(|at| until(*at))
}

/// The BMC refused the login.
pub(super) fn refused(turn: &mut Turn<'_>, at: Timestamp) {
    let window = turn.limits().login_window;
    let now = turn.now;
    let memory = &mut turn.memory.bmc;
    memory.refused_credentials.clone_from(&memory.tried_credentials);
    memory.refused.retain(|old| later(*old, window) > now);
    memory.refused.push(at);
}

/// It took the login, and counts from nought again.
pub(super) fn accepted(turn: &mut Turn<'_>) {
    turn.memory.bmc.refused.clear();
    turn.memory.bmc.refused_credentials = None;
}

/// Upstream's word for a host that cannot be reached through its BMC.
fn kind(turn: &Turn<'_>) -> ErrorType {
    match turn.memory.state {
        State::Provisioned | State::ExternallyProvisioned => ErrorType::ProvisionedRegistration,
        State::New
        | State::Unmanaged
        | State::Registering
        | State::Inspecting
        | State::Preparing
        | State::Available
        | State::Provisioning
        | State::Deprovisioning
        | State::PoweringOff
        | State::Deleting => ErrorType::Registration,
    }
}

/// Notes a call that failed: as `work`'s error where the BMC is to blame, as one of registration where it
/// cannot be talked to as it is configured. A host that is to go counts each, so that its deletion ends.
#[track_caller]
pub(super) fn failed(turn: &mut Turn<'_>, work: ErrorType, fault: &BmcFault) -> Reason {
    let text = fault_text(turn, fault);
    if turn.is_deleting() {
        return turn.fail(work, text);
    }
    let access = kind(turn);
    match fault.kind {
        BmcFaultKind::NoSecret => {
            let wake = turn.limits().secret_retry;
            turn.no_credentials(access, text, Some(wake))
        }
        BmcFaultKind::EmptySecret => turn.no_credentials(access, text, None),
        BmcFaultKind::HeldBack { until } => {
            let wait = until.duration_since(turn.now).max(SignedDuration::from_secs(1));
            turn.blocked(access, wait, text)
        }
        BmcFaultKind::Unsupported => turn.stuck(access, text),
        BmcFaultKind::Credentials => turn.fail(access, text),
        BmcFaultKind::Unreachable | BmcFaultKind::Refused => turn.fail(work, text),
    }
}

/// Has the BMC take the credentials that are given now, where it has not yet: they changed, or the host was
/// detached. For states that rest; a state that works finds out when it needs the BMC.
#[track_caller]
pub(super) fn verify(turn: &mut Turn<'_>) -> Result<(), Reason> {
    let current = credentials(turn);
    if current.is_some() && turn.memory.bmc.good_credentials == current {
        return Ok(());
    }
    let awaits = turn.memory.bmc.call.as_ref().map(|pending| pending.call.action);
    if awaits.is_some_and(|action| action != BmcAction::Probe) {
        // It logs in as well.
        return Ok(());
    }
    turn.may_try()?;
    let now = turn.now;
    history::begin_operation(&mut turn.memory.history.register, now);
    match call(turn, BmcAction::Probe) {
        Call::Waiting(reason) => Err(reason),
        Call::Failed(fault) => {
            let work = kind(turn);
            Err(failed(turn, work, &fault))
        }
        Call::Done => {
            turn.memory.failure = None;
            history::end_operation(&mut turn.memory.history.register, now);
            turn.event(EventKind::Normal, "BMCAccessValidated", "the BMC answers and takes the credentials");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap_or_default()
    }

    #[test]
    fn refused_logins_are_bounded_in_every_window() {
        let limits = Limits::default();
        let next = |refused: &[i64], is_same, now| {
            earliest(refused.iter().map(|minute| at(*minute)).collect(), is_same, &limits, at(now))
        };
        assert_eq!((next(&[], true, 0), next(&[0], true, 1)), (None, None));
        assert_eq!(next(&[0, 1], true, 2), Some(at(10)), "the same ones wait");
        assert_eq!(next(&[0, 1], false, 2), None, "others may be right");
        assert_eq!(next(&[3, 0, 1, 2], false, 4), Some(at(10)));
        assert_eq!(next(&[0, 1, 2, 3, 4], false, 5), Some(at(11)), "another host was refused as well");
        assert_eq!(next(&[0, 1, 2, 3], false, 10), None);
        // A hundred edits in a minute, tried as soon as each may be.
        let mut refused = Vec::new();
        for second in 0..3600 {
            let now = Timestamp::from_second(second).unwrap_or_default();
            if earliest(refused.clone(), false, &limits, now).is_none() {
                refused.push(now);
            }
        }
        let within = |start: &Timestamp| {
            refused.iter().filter(|at| (*start..later(*start, limits.login_window)).contains(at)).count()
        };
        assert_eq!(refused.iter().map(within).max(), Some(4));
    }
}
