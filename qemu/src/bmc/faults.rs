//! How a BMC may misbehave, as scenario files write it. Pure.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::redfish::LabBmcEffect;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabBmcFault {
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
pub(super) struct BmcFaultEffect {
    pub(super) delay_ms: u64,
    pub(super) instead: Option<ReplacedAnswer>,
}

/// The answer in place of the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReplacedAnswer {
    Status(StatusCode),
    Garbage,
    Huge { mib: u64 },
    Endless,
    Redirect(String),
}

pub(super) fn decide(faults: &[LabBmcFault]) -> BmcFaultEffect {
    let mut verdict = BmcFaultEffect::default();
    for fault in faults {
        let instead = match fault {
            LabBmcFault::SlowMs(delay) => {
                verdict.delay_ms += delay;
                continue;
            }
            LabBmcFault::IgnoresPower | LabBmcFault::IgnoresBoot => continue,
            LabBmcFault::Status(code) => {
                ReplacedAnswer::Status(StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_GATEWAY))
            }
            LabBmcFault::Garbage => ReplacedAnswer::Garbage,
            LabBmcFault::HugeMib(mib) => ReplacedAnswer::Huge { mib: *mib },
            LabBmcFault::Endless => ReplacedAnswer::Endless,
            LabBmcFault::Redirect(to) => ReplacedAnswer::Redirect(to.clone()),
        };
        verdict.instead = Some(instead);
    }
    verdict
}

/// Whether an effect that the model decided on is only pretended.
pub(super) fn swallows(faults: &[LabBmcFault], effect: &LabBmcEffect) -> bool {
    match effect {
        LabBmcEffect::Reset(_) => faults.contains(&LabBmcFault::IgnoresPower),
        LabBmcEffect::SetBoot(_) => faults.contains(&LabBmcFault::IgnoresBoot),
        LabBmcEffect::InsertMedia(_) | LabBmcEffect::EjectMedia => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bmc::redfish::ResetType, machine::BootOverride};

    #[test]
    fn faults_add_up_and_each_swallows_its_own_effect() {
        let verdict = decide(&[LabBmcFault::SlowMs(5), LabBmcFault::Status(401), LabBmcFault::SlowMs(7)]);
        assert_eq!(
            verdict,
            BmcFaultEffect { delay_ms: 12, instead: Some(ReplacedAnswer::Status(StatusCode::UNAUTHORIZED)) }
        );
        assert_eq!(decide(&[LabBmcFault::IgnoresPower]), BmcFaultEffect::default());
        let (reset, boot) = (LabBmcEffect::Reset(ResetType::On), LabBmcEffect::SetBoot(BootOverride::default()));
        let swallowed = |fault| [&reset, &boot].map(|effect| swallows(std::slice::from_ref(&fault), effect));
        assert_eq!(swallowed(LabBmcFault::IgnoresPower), [true, false]);
        assert_eq!(swallowed(LabBmcFault::IgnoresBoot), [false, true]);
    }
}
