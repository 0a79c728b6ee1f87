//! Calls to the BMC: what becomes of an outcome, of a call that is lost, and of one that takes too long.

use super::{agent, at, draft, in_state, secs, seen};
use crate::host::model::{
    AgentInputs, BmcAction, BmcCall, BmcFault, BmcFaultKind, BmcOutcome, CredentialsInputs, CredentialsUsed,
    HostEffect, HostInputs, HostReason, HostState, OrderedOverride, PendingCall,
};
use crate::host::turn::{BmcCallProgress, StepDraft, login};

/// A host that waits for the outcome of call 7, which was made so many seconds ago.
fn pending(action: BmcAction, asked: i64) -> HostInputs {
    let mut seen = seen(in_state(HostState::Registering));
    let inputs = draft(&seen).inputs();
    let call = BmcCall { ticket: 7, action };
    seen.memory.bmc.ticket = 7;
    seen.memory.bmc.call = Some(PendingCall { call, asked_at: at(-asked), inputs });
    seen
}

fn fault(kind: BmcFaultKind) -> BmcFault {
    BmcFault { kind, message: "no route".into() }
}

/// Asks for the action; what came of it, in a word.
fn ask(turn: &mut StepDraft<'_>, action: BmcAction) -> String {
    match turn.call(action) {
        BmcCallProgress::Done => "done".to_owned(),
        BmcCallProgress::Failed(fault) => fault.message,
        BmcCallProgress::Waiting(reason) => reason.text,
    }
}

fn calls(turn: StepDraft<'_>) -> Vec<(u64, BmcAction)> {
    let effects = turn.finish(HostReason::new("")).effects;
    let call =
        |effect: HostEffect| if let HostEffect::Bmc(call) = effect { Some((call.ticket, call.action)) } else { None };
    effects.into_iter().filter_map(call).collect()
}

const PROBING: &str = "asking the BMC for power and MAC addresses";
const BOOTING: &str = "telling the BMC to boot once from the network";

#[test]
fn an_outcome_is_of_the_call_that_is_wanted_or_only_makes_room() {
    use BmcAction::{NetBoot, Probe};
    let unreachable = || Err(fault(BmcFaultKind::Unreachable));
    for (name, wanted, ticket, result, is_edited, said, called) in [
        ("done", Probe, 7, Ok(()), false, "done", None),
        ("failed", Probe, 7, unreachable(), false, "no route", None),
        ("done, and another one is wanted", NetBoot, 7, Ok(()), false, BOOTING, Some((8, NetBoot))),
        ("failed, and another one is wanted", NetBoot, 7, unreachable(), false, BOOTING, Some((8, NetBoot))),
        ("done before an edit", Probe, 7, Ok(()), true, "done", None),
        ("failed before an edit", Probe, 7, unreachable(), true, PROBING, Some((8, Probe))),
        ("the outcome of an earlier one", Probe, 6, Ok(()), false, PROBING, Some((7, Probe))),
        (
            "the outcome of an earlier one, and another is wanted",
            NetBoot,
            6,
            Ok(()),
            false,
            BOOTING,
            Some((8, NetBoot)),
        ),
    ] {
        let mut seen = pending(Probe, 9);
        seen.bmc.last = Some(BmcOutcome { ticket, at: at(-1), result });
        if is_edited {
            seen.host.metadata.generation += 1;
        }
        let mut turn = draft(&seen);
        assert_eq!(ask(&mut turn, wanted), said, "{name}");
        let awaited = turn.memory.bmc.call.as_ref().map(|pending| (pending.call.ticket, pending.call.action));
        assert_eq!((awaited, turn.memory.bmc.ordered.is_some()), (called, wanted == NetBoot), "{name}");
        assert_eq!(turn.memory.deadline, called.map(|_| at(360)), "{name}");
        assert_eq!(calls(turn), Vec::from_iter(called), "{name}");
    }
}

#[test]
fn a_call_may_take_three_times_its_limit() {
    for (asked, failed, deadline, wake) in [(0, false, 360, 5), (359, false, 1, 1), (360, true, 1800, 120)] {
        let mut seen = pending(BmcAction::Probe, asked);
        seen.bmc.in_flight = true;
        for wanted in [BmcAction::Probe, BmcAction::PowerOn] {
            let mut turn = draft(&seen);
            let said = ask(&mut turn, wanted);
            let late = format!("the BMC has not answered since {:.0}", at(-asked));
            assert_eq!(said, if failed { late } else { PROBING.to_owned() });
            assert_eq!(turn.memory.deadline, Some(at(deadline)), "{asked}");
            let step = turn.finish(HostReason::new(""));
            assert_eq!((step.memory.failure.is_some(), step.wake), (failed, Some(secs(wake))), "{asked}");
            assert!(step.effects.is_empty(), "it is under way");
        }
    }
}

#[test]
fn what_the_bmc_said_is_kept_when_a_call_went_well() {
    for (action, result, uuid, is_basic, refused) in [
        (BmcAction::Probe, Ok(()), Some("u"), true, vec![]),
        (BmcAction::PowerOn, Ok(()), None, true, vec![]),
        (BmcAction::Probe, Err(fault(BmcFaultKind::Credentials)), None, false, vec![at(-599), at(-1)]),
        (BmcAction::Probe, Err(fault(BmcFaultKind::Unreachable)), None, false, vec![at(-600), at(-599)]),
    ] {
        let mut seen = pending(action, 9);
        let is_refused = matches!(&result, Err(fault) if fault.kind == BmcFaultKind::Credentials);
        let is_taken = result.is_ok();
        seen.bmc.last = Some(BmcOutcome { ticket: 7, at: at(-1), result });
        (seen.bmc.system_uuid, seen.bmc.no_session_free) = (Some("u".into()), true);
        let used = |version: &str| Some(CredentialsUsed { secret: "s".into(), version: version.into() });
        seen.memory.bmc.refused = vec![at(-600), at(-599)];
        (seen.memory.bmc.tried_credentials, seen.memory.bmc.refused_credentials) = (used("1"), used("0"));
        let mut turn = draft(&seen);
        let _said = ask(&mut turn, action);
        let bmc = turn.memory.bmc;
        assert_eq!((bmc.system_uuid.as_deref(), bmc.no_session_free), (uuid, is_basic), "{action:?}");
        assert_eq!(bmc.refused, refused, "what is out of the window is forgotten");
        assert_eq!(bmc.good_credentials, used("1").filter(|_| is_taken));
        let kept = if is_refused { used("1") } else { used("0") };
        assert_eq!(bmc.refused_credentials, kept.filter(|_| !is_taken));
    }
}

#[test]
fn each_call_says_what_is_waited_for_and_which_ones_a_drive_holds_up() {
    for (action, text, is_spared) in [
        (BmcAction::Probe, PROBING, false),
        (BmcAction::NetBoot, BOOTING, true),
        (BmcAction::PowerOn, "telling the BMC to switch on", false),
        (BmcAction::PowerOff { hard: false }, "telling the BMC to shut the OS down", true),
        (BmcAction::PowerOff { hard: true }, "telling the BMC to cut the power", true),
        (BmcAction::Cycle, "telling the BMC to reset the host", true),
        (BmcAction::ReadOnce, "asking the BMC whether the boot has used its override up", false),
        (BmcAction::TakeBootBack, "asking the BMC whether the boot override is gone", false),
    ] {
        let mut seen = seen(in_state(HostState::Preparing));
        let mut turn = draft(&seen);
        assert_eq!(ask(&mut turn, action), text);
        let ordered = (action == BmcAction::NetBoot).then(OrderedOverride::default);
        assert_eq!((turn.memory.bmc.ticket, turn.memory.bmc.ordered.clone()), (1, ordered));
        assert_eq!(turn.memory.bmc.tried_credentials, turn.credentials());
        assert_eq!(calls(turn), [(1, action)]);
        seen.agent = Some(AgentInputs { cannot_stop: Some("sanitize".into()), ..agent(0) });
        let mut turn = draft(&seen);
        assert_eq!(ask(&mut turn, action).contains("sanitize"), is_spared, "{action:?}");
        assert_eq!(calls(turn).is_empty(), is_spared, "{action:?}");
    }
}

#[test]
fn no_call_is_made_without_credentials() {
    for (credentials, expected) in
        [(CredentialsInputs::Missing, BmcFaultKind::NoSecret), (CredentialsInputs::Empty, BmcFaultKind::EmptySecret)]
    {
        let mut seen = seen(in_state(HostState::Registering));
        seen.credentials = credentials;
        let mut turn = draft(&seen);
        let progress = turn.call(BmcAction::Probe);
        assert!(matches!(progress, BmcCallProgress::Failed(fault) if fault.kind == expected), "{expected:?}");
        assert_eq!((turn.credentials(), turn.memory.bmc.ticket), (None, 0));
        assert_eq!(calls(turn), []);
    }
}

/// The same credentials are refused twice at most; others may be right.
#[test]
fn a_login_waits_where_too_many_were_refused() {
    let used = |version: &str| CredentialsUsed { secret: "s".into(), version: version.into() };
    for (own, elsewhere, refused, until) in [
        (2, 0, Some(used("1")), Some(600 - 20)),
        (1, 1, Some(used("1")), Some(600 - 20)),
        (1, 0, Some(used("1")), None),
        (2, 0, Some(used("0")), None),
        (2, 0, None, None),
        (2, 2, None, Some(600 - 20)),
    ] {
        let mut seen = seen(in_state(HostState::Registering));
        seen.memory.bmc.refused = vec![at(-20); own];
        seen.bmc.refused_elsewhere = vec![at(-20); elsewhere];
        seen.memory.bmc.refused_credentials = refused.clone();
        let found = login::may_log_in(&draft(&seen)).err();
        let message = until.map(|until| format!("it is not tried again before {:.0}", at(until)));
        assert_eq!(found.map(|fault| fault.message), message, "{own} {elsewhere} {refused:?}");
    }
}
