//! What an appliance needs that serves machines: an address on a wire of its own, and files to boot.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::{fs, net::Ipv4Addr, path::Path, process::Command};

use nix::sched::{CloneFlags, unshare};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::appliance::{ALLOW_LOOPBACK, Appliance};

/// The appliance's, on the interface `s0`.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The Provisioning object, in the folder.
pub const PROVISIONING: &str = "provisioning.json";
/// The agent in that ramdisk, whose digest the manifest names.
pub const AGENT: &str = "the agent";
/// The ramdisk and the loaders, below the folder.
pub const BOOT_FILES: &str = "boot";

/// Who leases addresses to machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp {
    /// The appliance.
    Managed,
    /// Another server, which tells machines where the appliance is.
    Unmanaged,
    /// Others lease addresses and serve loaders: the appliance answers by HTTP only.
    Disabled,
}

/// Runs a test with an appliance that serves machines on `s0`, in a network namespace that ends with it. `program` is
/// the command.
pub fn with_appliance(program: &'static str, test: impl FnOnce(Appliance) + Send + 'static) {
    // A thread's namespace is its own: tests that run beside this one keep theirs.
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of its own takes root");
        for command in [
            "link set lo up",
            "link add s0 type veth peer name c0",
            "address add 10.77.0.1/24 dev s0",
            "link set s0 up",
            "link set c0 up",
        ] {
            ip(command);
        }
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), Dhcp::Managed);
        let files =
            ["--interface", "s0", "--provisioning", PROVISIONING, "--boot-files", BOOT_FILES, "--loaders", BOOT_FILES];
        let arguments = [files.as_slice(), &ALLOW_LOOPBACK].concat();
        let appliance = Appliance::start_whole(program, &format!("{ADDRESS}:6443"), &arguments, folder);
        appliance.wait_until_network_is_served();
        test(appliance);
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Runs a test with an appliance that has neither a provisioning interface nor files to boot, in a network namespace that
/// ends with it. It has no Provisioning object yet. `program` is the command.
pub fn with_bmc_only_appliance(program: &'static str, test: impl FnOnce(Appliance) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of its own takes root");
        ip("link set lo up");
        let folder = tempfile::tempdir().unwrap();
        test(Appliance::start_whole(program, "127.0.0.1:6443", &ALLOW_LOOPBACK, folder));
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Runs `ip` with these words.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A provisioning network, and what of it is leased.
#[derive(Clone, Copy, Debug)]
pub struct ProvisionedNetwork {
    pub prefix_length: u8,
    pub range: &'static str,
}

/// For a handful of machines.
pub const SMALL: ProvisionedNetwork = ProvisionedNetwork { prefix_length: 24, range: "10.77.0.100,10.77.0.199" };
/// For hundreds of hosts: a quarter of it is theirs alone.
pub const LARGE: ProvisionedNetwork = ProvisionedNetwork { prefix_length: 16, range: "10.77.1.0,10.77.8.255" };

/// What a user gives it: a network, and files to boot.
pub fn prepare(folder: &Path, dhcp: Dhcp) {
    prepare_for(folder, dhcp, SMALL);
}

/// The same with this network.
pub fn prepare_for(folder: &Path, dhcp: Dhcp, network: ProvisionedNetwork) {
    let mut provisioning = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": format!("{dhcp:?}"), "provisioningInterface": "s0", "provisioningIP": ADDRESS,
            "provisioningNetworkCIDR": format!("10.77.0.0/{}", network.prefix_length),
        },
    });
    if dhcp == Dhcp::Managed {
        provisioning["spec"]["provisioningDHCPRange"] = network.range.into();
    }
    fs::write(folder.join(PROVISIONING), provisioning.to_string()).unwrap();
    let boot = folder.join(BOOT_FILES);
    fs::create_dir(&boot).unwrap();
    for name in ["vmlinuz", "initramfs.zst", "undionly.kpxe", "snponly.efi", "ipxe.efi"] {
        fs::write(boot.join(name), name).unwrap();
    }
    let sha256 = |text: &str| json!({ "sha256": hex::encode(digest(&SHA256, text.as_bytes())) });
    let manifest =
        json!({ "vmlinuz": sha256("vmlinuz"), "initramfs": sha256("initramfs.zst"), "agent": sha256(AGENT) });
    fs::write(boot.join("manifest.json"), manifest.to_string()).unwrap();
}
