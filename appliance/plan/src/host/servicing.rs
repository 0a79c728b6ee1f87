//! Servicing: firmware settings and updates of a host that has an OS, while it is off anyway.
//!
//! Upstream's rules: the owner's `HostUpdatePolicy` allows it (`onReboot`), something differs from what is
//! applied, and the host is off and to be on: in a reboot, or when its owner switches it on. The state stays
//! (provisioned, externally provisioned), `operationalStatus` is `servicing`, a failure is a servicing error.
//!
//! | | nothing runs | a step runs | the last step failed |
//! |---|---|---|---|
//! | something is wanted | begins when the host is off and to be on | waits | tries again after a growing delay |
//! | something else is wanted | the same | waits for its end, then begins anew | begins at once |
//! | nothing is wanted any more | nothing | waits for its end | over |
//!
//! A step that runs is never interrupted, not by a deletion either: a half-written firmware is a dead host. One
//! that stands still is an error that people see.
//!
//! Pure, and without a caller: upstream's triggers are objects that this appliance stores and does not act on
//! (`HostFirmwareSettings`, `HostFirmwareComponents`, `HostUpdatePolicy`; each says so at admission and in its
//! status), since no BMC driver here changes firmware. So no host is ever `servicing`. Who adds such a driver is
//! to store [`Servicing`], carry [`Order`] out at most once per number, and observe [`ServicingSeen`]; a test
//! fails as soon as one of those kinds has a controller and this has no caller.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{backoff, host::turn::later};

/// A step that shows no progress for so long stands still. Common updates of a BMC take half as long.
pub const STALL: SignedDuration = SignedDuration::from_hours(1);

/// What is observed for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicingSeen {
    /// A digest of the settings and updates that differ and that the policy allows; `None`: there are none.
    pub wanted: Option<String>,
    /// The host is seen to be off.
    pub is_off: bool,
    /// The host is to be on.
    pub is_to_be_on: bool,
    /// When the step under way last moved.
    pub progress_at: Option<Timestamp>,
    /// How the step of this number ended.
    pub ended: Option<(u64, Result<(), String>)>,
}

/// The durable memory of one servicing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Servicing {
    pub work: String,
    /// Of the step that runs or ran last; each has its own.
    pub number: u64,
    pub since: Timestamp,
    /// Failures in a row.
    pub failures: u32,
    /// The last step failed; not before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl Servicing {
    /// A step runs: the host is neither switched nor let go before it ends.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.retry_at.is_none()
    }
}

/// One step to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub number: u64,
    pub work: String,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is to be serviced: the power is kept as asked. The memory is forgotten.
    Nothing,
    /// Store the memory, then carry the order out.
    Begin(Servicing, Order),
    /// Carry the order out if it was lost, and look again after a while.
    Wait { order: Order, deadline: Timestamp },
    /// An error to be shown; the memory is stored, and looked at again after the delay.
    Failed { memory: Servicing, message: String, delay: SignedDuration },
}

/// What comes next for this host; the same input gives the same answer. `newest`: the newest number that was
/// ever given out for the host.
#[must_use]
pub fn next(memory: Option<&Servicing>, newest: u64, seen: &ServicingSeen, now: Timestamp, entropy: u128) -> Next {
    let Some(memory) = memory else {
        return match &seen.wanted {
            Some(work) if seen.is_off && seen.is_to_be_on => begin(work, newest + 1, 0, now),
            Some(_) | None => Next::Nothing,
        };
    };
    match memory.retry_at {
        None => running(memory, newest, seen, now, entropy),
        Some(at) => failed(memory, newest, at, seen, now),
    }
}

fn begin(work: &str, number: u64, failures: u32, now: Timestamp) -> Next {
    let memory = Servicing { work: work.to_owned(), number, since: now, failures, retry_at: None };
    Next::Begin(memory, Order { number, work: work.to_owned() })
}

fn running(memory: &Servicing, newest: u64, seen: &ServicingSeen, now: Timestamp, entropy: u128) -> Next {
    let ended = seen.ended.as_ref().filter(|(number, _)| *number == memory.number);
    match ended.map(|(_, result)| result) {
        Some(Ok(())) => match &seen.wanted {
            // What was wanted meanwhile; what was just applied may still be shown as wanted.
            Some(work) if *work != memory.work => begin(work, newest + 1, 0, now),
            Some(_) | None => Next::Nothing,
        },
        Some(Err(_)) if seen.wanted.is_none() => Next::Nothing,
        Some(Err(message)) => {
            let failures = memory.failures + 1;
            let delay = backoff::delay(failures, entropy);
            let memory = Servicing { failures, retry_at: Some(later(now, delay)), ..memory.clone() };
            Next::Failed { memory, message: format!("servicing failed: {message}"), delay }
        }
        None => {
            let moved_at = seen.progress_at.map_or(memory.since, |at| at.max(memory.since));
            let still = now.duration_since(moved_at);
            if still > STALL {
                let text = format!("servicing shows no progress for {} min; look at the host's BMC", still.as_mins());
                return Next::Failed { memory: memory.clone(), message: text, delay: STALL };
            }
            let order = Order { number: memory.number, work: memory.work.clone() };
            Next::Wait { order, deadline: later(moved_at, STALL) }
        }
    }
}

fn failed(memory: &Servicing, newest: u64, retry_at: Timestamp, seen: &ServicingSeen, now: Timestamp) -> Next {
    match &seen.wanted {
        None => Next::Nothing,
        Some(work) if *work != memory.work => begin(work, newest + 1, 0, now),
        Some(work) if now >= retry_at => begin(work, newest + 1, memory.failures, now),
        Some(_) => {
            let delay = retry_at.duration_since(now);
            Next::Failed { memory: memory.clone(), message: "servicing failed and is tried again".to_owned(), delay }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    fn off(work: &str) -> ServicingSeen {
        ServicingSeen { wanted: Some(work.to_owned()), is_off: true, is_to_be_on: true, ..ServicingSeen::default() }
    }

    fn begun(next: &Next) -> Option<(Servicing, u64)> {
        match next {
            Next::Begin(memory, order) => Some((memory.clone(), order.number)),
            Next::Nothing | Next::Wait { .. } | Next::Failed { .. } => None,
        }
    }

    #[test]
    fn it_begins_only_while_the_host_is_off_and_to_be_on() {
        for (is_off, is_to_be_on) in [(false, true), (true, false), (false, false)] {
            let seen = ServicingSeen { is_off, is_to_be_on, ..off("a") };
            assert_eq!(next(None, 0, &seen, at(0), 0), Next::Nothing);
        }
        let nothing = ServicingSeen { wanted: None, ..off("a") };
        assert_eq!(next(None, 0, &nothing, at(0), 0), Next::Nothing);
        assert_eq!(begun(&next(None, 0, &off("a"), at(0), 0)).map(|(_, number)| number), Some(1));
    }

    #[test]
    fn a_step_that_runs_is_waited_for_whatever_is_wanted_meanwhile() {
        let (memory, number) = begun(&next(None, 0, &off("a"), at(0), 0)).unwrap_or_else(|| unreachable!());
        assert!(memory.is_running());
        let gone = ServicingSeen { wanted: None, is_off: false, ..off("a") };
        for seen in [off("a"), off("b"), gone] {
            let wait = next(Some(&memory), 1, &seen, at(60), 0);
            assert!(matches!(wait, Next::Wait { order: Order { number: 1, .. }, .. }), "{wait:?}");
        }
        let done = |seen: ServicingSeen| ServicingSeen { ended: Some((number, Ok(()))), ..seen };
        assert_eq!(next(Some(&memory), 1, &done(off("a")), at(90), 0), Next::Nothing);
        let again = next(Some(&memory), 1, &done(off("b")), at(90), 0);
        assert_eq!(begun(&again).map(|(memory, number)| (memory.work, number)), Some(("b".to_owned(), 2)));
    }

    #[test]
    fn failures_delay_the_next_try_and_an_edit_does_not_wait() {
        let (memory, number) = begun(&next(None, 0, &off("a"), at(0), 0)).unwrap_or_else(|| unreachable!());
        let seen = ServicingSeen { ended: Some((number, Err("bad".to_owned()))), ..off("a") };
        let Next::Failed { memory, message, delay } = next(Some(&memory), 1, &seen, at(10), 0) else { unreachable!() };
        assert!(message.contains("bad") && !memory.is_running());
        assert!((60..=120).contains(&delay.as_secs()), "{delay:?}");
        assert!(matches!(next(Some(&memory), 1, &seen, at(11), 0), Next::Failed { .. }));
        let later = next(Some(&memory), 1, &seen, at(10 + delay.as_secs()), 0);
        assert_eq!(begun(&later).map(|(memory, number)| (memory.failures, number)), Some((1, 2)));
        assert_eq!(begun(&next(Some(&memory), 1, &off("b"), at(11), 0)).map(|(memory, _)| memory.failures), Some(0));
        assert_eq!(next(Some(&memory), 1, &ServicingSeen { wanted: None, ..seen }, at(11), 0), Next::Nothing);
    }

    #[test]
    fn progress_extends_the_deadline_and_standing_still_is_an_error() {
        let (memory, _) = begun(&next(None, 0, &off("a"), at(0), 0)).unwrap_or_else(|| unreachable!());
        let moving = |second: i64| ServicingSeen { progress_at: Some(at(second)), ..off("a") };
        let wait = next(Some(&memory), 1, &moving(7000), at(7100), 0);
        assert!(matches!(wait, Next::Wait { deadline, .. } if deadline == at(10_600)), "{wait:?}");
        let still = next(Some(&memory), 1, &moving(7000), at(10_601), 0);
        assert!(matches!(&still, Next::Failed { memory, .. } if memory.is_running()), "{still:?}");
    }

    proptest! {
        /// Numbers never repeat, so that no order is carried out twice, and nothing is begun beside a running step.
        #[test]
        fn steps_come_one_after_the_other(story in prop::collection::vec((0_u8..3, any::<bool>(), 0_u8..3, 0_i64..4000), 0..60)) {
            let mut memory: Option<Servicing> = None;
            let (mut now, mut newest) = (0, 0);
            for (wanted, is_off, end, passed) in story {
                now += passed;
                let number = memory.as_ref().map_or(0, |memory| memory.number);
                let seen = ServicingSeen {
                    wanted: (wanted > 0).then(|| wanted.to_string()),
                    is_off,
                    is_to_be_on: true,
                    progress_at: None,
                    ended: match end { 0 => None, 1 => Some((number, Ok(()))), _ => Some((number, Err(String::new()))) },
                };
                match next(memory.as_ref(), newest, &seen, at(now), 5) {
                    Next::Nothing => memory = None,
                    Next::Begin(begun, order) => {
                        prop_assert!(order.number == begun.number && order.number > newest);
                        prop_assert!(memory.as_ref().is_none_or(|old| !old.is_running() || seen.ended.is_some()));
                        newest = order.number;
                        memory = Some(begun);
                    }
                    Next::Wait { order, deadline } => {
                        prop_assert!(order.number == newest && deadline >= at(now));
                    }
                    Next::Failed { memory: kept, .. } => memory = Some(kept),
                }
            }
        }
    }
}
