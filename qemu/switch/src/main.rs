//! PID 1 of the lab's switch. Debian's kernel forwards; this program sets it up and prints what it counts. The other
//! end of what the agent does is the kernel's own 802.1Q and 802.3ad. `qemu/src/switch.rs` starts it. It knows neither
//! agent nor appliance.

#![allow(clippy::print_stdout, reason = "the console is all that it has, and the lab reads it")]

use std::{ffi::OsString, fs, net::Ipv4Addr, path::Path, process::ExitCode, thread, time::Duration};

use anyhow::Context as _;
use firesteel_modules as modules;
use firesteel_netlink::{Bond, Netlink};
use firesteel_os as os;
use firesteel_sysfs::{Roots, nics};
use firesteel_wire::network::BondMode;

const UPLINK: &str = "52:54:00:77:f0:fe";
const PORTS: [&str; 2] = ["52:54:00:77:f0:00", "52:54:00:77:f0:01"];
const VLAN_ID: u16 = 100;
const VLAN_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const ROUTER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
const COLDPLUG_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if std::process::id() != 1 {
        if modules::modprobe_request(&arguments).is_some() {
            return ExitCode::from(u8::try_from(modules::modprobe(&arguments)).unwrap_or(1));
        }
        eprintln!("This is PID 1 of the lab's switch.");
        return ExitCode::FAILURE;
    }
    if let Err(error) = run() {
        println!("switch: {error:#}");
    }
    // The kernel panics when PID 1 ends, and so the guest does.
    ExitCode::FAILURE
}

fn run() -> anyhow::Result<()> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        os::mounts::mount_kernel_filesystem(kind, Path::new(target), "").with_context(|| target.to_owned())?;
    }
    os::process::use_console(Path::new("/dev/console")).context("opening the console")?;
    fs::write("/proc/sys/kernel/modprobe", "/init").context("naming /init as modprobe")?;
    modules::coldplug(Path::new("/"), COLDPLUG_MAX);
    let parameters = fs::read_to_string("/proc/cmdline").context("reading the kernel's parameters")?;
    let mode = parameters.split_ascii_whitespace().find_map(|word| word.strip_prefix("lab.switch="));
    let mut netlink = Netlink::open().context("speaking with the kernel")?;
    let uplink = nic(UPLINK)?;
    netlink.add("br0", "bridge").context("making the bridge")?;
    join(&mut netlink, &uplink)?;
    match mode {
        Some("vlan") => vlan(&mut netlink),
        Some("bond") => bond(&mut netlink),
        _ => anyhow::bail!("lab.switch must be vlan or bond"),
    }
}

fn nic(mac: &str) -> anyhow::Result<String> {
    nics::find_by_mac(&Roots::default(), mac).with_context(|| format!("there is no port {mac}"))
}

fn join(netlink: &mut Netlink, port: &str) -> anyhow::Result<()> {
    netlink.set_master(port, "br0").with_context(|| format!("connecting {port}"))?;
    netlink.switch(port, true).with_context(|| format!("switching {port} on"))
}

/// Untagged frames of the port are bridged; VLAN 100 is another network, and this is its router.
fn vlan(netlink: &mut Netlink) -> anyhow::Result<()> {
    let port = nic(PORTS[0])?;
    netlink.add_vlan("tagged", &port, VLAN_ID).context("making the VLAN")?;
    join(netlink, &port)?;
    for (interface, address) in [("tagged", VLAN_ROUTER), ("br0", ROUTER_ADDRESS)] {
        netlink.switch(interface, true).with_context(|| format!("switching {interface} on"))?;
        netlink.add_address(interface, address.into(), 24).with_context(|| format!("addressing {interface}"))?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("becoming a router")?;
    println!("switch: forwarding");
    let mut before = String::new();
    loop {
        let sent = fs::read_to_string("/sys/class/net/tagged/statistics/tx_bytes").context("counting")?;
        if sent != before {
            println!("switch: vlan sent {}", sent.trim());
            before = sent;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Both ports are one aggregation. As long as no peer speaks LACP on them, one port carries everything, which is what
/// switches call LACP fallback.
fn bond(netlink: &mut Netlink) -> anyhow::Result<()> {
    let bond = Bond { mode: BondMode::Lacp, miimon_ms: 100, lacp_fast: true, hash: 0 };
    netlink.add_bond("lag", bond, None).context("making the bond")?;
    for mac in PORTS {
        let port = nic(mac)?;
        netlink.set_master(&port, "lag").with_context(|| format!("adding {port}"))?;
    }
    join(netlink, "lag")?;
    netlink.switch("br0", true).context("switching the bridge on")?;
    println!("switch: forwarding");
    let mut before = (String::new(), String::new());
    loop {
        let read = |name: &str| fs::read_to_string(format!("/sys/class/net/lag/bonding/{name}")).unwrap_or_default();
        let now = (read("ad_num_ports"), read("ad_partner_mac"));
        if now != before {
            println!("switch: lag of {} ports with {}", now.0.trim(), now.1.trim());
            before = now;
        }
        thread::sleep(LOOK_EVERY);
    }
}
