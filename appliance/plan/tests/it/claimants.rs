//! More than one machine that claims to be the host.

use firesteel_plan::host::gate::{closed_gate, holds_back};
use firesteel_plan::host::host_counts::HostCount;
use firesteel_plan::host::{AgentWork, BmcAction, ClaimInputs, HostPower, PlanKind};
use firesteel_plan::{HostBootEntry, HostEffect, boot_entry};
use firesteel_resources::ConditionStatus;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::{ClaimRecord, Claimant};

use crate::world::{HardOff, World, run_to_write, with_work};

const CUT: BmcAction = BmcAction::PowerOff { hard: true };

/// The key of a machine, as journals have it.
fn key(digits: &str) -> String {
    digits.repeat(32)
}

fn machine(world: &World, digits: &str, attempt: u64) -> Claimant {
    Claimant {
        key: key(digits),
        attempt,
        boot_id: "b".into(),
        mac: "52:54:00:00:00:01".into(),
        address: format!("192.0.2.{attempt}"),
        first_at: world.now,
        is_compared: false,
    }
}

/// Another machine claims the current attempt, whose token is bound to `aa`.
fn claim(world: &mut World, digits: &str, attempt: u64) {
    let current = world.memory().attempt;
    let first = machine(world, "aa", current);
    let other = machine(world, digits, attempt);
    let record = world.seen.claim.get_or_insert_with(|| ClaimRecord { attempt: current, first, others: Vec::new() });
    record.others.push(other);
}

/// A message of this machine comes.
fn hear(world: &mut World, digits: &str) {
    let (key, at) = (key(digits), world.now);
    world.seen.claims_heard.retain(|heard| heard.key != key);
    world.seen.claims_heard.push(ClaimInputs { key, at, cannot_stop: false });
}

/// A host whose image is being written when another machine says hello, too.
fn written_by_two(mut world: World) -> World {
    if world.seen.host.spec.bmc.is_none() {
        // It is booted by hand.
        world.settle();
        world.hello();
    }
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    claim(&mut world, "bb", attempt);
    world.effects.clear();
    world.events.clear();
    world
}

fn condition(world: &World) -> Option<(ConditionStatus, String, String)> {
    let status = world.seen.host.status.as_ref()?;
    let found = find_condition(&status.conditions, "SecondClaimant")?;
    Some((found.status, found.reason.clone(), found.message.clone()))
}

fn error(world: &World) -> String {
    world.seen.host.status.as_ref().unwrap().error_message.clone()
}

fn has(world: &World, reason: &str) -> bool {
    world.events.iter().any(|event| event.reason == reason)
}

/// The bound agent reports on.
fn report(world: &mut World) {
    let now = world.now;
    world.agent().last_report_at = now;
}

/// Passes time in small steps, in which the bound agent reports and those machines are heard.
fn listen(world: &mut World, secs: i64, heard: &[&str]) {
    for _ in 0..secs {
        world.pass(1);
        report(world);
        heard.iter().for_each(|digits| hear(world, digits));
        world.step();
    }
}

#[test]
fn what_is_under_way_holds_and_nothing_is_judged() {
    let mut world = written_by_two(World::without_bmc());
    let attempt = world.memory().attempt;
    // All proofs come, and the agent has left properly.
    let plan = world.memory().plan.clone().unwrap();
    let shown = crate::world::shown(plan.number, plan.write().unwrap());
    let promised = crate::world::promised(attempt, plan.number);
    let agent = world.agent();
    (agent.shown, agent.promised, agent.work) = (shown, promised, AgentWork::Done);
    for _ in 0..50 {
        world.pass(60);
        report(&mut world);
        world.step();
        assert_eq!(world.state(), S::Provisioning, "{}", world.reason());
        assert!(holds_back(&world.seen, world.memory()));
    }
    let text = closed_gate(world.memory(), &world.seen).unwrap().text;
    for part in ["key aaaaaaaaaaaaaaaa,", "key bbbbbbbbbbbbbbbb,", "nothing is destroyed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { .. })), 0);
    assert_eq!(world.events.iter().filter(|event| event.reason == "SecondClaimant").count(), 1, "said once");
    let counted = world.counts.iter().filter(|count| **count == HostCount::SecondClaimant).count();
    assert_eq!(counted, 1);
    let (status, reason, text) = condition(&world).unwrap();
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "PersonDecides"));
    assert!(text.contains("192.0.2.") && text.contains("there is no BMC"), "{text}");
    assert!(error(&world).contains("firesteel choose-agent a --key KEY"), "{}", error(&world));
}

#[test]
fn the_bmc_switches_off_and_who_still_reports_is_named() {
    for heard in [vec!["bb"], vec!["aa"], vec![], vec!["aa", "bb"]] {
        let mut world = written_by_two(World::new());
        let attempt = world.memory().attempt;
        ["aa", "bb"].iter().for_each(|digits| hear(&mut world, digits));
        world.settle();
        assert_eq!(world.seen.bmc.power, HostPower::Off, "{}", world.reason());
        assert_eq!(world.count(|effect| matches!(effect, HostEffect::Bmc(call) if call.action == CUT)), 1);
        assert_eq!(condition(&world).unwrap().1, "PowerDecides");
        assert_eq!(world.memory().attempt, attempt, "not before it was listened");
        // What was under way arrives.
        listen(&mut world, 9, &["aa", "bb"]);
        assert_eq!(world.memory().attempt, attempt);
        listen(&mut world, 25, &heard);
        assert!(world.memory().claimants.is_none(), "{}", world.reason());
        assert!(world.memory().attempt > attempt);
        let keys: Vec<String> = world.memory().intruders.iter().map(|intruder| intruder.machine.key.clone()).collect();
        assert_eq!(keys, heard.iter().map(|digits| key(digits)).collect::<Vec<_>>(), "{heard:?}");
        assert_eq!(has(&world, "IntruderNamed"), !heard.is_empty());
        assert_eq!(condition(&world).unwrap().0, ConditionStatus::False);
        // The disk was partly written: it is cleaned in the next attempt, and the host is installed.
        world.run();
        world.pass(3600);
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{heard:?}: {}", world.reason());
        assert!(world.states.contains(&S::Deprovisioning));
    }
}

/// The token of the next attempt is given out once the host was switched on for it.
#[test]
fn the_next_attempt_is_given_out_after_the_host_was_off() {
    let mut world = written_by_two(World::new());
    let attempt = world.memory().attempt;
    world.settle();
    let mut was_opened = false;
    for _ in 0..400 {
        let step = world.step();
        let boots = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::NetBoot);
        was_opened |= step.effects.iter().any(boots);
        if let HostBootEntry::Agent { attempt: given } = boot_entry(world.memory()) {
            assert!(given == attempt || was_opened, "{}", world.reason());
        }
        if world.booting {
            assert!(world.seen.bmc.was_off_at_boot, "it was switched on from off");
            return;
        }
        world.pass(1);
    }
    panic!("it does not boot: {}", world.reason());
}

#[test]
fn without_a_bmc_that_may_switch_it_off_a_person_decides() {
    let cases: [(&str, fn(&mut World)); 4] = [
        ("spec.disablePowerOff", |world| world.edit(|host| host.spec.disable_power_off = true)),
        ("the host was not seen off within 2 min", |world| world.hard_off = HardOff::Ignored),
        ("the host was not seen off within 2 min", |world| world.hard_off = HardOff::Refused),
        ("cannot be interrupted", |world| world.agent().cannot_stop = Some("sanitize-crypto".into())),
    ];
    for (why, change) in cases {
        let mut world = written_by_two(World::new());
        change(&mut world);
        listen(&mut world, 200, &["aa", "bb"]);
        assert!(error(&world).contains(why), "{why}: {}", error(&world));
        assert_eq!(
            (condition(&world).unwrap().1.as_str(), world.seen.bmc.power),
            ("PersonDecides", HostPower::On),
            "{why}"
        );
    }
    // Also where the other one says that its drive is at such a thing.
    let mut world = written_by_two(World::new());
    let heard = ClaimInputs { key: key("bb"), at: world.now, cannot_stop: true };
    world.seen.claims_heard.push(heard);
    world.settle();
    assert!(error(&world).contains("cannot be interrupted"), "{}", error(&world));
    // The BMC settles it once the drive is done.
    let mut world = written_by_two(World::new());
    world.agent().cannot_stop = Some("sanitize-crypto".into());
    world.settle();
    assert_eq!(world.seen.bmc.power, HostPower::On);
    world.agent().cannot_stop = None;
    world.settle();
    assert_eq!(world.seen.bmc.power, HostPower::Off, "{}", world.reason());
}

#[test]
fn a_person_says_that_the_bound_machine_is_the_host_and_it_goes_on() {
    let mut world = written_by_two(World::without_bmc());
    world.settle();
    let (attempt, plan) = (world.memory().attempt, world.memory().plan_number);
    world.pass(3 * 3600);
    report(&mut world);
    world.annotate(annotations::CHOOSE_AGENT, &key("aa"));
    world.step();
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::CHOOSE_AGENT), "one-shot");
    assert!(world.memory().claimants.is_none() && has(&world, "ClaimResolved"));
    assert_eq!((world.memory().attempt, world.memory().plan_number), (attempt, plan));
    assert_eq!(world.memory().intruders[0].machine.key, key("bb"));
    world.step();
    assert!(closed_gate(world.memory(), &world.seen).is_none() && !holds_back(&world.seen, world.memory()));
    assert!(error(&world).is_empty() && !world.reason().contains("no progress"), "{}", world.reason());
    // What the other one says is known.
    world.settle();
    assert!(world.memory().claimants.is_none());
    let number = world.memory().plan_number;
    let write = world.memory().plan.clone().unwrap();
    let shown = crate::world::shown(number, write.write().unwrap());
    let promised = crate::world::promised(attempt, number);
    let agent = world.agent();
    (agent.shown, agent.promised, agent.work, agent.left) = (shown, promised, AgentWork::Done, true);
    world.settle();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn a_person_says_that_the_other_machine_is_the_host_and_the_attempt_ends() {
    let mut world = written_by_two(World::without_bmc());
    world.settle();
    let attempt = world.memory().attempt;
    world.annotate(annotations::CHOOSE_AGENT, &key("bb"));
    world.step();
    assert_eq!(world.memory().attempt, attempt + 1, "{}", world.reason());
    let keys: Vec<&str> = world.memory().intruders.iter().map(|known| known.machine.key.as_str()).collect();
    assert_eq!(keys, [key("aa")]);
    world.hello();
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.states.contains(&S::Deprovisioning), "what the other one wrote is cleaned");
}

/// What the host is known as is the word of the bound machine, unless that was compared with what was known before.
#[test]
fn what_the_bound_machine_alone_said_of_itself_goes_with_its_attempt() {
    for is_compared in [false, true] {
        let mut world = written_by_two(World::without_bmc());
        let accepted_at = world.memory().identity.clone().unwrap().accepted_at;
        let first = &mut world.seen.claim.as_mut().unwrap().first;
        (first.first_at, first.is_compared) = (accepted_at, is_compared);
        world.settle();
        world.annotate(annotations::CHOOSE_AGENT, &key("bb"));
        world.step();
        assert_eq!(world.memory().identity.is_some(), is_compared, "{}", world.reason());
    }
}

#[test]
fn neither_ends_the_attempt_by_a_word_by_time_and_by_a_retry() {
    for exit in ["word", "time", "retry", "reboot"] {
        let mut world = written_by_two(World::without_bmc());
        world.settle();
        let attempt = world.memory().attempt;
        match exit {
            "word" => world.annotate(annotations::CHOOSE_AGENT, annotations::NO_CLAIMANT),
            "time" => {
                world.pass(24 * 3600 - 60);
                report(&mut world);
                world.settle();
                assert_eq!(world.memory().attempt, attempt, "{}", world.reason());
                world.pass(60);
                report(&mut world);
            }
            "retry" => world.annotate(annotations::RETRY, "now"),
            // A person has started the bound machine again.
            _ => world.agent().rebooted = true,
        }
        world.step();
        assert!(world.memory().attempt > attempt && world.memory().claimants.is_none(), "{exit}");
        assert!(world.memory().intruders.is_empty(), "{exit}");
        assert!(has(&world, "ClaimResolved"), "{exit}");
        if exit != "retry" {
            assert!(error(&world).contains("key bbbbbbbbbbbbbbbb"), "{exit}: {}", error(&world));
        }
        world.pass(3600);
        world.hello();
        world.run();
        world.pass(3600);
        world.run();
        assert_eq!(world.state(), S::Provisioned, "{exit}: {}", world.reason());
    }
}

#[test]
fn a_word_for_an_unknown_machine_or_without_a_claim_does_nothing() {
    let mut world = written_by_two(World::without_bmc());
    world.settle();
    world.annotate(annotations::CHOOSE_AGENT, &key("cc"));
    world.step();
    assert!(world.memory().claimants.is_some() && has(&world, "ClaimNotResolved"));
    let mut world = World::without_bmc();
    world.annotate(annotations::CHOOSE_AGENT, annotations::NO_CLAIMANT);
    world.step();
    assert!(has(&world, "ClaimNotResolved"));
}

/// The old key of the machine that lost its attempt is a claimant as well.
#[test]
fn an_old_key_after_a_new_hello_is_settled_as_a_second_one() {
    let mut world = World::new();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    claim(&mut world, "bb", attempt - 1);
    world.settle();
    assert!(condition(&world).unwrap().2.contains(&key("bb")[..16]));
    listen(&mut world, 40, &["bb"]);
    assert_eq!(world.memory().intruders[0].machine.key, key("bb"));
    assert!(world.memory().attempt > attempt);
}

/// One that comes again and again does not switch the host off for ever.
#[test]
fn after_three_power_offs_in_a_row_a_person_decides() {
    let mut world = World::new();
    run_to_write(&mut world);
    let mut cuts = 0;
    for round in 0..6 {
        while world.seen.agent.as_ref().is_none_or(|agent| agent.attempt != world.memory().attempt) {
            if world.booting {
                world.hello();
            }
            world.pass(1);
            world.step();
        }
        let attempt = world.memory().attempt;
        world.seen.claim = None;
        claim(&mut world, &format!("b{round}"), attempt);
        world.settle();
        if !world.memory().claimants.as_ref().is_some_and(|claims| claims.person.is_none()) {
            break;
        }
        cuts += 1;
        listen(&mut world, 40, &[]);
        assert!(world.memory().attempt > attempt, "{}", world.reason());
    }
    assert_eq!(cuts, 3, "{}", world.reason());
    assert!(error(&world).contains("3 power-offs in a row"), "{}", error(&world));
}

/// Its owner's OS runs on it.
#[test]
fn a_host_with_an_os_is_never_switched_off_for_a_claim() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    let attempt = world.memory().attempt;
    world.seen.bmc.power = HostPower::On;
    claim(&mut world, "bb", attempt);
    world.effects.clear();
    world.settle();
    let person = world.memory().claimants.as_ref().and_then(|claims| claims.person.clone());
    assert_eq!(person.as_deref(), Some("the host has an OS, and is not switched off for it"));
    for _ in 0..26 {
        world.settle();
        assert_eq!((world.state(), world.memory().attempt), (S::Provisioned, attempt));
        assert!(closed_gate(world.memory(), &world.seen).is_none());
        world.pass(3600);
    }
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Bmc(call) if call.action == CUT)), 0);
    assert!(has(&world, "SecondClaimant"));
    assert!(world.memory().claimants.is_none(), "it ends by itself");
    assert_eq!(world.memory().intruders[0].machine.key, key("bb"), "what came later is sent away");
}

/// A step that was made before the claim is no way around it.
#[test]
fn a_paused_host_holds_too() {
    let mut world = written_by_two(World::without_bmc());
    world.annotate(annotations::PAUSED, "me");
    with_work(&mut world, AgentWork::Running { step: "write-image".into(), activity: String::new(), percent: 9 });
    world.step();
    assert!(world.memory().claimants.is_none(), "it takes nothing over");
    assert!(closed_gate(world.memory(), &world.seen).is_some() && holds_back(&world.seen, world.memory()));
    assert!(matches!(world.memory().plan.as_ref().map(|issued| &issued.plan), Some(PlanKind::Write(_))));
}
