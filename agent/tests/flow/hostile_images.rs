//! What the kernel mounts of an image that was written: the partition that the hand-over writes to, and what nothing
//! else reads. The maker of an image chose each byte of its filesystems.

use std::{fs, sync::Arc};

use firesteel_steps::Exit;
use firesteel_wire::PlanStep;
use firesteel_wire::hand_off::{Forms, HandOffForm};

use crate::forms::{
    LARGE_BYTES, WRITTEN_ONCE, assert_says, auto, bake, config_drive, end_failed, entry, hand_over, kernel_arguments,
    mounts, put_entry, send_plan, start,
};
use crate::host::{DISK_BYTES, Image, put_xfs};
use crate::{Running, files, start as start_small};

const NOT_MOUNTED: [&str; 0] = [];
/// Where the boot partition's superblock begins.
const SUPERBLOCK: usize = (4 << 20) + 1024;

/// An image whose third partition only the kernel reads.
fn with_xfs() -> Image {
    let mut raw = Image::with(&[("data", 40_960, 49_000)]).raw;
    put_xfs(&mut raw, 40_960 * 512, "data");
    Image::of(raw)
}

/// Changes the image before it is written.
fn alter(run: &mut Running, change: impl FnOnce(&mut [u8])) {
    let mut raw = run.image.raw.clone();
    change(&mut raw);
    run.image = Image::of(raw);
    run.appliance.put_image(run.image.stream.clone());
}

#[test]
fn a_damaged_or_unclean_filesystem_is_named_and_not_mounted() {
    let unclean = (SUPERBLOCK + 0x60, 0x46, "unmount the filesystem cleanly where the image is made");
    let damaged = (SUPERBLOCK + 0x18, 9, "it is damaged: its blocks");
    for (at, byte, why) in [unclean, damaged] {
        let wanted = [(auto(), "nothing on the image says"), (kernel_arguments(&["ip=dhcp"], &[]), "cannot be listed")];
        for (forms, consequence) in wanted {
            let mut run = start(DISK_BYTES, Image::new());
            put_entry(&run, "metal");
            bake(&mut run, &forms);
            alter(&mut run, |raw| raw[at] = byte);
            let host = Arc::clone(&run.host);
            send_plan(&run, forms);
            assert_says(&end_failed(run), &[consequence, "partition 2 (ext4)", why, "it boots nothing"]);
            assert_eq!(mounts(&host), NOT_MOUNTED, "{why}");
        }
    }
}

/// Readers of one filesystem may be led to different files; what was decided on would then not be what is changed.
#[test]
fn a_file_that_the_kernel_reads_otherwise_is_not_changed() {
    let mut run = start(DISK_BYTES, Image::new());
    put_entry(&run, "metal");
    let forms = kernel_arguments(&["ip=dhcp"], &[]);
    bake(&mut run, &forms);
    let (host, entry) = (Arc::clone(&run.host), entry(&run));
    fs::write(&entry, "options other\n").unwrap();
    send_plan(&run, forms);
    assert_says(
        &end_failed(run),
        &["loader/entries/ostree-1.conf on partition 2", "another content for the kernel", "it boots nothing"],
    );
    assert_eq!(fs::read_to_string(entry).unwrap(), "options other\n");
    assert_eq!(mounts(&host), ["target ext4 rw", "unmounted"]);
}

#[test]
fn where_the_form_is_named_nothing_is_looked_into() {
    let mut run = start(LARGE_BYTES, with_xfs());
    run.host.filesystem(3);
    let forms = Forms { form: HandOffForm::ConfigDrive, config_drive: Some(config_drive()), ..Forms::default() };
    alter(&mut run, |raw| raw[SUPERBLOCK..SUPERBLOCK + 0x38].fill(0xff));
    let host = Arc::clone(&run.host);
    let (outcome, _) = hand_over(run, forms);
    assert_eq!((outcome.form, outcome.recognised.as_str()), (HandOffForm::ConfigDrive, ""));
    assert_eq!(mounts(&host), NOT_MOUNTED);
}

#[test]
fn what_only_the_kernel_reads_is_mounted_where_nothing_else_decides() {
    // That the form by kernel arguments is offered too changes none.
    let Forms { kernel_arguments: offered, .. } = kernel_arguments(&["ignition.config.url=http://a"], &[]);
    for kernel_arguments in [None, offered] {
        let run = start(DISK_BYTES, with_xfs());
        put_entry(&run, "metal");
        run.host.filesystem(3);
        let host = Arc::clone(&run.host);
        let (outcome, _) = hand_over(run, Forms { kernel_arguments, ..auto() });
        assert_eq!(
            (outcome.form, mounts(&host)),
            (HandOffForm::BootPartition, WRITTEN_ONCE.map(str::to_owned).to_vec())
        );
    }

    let run = start(LARGE_BYTES, with_xfs());
    let cloud = run.host.filesystem(3).join("etc/cloud");
    fs::create_dir_all(&cloud).unwrap();
    fs::write(cloud.join("cloud.cfg"), "datasource_list: [ NoCloud, None ]\n").unwrap();
    let host = Arc::clone(&run.host);
    let (outcome, _) = hand_over(run, Forms { boot_partition: None, ..auto() });
    assert_eq!(outcome.form, HandOffForm::NoCloud);
    assert_eq!(mounts(&host), ["target-p3 xfs ro", "unmounted"]);
}

#[test]
fn a_hand_off_of_what_was_not_written_and_read_back_mounts_nothing() {
    let run = start_small();
    let disk = run.host.identity_of("target");
    run.plan(1, vec![PlanStep::HandOff { disk, files: files(), forms: None }, PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed, "{}", failed.error);
    assert_says(&failed, &["no step of the plan before this one wrote", "serial-target", "not mounted"]);
    assert_eq!(mounts(&run.host), NOT_MOUNTED);
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    assert!(host.read("target").iter().all(|&byte| byte == 0x11));
}
