//! How a BMC may misbehave, as scenario files write it. Pure.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::redfish::Effect;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BmcFault {
    /// Every request gets this status, the login included.
    Status(u16),
    /// Every answer comes so late.
    SlowMs(u64),
    /// Takes power actions and does nothing.
    IgnoresPower,
    /// Takes boot overrides and forgets them.
    IgnoresBoot,
    /// Answers that are no JSON.
    Garbage,
    /// Valid JSON of so many MiB.
    HugeMib(u64),
    /// Answers that do not end.
    Endless,
    /// Every request is sent to another address.
    Redirect(String),
}

/// What a set of faults makes of a request, before the model hears of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) delay_ms: u64,
    pub(super) instead: Option<Instead>,
}

/// The answer in place of the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Status(StatusCode),
    Garbage,
    Huge { mib: u64 },
    Endless,
    Redirect(String),
}

pub(super) fn decide(faults: &[BmcFault]) -> Verdict {
    let mut verdict = Verdict::default();
    for fault in faults {
        let instead = match fault {
            BmcFault::SlowMs(delay) => {
                verdict.delay_ms += delay;
                continue;
            }
            BmcFault::IgnoresPower | BmcFault::IgnoresBoot => continue,
            BmcFault::Status(code) => Instead::Status(StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_GATEWAY)),
            BmcFault::Garbage => Instead::Garbage,
            BmcFault::HugeMib(mib) => Instead::Huge { mib: *mib },
            BmcFault::Endless => Instead::Endless,
            BmcFault::Redirect(to) => Instead::Redirect(to.clone()),
        };
        verdict.instead = Some(instead);
    }
    verdict
}

/// Whether an effect that the model decided on is only pretended.
pub(super) fn swallows(faults: &[BmcFault], effect: &Effect) -> bool {
    match effect {
        Effect::Reset(_) => faults.contains(&BmcFault::IgnoresPower),
        Effect::SetBoot(_) => faults.contains(&BmcFault::IgnoresBoot),
        Effect::InsertMedia(_) | Effect::EjectMedia => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bmc::redfish::ResetType, machine::BootOverride};

    #[test]
    fn faults_add_up_and_each_swallows_its_own_effect() {
        let verdict = decide(&[BmcFault::SlowMs(5), BmcFault::Status(401), BmcFault::SlowMs(7)]);
        assert_eq!(verdict, Verdict { delay_ms: 12, instead: Some(Instead::Status(StatusCode::UNAUTHORIZED)) });
        assert_eq!(decide(&[BmcFault::IgnoresPower]), Verdict::default());
        let (reset, boot) = (Effect::Reset(ResetType::On), Effect::SetBoot(BootOverride::default()));
        let swallowed = |fault| [&reset, &boot].map(|effect| swallows(std::slice::from_ref(&fault), effect));
        assert_eq!(swallowed(BmcFault::IgnoresPower), [true, false]);
        assert_eq!(swallowed(BmcFault::IgnoresBoot), [false, true]);
    }
}
