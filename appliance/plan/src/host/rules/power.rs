//! Keeping the power as asked, through a BMC: soft before hard, with the change seen at the BMC
//! before it counts.

use firesteel_resources::bare_metal_host::ErrorType;

use crate::host::model::{BmcAction, BmcFault, BmcFaultKind, HostPower, HostReason, PowerTask};
use crate::host::rules::bmc_access;
use crate::host::turn::{BmcCallProgress, StepDraft, format_duration, later};

/// What power that cannot be changed is called.
const KIND: ErrorType = ErrorType::PowerManagement;

/// Brings the power to what is wanted; `Ok` where it is so by a fresh look. `hard`: no OS is there that could shut down.
#[track_caller]
pub(crate) fn reach(turn: &mut StepDraft<'_>, on: bool, hard: bool) -> Result<(), HostReason> {
    let changing = turn.memory.power.as_ref().is_some_and(|work| work.want_on == on);
    let age_max = if changing { turn.limits().power_poll_changing } else { turn.limits().power_poll };
    let age = turn.seen.bmc.power_at.map(|at| turn.now.duration_since(at));
    let was_steady = is_seen(turn, on)
        && turn.memory.power.is_none()
        && turn.memory.failure.is_none()
        && !turn.memory.state.is_working();
    // An order whose outcome is awaited goes first; then a fresh look.
    let pending = turn.memory.bmc.call.as_ref().map(|pending| pending.call.action);
    let looking = pending == Some(BmcAction::Probe);
    let ordering = pending.is_some() && !looking;
    // The answer is taken when it comes: left until the next look, it would pass for that one's.
    if !ordering && (looking || age.is_none_or(|age| age > age_max)) {
        match turn.call(BmcAction::Probe) {
            // What is seen now is its answer.
            BmcCallProgress::Done => {}
            // A look now and then does not unsettle what rests as it was seen last.
            BmcCallProgress::Waiting(_) if was_steady => {}
            BmcCallProgress::Waiting(reason) => return Err(reason),
            BmcCallProgress::Failed(fault) => return Err(bmc_access::failed(turn, KIND, &fault)),
        }
    }
    let reached = is_seen(turn, on);
    if reached && !ordering {
        turn.memory.power = None;
        return Ok(());
    }
    let work = turn.memory.power.clone().filter(|work| work.want_on == on);
    let work = work.unwrap_or(PowerTask { want_on: on, hard, since: turn.now, ordered: false });
    Err(change(turn, work))
}

fn is_seen(turn: &StepDraft<'_>, on: bool) -> bool {
    match turn.seen.bmc.power {
        HostPower::On => on,
        HostPower::Off => !on,
        HostPower::Unknown => false,
    }
}

#[track_caller]
fn change(turn: &mut StepDraft<'_>, mut work: PowerTask) -> HostReason {
    let waited = turn.now.duration_since(work.since);
    let limit = if work.want_on || work.hard { turn.limits().power_change } else { turn.limits().soft_off };
    turn.deadline(later(work.since, limit));
    if work.ordered && waited > limit {
        if work.want_on || work.hard {
            turn.memory.power = None;
            let (order, state) = if work.want_on { ("power-on", "off") } else { ("power-off", "on") };
            let text =
                format!("the BMC accepted {order} but the host is still {state} after {}", format_duration(waited));
            return turn.fail(KIND, text);
        }
        // The OS did not shut down in time.
        work = PowerTask { hard: true, since: turn.now, ordered: false, ..work };
    }
    if work.ordered {
        turn.memory.power = Some(work);
        let wake = turn.limits().power_poll_changing;
        let text = awaited(turn);
        return turn.wait_in_state(wake, text);
    }
    let action = if work.want_on { BmcAction::PowerOn } else { BmcAction::PowerOff { hard: work.hard } };
    let ordered = match turn.call(action) {
        BmcCallProgress::Waiting(reason) => {
            turn.memory.power = Some(work);
            return reason;
        }
        BmcCallProgress::Done => true,
        // A soft power-off that the BMC refuses is tried hard at once: some have no soft one. What it was not asked
        // because it answers with errors now is asked again.
        BmcCallProgress::Failed(BmcFault { kind: BmcFaultKind::Unsupported, .. }) if !work.want_on && !work.hard => {
            work.hard = true;
            false
        }
        BmcCallProgress::Failed(fault) => {
            turn.memory.power = None;
            return bmc_access::failed(turn, KIND, &fault);
        }
    };
    turn.memory.power = Some(PowerTask { ordered, since: turn.now, ..work });
    let text = awaited(turn);
    turn.wait_in_state(jiff::SignedDuration::from_secs(1), text)
}

/// Says which change of the power is waited for, and what comes if it does not.
fn awaited(turn: &StepDraft<'_>) -> String {
    match &turn.memory.power {
        Some(PowerTask { want_on: false, hard: false, ordered: true, since }) => format!(
            "the OS was asked at {since:.0} to shut down; if it does not, the power is cut at {:.0}",
            later(*since, turn.limits().soft_off)
        ),
        Some(PowerTask { want_on: true, .. }) => "waiting for the power to come on".to_owned(),
        Some(_) | None => "waiting for the power to go off".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::{BmcCall, BmcOutcome, HostFailure, HostInputs, HostState, PendingCall};
    use crate::host::sample::{at, now, with_bmc};

    /// A host that was seen on ten seconds ago, and rests.
    fn seen_on() -> HostInputs {
        let mut seen = with_bmc(HostState::Provisioned);
        (seen.bmc.power, seen.bmc.power_at) = (HostPower::On, Some(at(-10)));
        seen
    }

    fn seen_ago(seen: &mut HostInputs, seconds: i64) {
        seen.bmc.power_at = Some(at(-seconds));
    }

    fn task(want_on: bool, hard: bool, since_s: i64, ordered: bool) -> Option<PowerTask> {
        Some(PowerTask { want_on, hard, since: at(-since_s), ordered })
    }

    /// A call that was asked for, and how it ended.
    fn call(seen: &mut HostInputs, action: BmcAction, ended: Option<Result<(), BmcFaultKind>>) {
        let call = BmcCall { ticket: 9, action };
        seen.memory.bmc.call = Some(PendingCall { call, asked_at: at(-1), inputs: String::new() });
        let inputs = StepDraft::new(seen, now()).inputs();
        seen.memory.bmc.call.iter_mut().for_each(|pending| pending.inputs.clone_from(&inputs));
        seen.bmc.last = ended.map(|result| {
            let result = result.map_err(|kind| BmcFault { kind, message: "no".into() });
            BmcOutcome { ticket: 9, at: now(), result }
        });
    }

    fn fail(seen: &mut HostInputs) {
        seen.memory.failure = Some(HostFailure {
            kind: KIND,
            message: "no route".into(),
            count: 1,
            at: at(-100),
            retry_at: Some(at(-1)),
            until_edit: false,
            inputs: String::new(),
        });
    }

    /// Brings the power to what is wanted: whether it is so, what the BMC is asked then, and the change under way.
    fn reached(seen: &HostInputs, on: bool) -> (bool, Option<BmcAction>, Option<PowerTask>) {
        let mut turn = StepDraft::new(seen, now());
        let is_so = reach(&mut turn, on, false).is_ok();
        (is_so, turn.memory.bmc.call.map(|pending| pending.call.action), turn.memory.power)
    }

    /// How a host was seen that is to be on; whether it counts as on, and what is asked of its BMC then.
    type Row = (&'static str, fn(&mut HostInputs), bool, Option<BmcAction>);

    /// Seen on so long ago while that change was under way.
    fn changing(seen: &mut HostInputs, seconds: i64, want_on: bool) {
        seen_ago(seen, seconds);
        seen.memory.power = task(want_on, false, 70, true);
    }

    fn works(seen: &mut HostInputs) {
        seen_ago(seen, 61);
        seen.memory.state = HostState::PoweringOff;
    }

    fn failed(seen: &mut HostInputs) {
        seen_ago(seen, 61);
        fail(seen);
    }

    fn looks() -> [Row; 12] {
        let (probe, order) = (Some(BmcAction::Probe), Some(BmcAction::PowerOn));
        [
            ("just seen", |_| {}, true, None),
            ("a minute ago", |seen| seen_ago(seen, 60), true, None),
            ("longer ago, and it rests", |seen| seen_ago(seen, 61), true, probe),
            ("never, and it rests", |seen| seen.bmc.power_at = None, true, probe),
            ("longer ago, and the state works", works, false, probe),
            ("longer ago, after a failure", failed, false, probe),
            ("longer ago, while it changes", |seen| changing(seen, 61, true), false, probe),
            ("five seconds ago, while it changes", |seen| changing(seen, 5, true), true, None),
            ("six seconds ago, while it changes", |seen| changing(seen, 6, true), false, probe),
            ("six seconds ago, and the other change was wanted", |seen| changing(seen, 6, false), true, None),
            ("the look is answered", |seen| call(seen, BmcAction::Probe, Some(Ok(()))), true, None),
            ("an order is not answered", |seen| call(seen, BmcAction::PowerOn, None), false, order),
        ]
    }

    #[test]
    fn a_power_that_is_as_wanted_is_looked_at_again_after_its_time() {
        for (what, change, is_so, asked) in looks() {
            let mut seen = seen_on();
            change(&mut seen);
            let (found, action, power) = reached(&seen, true);
            assert_eq!((found, action), (is_so, asked), "{what}");
            assert!(!is_so || power.is_none(), "{what}: the change is over");
        }
    }

    #[test]
    fn only_what_the_bmc_shows_counts_as_on_or_off() {
        let soft = BmcAction::PowerOff { hard: false };
        for (power, on, is_so, ordered) in [
            (HostPower::On, true, true, None),
            (HostPower::On, false, false, Some(soft)),
            (HostPower::Off, false, true, None),
            (HostPower::Off, true, false, Some(BmcAction::PowerOn)),
            (HostPower::Unknown, true, false, Some(BmcAction::PowerOn)),
            (HostPower::Unknown, false, false, Some(soft)),
        ] {
            let mut seen = seen_on();
            seen.bmc.power = power;
            let (found, action, task) = reached(&seen, on);
            assert_eq!((found, action), (is_so, ordered), "{power:?} {on}");
            assert_eq!(
                task.map(|task| (task.want_on, task.ordered)),
                (!is_so).then_some((on, false)),
                "{power:?} {on}"
            );
        }
    }

    /// A change that was ordered, and what comes of it after some seconds.
    #[test]
    fn an_order_that_shows_nothing_is_strengthened_or_a_failure_after_its_time() {
        let (soft, cut) = (BmcAction::PowerOff { hard: false }, BmcAction::PowerOff { hard: true });
        let waits = |want_on, hard, since_s| (None, task(want_on, hard, since_s, true), None);
        let fails = |text: &'static str| (None, None, Some(text));
        for (work, expected) in [
            (task(false, false, 180, true), waits(false, false, 180)),
            (task(false, false, 181, true), (Some(cut), task(false, true, 0, false), None)),
            (task(false, false, 181, false), (Some(soft), task(false, false, 181, false), None)),
            (task(false, true, 120, true), waits(false, true, 120)),
            (task(false, true, 121, true), fails("the BMC accepted power-off but the host is still on after 2 min")),
            (task(true, false, 120, true), waits(true, false, 120)),
            (task(true, false, 121, true), fails("the BMC accepted power-on but the host is still off after 2 min")),
            (task(true, false, 121, false), (Some(BmcAction::PowerOn), task(true, false, 121, false), None)),
        ] {
            let on = work.as_ref().is_some_and(|work| work.want_on);
            let mut seen = seen_on();
            seen_ago(&mut seen, 1);
            seen.bmc.power = if on { HostPower::Off } else { HostPower::On };
            seen.memory.power.clone_from(&work);
            let mut turn = StepDraft::new(&seen, now());
            assert!(reach(&mut turn, on, false).is_err(), "{work:?}");
            let asked = turn.memory.bmc.call.map(|pending| pending.call.action);
            let failure = turn.memory.failure.map(|failure| failure.message);
            assert_eq!((asked, turn.memory.power, failure.as_deref()), expected, "{work:?}");
        }
    }

    #[test]
    fn what_the_bmc_answers_to_an_order_decides_how_it_goes_on() {
        let unsupported = || Some(Err(BmcFaultKind::Unsupported));
        for (want_on, hard, ended, power, has_failed, text) in [
            (true, false, Some(Ok(())), task(true, false, 0, true), false, "waiting for the power to come on"),
            (false, true, Some(Ok(())), task(false, true, 0, true), false, "waiting for the power to go off"),
            (
                false,
                false,
                Some(Ok(())),
                task(false, false, 0, true),
                false,
                "the OS was asked at 1971-01-01T00:00:00Z to \
              shut down; if it does not, the power is cut at 1971-01-01T00:03:00Z",
            ),
            (false, false, unsupported(), task(false, true, 0, false), false, "waiting for the power to go off"),
            (false, true, unsupported(), None, true, "cannot be used: no"),
            (true, false, unsupported(), None, true, "cannot be used: no"),
            (false, false, Some(Err(BmcFaultKind::Refused)), None, true, "answered with an error: no"),
        ] {
            let action = if want_on { BmcAction::PowerOn } else { BmcAction::PowerOff { hard } };
            let mut seen = seen_on();
            seen_ago(&mut seen, 1);
            seen.bmc.power = if want_on { HostPower::Off } else { HostPower::On };
            seen.memory.power = task(want_on, hard, 10, false);
            call(&mut seen, action, ended);
            let mut turn = StepDraft::new(&seen, now());
            let reason = reach(&mut turn, want_on, false).err().map(|reason| reason.text).unwrap_or_default();
            let found = (turn.memory.power, turn.memory.failure.is_some());
            assert_eq!(found, (power, has_failed), "{action:?}: {reason}");
            assert!(reason.contains(text), "{action:?}: {reason}");
        }
    }
}
