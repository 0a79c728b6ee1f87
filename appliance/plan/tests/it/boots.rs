//! How long a boot is waited for, when its BMC is asked, and who gets the token of the next attempt.

use firesteel_plan::host::{AgentWork, BmcAction, BootWait, HostFailure, HostPower, KnownIdentity};
use firesteel_plan::{HostBootEntry, HostEffect, HostStep, boot_entry};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};
use firesteel_resources::host_journal::RefusedIdentity;

use crate::cleaning::{book, installed_for_a_claim};
use crate::world::{World, run_to_write, with_work};

/// A host that was just switched on to boot into its agent.
fn booting() -> World {
    let mut world = World::new();
    world.settle();
    assert!(world.booting && world.state() == S::Inspecting, "{}", world.reason());
    world
}

fn boot(since_s: i64, powered: bool, world: &World) -> BootWait {
    let since = world.now - jiff::SignedDuration::from_secs(since_s);
    BootWait { since, powered, looked_at: None, off_since: None, unseen: 0, cut: None }
}

/// A host that is let go by its claim, and waits for a boot that begins.
fn erased_next() -> World {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.step();
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    (world.seen.agent, world.seen.memory.attempt_spent) = (None, false);
    world.seen.memory.attempt += 1;
    world
}

fn orders(step: &HostStep) -> Vec<BmcAction> {
    let order = |effect: &HostEffect| match effect {
        HostEffect::Bmc(call) => Some(call.action),
        _ => None,
    };
    step.effects.iter().filter_map(order).collect()
}

fn aborts(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::AbortAgent { .. }))
}

#[test]
fn a_hello_is_late_after_its_whole_time() {
    let mut world = booting();
    let attempt = world.memory().attempt;
    world.pass(1200);
    world.settle();
    assert_eq!((world.memory().attempt, world.memory().failure.as_ref()), (attempt, None), "{}", world.reason());
    world.pass(1);
    world.settle();
    assert_eq!(world.memory().attempt, attempt + 1, "{}", world.reason());
}

/// While another machine is there the host's own hello is not late; after that it has all its time again.
#[test]
fn a_hello_has_its_whole_time_again_when_the_other_machine_is_gone() {
    let mut world = booting();
    let attempt = world.memory().attempt;
    world.seen.memory.identity = Some(KnownIdentity::of("", "S1", world.now));
    let (serial, at) = ("S2".into(), world.now);
    world.seen.refused_identity = Some(RefusedIdentity { serial, attempt, at, ..RefusedIdentity::default() });
    world.pass(1200);
    world.step();
    assert!(world.reason().contains("accept-identity"), "{}", world.reason());
    for (passed, expected) in [(1, attempt), (1199, attempt), (1, attempt + 1)] {
        world.pass(passed);
        world.step();
        assert_eq!(world.memory().attempt, expected, "{}", world.reason());
    }
}

/// An agent that is to stop comes to its safe point first, and its host is not reset before.
#[test]
fn a_host_that_boots_by_itself_is_switched_off_for_its_erasure_after_a_minute() {
    for (waited_s, expected) in [(59, vec![]), (60, vec![BmcAction::PowerOff { hard: true }])] {
        let mut world = erased_next();
        world.seen.memory.boot = Some(boot(waited_s, true, &world));
        world.seen.memory.opened = false;
        assert_eq!(orders(&world.step()), expected, "{waited_s}: {}", world.reason());
    }
}

/// One that is on is looked at every minute, one that is not seen on every twenty seconds.
#[test]
fn a_host_that_boots_is_looked_at_by_how_it_was_seen() {
    for (power, pause) in [(HostPower::On, 60), (HostPower::Off, 20), (HostPower::Unknown, 20)] {
        let mut world = booting();
        world.seen.bmc.power = power;
        world.pass(10);
        let step = world.step();
        let wake = step.wake.map(|wake| wake.as_secs());
        assert_eq!((orders(&step), wake), (vec![], Some((pause - 10).min(30))), "{power:?}");
        world.pass(pause - 11);
        assert_eq!(orders(&world.step()), [], "{power:?}");
        world.pass(1);
        assert_eq!(orders(&world.step()), [BmcAction::Probe], "{power:?}");
        // The answer may say when the next look is due; it is taken all the same.
        world.seen.bmc.power = HostPower::On;
        world.step();
        let (memory, now) = (world.memory(), world.now);
        assert_eq!((memory.bmc.call.as_ref(), memory.boot.as_ref().unwrap().looked_at), (None, Some(now)), "{power:?}");
    }
}

/// That it cannot be asked is over when it answers; another error is not.
#[test]
fn an_answer_of_the_bmc_ends_only_the_error_that_it_did_not_answer() {
    for (kind, is_tried_again, is_kept) in [
        (ErrorType::PowerManagement, false, false),
        (ErrorType::PowerManagement, true, true),
        (ErrorType::Inspection, false, true),
    ] {
        let mut world = booting();
        let (message, inputs, at) = ("no route".into(), String::new(), world.now);
        let retry_at = is_tried_again.then_some(at);
        world.seen.memory.failure =
            Some(HostFailure { kind, message, count: 1, at, retry_at, until_edit: false, inputs });
        world.pass(60);
        world.step();
        world.step();
        assert_eq!(world.memory().failure.is_some(), is_kept, "{kind:?} {is_tried_again}");
    }
}

/// A host that was switched on may come late, and gets the next attempt then; not where its erasure is to be proven.
#[test]
fn a_host_that_comes_late_gets_the_next_attempt_where_its_boot_was_ordered() {
    for (world, opened, is_open) in [(booting(), true, true), (booting(), false, false), (erased_next(), true, false)] {
        let mut world = world;
        let attempt = world.memory().attempt;
        world.seen.memory.boot = Some(boot(1201, true, &world));
        world.seen.memory.opened = opened;
        world.step();
        assert!(world.reason().contains("no agent said hello"), "{}", world.reason());
        let next = attempt + 1;
        let entry = if is_open { HostBootEntry::Agent { attempt: next } } else { HostBootEntry::Wait };
        assert_eq!((world.memory().attempt, boot_entry(world.memory())), (next, entry), "{:?} {opened}", world.state());
    }
}

#[test]
fn without_a_bmc_a_host_that_comes_back_by_itself_is_waited_for() {
    let mut world = World::without_bmc();
    world.settle();
    world.hello();
    run_to_write(&mut world);
    world.agent().rebooted = true;
    world.step();
    let step = world.step();
    assert_eq!(world.reason(), "the host boots from the network; waiting for its agent's hello (attempt 2)");
    assert_eq!(step.wake.map(|wake| wake.as_secs()), Some(30));
}

/// Who may get the token in the very step in which a host comes to be cleaned, and whether its agent is stopped.
#[test]
fn on_the_way_to_a_cleaning_only_an_agent_that_may_write_is_stopped() {
    type Change = fn(&mut World);
    let failed: Change = |world| {
        let (step, message) = ("write-image".into(), "bad sector".into());
        with_work(world, AgentWork::Failed { step, message, disk_changed: true });
    };
    let rows: [(&str, Change, u64, usize, bool); 4] = [
        ("it failed, and stays", failed, 0, 0, true),
        ("it boots again", |world| world.agent().rebooted = true, 1, 0, true),
        ("it is locked", |world| world.annotate(annotations::LOCK, ""), 1, 1, true),
        ("another image is wanted", |world| world.edit(|host| host.spec.image = None), 1, 1, false),
    ];
    for (what, change, attempts, aborted, opened) in rows {
        let mut world = World::new();
        run_to_write(&mut world);
        let attempt = world.memory().attempt;
        change(&mut world);
        world.step();
        let memory = world.memory();
        assert_eq!(world.state(), S::Deprovisioning, "{what}: {}", world.reason());
        assert_eq!((memory.attempt, memory.opened), (attempt + attempts, opened), "{what}");
        assert_eq!(aborts(&world), aborted, "{what}");
    }
    // An OS of its owner's gets no token, but where any boot is by hand.
    for (mut world, opened) in [(World::new(), false), (World::without_bmc(), true)] {
        world.settle();
        world.hello();
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
        world.seen.memory.opened = true;
        world.edit(|host| host.spec.image = None);
        world.step();
        assert_eq!((world.state(), world.memory().opened), (S::Deprovisioning, opened));
    }
}

/// What runs on it meanwhile is its owner's affair.
#[test]
fn a_host_that_is_detached_gets_no_token_but_where_any_boot_is_by_hand() {
    for (mut world, opened) in [(World::new(), false), (World::without_bmc(), true)] {
        world.edit(|host| host.spec.image = None);
        world.settle();
        world.hello();
        world.run();
        assert_eq!((world.state(), world.memory().opened), (S::Available, true), "{}", world.reason());
        world.annotate(annotations::DETACHED, "");
        world.step();
        assert!(world.memory().detached.is_some() && world.memory().opened == opened, "{}", world.reason());
    }
}
