//! A boot that is under way when the appliance is killed, or upgraded: what was seen of it counts, and nothing else.

use std::fs;

use firesteel_tests::field::{Field, discover, mac};
use firesteel_tests::hostile::Hostile;
use firesteel_tests::network::{BOOT_FILES, Dhcp};
use firesteel_wire::Program;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{CLASS, host_agent::HostAgent, judge, with_hostile};

fn journal(field: &Field) -> Value {
    serde_json::from_str(&field.firesteel(&["get", "hostjournals", "victim", "-o", "json"])).unwrap()
}

/// Waits until it is written that all of a file was sent.
fn is_written(field: &Field, file: &str) {
    let words = format!("\"{file}\":");
    field.until(&["get", "hostjournals", "victim", "-o", "json"], |page| page.contains(&words));
}

/// The host asks for its script from its own address.
fn script(field: &Field, hostile: &mut Hostile) -> String {
    let leased = field.lease(&discover(1, CLASS, &[7]));
    hostile.script(leased, &mac(1).to_string()).body
}

#[test]
fn what_was_seen_of_a_boot_counts_after_a_kill() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut agent = HostAgent::new(field, 1);
        agent.boot(field, &first);
        is_written(field, "initramfs");
        let boot = journal(field)["status"]["boot"].clone();
        assert_eq!((&boot["by"], &boot["attempt"]), (&json!("lease"), &json!(1)), "{boot}");
        field.appliance.kill_and_start_again();
        let status = agent.hello(field, Program::default()).0;
        judge("hello after a kill, of a boot that was seen", "-", "200", &status.to_string());
        assert!(journal(field)["status"]["boot"]["helloAt"].is_string());
    });
}

#[test]
fn a_boot_goes_on_over_a_kill() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut agent = HostAgent::new(field, 1);
        agent.take(&first);
        assert_eq!(agent.fetch(field, "kernel", None), 200);
        is_written(field, "kernel");
        field.appliance.kill_and_start_again();
        assert_eq!(agent.fetch(field, "initramfs", None), 200);
        is_written(field, "initramfs");
        let status = agent.hello(field, Program::default()).0;
        judge("hello after a kill between kernel and initramfs", "-", "200", &status.to_string());
    });
}

/// Kernel and initramfs of one boot are of one build.
#[test]
fn a_boot_that_began_before_an_upgrade_goes_on_with_its_files() {
    with_hostile(Dhcp::Managed, |field, hostile| {
        field.add_host("victim", mac(1));
        let first = script(field, hostile);
        let mut agent = HostAgent::new(field, 1);
        agent.take(&first);
        assert_eq!(agent.fetch(field, "kernel", None), 200);
        let folder = field.appliance.folder().join(BOOT_FILES);
        field.appliance.kill_and_start_again_after(|| {
            let sha256 = |text: &str| json!({ "sha256": hex::encode(digest(&SHA256, text.as_bytes())) });
            fs::write(folder.join("vmlinuz"), "another kernel").unwrap();
            fs::write(folder.join("initramfs.zst"), "another ramdisk").unwrap();
            let manifest = json!({"vmlinuz": sha256("another kernel"), "initramfs": sha256("another ramdisk")});
            fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        });
        // The kernel was sent before; a loader that tries again gets the same one.
        assert_eq!(agent.fetch_bytes(field, "kernel"), b"vmlinuz");
        // The host's seed comes before the ramdisk.
        let sent = agent.fetch_bytes(field, "initramfs");
        assert!(sent.ends_with(b"initramfs.zst"), "{}", String::from_utf8_lossy(&sent));
        let status = agent.hello(field, Program::default()).0;
        judge("hello of a boot that began before an upgrade", "-", "200", &status.to_string());
        assert_eq!(agent.report(field, true), 200);
        let next = script(field, hostile);
        let mut agent = HostAgent::new(field, 2);
        agent.boot(field, &next);
        assert_eq!(agent.hello(field, Program::default()).0, 200, "the next boot has the new ones");
        let sha256 = hex::encode(digest(&SHA256, b"another kernel"));
        field.until(&["get", "hostjournals", "victim", "-o", "json"], |page| page.contains(&sha256));
    });
}
