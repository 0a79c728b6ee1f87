//! What goes wrong, and where it leaves the host.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{
    AgentWork, BmcAction, BmcFault, BmcFaultKind, CredentialsInputs, HostPower, ImageInputs, NetworkDataInputs,
    PlanKind, ReceiptFacts, ShownReceipt, ShownWrite, UserDataInputs,
};
use firesteel_resources::bare_metal_host::{
    CleaningMode, ErrorType, InspectionMode, OperationalStatus, ProvisioningState as S, annotations,
};
use firesteel_resources::hardware::DiskRecord;
use firesteel_resources::{HardwareRecord, RootDeviceHints};

use crate::world::{World, disk, image, promised, run_to_write, shown, with_work};

fn is_write(effect: &HostEffect) -> bool {
    matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Write(_), .. })
}

fn failed(changed: bool) -> AgentWork {
    AgentWork::Failed { step: "write-image".into(), message: "bad sector".into(), disk_changed: changed }
}

#[test]
fn every_check_before_destruction_leaves_the_host_where_it_is() {
    type Break = fn(&mut World);
    let rows: [(Break, &str); 6] = [
        (
            |world| {
                let hints = RootDeviceHints { model: "OTHER".into(), ..RootDeviceHints::default() };
                world.edit(|host| host.spec.root_device_hints = Some(hints));
            },
            "no disk matches",
        ),
        (
            |world| {
                let disks = vec![disk("sda", "A", 20), disk("sdb", "B", 20)];
                world.seen.hardware = Some(firesteel_resources::HardwareRecord {
                    disks,
                    ..firesteel_resources::HardwareRecord::default()
                });
                let hints = RootDeviceHints { min_size_gigabytes: 1, ..RootDeviceHints::default() };
                world.edit(|host| host.spec.root_device_hints = Some(hints));
            },
            "2 disks match",
        ),
        (|world| world.seen.user_data = UserDataInputs::Invalid("storage: bad".into()), "storage: bad"),
        (|world| world.seen.user_data = UserDataInputs::Missing, "does not exist"),
        (
            |world| {
                let at = world.now;
                world.images_work = false;
                world.seen.image = ImageInputs::Failed { message: "wrong checksum".into(), permanent: true, at };
            },
            "wrong checksum",
        ),
        (
            |world| {
                let mut big = crate::world::ready();
                big.raw_bytes = 1 << 40;
                world.seen.image = ImageInputs::Ready(big);
            },
            "smaller than the image",
        ),
    ];
    for (breaks, text) in rows {
        let mut world = World::new();
        breaks(&mut world);
        world.run();
        assert_eq!(world.state(), S::Provisioning, "{text}");
        assert!(world.reason().contains(text), "{}", world.reason());
        assert_eq!(world.count(is_write), 0, "{text}");
        let status = world.seen.host.status.clone().unwrap();
        assert_eq!(status.error_type, Some(ErrorType::Provisioning));
        assert_eq!(status.operational_status, OperationalStatus::Error);
        // Fixed, it goes on without another boot.
        world.seen.hardware = world.seen.hardware.map(|mut record| {
            record.disks.truncate(1);
            record
        });
        world.edit(|host| host.spec.root_device_hints = None);
        world.seen.user_data = UserDataInputs::Ready { sha256: "user".into(), configs: vec!["worker".into()] };
        world.seen.image = ImageInputs::Ready(crate::world::ready());
        world.run();
        assert_eq!((world.state(), world.net_boots()), (S::Provisioned, 1), "{text}: {}", world.reason());
        assert_eq!(world.memory().failure, None);
    }
}

#[test]
fn a_host_whose_network_data_cannot_be_used_is_not_booted_until_it_can() {
    let wrong = NetworkDataInputs::Invalid("networkData: links[0].id: is missing".into());
    for (seen, text) in [(NetworkDataInputs::Missing, "does not exist: create it"), (wrong, "links[0].id: is missing")]
    {
        let mut world = World::new();
        world.seen.network_data = seen;
        world.run();
        assert!(world.reason().contains(text), "{}", world.reason());
        assert_eq!(world.net_boots(), 0, "{text}");
        let status = world.seen.host.status.clone().unwrap();
        assert_eq!(status.operational_status, OperationalStatus::Error);
        world.seen.network_data = NetworkDataInputs::Ready { version: "2".into() };
        world.run();
        assert_eq!((world.state(), world.net_boots()), (S::Provisioned, 1), "{text}: {}", world.reason());
        assert_eq!(world.memory().failure, None);
    }
}

#[test]
fn nothing_written_means_nothing_cleaned() {
    let mut world = World::new();
    run_to_write(&mut world);
    with_work(&mut world, failed(false));
    world.settle();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Provisioning, false));
    assert!(world.reason().contains("bad sector"), "{}", world.reason());
    assert!(world.reason().contains("`firesteel retry` has the host inspected again"), "{}", world.reason());
    world.edit(|host| host.spec.image = None);
    world.settle();
    assert_eq!(world.state(), S::Available, "without cleaning, since nothing was written");
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Clean { .. }, .. })), 0);
}

#[test]
fn a_partly_written_disk_is_cleaned_and_the_sixth_installation_does_not_start() {
    let mut world = World::new();
    for round in 1..=5 {
        run_to_write(&mut world);
        with_work(&mut world, failed(true));
        world.run();
        assert_eq!((world.state(), world.memory().disk_dirty), (S::Available, false), "round {round}");
        assert_eq!(world.memory().provision_failures, round);
        let wait = world.last.as_ref().unwrap().wake;
        if round < 5 {
            assert!(wait.unwrap().as_secs() >= 60, "{wait:?}");
            assert!(world.reason().contains("bad sector"), "{}", world.reason());
        }
        world.pass(1800);
        let now = world.now;
        world.agent().last_report_at = now;
    }
    world.run();
    assert_eq!(world.state(), S::Available);
    assert!(world.reason().contains("5 installations failed") && world.reason().contains("bad sector"));
    // A lock keeps the cause.
    world.annotate(annotations::LOCK, "audit");
    world.run();
    assert!(world.reason().contains("firesteel unlock"), "{}", world.reason());
    world.seen.host.metadata.annotations.remove(annotations::LOCK);
    world.run();
    assert!(world.reason().contains("5 installations failed") && world.reason().contains("bad sector"));
    assert_eq!(world.count(is_write), 5);
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "another image starts the count anew: {}", world.reason());
}

#[test]
fn a_bmc_that_accepts_power_on_and_does_nothing_is_the_hosts_reason_within_a_minute() {
    let mut world = World::new();
    world.power_works = false;
    world.settle();
    assert_eq!((world.state(), world.net_boots()), (S::Inspecting, 1));
    let (first, ordered) = (world.memory().attempt, world.now);
    while world.memory().failure.is_none() {
        let wake = world.last.as_ref().unwrap().wake.unwrap();
        world.pass(wake.as_secs().max(1));
        world.settle();
        assert!(world.now.duration_since(ordered).as_secs() <= 65, "{}", world.reason());
    }
    assert!(world.reason().contains("the BMC accepted power-on but the host is still off"), "{}", world.reason());
    let status = world.seen.host.status.clone().unwrap();
    assert_eq!(status.error_type, Some(ErrorType::Inspection));
    assert!(status.error_message.contains("still off after 60 s"), "{}", status.error_message);
    // Later, and less and less often, it is tried again; once the BMC does its work the host goes on.
    let wait = world.last.as_ref().unwrap().wake.unwrap().as_secs();
    assert!((60..=120).contains(&wait), "{wait}");
    world.pass(wait);
    world.settle();
    assert_eq!((world.net_boots(), world.memory().attempt), (2, first + 1));
    world.power_works = true;
    world.pass(300);
    world.settle();
    world.pass(300);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn a_host_that_goes_off_while_it_boots_is_noticed_and_a_short_dip_is_not() {
    let mut world = World::new();
    world.settle();
    let first = world.memory().attempt;
    // A firmware that starts again by itself is off at one look and on at the next.
    world.pass(60);
    world.seen.bmc.power = HostPower::Off;
    world.settle();
    world.pass(21);
    world.seen.bmc.power = HostPower::On;
    world.settle();
    assert_eq!((world.memory().attempt, world.memory().failure.as_ref()), (first, None));
    world.pass(60);
    world.seen.bmc.power = HostPower::Off;
    for _ in 0..4 {
        world.settle();
        world.pass(20);
    }
    assert!(world.reason().contains("went off while it booted"), "{}", world.reason());
    assert_eq!(world.memory().attempt, first + 1);
}

#[test]
fn a_bmc_that_does_not_say_whether_the_host_is_on_is_not_taken_for_one_that_is_off() {
    let mut world = World::new();
    world.power_works = false;
    world.settle();
    let first = world.memory().attempt;
    world.bmc_works = false;
    for _ in 0..20 {
        world.pass(20);
        world.settle();
    }
    assert_eq!(world.memory().attempt, first, "{}", world.reason());
    assert!(world.memory().failure.as_ref().is_some_and(|failure| failure.message.contains("cannot be reached")));
    world.bmc_works = true;
    world.pass(20);
    world.settle();
    assert_eq!((world.memory().attempt, world.memory().failure.as_ref()), (first, None), "{}", world.reason());
}

/// A BMC without a free session place kept a host "on", without an error, until its hello was late.
#[test]
fn a_bmc_that_answers_with_an_error_while_its_host_boots_is_told_within_a_minute() {
    let mut world = World::new();
    world.settle();
    assert_eq!((world.state(), world.net_boots()), (S::Inspecting, 1));
    let attempt = world.memory().attempt;
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Refused, message: "the BMC has no session free".into() });
    world.pass(60);
    world.settle();
    let failure = world.memory().failure.clone().unwrap();
    assert_eq!(failure.kind, ErrorType::PowerManagement);
    assert!(failure.message.contains("no session free"), "{}", failure.message);
    assert_eq!((world.memory().attempt, world.net_boots()), (attempt, 1), "the host is still waited for");
    // Out of reach for one look: the host's own port may be down.
    world.refuses = None;
    world.pass(60);
    world.settle();
    assert_eq!(world.memory().failure, None);
    world.bmc_works = false;
    world.pass(60);
    world.settle();
    assert_eq!(world.memory().failure, None);
    world.pass(60);
    world.settle();
    assert!(world.memory().failure.is_some());
    world.bmc_works = true;
    world.run();
    assert_eq!((world.state(), world.memory().failure.as_ref()), (S::Provisioned, None));
}

#[test]
fn a_look_at_the_power_changes_no_word_of_a_host_that_rests() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.pass(1);
    world.settle();
    let (text, status) = (world.reason().to_owned(), world.seen.host.status.clone());
    for _ in 0..3 {
        world.pass(61);
        let step = world.step();
        let asks = step
            .effects
            .iter()
            .any(|effect| matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::Probe));
        assert!(asks, "{:?}", step.effects);
        assert_eq!((world.reason(), &world.seen.host.status), (text.as_str(), &status));
        world.settle();
    }
    world.bmc_works = false;
    world.pass(61);
    world.settle();
    assert!(world.reason().contains("cannot be reached"), "{}", world.reason());
    let count = world.memory().failure.as_ref().unwrap().count;
    world.pass(200);
    world.settle();
    assert_eq!(world.memory().failure.as_ref().unwrap().count, count + 1, "a look does not forget failures");
}

#[test]
fn a_host_that_stays_away_is_booted_again_with_the_next_attempt() {
    let mut world = World::new();
    world.settle();
    assert_eq!((world.state(), world.net_boots()), (S::Inspecting, 1));
    let first = world.memory().attempt;
    world.pass(1199);
    world.settle();
    assert_eq!((world.memory().attempt, world.net_boots()), (first, 1));
    world.pass(2);
    world.settle();
    assert_eq!(world.memory().attempt, first + 1);
    assert_eq!(world.memory().failure.as_ref().unwrap().kind, ErrorType::Inspection);
    world.pass(130);
    world.run();
    assert_eq!((world.net_boots(), world.state()), (2, S::Provisioned));
}

#[test]
fn a_step_that_reports_is_never_interrupted() {
    let mut world = World::new();
    run_to_write(&mut world);
    let boots = world.net_boots();
    for _ in 0..100 {
        world.pass(60);
        let now = world.now;
        world.agent().last_report_at = now;
        world.settle();
    }
    assert_eq!((world.state(), world.net_boots()), (S::Provisioning, boots));
    assert!(world.reason().contains("no progress since"), "{}", world.reason());
    assert!(world.memory().failure.is_some(), "it shows as an error");
}

#[test]
fn a_quiet_writer_is_given_up_and_its_disk_cleaned() {
    let mut world = World::new();
    run_to_write(&mut world);
    let (attempt, boots) = (world.memory().attempt, world.net_boots());
    world.pass(301);
    world.run();
    let aborted =
        world.count(|effect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt));
    assert_eq!((aborted, world.memory().provision_failures), (1, 1));
    world.pass(130);
    world.run();
    assert!(world.memory().attempt > attempt && world.net_boots() > boots);
    assert!(world.states.contains(&S::Deprovisioning));
}

/// The boot script is answered after one step: it named the attempt whose token was taken, and the host booted
/// for nothing.
#[test]
fn a_host_that_boots_again_in_the_write_gets_the_next_attempt_in_one_step() {
    let mut world = World::new();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    world.agent().rebooted = true;
    world.step();
    assert_eq!((world.state(), world.memory().attempt), (S::Deprovisioning, attempt + 1));
    world.hello();
    world.run();
    world.pass(1800);
    let now = world.now;
    world.agent().last_report_at = now;
    world.run();
    assert_eq!((world.state(), world.memory().attempt), (S::Provisioned, attempt + 1), "{}", world.reason());
}

/// Two hosts with one MAC: nothing was said, and each waited for the machine of the other.
#[test]
fn a_host_whose_mac_belongs_to_another_says_so_and_boots_nothing() {
    for bmc in [true, false] {
        let mut world = if bmc { World::new() } else { World::without_bmc() };
        world.seen.mac_taken = Some((crate::world::MAC.to_owned(), "default/b".to_owned()));
        world.run();
        for part in [crate::world::MAC, "default/b", "spec.bootMACAddress"] {
            assert!(world.reason().contains(part), "{}", world.reason());
        }
        let status = world.seen.host.status.clone().unwrap();
        assert_eq!((status.error_message.as_str(), world.net_boots()), (world.reason(), 0));
        world.seen.mac_taken = None;
        world.run();
        if !bmc {
            world.hello();
            world.run();
        }
        assert_eq!((world.state(), world.memory().failure.clone()), (S::Provisioned, None), "{}", world.reason());
    }
}

#[test]
fn after_a_proven_hand_off_the_host_is_never_power_cycled() {
    let mut world = World::new();
    run_to_write(&mut world);
    let plan = world.memory().plan.clone().unwrap();
    let write = plan.write().unwrap();
    let mut receipts = shown(plan.number, write);
    // The host may be in its OS before its agent can say that it leaves.
    receipts.pop();
    let promise = promised(world.memory().attempt, plan.number);
    (world.agent().shown, world.agent().promised) = (receipts, promise);
    let boots = world.net_boots();
    world.pass(301);
    world.run();
    assert_eq!((world.state(), world.net_boots()), (S::Provisioned, boots));
    assert!(!world.memory().applied.as_ref().unwrap().left_properly);
}

#[test]
fn a_word_without_proof_is_not_success() {
    type Forge = fn(&mut Vec<ShownReceipt>);
    let written = |receipts: &mut Vec<ShownReceipt>, forge: fn(&mut ShownWrite)| match &mut receipts[1].shows {
        ReceiptFacts::Written(shown) => forge(shown),
        other => panic!("{other:?}"),
    };
    let rows: [(&str, Forge); 6] = [
        ("no receipt of the written image", |receipts| receipts.iter_mut().for_each(|receipt| receipt.plan -= 1)),
        ("no receipt of the files", |receipts| drop(receipts.remove(2))),
        ("no receipt of the boot entry", |receipts| drop(receipts.remove(3))),
        ("does not bear the appliance's signature", |receipts| receipts[2].is_signed = false),
        ("the receipts are of the steps", |receipts| receipts[3].index = 9),
        ("no receipt of the written image", Vec::clear),
    ];
    let forged: [(&str, fn(&mut ShownWrite)); 4] = [
        ("the image's sha256", |shown| shown.raw_sha256 = "other".into()),
        ("the sha256 that was read back", |shown| shown.readback_sha256 = "other".into()),
        ("the mark of the installation", |shown| shown.disk_guid = "other".into()),
        ("another disk", |shown| shown.disk.serial.push('x')),
    ];
    let judged = |words: &str, forge: &dyn Fn(&mut Vec<ShownReceipt>)| {
        let mut world = World::new();
        run_to_write(&mut world);
        let plan = world.memory().plan.clone().unwrap();
        let mut receipts = shown(plan.number, plan.write().unwrap());
        forge(&mut receipts);
        let promise = promised(world.memory().attempt, plan.number);
        (world.agent().shown, world.agent().promised) = (receipts, promise);
        world.agent().work = AgentWork::Done;
        world.agent().left = true;
        world.step();
        assert_eq!(world.state(), S::Deprovisioning, "{words}: {}", world.reason());
        let message = world.memory().failure.clone().unwrap().message;
        assert!(message.contains(words), "{words}: {message}");
    };
    rows.into_iter().for_each(|(words, forge)| judged(words, &forge));
    forged.into_iter().for_each(|(words, forge)| judged(words, &|receipts| written(receipts, forge)));
}

#[test]
fn an_appliance_that_was_away_does_not_take_its_own_silence_for_the_agents() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.pass(7200);
    world.seen.started_at = world.now;
    world.pass(10);
    world.settle();
    assert_eq!(world.state(), S::Provisioning);
    assert_eq!(world.memory().provision_failures, 0);
}

#[test]
fn user_data_that_changes_under_a_running_write_does_not_stop_it() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.seen.user_data = UserDataInputs::Ready { sha256: "other".into(), configs: vec!["worker".into()] };
    world.agent_works = false;
    // After a restart, before the agent's next report: nothing is known of its work.
    world.agent().plan = 0;
    world.agent().work = AgentWork::Idle;
    world.seen.started_at = world.now;
    world.step();
    assert_eq!(world.state(), S::Provisioning, "{}", world.reason());
    // The agent reports, and has not begun: the plan cannot be handed out any more.
    world.pass(20);
    let now = world.now;
    world.agent().last_report_at = now;
    world.step();
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
}

#[test]
fn credentials_have_three_sorts_of_trouble() {
    let mut world = World::new();
    world.seen.credentials = CredentialsInputs::Missing;
    world.run();
    assert!(world.reason().contains("Secret s"), "{}", world.reason());
    assert_eq!(world.last.as_ref().unwrap().wake.unwrap().as_secs(), 10);
    world.seen.credentials = CredentialsInputs::Empty;
    world.run();
    assert!(world.reason().contains("username and password"), "{}", world.reason());
    world.bmc_works = false;
    world.seen.credentials = CredentialsInputs::Ready { version: "2".into() };
    world.run();
    assert_eq!((world.state(), world.memory().failure.as_ref().unwrap().count), (S::Registering, 1));
    assert!(world.reason().contains("cannot be reached"), "{}", world.reason());
    world.pass(121);
    world.run();
    assert_eq!(world.memory().failure.as_ref().unwrap().count, 2);
    world.bmc_works = true;
    world.seen.credentials = CredentialsInputs::Ready { version: "3".into() };
    world.run();
    assert_eq!(world.state(), S::Provisioned, "an edit tries at once: {}", world.reason());
}

/// No time passes: the delay is not waited for.
#[test]
fn an_edit_of_what_a_failed_step_used_retries_at_once() {
    type Edit = (&'static str, fn(&mut World));
    let edits: [Edit; 4] = [
        ("nothing", |_| {}),
        ("the spec", |world| world.edit(|host| host.spec.online = true)),
        ("the user data", |world| {
            world.seen.user_data = UserDataInputs::Ready { sha256: "other".into(), configs: vec!["worker".into()] };
        }),
        ("the credentials", |world| world.seen.credentials = CredentialsInputs::Ready { version: "2".into() }),
    ];
    for (what, edit) in edits {
        let mut world = World::new();
        world.bmc_works = false;
        world.run();
        let failure = world.memory().failure.clone().unwrap();
        assert!((failure.count, world.state()) == (1, S::Registering) && failure.retry_at > Some(world.now));
        world.bmc_works = true;
        edit(&mut world);
        world.run();
        let expected = if what == "nothing" { S::Registering } else { S::Provisioned };
        assert_eq!(world.state(), expected, "{what}: {}", world.reason());
    }
}

#[test]
fn a_host_without_a_boot_mac_says_what_to_set() {
    let mut world = World::new();
    world.edit(|host| host.spec.boot_mac_address = String::new());
    world.seen.bmc.macs = vec!["52:54:00:00:00:0A".into(), "52:54:00:00:00:0B".into()];
    world.run();
    assert!(world.reason().contains("bootMACAddress") && world.reason().contains(":0B"), "{}", world.reason());
    world.seen.bmc.macs.truncate(1);
    world.run();
    assert_eq!(world.memory().macs, ["52:54:00:00:00:0a"], "the only one is taken");
    assert_eq!(world.state(), S::Provisioned);
}

#[test]
fn deletion_gives_up_cleaning_after_three_failures_and_leaves_a_tombstone() {
    let mut world = World::new();
    world.run();
    world.bmc_works = false;
    world.delete();
    world.run();
    assert_eq!(world.state(), S::Deprovisioning);
    for _ in 0..40 {
        world.pass(1800);
        world.run();
    }
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
    assert!(world.count(|effect| matches!(effect, HostEffect::Tombstone { disk: Some(_), .. })) > 0);
}

/// A disk was put right after the inspection and a person asked to try again: the old inspection was
/// believed for an hour, and after that nothing woke the host.
#[test]
fn a_retry_inspects_again_what_was_repaired() {
    for mode in [InspectionMode::Agent, InspectionMode::Disabled] {
        retry_after_repair(mode);
    }
}

fn retry_after_repair(mode: InspectionMode) {
    let mut world = World::new();
    world.edit(|host| host.spec.inspection_mode = Some(mode));
    let broken = DiskRecord { read_only: true, ..disk("sda", "A", 20) };
    world.seen.hardware = Some(HardwareRecord { disks: vec![broken], ..HardwareRecord::default() });
    world.run();
    assert_eq!(world.state(), S::Provisioning);
    assert!(world.reason().contains("read-only"), "{}", world.reason());
    let is_inspection = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Inspect, .. });
    let before = world.count(is_inspection);
    world.pass(60);
    if let Some(record) = &mut world.seen.hardware {
        record.disks[0].read_only = false;
    }
    world.annotate(annotations::RETRY, "");
    world.run();
    assert!(world.count(is_inspection) > before, "the host is inspected anew");
    assert_eq!(world.state(), S::Provisioned);
}

/// A host whose cleaning is disabled was sent back and forth between provisioning and
/// deprovisioning for ever when another image was wanted.
#[test]
fn without_cleaning_another_image_can_be_installed() {
    let mut world = World::new();
    world.edit(|host| host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled));
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.edit(|host| host.spec.image = Some(image("two")));
    world.pass(60);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(world.memory().applied.as_ref().unwrap().image.url, image("two").url);
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Clean { .. }, .. })), 0);
    world.delete();
    world.run();
    let tombstone = world.effects.iter().find_map(|effect| match effect {
        HostEffect::Tombstone { disk, .. } => disk.clone(),
        _ => None,
    });
    assert_eq!(tombstone.map(|disk| disk.serial), Some("A".to_owned()), "the disk is let go uncleaned, and named");
}

/// An image was put right on its server and a person asked to try again: nothing fetched it.
#[test]
fn a_retry_fetches_an_image_that_could_not_be_used() {
    let mut world = World::new();
    world.images_work = false;
    let at = world.now;
    world.seen.image = ImageInputs::Failed { message: "wrong checksum".into(), permanent: true, at };
    world.run();
    assert!(world.reason().contains("wrong checksum"), "{}", world.reason());
    world.images_work = true;
    world.pass(60);
    world.annotate(annotations::RETRY, "");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}
