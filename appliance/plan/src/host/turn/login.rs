//! How often a login at the BMC may be tried.
//!
//! A BMC locks an account after some refused logins (five in most, three in some, within ten minutes), and
//! then no login is taken, not even its owner's. So logins that are refused are counted: within
//! [`HostTimeouts::login_window`](crate::host::HostTimeouts::login_window) the same credentials are tried twice at
//! most, and others, which an edit brings, until
//! [`HostTimeouts::logins_refused_max`](crate::host::HostTimeouts::logins_refused_max) were refused in all. Hosts that
//! share an account at one BMC are counted together.

use jiff::Timestamp;

use crate::host::model::{BmcFault, BmcFaultKind, CredentialsInputs, CredentialsUsed, HostTimeouts};
use crate::host::turn::{StepDraft, later};

/// Times that the same credentials may be refused within the window: the first try, and one in case that the
/// BMC was not itself.
const SAME_REFUSED_MAX: usize = 2;

impl StepDraft<'_> {
    /// The Secret and version that calls are made with now.
    pub(crate) fn credentials(&self) -> Option<CredentialsUsed> {
        let bmc = self.seen.host.spec.usable_bmc()?;
        match &self.seen.credentials {
            CredentialsInputs::Ready { version } => {
                Some(CredentialsUsed { secret: bmc.credentials_name.clone(), version: version.clone() })
            }
            CredentialsInputs::Missing | CredentialsInputs::Empty => None,
        }
    }
}

/// Whether a login may be tried now.
pub(crate) fn may_log_in(turn: &StepDraft<'_>) -> Result<(), BmcFault> {
    let fault = |kind, message: String| Err(BmcFault { kind, message });
    match turn.seen.credentials {
        CredentialsInputs::Missing => return fault(BmcFaultKind::NoSecret, String::new()),
        CredentialsInputs::Empty => return fault(BmcFaultKind::EmptySecret, String::new()),
        CredentialsInputs::Ready { .. } => {}
    }
    let memory = &turn.memory.bmc;
    let refused: Vec<Timestamp> = memory.refused.iter().chain(&turn.seen.bmc.refused_elsewhere).copied().collect();
    let is_same = memory.refused_credentials.is_some() && memory.refused_credentials == turn.credentials();
    match earliest(refused, is_same, turn.limits(), turn.now) {
        None => Ok(()),
        Some(at) => fault(BmcFaultKind::HeldBack { until: at }, format!("it is not tried again before {at:.0}")),
    }
}

/// When the next login may be tried; `None`: now.
fn earliest(mut refused: Vec<Timestamp>, is_same: bool, limits: &HostTimeouts, now: Timestamp) -> Option<Timestamp> {
    let until = |at: Timestamp| later(at, limits.login_window);
    refused.retain(|at| until(*at) > now);
    refused.sort_unstable();
    let most = if is_same { SAME_REFUSED_MAX.min(limits.logins_refused_max) } else { limits.logins_refused_max };
    let place = refused.len().checked_sub(most.max(1))?;
    refused.get(place).map(|at| until(*at))
}

/// The BMC refused the login.
pub(crate) fn refused(turn: &mut StepDraft<'_>, at: Timestamp) {
    let window = turn.limits().login_window;
    let now = turn.now;
    let memory = &mut turn.memory.bmc;
    memory.refused_credentials.clone_from(&memory.tried_credentials);
    memory.refused.retain(|old| later(*old, window) > now);
    memory.refused.push(at);
}

/// It took the login, and counts from nought again.
pub(crate) fn accepted(turn: &mut StepDraft<'_>) {
    turn.memory.bmc.refused.clear();
    turn.memory.bmc.refused_credentials = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap_or_default()
    }

    #[test]
    fn refused_logins_are_bounded_in_every_window() {
        let limits = HostTimeouts::default();
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
