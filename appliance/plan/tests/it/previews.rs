//! The dry run of a host, beside what the unit tests of it hold: its reasons, and a host that is not cleaned.

use firesteel_plan::HostMemory;
use firesteel_plan::host::preview::{ActionPreview, Preview, preview};
use firesteel_resources::bare_metal_host::{CleaningMode, annotations};
use firesteel_resources::{BareMetalHost, HardwareRecord};

use crate::world::{World, disk, image};

/// Three disks: one that is too small, and two that can be written.
fn record() -> HardwareRecord {
    let disks = vec![disk("sda", "A", 1), disk("sdb", "B", 20), disk("sdc", "C", 30)];
    HardwareRecord { disks, ..HardwareRecord::default() }
}

fn look(host: &BareMetalHost, memory: &HostMemory) -> Preview {
    preview(host, memory, Some(&record()))
}

fn rows(outlook: &ActionPreview) -> Vec<(&str, &str, &str)> {
    outlook.disks.iter().map(|row| (row.device.as_str(), row.fate.as_str(), row.why.as_str())).collect()
}

#[test]
fn each_disk_of_an_installation_has_its_own_reason() {
    let mut host = BareMetalHost::default();
    host.spec.image = Some(image("one"));
    let install = look(&host, &HostMemory::default()).outlooks.remove(0);
    assert_eq!((install.note.as_str(), install.refused.as_str()), ("image http://images/one", ""));
    assert_eq!(
        rows(&install),
        [
            ("/dev/sda", "kept", "is smaller than 4.3 GB"),
            ("/dev/sdb", "written", "the smallest of the 2 disks that can be written"),
            ("/dev/sdc", "kept", "another disk is chosen"),
        ]
    );
    assert!(install.guarded.is_empty());
    // Where none is chosen no other one is.
    host.spec.image.as_mut().unwrap().url = "oci://registry/os:1".into();
    let install = look(&host, &HostMemory::default()).outlooks.remove(0);
    assert!(install.refused.starts_with("spec.image.url: "), "{}", install.refused);
    assert_eq!(
        rows(&install),
        [
            ("/dev/sda", "kept", "is smaller than 4.3 GB"),
            ("/dev/sdb", "kept", "matches"),
            ("/dev/sdc", "kept", "matches"),
        ]
    );
    host.spec.image = None;
    assert_eq!(look(&host, &HostMemory::default()).outlooks[0].note, "no image is wanted");
}

#[test]
fn a_host_that_is_not_cleaned_is_erased_for_another_owner_all_the_same() {
    let mut world = World::new();
    world.run();
    let (mut host, memory) = (world.seen.host.clone(), world.memory().clone());
    let record = world.seen.hardware.clone().unwrap();
    for mode in [CleaningMode::Metadata, CleaningMode::Disabled] {
        host.spec.automated_cleaning_mode = Some(mode);
        let seen = preview(&host, &memory, Some(&record));
        let [_, same, another] = seen.outlooks.as_slice() else { panic!("three outlooks") };
        let is_cleaned = mode == CleaningMode::Metadata;
        let refused = if is_cleaned { "" } else { "spec.automatedCleaningMode is disabled" };
        assert_eq!(same.refused, refused);
        let cleared =
            ("/dev/sda", "metadata cleared", "the disk of the installation: tables and signatures; its data stays");
        assert_eq!(rows(same), Vec::from_iter(is_cleaned.then_some(cleared)));
        let why = "the disk of the installation: all of it, by its method of the best grade";
        assert_eq!((another.refused.as_str(), rows(another)), ("", vec![("/dev/sda", "erased (full)", why)]));
    }
}

/// What was taken for a plan counts for no other one.
#[test]
fn an_override_that_was_taken_counts_no_more() {
    let mut world = World::new();
    world.run();
    let mut host = world.seen.host.clone();
    host.metadata.annotations.insert(annotations::OVERRIDE_GUARD.into(), "A".into());
    let mut record = world.seen.hardware.clone().unwrap();
    let vmfs = firesteel_contents::ProtectedContent {
        place: "the disk".into(),
        kind: firesteel_contents::ContentKind::Vmfs,
        name: String::new(),
        owner: firesteel_contents::ContentOwner::Unnamed,
    };
    let contents = firesteel_contents::DiskContents { findings: vec![vmfs], ..Default::default() };
    (record.disks[0].contents, record.attempt) = (Some(Box::new(contents)), world.memory().attempt + 1);
    for (taken, fate) in
        [(vec![], "erased (full)"), (vec!["B".to_owned()], "erased (full)"), (vec!["A".to_owned()], "refused")]
    {
        let memory = HostMemory { overridden: taken.clone(), ..world.memory().clone() };
        let seen = preview(&host, &memory, Some(&record));
        assert_eq!(seen.outlooks[2].disks[0].fate, fate, "{taken:?}");
    }
}
