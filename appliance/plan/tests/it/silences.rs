//! Of whom a hint says that it is silent, and of whom not.

use firesteel_plan::admission::SlotOffer;
use firesteel_plan::host::{DiscoveredMachine, HostPower, HostState, NETWORK_BOOT, NetbootStage, ReachedStage};
use firesteel_resources::ConditionStatus;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;

use crate::world::{MAC, World};

const UUID: &str = "4c4c4544-0046-3310-8051-b4c04f564432";

/// A host that was switched on a minute ago.
fn booting() -> World {
    let mut world = World::new();
    world.seen.bmc.system_uuid = Some(UUID.into());
    world.settle();
    assert!(world.booting, "{}", world.reason());
    world.pass(61);
    world
}

/// Reason and message of the hint about the boot, while there is one.
fn hint(world: &World) -> Option<(String, String)> {
    let status = world.seen.host.status.as_ref().unwrap();
    let found = find_condition(&status.conditions, NETWORK_BOOT)?;
    (found.status == ConditionStatus::False).then(|| (found.reason.clone(), found.message.clone()))
}

fn events(world: &World, reason: &str) -> usize {
    world.events.iter().filter(|event| event.reason == reason).count()
}

fn reach(world: &mut World, stage: NetbootStage, detail: &str) {
    let (first_at, last_at) = (world.now, world.now);
    world.seen.netboot.stages.push(ReachedStage { stage, first_at, last_at, detail: detail.into() });
}

#[test]
fn nothing_is_said_of_a_host_whose_agent_is_not_awaited() {
    type Row = (&'static str, fn(&mut World), bool);
    let rows: [Row; 7] = [
        ("an agent is awaited", |_| {}, true),
        ("the host is off", |world| world.seen.bmc.power = HostPower::Off, false),
        (
            "the host goes",
            |world| {
                world.seen.memory.state = HostState::PoweringOff;
                world.delete();
            },
            false,
        ),
        (
            "the host is detached",
            |world| {
                world.seen.memory.detached = Some(world.now);
                world.annotate(annotations::DETACHED, "");
            },
            false,
        ),
        (
            "the BMC has not carried the boot out",
            |world| {
                world.seen.memory.boot.as_mut().unwrap().powered = false;
            },
            false,
        ),
        (
            "no boot was asked for",
            |world| {
                (world.seen.memory.boot, world.seen.memory.admitted) = (None, None);
                world.seen.slot = SlotOffer::Full { busy: 20, ahead: 0 };
            },
            false,
        ),
        (
            "its agent is there",
            |world| {
                world.hello();
                world.agent_works = false;
            },
            false,
        ),
    ];
    for (what, change, is_said) in rows {
        let mut world = booting();
        change(&mut world);
        world.step();
        assert_eq!(hint(&world).is_some(), is_said, "{what}: {:?} {}", hint(&world), world.reason());
    }
}

/// A host without a BMC is booted by hand, and heard of by its first request.
#[test]
fn a_host_that_is_booted_by_hand_is_explained_while_it_is_awaited() {
    let mut world = World::without_bmc();
    world.settle();
    let mut spent = world.clone();
    world.hello();
    world.run();
    world.edit(|host| host.spec.image = None);
    world.settle();
    assert!(world.memory().boot.as_ref().is_some_and(|wait| !wait.powered), "{}", world.reason());
    spent.seen.memory.attempt_spent = true;
    for (world, expected) in [(&mut world, Some("LoaderNotFetched")), (&mut spent, None)] {
        reach(world, NetbootStage::Leased, "");
        world.pass(61);
        world.step();
        assert_eq!(hint(world).map(|(reason, _)| reason).as_deref(), expected, "{}", world.reason());
    }
}

#[test]
fn only_a_detail_that_says_why_is_named() {
    for (stage, detail, part) in [
        (NetbootStage::Leased, "10.0.0.9", "did not fetch its loader, and has not come further"),
        (NetbootStage::Initramfs, "20 MB", "has not said hello, and has not come further"),
        (NetbootStage::NoAddress, "", "got no address from DHCP, and has not come further"),
        (NetbootStage::NoAddress, "none is free", "got no address from DHCP (none is free), and has not come further"),
        (NetbootStage::WrongBuild, "i386", "cannot start the kernel (i386), and has not come further"),
    ] {
        let mut world = booting();
        reach(&mut world, stage, detail);
        world.pass(61);
        world.step();
        let (_, text) = hint(&world).unwrap();
        assert!(text.contains(part), "{stage:?} {detail:?}: {text}");
    }
}

#[test]
fn a_hint_that_is_due_wakes_no_host_again() {
    let mut world = World::new();
    world.settle();
    world.pass(60);
    let step = world.step();
    assert!(hint(&world).is_some() && step.wake.is_some_and(|wake| !wake.is_zero()), "{:?}", step.wake);
}

/// Each MAC that a machine of the host boots with is news, and there is an end to it.
#[test]
fn so_many_hints_of_one_attempt_are_recorded_and_no_more() {
    let mut world = booting();
    for number in 0..20 {
        let boot_mac = format!("52:54:00:00:01:{number:02x}");
        let macs = vec![boot_mac.clone()];
        let (uuid, last_seen) = (UUID.into(), world.now);
        world.seen.discovered = vec![DiscoveredMachine { boot_mac, macs, uuid, serial: String::new(), last_seen }];
        world.step();
        world.step();
        assert_eq!(events(&world, "WrongBootMAC"), (number + 1).min(16));
    }
}

fn find_wrong_mac(world: &mut World, macs: &[&str]) -> Option<String> {
    let (boot_mac, macs) = ("52:54:00:00:00:02".to_owned(), macs.iter().map(|mac| (*mac).to_owned()).collect());
    let (uuid, last_seen) = (UUID.into(), world.now);
    world.seen.discovered = vec![DiscoveredMachine { boot_mac, macs, uuid, serial: String::new(), last_seen }];
    world.step();
    hint(world).filter(|(reason, _)| reason == "WrongBootMAC").map(|(_, text)| text)
}

/// Where data would be lost a deletion is not advised, and a cable only where the NIC is there.
#[test]
fn what_a_wrong_mac_is_corrected_by_depends_on_the_data_and_the_nics() {
    const OTHER: &str = "52:54:00:00:00:02";
    type Row = (&'static str, fn(&mut World), &'static [&'static str], bool, bool);
    let rows: [Row; 5] = [
        ("nothing is on it", |_| {}, &[OTHER], true, false),
        ("nothing is on it, and the NIC is there", |_| {}, &[OTHER, MAC], true, true),
        ("it is being written", |world| world.seen.memory.disk_dirty = true, &[OTHER, MAC], false, false),
        (
            "a tenant's data is there",
            |world| {
                world.seen.memory.tenant = Some("one".into());
            },
            &[OTHER, MAC],
            false,
            false,
        ),
        (
            "its OS came with it",
            |world| {
                world.seen.memory.state = HostState::ExternallyProvisioned;
                world.edit(|host| host.spec.externally_provisioned = true);
            },
            &[OTHER, MAC],
            false,
            false,
        ),
    ];
    for (what, change, macs, may_delete, has_nic) in rows {
        let mut world = booting();
        change(&mut world);
        let text = find_wrong_mac(&mut world, macs).unwrap_or_default();
        assert!(text.contains(OTHER), "{what}: {text}");
        assert_eq!(text.contains("delete this host"), may_delete, "{what}: {text}");
        assert_eq!(text.contains("first in the boot order of its firmware"), !may_delete, "{what}: {text}");
        assert_eq!(text.contains("since the machine has that NIC too"), has_nic, "{what}: {text}");
    }
}

/// A machine that was seen at the very moment of which the host is, or its agent, may have been that.
#[test]
fn only_a_boot_after_the_hosts_own_agent_is_a_wrong_one() {
    for (seen_s, is_named) in [(-1, false), (0, false), (1, true)] {
        let mut world = booting();
        world.seen.host.metadata.creation_timestamp = Some(world.now);
        world.pass(seen_s);
        assert_eq!(find_wrong_mac(&mut world, &[MAC]).is_some(), is_named, "{seen_s}");
    }
}

#[test]
fn nothing_is_said_of_a_first_boot_that_is_not_awaited() {
    type Row = (&'static str, fn(&mut World), bool);
    let rows: [Row; 7] = [
        ("its report is awaited", |_| {}, true),
        (
            "it is to be off",
            |world| {
                world.edit(|host| (host.spec.online, host.spec.disable_power_off) = (false, true));
            },
            false,
        ),
        (
            "it is held off",
            |world| {
                world.edit(|host| host.spec.disable_power_off = true);
                world.annotate("reboot.metal3.io/a", "");
            },
            false,
        ),
        ("it is detached", |world| world.annotate(annotations::DETACHED, ""), false),
        ("its image is not wanted any more", |world| world.edit(|host| host.spec.image = None), false),
        ("it runs", |world| world.seen.instance.running_at = Some(world.now), false),
        (
            "its first boot failed",
            |world| {
                world.seen.instance.failed = Some((world.now, "no such device".to_owned()));
            },
            false,
        ),
    ];
    for (what, change, is_said) in rows {
        let mut world = World::new();
        world.run();
        world.seen.instance.attempt = world.memory().applied.as_ref().unwrap().attempt;
        world.pass(300);
        change(&mut world);
        world.step();
        assert_eq!(events(&world, "FirstBootSilent"), usize::from(is_said), "{what}: {}", world.reason());
        let is_installed = world.memory().state == HostState::Provisioned;
        assert_eq!(world.memory().on_since.is_some(), is_installed, "{what}: {}", world.reason());
    }
}
