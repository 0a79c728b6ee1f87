//! What an appliance needs that serves machines: an address on a wire of its own, and files to boot.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::{fs, net::Ipv4Addr, path::Path, process::Command};

use ring::digest::{SHA256, digest};
use serde_json::json;

/// The appliance's, on the interface `s0`.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The Provisioning object, in the folder.
pub const PROVISIONING: &str = "provisioning.json";
/// The ramdisk and the loaders, below the folder.
pub const BOOT_FILES: &str = "boot";

/// Runs `ip` with these words.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a user gives it: a network, and files to boot.
pub fn prepare(folder: &Path) {
    let provisioning = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": "Managed", "provisioningInterface": "s0", "provisioningIP": ADDRESS,
            "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.100,10.77.0.199",
        },
    });
    fs::write(folder.join(PROVISIONING), provisioning.to_string()).unwrap();
    let boot = folder.join(BOOT_FILES);
    fs::create_dir(&boot).unwrap();
    for name in ["vmlinuz", "initramfs.zst", "undionly.kpxe", "snponly.efi", "ipxe.efi"] {
        fs::write(boot.join(name), name).unwrap();
    }
    let sha256 = |text: &str| json!({ "sha256": hex::encode(digest(&SHA256, text.as_bytes())) });
    let manifest = json!({ "vmlinuz": sha256("vmlinuz"), "initramfs": sha256("initramfs.zst") });
    fs::write(boot.join("manifest.json"), manifest.to_string()).unwrap();
}
