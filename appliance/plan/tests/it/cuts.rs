//! Off, then on: the boot before an erasure that claims a grade.

use firesteel_plan::host::{AgentWork, BmcAction, BmcInputs, CleanBoot, HostPower, PlanKind};
use firesteel_plan::{HostBootEntry, HostEffect, boot_entry};
use firesteel_resources::ObjectReference;
use firesteel_resources::bare_metal_host::{CleaningMode, ProvisioningState as S, annotations};

use crate::world::{HardOff, World, disk, image, with_work};

fn book(world: &mut World, consumer: Option<&str>) {
    let reference = consumer.map(|name| ObjectReference {
        kind: "HostClaim".into(),
        name: name.into(),
        ..ObjectReference::default()
    });
    world.edit(|host| host.spec.consumer_ref = reference);
}

/// A host that is installed for a claim, which lets it go.
fn released() -> World {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20)];
    book(&mut world, Some("one"));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.pass(60);
    world.effects.clear();
    world.events.clear();
    world.edit(|host| host.spec.image = None);
    book(&mut world, None);
    world
}

/// Orders to the BMC that change something, once each.
fn orders(world: &World) -> Vec<BmcAction> {
    let mut orders: Vec<(u64, BmcAction)> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            HostEffect::Bmc(call) if call.action != BmcAction::Probe => Some((call.ticket, call.action)),
            _ => None,
        })
        .collect();
    orders.dedup();
    orders.into_iter().map(|(_, action)| action).collect()
}

/// Those of them that change the host's power.
fn power_orders(world: &World) -> Vec<BmcAction> {
    orders(world).into_iter().filter(|action| *action != BmcAction::ReadOnce).collect()
}

fn erases(effect: &HostEffect) -> bool {
    matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Erase(_), .. })
}

fn clean_boot(world: &World) -> CleanBoot {
    world.memory().clean_boot.clone().unwrap()
}

/// Steps until the erasure is given to an agent; `each` is called after every step.
fn run_to_erase(world: &mut World, mut each: impl FnMut(&mut World)) {
    for _ in 0..400 {
        if world.booting {
            world.hello();
        }
        let step = world.step();
        each(world);
        if step.effects.iter().any(erases) {
            return;
        }
        if step.wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(1);
        }
    }
    panic!("no plan to erase in {:?}: {}", world.state(), world.reason());
}

const CUT: BmcAction = BmcAction::PowerOff { hard: true };

/// The tenant's OS polled its boot script, and was "purged" before the BMC was asked to reset it.
#[test]
fn nobody_gets_the_token_of_an_erasure_before_the_host_was_seen_off() {
    let mut world = released();
    let installed = world.memory().attempt;
    let mut was_off = false;
    run_to_erase(&mut world, |world| {
        was_off |= world.seen.bmc.power == HostPower::Off;
        match boot_entry(world.memory()) {
            HostBootEntry::Agent { attempt } => assert!(was_off && attempt > installed, "{}", world.reason()),
            HostBootEntry::Wait => {}
            entry => panic!("{entry:?} {}", world.reason()),
        }
    });
    assert_eq!(orders(&world), [CUT, BmcAction::NetBoot, BmcAction::ReadOnce]);
    let boot = clean_boot(&world);
    assert_eq!(
        (boot.attempt, boot.off_at.is_some(), boot.missing_evidence()),
        (world.memory().attempt, true, Vec::new())
    );
    assert!(world.events.iter().any(|event| event.reason == "SwitchedOff"));
}

#[test]
fn a_host_that_cannot_be_seen_off_is_reset_and_goes_on() {
    for (hard_off, is_disabled, why) in [
        (HardOff::Ignored, false, "does not show that the host is off after 2 min"),
        (HardOff::Refused, false, "it is not allowed after 2 min"),
        (HardOff::Works, true, "spec.disablePowerOff"),
    ] {
        let mut world = released();
        world.hard_off = hard_off;
        world.edit(|host| host.spec.disable_power_off = is_disabled);
        let began = world.now;
        run_to_erase(&mut world, |_| {});
        let waited = world.now.duration_since(began).as_secs();
        assert!(is_disabled || (120..150).contains(&waited), "{waited}: {why}");
        let cuts = orders(&world).iter().filter(|action| **action == CUT).count();
        assert_eq!((cuts == 0, power_orders(&world).last()), (is_disabled, Some(&BmcAction::NetBoot)), "{why}");
        let boot = clean_boot(&world);
        assert!(boot.off_at.is_none() && boot.missing_evidence().concat().contains(why), "{boot:?}");
        assert!(world.events.iter().any(|event| event.reason == "ResetAccepted"), "{why}");
    }
}

/// A BMC that is out of reach is no BMC that refuses.
#[test]
fn a_bmc_that_is_out_of_reach_is_an_error_and_the_host_waits() {
    let mut world = released();
    world.bmc_works = false;
    for _ in 0..20 {
        world.pass(60);
        world.settle();
        assert_eq!(boot_entry(world.memory()), HostBootEntry::Wait, "{}", world.reason());
    }
    assert!(world.memory().failure.is_some() && world.reason().contains("no route"), "{}", world.reason());
    world.bmc_works = true;
    world.pass(3600);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
}

#[test]
fn a_process_that_dies_at_any_step_gives_no_token_early() {
    for dies_at in 0..25 {
        let mut world = released();
        let (mut steps, mut was_off) = (0, false);
        run_to_erase(&mut world, |world| {
            was_off |= world.seen.bmc.power == HostPower::Off;
            let is_given = matches!(boot_entry(world.memory()), HostBootEntry::Agent { .. });
            assert!(!is_given || was_off, "{dies_at}: {}", world.reason());
            if steps == dies_at {
                world.seen.started_at = world.now;
                let power = world.seen.bmc.power;
                world.seen.bmc = BmcInputs { power, ..BmcInputs::default() };
            }
            steps += 1;
        });
        assert_eq!(clean_boot(&world).missing_evidence(), Vec::<String>::new(), "{dies_at}");
    }
}

#[test]
fn a_boot_that_fails_gives_no_token_while_it_is_waited_for() {
    let mut world = released();
    for _ in 0..50 {
        if world.seen.bmc.power == HostPower::Off {
            break;
        }
        world.step();
    }
    world.bmc_works = false;
    world.settle();
    assert!(world.memory().boot.is_none() && world.memory().failure.is_some(), "{}", world.reason());
    let attempt = world.memory().attempt;
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Wait);
    world.bmc_works = true;
    world.pass(600);
    run_to_erase(&mut world, |_| {});
    assert!(clean_boot(&world).attempt > attempt, "off is looked at again");
}

#[test]
fn a_power_cut_in_an_erasure_is_followed_by_one_of_ours() {
    let mut world = released();
    run_to_erase(&mut world, |_| {});
    with_work(&mut world, AgentWork::Running { step: "erase-disk".into(), activity: String::new(), percent: 5 });
    world.agent().cleaned.clear();
    let attempt = world.memory().attempt;
    world.effects.clear();
    world.agent().rebooted = true;
    world.step();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Wait, "what asks may be anybody");
    run_to_erase(&mut world, |_| {});
    assert_eq!(power_orders(&world), [CUT, BmcAction::NetBoot]);
    assert!(clean_boot(&world).attempt > attempt && clean_boot(&world).off_at.is_some());
}

/// One that came back by itself is not reset for what claims nothing.
#[test]
fn a_host_that_comes_back_by_itself_goes_on_where_nothing_is_claimed() {
    let mut world = World::new();
    world.run();
    world.pass(60);
    world.effects.clear();
    world.edit(|host| host.spec.image = Some(image("two")));
    world.agent_works = false;
    for _ in 0..60 {
        if world.booting {
            world.hello();
        }
        world.step();
    }
    assert_eq!((world.state(), orders(&world)), (S::Deprovisioning, vec![BmcAction::NetBoot]), "{}", world.reason());
    world.agent().rebooted = true;
    world.step();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Agent { attempt: world.memory().attempt });
    world.agent_works = true;
    world.hello();
    world.run();
    let boots = orders(&world).iter().filter(|action| **action == BmcAction::NetBoot).count();
    assert_eq!((world.state(), boots), (S::Provisioned, 1), "{}", world.reason());
}

#[test]
fn an_agent_that_waits_from_another_boot_does_not_erase() {
    let mut world = released();
    book(&mut world, Some("one"));
    world.edit(|host| host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled));
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    // The tenant's OS runs on, and says hello in the agent's place.
    world.hello();
    world.settle();
    let attempt = world.memory().attempt;
    world.effects.clear();
    book(&mut world, Some("two"));
    run_to_erase(&mut world, |_| {});
    assert_eq!(power_orders(&world), [CUT, BmcAction::NetBoot], "{}", world.reason());
    assert!(world.memory().attempt > attempt);
    let is_told =
        |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
    assert_eq!(world.count(is_told), 1);
}

#[test]
fn a_drive_that_cannot_be_interrupted_keeps_the_power() {
    let mut world = released();
    run_to_erase(&mut world, |_| {});
    with_work(&mut world, AgentWork::Running { step: "erase-disk".into(), activity: String::new(), percent: 5 });
    world.agent().cannot_stop = Some("secure-erase".into());
    // As after an upgrade: nothing is known of the boot.
    world.seen.memory.clean_boot = None;
    world.agent_works = false;
    world.effects.clear();
    for _ in 0..60 {
        world.pass(60);
        world.step();
    }
    assert_eq!(orders(&world), [], "{}", world.reason());
}

/// A BMC that ignores the override boots the tenant's disk, and that OS says what it likes.
#[test]
fn an_override_that_is_not_seen_used_up_is_named_and_stops_nothing() {
    type Change = fn(&mut World);
    let at_boot: [(Change, &str); 2] = [
        (|world| world.seen.bmc.no_override = Some("it offers only Hdd".into()), "it offers only Hdd"),
        (|world| world.seen.bmc.once_unset = Some("Continuous Pxe".into()), "Continuous Pxe"),
    ];
    for (change, why) in at_boot {
        let mut world = released();
        change(&mut world);
        run_to_erase(&mut world, |_| {});
        assert!(!orders(&world).contains(&BmcAction::ReadOnce), "{why}: there is nothing to read");
        let boot = clean_boot(&world);
        assert!(boot.off_at.is_some() && boot.missing_evidence().concat().contains(why), "{boot:?}");
    }
    let at_hello: [(Change, &str); 3] = [
        (|world| world.seen.bmc.once_unread = Some("the BMC still has it: Once Pxe".into()), "Once Pxe"),
        (|world| world.bmc_works = false, "no route"),
        (|world| world.bmc_answers = false, "the BMC does not answer"),
    ];
    for (change, why) in at_hello {
        let mut world = released();
        run_to_erase(&mut world, |world| {
            let attempt = world.memory().clean_boot.as_ref().map(|boot| boot.attempt);
            if world.seen.agent.as_ref().map(|agent| agent.attempt) == attempt {
                change(world);
            }
        });
        let boot = clean_boot(&world);
        assert!(boot.off_at.is_some() && boot.missing_evidence().concat().contains(why), "{boot:?}");
    }
}

/// The ramdisk panics, or the firmware goes on to the disk: the second request may come from the system on it. The caller
/// calls the attempt spent then.
#[test]
fn a_boot_that_comes_to_nothing_is_cut_again_and_not_for_ever() {
    let mut world = released();
    let mut rounds = Vec::new();
    for _ in 0..3000 {
        let memory = world.memory();
        let attempt = memory.attempt;
        let is_cut = memory.clean_boot.as_ref().is_some_and(|boot| boot.attempt == attempt && boot.is_cut_again());
        if let HostBootEntry::Agent { .. } = boot_entry(memory)
            && world.booting
        {
            if !is_cut {
                break;
            }
            rounds.push(attempt);
            world.booting = false;
            world.seen.spent_attempt = Some(attempt);
        }
        let step = world.step();
        if step.wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(1);
        }
    }
    assert_eq!(rounds.len(), 3, "{rounds:?} {}", world.reason());
    assert_eq!(power_orders(&world), [CUT, BmcAction::NetBoot].repeat(4));
    run_to_erase(&mut world, |_| {});
    let boot = clean_boot(&world);
    let unheld = boot.missing_evidence().concat();
    assert!(boot.off_at.is_some() && unheld.contains("3 boots before it came to nothing"), "{boot:?}");
}

#[test]
fn a_retry_while_the_hello_is_awaited_cuts_the_power_once_more() {
    let mut world = released();
    while !world.booting || boot_entry(world.memory()) == HostBootEntry::Wait {
        if world.step().wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(1);
        }
    }
    let attempt = world.memory().attempt;
    world.effects.clear();
    world.annotate(annotations::RETRY, "");
    world.step();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Wait, "{}", world.reason());
    run_to_erase(&mut world, |_| {});
    assert_eq!(power_orders(&world), [CUT, BmcAction::NetBoot]);
    assert!(clean_boot(&world).attempt > attempt);
}

/// It is switched on by hand each time.
#[test]
fn a_host_that_is_on_again_each_time_is_reset_in_the_end() {
    let mut world = released();
    run_to_erase(&mut world, |world| world.seen.bmc.was_off_at_boot = false);
    assert_eq!(power_orders(&world), [CUT, BmcAction::NetBoot].repeat(3));
    let boot = clean_boot(&world);
    assert!(boot.off_at.is_none() && boot.missing_evidence().concat().contains("on again each time"), "{boot:?}");
}

#[test]
fn without_a_bmc_the_script_is_given_as_ever() {
    let mut world = World::without_bmc();
    book(&mut world, Some("one"));
    world.settle();
    world.hello();
    world.run();
    world.edit(|host| host.spec.image = None);
    book(&mut world, None);
    world.settle();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Agent { attempt: world.memory().attempt });
}

/// As an older appliance stored it, or one that had no BMC then.
#[test]
fn a_memory_of_before_is_open() {
    let stored = serde_json::json!({"state": {"name": "inspecting"}, "attempt": 3});
    let memory: firesteel_plan::HostMemory = serde_json::from_value(stored).unwrap();
    assert_eq!(boot_entry(&memory), HostBootEntry::Agent { attempt: 3 });
    let mut world = released();
    world.seen.memory.opened = true;
    world.step();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Wait, "its OS runs: {}", world.reason());
}

/// An owner who asks for metadata alone reads that nothing was erased, and gets no more of a boot than that needs.
#[test]
fn what_claims_no_grade_needs_no_cut() {
    let mut world = released();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"metadata"}}"#);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    assert!(!orders(&world)[..1].contains(&CUT), "{:?}", orders(&world));
    assert!(world.memory().clean_boot.is_none());
}
