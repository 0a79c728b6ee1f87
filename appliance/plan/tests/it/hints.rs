//! Why a host does not boot, in its condition and events: by how far it came, and by the machine that its BMC drives.

use firesteel_plan::host::{DiscoveredMachine, HostPower, KnownIdentity, NETWORK_BOOT, NetbootStage, ReachedStage};
use firesteel_plan::journal::boot_stages;
use firesteel_resources::ConditionStatus;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::{HostJournalStatus, NetworkNote, TimelineEvent};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::world::{MAC, World};

const UUID: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
/// This is [`UUID`] with the first three fields in the other byte order.
const SWAPPED: &str = "44454c4c-4600-1033-8051-b4c04f564432";
const OTHER_MAC: &str = "52:54:00:00:00:02";

/// A host that was just switched on to boot into its agent.
fn booting() -> World {
    let mut world = World::new();
    world.seen.bmc.system_uuid = Some(UUID.into());
    world.settle();
    assert!(world.booting, "{}", world.reason());
    world
}

/// Status, reason and message of a condition.
fn shown(world: &World, type_: &str) -> Option<(ConditionStatus, String, String)> {
    let status = world.seen.host.status.as_ref().unwrap();
    find_condition(&status.conditions, type_).map(|found| (found.status, found.reason.clone(), found.message.clone()))
}

/// Reason and message of the hint about the boot, while there is one.
fn hint(world: &World) -> Option<(String, String)> {
    let (status, reason, message) = shown(world, NETWORK_BOOT)?;
    (status == ConditionStatus::False).then_some((reason, message))
}

fn events(world: &World, reason: &str) -> usize {
    world.events.iter().filter(|event| event.reason == reason).count()
}

fn reach(world: &mut World, stage: NetbootStage, detail: &str) {
    let (first_at, last_at) = (world.now, world.now);
    world.seen.netboot.stages.push(ReachedStage { stage, first_at, last_at, detail: detail.into() });
}

/// The places of these parts in a text, which has all of them.
fn are_in_order(text: &str, parts: &[&str]) -> bool {
    let places: Vec<usize> = parts.iter().filter_map(|part| text.find(part)).collect();
    places.len() == parts.len() && places.is_sorted()
}

#[test]
fn a_host_that_is_not_heard_for_a_minute_says_so_once() {
    let mut world = booting();
    world.pass(45);
    let step = world.step();
    assert_eq!(shown(&world, NETWORK_BOOT), None);
    assert!(step.wake.unwrap() <= SignedDuration::from_secs(15), "the hint comes when it is due: {:?}", step.wake);
    world.pass(15);
    world.step();
    let (reason, text) = hint(&world).unwrap();
    assert_eq!(reason, "NothingHeard");
    let parts = [MAC, "60 s", "Slow firmware needs minutes", "spec.bootMACAddress", "cable", "VLAN", "boot order"];
    assert!(are_in_order(&text, &parts), "{text}");
    assert_eq!(world.seen.host.status.as_ref().unwrap().error_message, "", "a hint is no error");
    assert_eq!(events(&world, "NetworkBootSilent"), 1);
    for _ in 0..9 {
        world.pass(30);
        world.step();
    }
    assert!(hint(&world).unwrap().1.contains("more than 5 min"), "{:?}", hint(&world));
    assert_eq!(events(&world, "NetworkBootSilent"), 1, "once for the attempt");
    world.run();
    assert_eq!(shown(&world, NETWORK_BOOT).unwrap().1, "NoStall");
}

#[test]
fn the_next_attempt_says_it_again_and_the_error_names_the_cause() {
    let mut world = booting();
    let attempt = world.memory().attempt;
    while world.memory().attempt == attempt {
        world.pass(30);
        world.step();
    }
    let error = world.seen.host.status.as_ref().unwrap().error_message.clone();
    assert!(error.contains("no agent said hello within") && error.contains("nothing was heard from"), "{error}");
    for _ in 0..20 {
        world.pass(30);
        world.step();
    }
    assert_eq!(events(&world, "NetworkBootSilent"), 2, "{}", world.reason());
}

#[test]
fn each_stage_has_its_usual_cause() {
    use NetbootStage as N;
    let stages = [
        (N::NoAddress, "NoAddress", "no address is free"),
        (N::Offered, "AddressNotTaken", "another DHCP server"),
        (N::Leased, "LoaderNotFetched", "69/udp"),
        (N::NoLoader, "NoLoader", "no loader for riscv64"),
        (N::LoaderFailed, "LoaderFailed", "timed out"),
        (N::Loader, "LoaderNotStarted", "Secure Boot"),
        (N::Ipxe, "ScriptNotFetched", "spanning tree"),
        (N::WrongBuild, "WrongBuild", "i386"),
        (N::Script, "FilesNotFetched", "512 MiB"),
        (N::Kernel, "FilesNotFetched", "512 MiB"),
        (N::Initramfs, "AgentNotHeard", "8443/tcp"),
    ];
    let mut world = booting();
    for (stage, reason, part) in stages {
        world.pass(20);
        reach(&mut world, stage, part);
        world.step();
        // What was said of an earlier stage is over.
        assert!(hint(&world).is_none(), "{stage:?}: {:?}", hint(&world));
        world.pass(61);
        world.step();
        let (shown, text) = hint(&world).unwrap();
        assert!(shown == reason && text.contains(part), "{stage:?}: {shown}: {text}");
    }
    assert_eq!(events(&world, "NetworkBootStalled"), 2, "no loader, and a wrong build");
    assert_eq!(events(&world, "NetworkBootSilent"), 8, "once for each cause");
}

/// Firmware that asks for an address again and again has not come further.
#[test]
fn who_repeats_a_stage_does_not_come_further() {
    let mut world = booting();
    world.pass(5);
    reach(&mut world, NetbootStage::Leased, "");
    for _ in 0..3 {
        world.pass(20);
        world.seen.netboot.stages[0].last_at = world.now;
        world.step();
    }
    assert_eq!(hint(&world).unwrap().0, "LoaderNotFetched");
}

#[test]
fn an_earlier_boot_says_nothing_of_this_one() {
    let mut world = booting();
    reach(&mut world, NetbootStage::Kernel, "");
    let before = world.now.checked_sub(SignedDuration::from_mins(5)).unwrap();
    world.seen.netboot.stages[0].first_at = before;
    world.seen.netboot.stages[0].last_at = before;
    world.pass(61);
    world.step();
    assert_eq!(hint(&world).unwrap().0, "NothingHeard");
}

#[test]
fn the_macs_that_the_bmc_lists_are_named_where_the_boot_mac_is_none_of_them() {
    for (listed, part) in [
        (vec![OTHER_MAC.to_owned()], "the BMC does not list it (it lists 52:54:00:00:00:02)"),
        (vec![OTHER_MAC.to_owned(), MAC.to_uppercase()], "may be the MAC of another NIC"),
    ] {
        let mut world = booting();
        world.seen.bmc.macs = listed;
        world.pass(60);
        world.step();
        let (_, text) = hint(&world).unwrap();
        assert!(text.contains(part), "{text}");
    }
}

/// Another server's DHCP is not seen here.
#[test]
fn where_another_server_does_dhcp_its_silence_is_not_the_hosts() {
    let mut world = booting();
    world.seen.netboot.is_dhcp_elsewhere = true;
    world.pass(60);
    world.step();
    let (reason, text) = hint(&world).unwrap();
    assert!(reason == "NothingHeard" && !text.contains("no DHCP request"), "{text}");
    assert!(are_in_order(&text, &["no boot script was asked for", "the other DHCP server", "Secure Boot"]), "{text}");
}

/// It may be switched on at any time, or never.
#[test]
fn a_host_without_a_bmc_is_explained_from_its_first_request_on() {
    let mut world = World::without_bmc();
    world.settle();
    world.pass(3600);
    world.step();
    assert_eq!(shown(&world, NETWORK_BOOT), None);
    reach(&mut world, NetbootStage::Leased, "");
    world.pass(61);
    world.step();
    assert_eq!(hint(&world).unwrap().0, "LoaderNotFetched");
    world.hello();
    world.settle();
    assert_eq!(hint(&world), None);
}

fn machine(world: &World, uuid: &str) -> DiscoveredMachine {
    DiscoveredMachine {
        boot_mac: OTHER_MAC.into(),
        macs: vec![OTHER_MAC.into()],
        uuid: uuid.into(),
        serial: "S1".into(),
        last_seen: world.now,
    }
}

#[test]
fn a_machine_that_booted_with_another_mac_is_named_at_once() {
    for uuid in [UUID, SWAPPED] {
        let mut world = booting();
        world.pass(3);
        world.seen.discovered = vec![machine(&world, uuid)];
        world.step();
        let (reason, text) = hint(&world).unwrap();
        assert_eq!(reason, "WrongBootMAC");
        let parts = [uuid, OTHER_MAC, "not spec.bootMACAddress 52:54:00:00:00:01: correct spec.bootMACAddress"];
        assert!(are_in_order(&text, &parts), "{text}");
        assert!(world.reason().starts_with(&text), "{}", world.reason());
        world.pass(61);
        world.step();
        assert_eq!(hint(&world).unwrap().0, "WrongBootMAC", "and not that nothing was heard");
        assert_eq!((events(&world, "WrongBootMAC"), events(&world, "NetworkBootSilent")), (1, 0));
        // Another of its NICs is news.
        world.seen.discovered[0].boot_mac = "52:54:00:00:00:03".into();
        world.step();
        assert_eq!(events(&world, "WrongBootMAC"), 2);
        // Its own NIC boots after all.
        world.pass(1);
        world.run();
        assert_eq!(hint(&world), None);
    }
}

#[test]
fn only_a_machine_that_the_bmc_surely_drives_is_named() {
    let is_named = |change: fn(&mut World)| {
        let mut world = booting();
        world.seen.discovered = vec![machine(&world, UUID)];
        change(&mut world);
        world.step();
        hint(&world).is_some_and(|(reason, _)| reason == "WrongBootMAC")
    };
    assert!(is_named(|_| {}));
    let cases: [(&str, fn(&mut World)); 6] = [
        ("a machine that was discovered before its host was created", |world| {
            world.seen.host.metadata.creation_timestamp = Some(world.now + SignedDuration::from_secs(1));
        }),
        ("another UUID", |world| world.seen.discovered[0].uuid = SWAPPED.replace('1', "2")),
        ("a UUID that makers leave in", |world| {
            let zero = "00000000-0000-0000-0000-000000000000";
            world.seen.discovered[0].uuid = zero.into();
            world.seen.memory.bmc.system_uuid = Some(zero.into());
        }),
        ("a BMC that names none", |world| world.seen.memory.bmc.system_uuid = None),
        ("a clone of the mainboard", |world| {
            world.seen.memory.identity = Some(KnownIdentity::of(UUID, "S2", Timestamp::UNIX_EPOCH));
        }),
        ("a detached host", |world| world.annotate(annotations::DETACHED, r#"{"force": true}"#)),
    ];
    for (case, change) in cases {
        assert!(!is_named(change), "{case}");
    }
    assert!(is_named(|world| world.seen.memory.identity = Some(KnownIdentity::of(UUID, "s1", Timestamp::UNIX_EPOCH))));
}

#[test]
fn what_is_to_be_done_depends_on_the_host() {
    let text_of = |mut world: World| {
        world.pass(1);
        world.seen.discovered = vec![machine(&world, UUID)];
        world.seen.discovered[0].macs.push(MAC.into());
        world.step();
        hint(&world).unwrap().1
    };
    let text = text_of(booting());
    assert!(text.contains("delete this host, and create it again with 52:54:00:00:00:02"), "{text}");
    assert!(text.contains("since the machine has that NIC too, check its cable"), "{text}");
    // A deletion would have its disks cleaned.
    let mut installed = booting();
    installed.run();
    let text = text_of(installed);
    assert!(text.contains("first in the boot order") && !text.contains("delete"), "{text}");
    let mut unnamed = World::new();
    unnamed.seen.bmc.system_uuid = Some(UUID.into());
    unnamed.edit(|host| host.spec.boot_mac_address = String::new());
    unnamed.settle();
    let text = text_of(unnamed);
    assert!(text.ends_with("spec.bootMACAddress is not set: set it to 52:54:00:00:00:02"), "{text}");
}

#[test]
fn an_os_that_does_not_report_is_explained_after_minutes() {
    let mut world = World::new();
    world.run();
    let running = |world: &World| {
        let (status, reason, message) = shown(world, "Running").unwrap();
        assert_eq!(status, ConditionStatus::False);
        (reason, message)
    };
    world.pass(299);
    let step = world.step();
    assert_eq!(running(&world), ("Waiting".into(), "the OS has not fetched its config yet".into()));
    assert!(step.wake.unwrap() <= SignedDuration::from_secs(1), "{:?}", step.wake);
    world.pass(1);
    world.step();
    let (reason, text) = running(&world);
    assert!(reason == "Waiting" && text.contains("the firmware may not boot this disk"), "{text}");
    let attempt = world.memory().applied.as_ref().unwrap().attempt;
    (world.seen.instance.attempt, world.seen.instance.config_fetched_at) = (attempt, Some(world.now));
    world.step();
    assert!(running(&world).1.contains("fetched its config at"), "{:?}", running(&world));
    world.pass(300);
    world.step();
    world.step();
    let (reason, text) = running(&world);
    assert!(reason == "ConfigFetched" && text.contains("Ignition may have failed"), "{text}");
    assert_eq!(events(&world, "FirstBootSilent"), 2, "once for each cause");
    world.seen.instance.running_at = Some(world.now);
    world.step();
    assert_eq!(shown(&world, "Running").unwrap().0, ConditionStatus::True);
}

/// A host may lie off for days after its installation.
#[test]
fn a_first_boot_begins_when_the_host_is_switched_on() {
    let mut world = World::new();
    world.run();
    world.step();
    for may_be_off in [HostPower::Off, HostPower::Unknown] {
        world.seen.bmc.power = may_be_off;
        world.pass(7200);
        world.step();
    }
    world.seen.bmc.power = HostPower::Off;
    world.step();
    world.seen.bmc.power = HostPower::On;
    world.pass(299);
    world.step();
    assert_eq!(events(&world, "FirstBootSilent"), 0);
    world.pass(300);
    world.step();
    assert_eq!(events(&world, "FirstBootSilent"), 1);
}

/// A restart of the appliance forgets what it saw, and not what it wrote.
#[test]
fn the_journal_knows_the_stages_of_the_attempt() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let note = |event: &str, detail: &str, attempt| NetworkNote {
        event: event.into(),
        detail: detail.into(),
        attempt,
        first_at: at(5),
        last_at: at(9),
        ..NetworkNote::default()
    };
    let written =
        |event: &str, attempt| TimelineEvent { at: at(20), attempt, event: event.into(), ..TimelineEvent::default() };
    let status = HostJournalStatus {
        memory: json!({"attempt": 2}),
        network: vec![
            note("dhcp_ack", "10.0.0.9 to PXEClient architecture 7", 2),
            note("dhcp_ack", "10.0.0.9 to the agent or an OS", 2),
            note("dhcp_ack", "10.0.0.9 to udhcp 1.35", 2),
            note("dhcp_offer", "10.0.0.9 to iPXE", 1),
            note("loader", "snponly.efi by tftp", 2),
            note("loader", "autoexec.ipxe by tftp", 2),
            note("no_disk", "", 2),
            note("wrong_build", "i386", 1),
        ],
        timeline: vec![written("kernel", 1), written("script", 2), written("NetBoot", 2)],
        ..HostJournalStatus::default()
    };
    let stages = boot_stages(&status);
    let known: Vec<NetbootStage> = stages.iter().map(|reached| reached.stage).collect();
    assert_eq!(known, [NetbootStage::Leased, NetbootStage::Loader, NetbootStage::Ipxe, NetbootStage::Script]);
    assert_eq!((stages[0].first_at, stages[0].last_at, stages[3].first_at), (at(5), at(9), at(20)));
}
