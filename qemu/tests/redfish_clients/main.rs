//! Clients of Redfish that others wrote (PyPI's `sushy` and `redfish`) against the lab's own BMC, on loopback. The machine
//! behind it is real but for QEMU, in whose place a small program obeys. Where the clients or the firmware's files are
//! not here (`qemu/lab --only-tools` brings them), the test says so and passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, process::Stdio};

use firesteel_lab::bmc::{Bmc, PASSWORD, USER};
use firesteel_lab::machine::{Accel, BootOrder, Machine, MachineFirmware, MachineSettings, NetBoot};
use firesteel_lab::tools::Tools;

const QEMU: &str = include_str!("qemu.py");
const SUITE: &str = include_str!("suite.py");

#[tokio::test(flavor = "multi_thread")]
async fn sushy_and_redfish_drive_the_labs_bmc() {
    let Some((mut tools, python)) = Tools::find().ok().and_then(|tools| {
        let python = tools.program("python-bmc-peers").ok()?;
        Some((tools, python))
    }) else {
        eprintln!("skipped: no firmware, or no sushy and redfish here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    tools.qemu = folder.path().join("qemu");
    fs::write(&tools.qemu, QEMU).unwrap();
    fs::set_permissions(&tools.qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let config = MachineSettings {
        name: "client-1".to_owned(),
        uuid: uuid::Uuid::new_v4(),
        mac: "52:54:00:77:01:01".to_owned(),
        tap: "none".to_owned(),
        linked: false,
        switched: None,
        firmware: MachineFirmware::Uefi,
        memory_mib: 1024,
        accel: Accel::Tcg,
        boot_order: BootOrder::NetworkFirst,
        net_boot: NetBoot::Pxe,
        disks: Vec::new(),
        media: None,
        folder: folder.path().join("machine"),
    };
    let machine = Machine::new(config, tools, Vec::new()).unwrap();
    let bmc = Bmc::listen(machine, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = bmc.url();
    let base = url.trim_start_matches("redfish+").split("/redfish/v1").next().unwrap();
    let output = tokio::process::Command::new(python)
        .args(["-c", SUITE, base, USER, PASSWORD])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{output_text}");
    assert!(output_text.contains("driven by sushy and redfish"), "{output_text}");
}
