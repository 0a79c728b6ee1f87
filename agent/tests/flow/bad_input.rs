//! What a host does about things that do not fit: each ends in a message that says what happened and what to do,
//! and no disk is left that boots half an installation.

use std::sync::atomic::Ordering;

use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_images::http::{Download, DownloadLimits};
use firesteel_steps::{Exit, board::ReportBoard};
use firesteel_wire::{Evidence, HandOffFile, PlanStep, RefusalReason, StepReport};

use crate::appliance::{TIME_MS, wait_until};
use crate::host::{DISK_BYTES, Image, SmallDisk};
use crate::{Appliance, Running, files, handover, start, start_with};

/// Ends the boot, and gives back what is on the disk.
fn end(run: Running) -> Vec<u8> {
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    host.assert_decoy_untouched();
    host.read("target")
}

fn assert_says(failed: &StepReport, parts: &[&str]) {
    for part in parts {
        assert!(failed.error.contains(part), "no {part:?} in: {}", failed.error);
    }
}

fn has_no_table(disk: &[u8]) -> bool {
    let edge = 1 << 20;
    disk[..edge].iter().chain(&disk[disk.len() - edge..]).all(|&byte| byte == 0)
}

#[test]
fn a_stub_that_does_not_fit_the_boot_partition_leaves_nothing_to_boot() {
    let run = start();
    let boot = SmallDisk::over(run.host.folder.path().join("boot"), 64);
    let disk = run.host.identity_of("target");
    let mut stub = files();
    stub.push(HandOffFile {
        path: "ignition/large.ign".into(),
        mode: 0o600,
        content_base64: STANDARD.encode(vec![b'x'; 256 << 10]),
    });
    run.plan(1, vec![run.write_step(), PlanStep::HandOff { disk, files: stub, forms: None }, PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert_eq!((failed.step.as_str(), failed.disk_changed), ("hand-off", true));
    assert_says(
        &failed,
        &[
            "the boot partition is full: ignition/large.ign has 262144 bytes",
            "Use an image with a larger boot partition, or a smaller configuration",
            "the disk's partition tables are cleared, it boots nothing",
        ],
    );
    assert!(has_no_table(&end(run)), "an OS without its configuration would boot");
    drop(boot);
}

#[test]
fn an_image_without_a_place_for_the_stub_leaves_nothing_to_boot() {
    let run = start();
    let disk = run.host.identity_of("target");
    // No filesystem is where the boot partition should have one.
    let mut raw = run.image.raw.clone();
    raw[(4 << 20) + 1024..(4 << 20) + 2048].fill(0);
    let stream = zstd::encode_all(raw.as_slice(), 1).unwrap();
    let image = crate::host::Image { raw, stream };
    run.appliance.put_image(image.stream.clone());
    let write = run.write_step_of(image.source(run.image_url()));
    run.plan(1, vec![write, PlanStep::HandOff { disk, files: files(), forms: None }, PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert_says(&failed, &["the image has no boot partition", "1 \"root\"", "it boots nothing"]);
    assert!(failed.disk_changed && has_no_table(&end(run)));
}

#[test]
fn with_a_full_ramdisk_nothing_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let ramdisk = SmallDisk::over(folder.path().join("run"), 64);
    ramdisk.fill();
    let appliance = Appliance::start();
    let handover = handover(&appliance, &appliance.pin_sha256);
    let run = start_with(appliance, &handover, ReportBoard::new(Some(folder.path().join("run/board.json"))));
    run.plan(1, vec![run.write_step(), PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed);
    assert_says(&failed, &["cannot be noted in the ramdisk", "No space left", "boot the host again", "more memory"]);
    assert!(end(run).iter().all(|&byte| byte == 0x11), "the disk is as it was");
    drop(ramdisk);
}

#[test]
fn a_disk_that_fails_in_the_middle_is_told_and_boots_nothing() {
    let run = start();
    // The disk is a file that has room for its edges and for some of the middle.
    let small = SmallDisk::over(run.host.folder.path().join("small"), 12 << 10);
    let target = run.host.folder.path().join("target");
    std::fs::remove_file(&target).unwrap();
    let file = std::fs::File::create(run.host.folder.path().join("small/target")).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    std::os::unix::fs::symlink("small/target", &target).unwrap();
    run.plan(1, vec![run.write_step(), PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert_eq!((failed.step.as_str(), failed.disk_changed), ("write-image", true));
    assert_says(
        &failed,
        &[
            "writing 4194304 bytes at ",
            "No space left",
            "its partition tables are cleared, it boots nothing",
            "the disk, its cable or its controller is faulty: replace it",
        ],
    );
    assert!(has_no_table(&end(run)));
    drop(small);
}

#[test]
fn an_image_that_is_larger_than_the_disk_is_refused_before_the_first_write() {
    let run = start();
    let mut image = run.image.source(run.image_url());
    image.raw_bytes = DISK_BYTES + 512;
    run.plan(1, vec![run.write_step_of(image), PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed);
    assert_says(&failed, &["33554944 bytes does not fit", "33554432", "use a smaller image, or name a larger disk"]);
    assert!(end(run).iter().all(|&byte| byte == 0x11));
}

/// The appliance looks too, but an image may be there from before it did.
#[test]
fn an_image_whose_partition_ends_behind_it_is_refused_before_the_first_write() {
    let run = start();
    // Its second partition ends at block 40000.
    let mut raw = run.image.raw.clone();
    raw.truncate(40_000 * 512);
    let cut = Image::of(raw);
    run.appliance.put_image(cut.stream.clone());
    run.plan(1, vec![run.write_step_of(cut.source(run.image_url())), PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert!(!failed.disk_changed);
    assert_says(&failed, &["GPT partition 2 ends at byte 20480512, but the image ends at byte 20480000", "whole"]);
    assert!(end(run).iter().all(|&byte| byte == 0x11));
}

#[test]
fn an_image_that_is_not_what_the_plan_promises_is_told_and_boots_nothing() {
    let run = start();
    let mut other = run.image.raw.clone();
    let at = other.len() - (2 << 20);
    other[at] ^= 1;
    run.appliance.put_image(zstd::encode_all(other.as_slice(), 1).unwrap());
    run.plan(1, vec![run.write_step(), PlanStep::Reboot]);
    let failed = run.wait_for_failure();
    assert_says(&failed, &["getting the image", "sha256 is", "look at the network between host and appliance"]);
    assert!(failed.disk_changed && has_no_table(&end(run)));
}

/// A host whose battery is empty thinks that it is 1970, and one appliance may think that it is 2085.
#[test]
fn clocks_that_are_wrong_by_years_do_not_matter() {
    for (from, to) in [(2085, 2086), (1971, 1972)] {
        let appliance = Appliance::start_valid(from, to);
        let handover = handover(&appliance, &appliance.pin_sha256);
        let run = start_with(appliance, &handover, ReportBoard::new(None));
        run.plan(1, vec![PlanStep::Inspect]);
        wait_until("the inspection", || run.appliance.last_report().is_some_and(|report| !report.receipts.is_empty()));
        let receipt = run.appliance.last_report().unwrap().receipts.remove(0);
        assert!(matches!(receipt.evidence, Evidence::Inspected { .. }));
        assert!((TIME_MS..TIME_MS + 600_000).contains(&receipt.started_ms), "receipts have the appliance's time");
        assert_eq!(*run.host.clocks_ms.lock().unwrap(), [TIME_MS], "and so have the host's clocks, for its OS");
        end(run);
    }
}

/// Images come from anywhere: the server must have a certificate of a trusted CA.
#[test]
fn nothing_is_downloaded_from_a_server_that_nobody_vouches_for() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let appliance = Appliance::start();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let limits = DownloadLimits { attempts_max: 1, ..DownloadLimits::default() };
    let url = format!("https://{}/disk.raw", appliance.address);
    let mut download = Download::new(client, &url, limits, None, true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(download.next()).unwrap_err();
    assert!(format!("{error:?}").contains("UnknownIssuer"), "{error:?}");
    assert!(error.help().contains("see that the server"), "{}", error.help());
}

#[test]
fn an_agent_that_is_not_wanted_leaves_without_touching_a_disk() {
    for reason in [RefusalReason::BadToken, RefusalReason::OldAttempt, RefusalReason::BadSignature] {
        let appliance = Appliance::start();
        *appliance.refusal.lock().unwrap() = Some(reason);
        let handover = handover(&appliance, &appliance.pin_sha256);
        let run = start_with(appliance, &handover, ReportBoard::new(None));
        let Running { host, session, appliance, .. } = run;
        let outcome = session.join().unwrap();
        assert_eq!((outcome.exit, outcome.unwanted), (Exit::Reboot, true), "{reason:?}");
        assert!(appliance.heard.lock().unwrap().requests_for_image.is_empty());
        assert!(!appliance.held.load(Ordering::SeqCst) && host.read("target").iter().all(|&byte| byte == 0x11));
    }
}
