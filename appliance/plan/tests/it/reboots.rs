//! Reboots that are asked for, and the override of a boot that is over.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{
    BmcAction, BmcCall, HostPower, ImageInputs, OrderedOverride, PendingCall, PowerTask, RebootWork,
};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};
use firesteel_resources::host_journal::RequestOutcome::{self, Accepted, Done, Refused};
use jiff::SignedDuration;

use crate::rests::{failure, in_state};
use crate::world::World;

/// Asks for a reboot, and returns the answer to it and what is under way then.
fn ask(world: &mut World, value: &str) -> (RequestOutcome, String, Option<RebootWork>) {
    world.annotate(annotations::REBOOT, value);
    world.step();
    let (outcome, text) = world.answer(annotations::REBOOT).unwrap();
    (outcome, text.to_owned(), world.memory().reboot.clone())
}

#[test]
fn a_reboot_says_how_it_is_done() {
    let (reset, soft) = ("resets it at once", "has the OS shut down");
    for (mode, is_off_disabled, part) in
        [("soft", false, soft), ("soft", true, reset), ("hard", false, reset), ("hard", true, reset)]
    {
        let mut world = in_state(World::new(), S::Provisioned);
        world.edit(|host| host.spec.disable_power_off = is_off_disabled);
        let (outcome, text, _) = ask(&mut world, &format!(r#"{{"mode":"{mode}"}}"#));
        assert!(outcome == Accepted && text.contains(part), "{mode} {is_off_disabled}: {text}");
    }
}

#[test]
fn another_request_makes_a_reboot_harder_until_the_host_is_down() {
    for (hard, down, mode, expected) in [
        (false, false, "hard", true),
        (false, false, "soft", false),
        (true, false, "soft", true),
        (false, true, "hard", false),
    ] {
        let mut world = in_state(World::new(), S::Provisioned);
        world.seen.memory.reboot = Some(RebootWork { hard, down });
        let (outcome, text, work) = ask(&mut world, &format!(r#"{{"mode":"{mode}"}}"#));
        assert_eq!((outcome, work), (Accepted, Some(RebootWork { hard: expected, down })), "{mode}: {text}");
    }
}

/// One whose power is about to change is not off for good.
#[test]
fn a_reboot_is_needless_only_where_the_host_is_off_and_nothing_is_under_way() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, RequestOutcome); 5] = [
        ("off", |_| {}, Done),
        ("on", |world| world.seen.bmc.power = HostPower::On, Accepted),
        (
            "to be switched on",
            |world| {
                let since = world.now;
                world.seen.memory.power = Some(PowerTask { want_on: true, hard: false, since, ordered: true });
            },
            Accepted,
        ),
        (
            "the BMC is asked",
            |world| {
                let (call, asked_at) = (BmcCall { ticket: 99, action: BmcAction::PowerOn }, world.now);
                world.seen.memory.bmc.call = Some(PendingCall { call, asked_at, inputs: String::new() });
            },
            Accepted,
        ),
        (
            "down for a reboot",
            |world| {
                world.seen.memory.reboot = Some(RebootWork { hard: false, down: true });
            },
            Accepted,
        ),
    ];
    for (what, change, expected) in rows {
        let mut world = in_state(World::new(), S::Provisioned);
        world.seen.bmc.power = HostPower::Off;
        change(&mut world);
        let (outcome, text, _) = ask(&mut world, "");
        assert_eq!(outcome, expected, "{what}: {text}");
    }
}

#[test]
fn a_reboot_by_force_needs_a_bmc_or_an_agent() {
    for (bmc, agent, expected, aborted) in
        [(false, true, Accepted, 1), (false, false, Refused, 0), (true, true, Accepted, 1)]
    {
        let mut world = if bmc { World::new() } else { World::without_bmc() };
        world.images_work = false;
        let (done_bytes, progress_at) = (1, world.now);
        world.seen.image = ImageInputs::Fetching { done_bytes, total_bytes: None, progress_at };
        if !bmc {
            world.settle();
            world.hello();
        }
        world.run();
        assert_eq!(world.state(), S::Provisioning, "{}", world.reason());
        if !agent {
            world.seen.agent = None;
        }
        let (outcome, text, _) = ask(&mut world, r#"{"force":true}"#);
        let aborts = world.count(|effect| matches!(effect, HostEffect::AbortAgent { .. }));
        assert_eq!((outcome, aborts), (expected, aborted), "{bmc} {agent}: {text}");
    }
    // One that is available and runs something else is reset.
    let mut world = in_state(World::new(), S::Available);
    world.seen.agent = None;
    let (outcome, text, work) = ask(&mut world, r#"{"force":true}"#);
    assert_eq!((outcome, work), (Accepted, Some(RebootWork { hard: true, down: false })), "{text}");
}

/// What is under way on an installed host; how often the override was not taken back, when that is tried again, and whether
/// it is tried now.
type Override = (&'static str, fn(&mut World), u32, Option<i64>, bool);

fn overrides() -> [Override; 9] {
    [
        ("ordered", |_| {}, 0, None, true),
        ("its time has come", |_| {}, 1, Some(0), true),
        ("its time is ahead", |_| {}, 1, Some(1), false),
        ("it failed twice", |_| {}, 2, None, true),
        ("it failed three times", |_| {}, 3, None, false),
        (
            "another call is awaited",
            |world| {
                let (call, asked_at) = (BmcCall { ticket: 99, action: BmcAction::Probe }, world.now);
                world.seen.memory.bmc.call = Some(PendingCall { call, asked_at, inputs: String::new() });
            },
            0,
            None,
            false,
        ),
        (
            "the power changes",
            |world| {
                let since = world.now;
                world.seen.memory.power = Some(PowerTask { want_on: true, hard: false, since, ordered: true });
            },
            0,
            None,
            false,
        ),
        (
            "the host is rebooted",
            |world| {
                world.seen.memory.reboot = Some(RebootWork { hard: true, down: false });
            },
            0,
            None,
            false,
        ),
        (
            "something failed",
            |world| {
                world.seen.memory.failure = failure(world, ErrorType::PowerManagement, 1, None);
                world.bmc_works = false;
                world.seen.memory.failure.as_mut().unwrap().inputs = "2/1/user".into();
            },
            0,
            None,
            false,
        ),
    ]
}

/// What is left of the boot into the agent is taken back while nothing else is asked of the BMC.
#[test]
fn an_override_is_taken_back_when_its_time_has_come_and_nothing_else_is_under_way() {
    let ordered = |failures, retry_s: Option<i64>, world: &World| {
        let retry_at = retry_s.map(|seconds| world.now + SignedDuration::from_secs(seconds));
        Some(OrderedOverride { failures, retry_at, why: None })
    };
    for (what, change, failures, retry_s, is_asked) in overrides() {
        let mut world = in_state(World::new(), S::Provisioned);
        world.edit(|_| {});
        world.seen.memory.bmc.ordered = ordered(failures, retry_s, &world);
        change(&mut world);
        let step = world.step();
        let asks =
            |effect: &HostEffect| matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::TakeBootBack);
        assert_eq!(step.effects.iter().any(asks), is_asked, "{what}: {}", world.reason());
    }
}
