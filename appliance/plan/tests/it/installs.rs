//! What must be right before an installation, to the byte and to the second, and what is said of the OS after it.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{HostFailure, ImageInputs, InstanceInputs, PlanKind};
use firesteel_resources::RootDeviceHints;
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S};
use jiff::SignedDuration;

use crate::world::{World, disk, ready, run_to_write};

fn fetches(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::FetchImage { .. }))
}

fn report(world: &mut World) {
    let now = world.now;
    world.agent().last_report_at = now;
}

/// A host that waits for its image.
fn waiting(image: ImageInputs) -> World {
    let mut world = World::new();
    world.images_work = false;
    world.seen.image = image;
    world.run();
    assert_eq!(world.state(), S::Provisioning, "{}", world.reason());
    world.effects.clear();
    world
}

#[test]
fn a_disk_must_be_as_large_as_the_image() {
    for (image_bytes, is_too_large) in [(19_999_999_999, false), (20_000_000_000, false), (20_000_000_001, true)] {
        let mut world = World::new();
        let mut image = ready();
        image.raw_bytes = image_bytes;
        world.seen.image = ImageInputs::Ready(image);
        world.halt();
        world.run();
        let part = if is_too_large { "smaller than the image" } else { "halted by ann" };
        assert!(world.state() == S::Provisioning && world.reason().contains(part), "{image_bytes}: {}", world.reason());
    }
}

#[test]
fn an_image_that_does_not_come_is_an_error_after_its_time() {
    let now = World::new().now;
    let fetching =
        ImageInputs::Fetching { done_bytes: 1_000_000_000, total_bytes: Some(2_000_000_000), progress_at: now };
    let queued = ImageInputs::Waiting { ahead: 2, moved_at: now };
    for (image, limit_s, part) in [
        (fetching, 600, "http://images/one: 1.0 GB of 2.0 GB; nothing received for 10 min"),
        (queued, 4 * 3600, "2 other images come before it; none of them ended for 4 h"),
    ] {
        let mut world = waiting(image);
        let passed = world.now.duration_since(now).as_secs();
        world.pass(limit_s - passed);
        report(&mut world);
        world.step();
        assert_eq!(world.memory().failure, None, "{}", world.reason());
        world.pass(1);
        report(&mut world);
        world.step();
        let message = world.memory().failure.clone().unwrap().message;
        assert!(message.ends_with(part), "{message}");
    }
}

/// Each failed fetch counts once, and another one follows after the delay.
#[test]
fn an_image_that_could_not_be_fetched_is_fetched_again_after_its_delay() {
    let failed = |world: &World| ImageInputs::Failed { message: "404".into(), permanent: false, at: world.now };
    let mut world = waiting(failed(&World::new()));
    let count = |world: &World| world.memory().failure.as_ref().map(|failure| failure.count);
    assert_eq!((count(&world), fetches(&world)), (Some(1), 0), "{}", world.reason());
    world.pass(10);
    report(&mut world);
    world.step();
    assert_eq!((count(&world), fetches(&world)), (Some(1), 0), "before its delay: {}", world.reason());
    world.pass(120);
    report(&mut world);
    world.step();
    assert_eq!((count(&world), fetches(&world)), (Some(1), 1), "{}", world.reason());
    world.pass(5);
    world.seen.image = failed(&world);
    report(&mut world);
    world.step();
    assert_eq!((count(&world), fetches(&world)), (Some(2), 1), "it failed again: {}", world.reason());
    // An error of another kind is not that one.
    let (at, inputs) = (world.now, String::new());
    let other =
        HostFailure { kind: ErrorType::PowerManagement, message: "no route".into(), inputs, at, ..failure(&world) };
    world.seen.memory.failure = Some(other);
    world.step();
    let kind = world.memory().failure.as_ref().map(|failure| (failure.kind, failure.count));
    assert_eq!((kind, fetches(&world)), (Some((ErrorType::Provisioning, 1)), 1), "{}", world.reason());
}

fn failure(world: &World) -> HostFailure {
    world.memory().failure.clone().unwrap()
}

/// The time of the choice is that of the first look from which this disk was chosen by these hints.
#[test]
fn a_disk_is_chosen_when_the_choice_or_its_hints_change() {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "B", 40)];
    world.halt();
    world.run();
    let chosen = |world: &World| {
        let plan = world.memory().disk.clone().unwrap();
        (plan.identity().serial.clone(), plan.chosen_at)
    };
    let first = world.now;
    assert_eq!(chosen(&world), ("A".to_owned(), first), "{}", world.reason());
    let look = |world: &mut World| {
        world.pass(60);
        report(world);
        world.step();
        world.now
    };
    look(&mut world);
    assert_eq!(chosen(&world), ("A".to_owned(), first));
    let size =
        |gb| Some(RootDeviceHints { min_size_gigabytes: gb, model: "DISK".into(), ..RootDeviceHints::default() });
    world.seen.hardware.as_mut().unwrap().disks.truncate(1);
    let serial = Some(RootDeviceHints { serial_number: "A".into(), ..RootDeviceHints::default() });
    world.edit(|host| host.spec.root_device_hints = serial);
    let second = look(&mut world);
    assert_eq!(chosen(&world), ("A".to_owned(), second), "by other hints");
    world.edit(|host| host.spec.root_device_hints = size(1));
    let third = look(&mut world);
    assert_eq!(chosen(&world), ("A".to_owned(), third));
    world.seen.hardware.as_mut().unwrap().disks[0].device = "/dev/sdz".into();
    let fourth = look(&mut world);
    assert_eq!(chosen(&world), ("A".to_owned(), fourth), "it stands elsewhere");
}

/// Nothing is fetched for a host that wants nothing, and one that wants an image has it fetched once.
#[test]
fn only_the_wanted_image_is_fetched() {
    for (image, expected) in [(None, 0), (Some(crate::world::image("one")), 1)] {
        let mut world = World::new();
        world.edit(|host| host.spec.image = image);
        world.run();
        assert_eq!(fetches(&world), expected, "{}", world.reason());
    }
}

/// An inspection that is under way when the image is not wanted any more goes on; a plan for the image does not.
#[test]
fn an_inspection_under_way_outlives_the_image() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.pass(7200);
    world.agent().rebooted = true;
    world.settle();
    world.hello();
    world.agent_works = false;
    world.edit(|host| host.spec.image = Some(crate::world::image("one")));
    (0..4).for_each(|_| drop(world.step()));
    let is_inspected =
        |world: &World| world.memory().plan.as_ref().is_some_and(|issued| issued.plan == PlanKind::Inspect);
    assert!(world.state() == S::Provisioning && is_inspected(&world), "{}", world.reason());
    world.edit(|host| host.spec.image = None);
    world.step();
    assert!(world.state() == S::Available && is_inspected(&world), "{}", world.reason());
}

#[test]
fn what_is_known_of_an_installed_os_is_said_in_words() {
    let attempt = |world: &World| world.memory().applied.as_ref().unwrap().attempt;
    type Change = fn(&mut World, u64);
    let rows: [(Change, i64, &str); 8] = [
        (|_, _| {}, 0, "provisioned; the OS was handed over; waiting for its report that it runs"),
        (|_, _| {}, 1800, "provisioned; the OS was handed over; waiting for its report that it runs"),
        (|_, _| {}, 1801, "provisioned; running is unverified: the OS was handed over but has not reported for 30 min"),
        (
            |world, attempt| {
                let at = Some(world.now);
                world.seen.instance = InstanceInputs { attempt, config_fetched_at: at, ..InstanceInputs::default() };
            },
            60,
            "provisioned; the OS fetched its config; waiting for its report that it runs",
        ),
        (
            |world, attempt| {
                let at = Some(world.now);
                world.seen.instance = InstanceInputs { attempt, running_at: at, ..InstanceInputs::default() };
            },
            60,
            "provisioned, and the OS reported that it runs",
        ),
        (
            |world, attempt| {
                let failed = Some((world.now, "first\nlast".to_owned()));
                world.seen.instance = InstanceInputs { attempt, failed, ..InstanceInputs::default() };
            },
            60,
            "provisioned; the first boot of the OS failed at 2026-01-01T00:01:00Z: last",
        ),
        // What an earlier installation said is none of this one's.
        (
            |world, attempt| {
                let failed = Some((world.now, "first\nlast".to_owned()));
                let (attempt, at) = (attempt - 1, Some(world.now));
                world.seen.instance = InstanceInputs { attempt, config_fetched_at: at, running_at: at, failed };
            },
            60,
            "provisioned; the OS was handed over; waiting for its report that it runs",
        ),
        (
            |world, _| world.seen.memory.applied.as_mut().unwrap().configs.clear(),
            60,
            "provisioned; whether the OS runs is unverified: its config does not report to this appliance",
        ),
    ];
    for (change, waited_s, expected) in rows {
        let mut world = World::new();
        world.run();
        let attempt = attempt(&world);
        world.pass(waited_s);
        change(&mut world, attempt);
        world.settle();
        assert_eq!(world.reason(), expected);
    }
}

/// The host is looked at again a second after the report is overdue, or with the next look at its power.
#[test]
fn a_host_is_woken_when_the_report_of_its_os_is_overdue() {
    for (waited_s, wake_s) in [(1700, 60), (1741, 60), (1790, 11), (1799, 2), (1800, 60), (1900, 60)] {
        let mut world = World::new();
        world.run();
        let applied_at = world.memory().applied.as_ref().unwrap().at;
        world.pass(waited_s - 5);
        world.settle();
        world.now = applied_at + SignedDuration::from_secs(waited_s);
        let wake = world.step().wake.map(|wake| wake.as_secs());
        assert_eq!(wake, Some(wake_s), "{waited_s}: {}", world.reason());
    }
}

/// A BIOS boots the disk without one.
#[test]
fn only_a_machine_that_boots_by_uefi_must_show_its_boot_entry() {
    use firesteel_plan::host::{AgentWork, ReceiptFacts};
    use firesteel_resources::hardware::FirmwareMode;
    for (mode, expected) in [(FirmwareMode::Uefi, S::Deprovisioning), (FirmwareMode::Bios, S::Provisioned)] {
        let mut world = World::new();
        run_to_write(&mut world);
        world.seen.hardware.as_mut().unwrap().firmware.mode = mode;
        let plan = world.memory().plan.clone().unwrap();
        let mut receipts = crate::world::shown(plan.number, plan.write().unwrap());
        for receipt in &mut receipts {
            if let ReceiptFacts::BootEntry(entry) = &mut receipt.shows {
                (entry.method, entry.entry, entry.order) = ("none".into(), String::new(), String::new());
            }
        }
        let promise = crate::world::promised(world.memory().attempt, plan.number);
        let agent = world.agent();
        (agent.shown, agent.promised, agent.work, agent.left) = (receipts, promise, AgentWork::Done, true);
        world.step();
        assert_eq!(world.state(), expected, "{mode:?}: {}", world.reason());
    }
}
