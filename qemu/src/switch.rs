//! A switch between one machine's NICs and the bridge: a guest of its own, because not every computer's kernel knows
//! VLANs and bonds, which Debian's does. `qemu/switch` is its PID 1.
//!
//! ```text
//!            vlan                                              bond
//!   bridge ── uplink ─ br0 ─ port0 ── nic0           bridge ── uplink ─ br0 ─ lag ┬ port0 ── nic0
//!                       └ router ─ port0.100                        (802.3ad)     └ port1 ── nic1
//! ```
//!
//! In both cases the firmware finds its way untagged over the first port, as on switches with a native VLAN and with
//! LACP fallback. VLAN 100 is another network, whose router is the switch.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::machine::{Accel, NIC_MODEL, switch_port};
use crate::os;
use crate::serial::SerialLog;
use crate::tools::Tools;

/// The network behind the tag, its router, and the router's address on the untagged one; `qemu/switch` has the same.
pub const VLAN_ID: u16 = 100;
pub const VLAN_CIDR: &str = "10.88.0.0/24";
pub const VLAN_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
pub const ROUTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
const LOG: &str = "switch.log";
const QEMU_LOG: &str = "switch-qemu.log";
/// A kernel and one small program, on a loaded computer.
const START_WAIT: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwitchMode {
    /// One port: the native VLAN is the provisioning network, VLAN 100 is another one.
    Vlan,
    /// Two ports that are one link aggregation.
    Bond,
}

impl SwitchMode {
    fn name(self) -> &'static str {
        match self {
            Self::Vlan => "vlan",
            Self::Bond => "bond",
        }
    }

    fn ports(self) -> usize {
        match self {
            Self::Vlan => 1,
            Self::Bond => 2,
        }
    }
}

/// Hardware addresses of a machine's NICs behind the first.
#[must_use]
pub fn extra_macs(mode: SwitchMode, machine: u8) -> Vec<String> {
    (1..mode.ports()).map(|nic| format!("52:54:00:77:{:02x}:{machine:02x}", nic + 1)).collect()
}

/// A running switch; it ends when this is dropped.
#[derive(Debug)]
pub struct Switch {
    _process: Child,
    log: PathBuf,
}

impl Switch {
    /// Starts it in the machine's folder, and waits until it forwards.
    pub async fn start(
        mode: SwitchMode,
        tools: &Tools,
        accel: Accel,
        kernel: &Path,
        initramfs: &Path,
        tap: &str,
        folder: &Path,
    ) -> io::Result<Self> {
        let log = folder.join(LOG);
        File::create(&log)?;
        let output = File::create(folder.join(QEMU_LOG))?;
        let mut command = Command::new(&tools.qemu);
        command.args(["-name", "switch", "-machine", "q35,graphics=off", "-nodefaults", "-display", "none"]);
        match accel {
            Accel::Tcg => command.args(["-accel", "tcg", "-cpu", "max"]),
            Accel::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        };
        command.args(["-smp", "1", "-m", "256", "-no-reboot"]);
        command.arg("-serial").arg(format!("file:{LOG}"));
        command.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
        command.arg("-append").arg(format!("console=ttyS0 panic=1 quiet lab.switch={}", mode.name()));
        command.arg("-netdev").arg(format!("tap,id=up,ifname={tap},script=no,downscript=no"));
        command.arg("-device").arg("virtio-net-pci,netdev=up,mac=52:54:00:77:f0:fe,romfile=");
        for port in 0..mode.ports() {
            command.arg("-netdev").arg(switch_port(port, "switch", "machine"));
            let device = format!("{NIC_MODEL},netdev=net{port},mac=52:54:00:77:f0:{port:02x},romfile=");
            command.arg("-device").arg(device);
        }
        command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(output.try_clone()?).stderr(output);
        os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
        let switch = Self { _process: command.spawn()?, log };
        if switch.log().wait_for("switch: forwarding", 0, START_WAIT).await?.is_none() {
            return Err(io::Error::other(format!("the switch did not start:\n{}", switch.log().tail(20))));
        }
        Ok(switch)
    }

    #[must_use]
    pub fn log(&self) -> SerialLog {
        SerialLog::new(self.log.clone())
    }
}
