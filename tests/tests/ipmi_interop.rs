//! The IPMI client against OpenIPMI's BMC (`ipmi_sim`) and OpenStack's (virtualbmc), and the tests' own BMC against
//! `ipmitool`.
//!
//! Implementations that know nothing of each other: what both ends here have wrong in the same way would show. The BMCs
//! have cipher suite 3 alone, ipmitool both. Behind virtualbmc is libvirt's own pretended machine, so that no daemon is
//! needed. All on loopback; without the program a test says so and passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use firesteel_bmc::ipmi::{ConsoleSet, Ipmi, IpmiAddress, IpmiClient, fru};
use firesteel_bmc::{BmcBootMode, BmcCredentials, BootSet, Error, NextBootSource, PowerAction, PowerSent, PowerState};
use firesteel_bmc_fakes::ipmi::FakeIpmi;
use firesteel_tests::dialing::dialer;
use tokio::net::UdpSocket;

/// Starting takes a moment, and on a busy machine many.
const START_MAX: Duration = Duration::from_secs(120);

fn credentials() -> BmcCredentials {
    BmcCredentials { username: "admin".into(), password: "correct-horse".into() }
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("-V").stdin(Stdio::null()).output().is_ok();
    if !found {
        eprintln!("skipped: no {program} here");
    }
    found
}

/// A running `ipmi_sim`, stopped at the end.
struct Simulator {
    child: Child,
    folder: tempfile::TempDir,
    address: IpmiAddress,
    /// The other end of its host's serial port, where it has one.
    serial: Option<TcpListener>,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Keeps the power state in a file, as a chassis would. ipmi_sim calls it with the BMC's address, `get` or `set`, and
/// names with values.
const CHASSIS: &str = r#"#!/bin/sh
state=$(dirname "$0")/power
shift
verb=$1
shift
case $verb in
get)
    case $1 in
    power) echo "power:$(cat "$state")" ;;
    boot) echo "boot:$(cat "$state.boot" 2>/dev/null || echo none)" ;;
    esac ;;
set)
    case $1 in
    power) echo "$2" >"$state" ;;
    shutdown) echo 0 >"$state" ;;
    reset) echo reset >>"$state.resets" ;;
    boot) echo "$2" >"$state.boot" ;;
    esac ;;
esac
exit 0
"#;

impl Simulator {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Free a moment ago; nobody else on loopback looks for one of these.
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let chassis = path("chassis");
        fs::write(&chassis, CHASSIS).unwrap();
        fs::set_permissions(&chassis, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path("power"), "0").unwrap();
        fs::create_dir(path("state")).unwrap();
        fs::write(path("fru"), fru::with_product("Example", "Server 5", "SN-77")).unwrap();
        let BmcCredentials { username, password } = credentials();
        let serial = TcpListener::bind("127.0.0.1:0").unwrap();
        let lan = format!(
            "name \"sim\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    priv_limit admin\n    \
             allowed_auths_admin md5\n    guid a123456789abcdefa123456789abcdef\n  endlan\n  \
             chassis_control \"{} 0x20\"\n  sol \"tcp:127.0.0.1:{}\" 115200\n  user 2 true \"{username}\" \"{password}\" admin 10 md5\n  \
             user 3 true \"watcher\" \"{password}\" user 10 md5\n",
            chassis.display(),
            serial.local_addr().unwrap().port()
        );
        fs::write(path("lan.conf"), lan).unwrap();
        let size = fs::metadata(path("fru")).unwrap().len();
        let commands = format!(
            "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n\
             mc_add_fru_data 0x20 0 {size} file 0 \"{}\"\nmc_enable 0x20\n",
            path("fru").display()
        );
        fs::write(path("commands"), commands).unwrap();
        let log = fs::File::create(path("log")).unwrap();
        let mut command = Command::new("ipmi_sim");
        command.arg("-n").arg("-c").arg(path("lan.conf")).arg("-f").arg(path("commands")).arg("-s").arg(path("state"));
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let address = IpmiAddress::parse(&format!("ipmi://127.0.0.1:{port}")).unwrap();
        let simulator = Self { child, folder, address, serial: Some(serial) };
        simulator.wait().await;
        simulator
    }

    /// Until its port is taken. To bind it oneself would keep it from the simulator.
    async fn wait(&self) {
        let begin = Instant::now();
        let bound = format!(":{:04X} ", self.address.port());
        while !fs::read_to_string("/proc/net/udp").unwrap().contains(&bound) {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(begin.elapsed() < START_MAX, "ipmi_sim does not start: {log}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn connect(&self) -> IpmiClient {
        Ipmi::connect(&dialer(), &self.address, &credentials()).await.unwrap()
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

#[tokio::test]
async fn ipmi_sim_is_driven() {
    if !has("ipmi_sim") {
        return;
    }
    let simulator = Simulator::start().await;
    let client = simulator.connect().await;
    let seen = client.identify().await.unwrap();
    assert_eq!(seen.power, PowerState::Off);
    assert_eq!((seen.manufacturer.as_deref(), seen.serial.as_deref()), (Some("Example"), Some("SN-77")));
    assert_eq!(client.set_power(PowerAction::ForceOff).await, Ok(PowerSent::Nothing));
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(client.power().await, Ok(PowerState::On));
    assert_eq!(simulator.written("power").trim(), "1");
    assert_eq!(client.set_power(PowerAction::ForceRestart).await, Ok(PowerSent::Sent));
    assert_eq!(simulator.written("power.resets").trim(), "reset");

    // Its flags are taken, and never marked valid: what is not sure is not called so.
    let set = client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Legacy).await.unwrap();
    assert_eq!(set, BootSet::Unverified { seen: "Pxe once, Legacy, not marked valid".into() });
    assert_eq!(simulator.written("power.boot").trim(), "pxe");

    assert_eq!(client.set_power(PowerAction::ForceOff).await, Ok(PowerSent::Sent));
    assert_eq!(client.power().await, Ok(PowerState::Off));
    client.close().await;

    // Ten sessions are all that a user has here: closed ones are free again.
    for _ in 0..15 {
        let client = simulator.connect().await;
        assert_eq!(client.power().await, Ok(PowerState::Off));
        client.close().await;
    }
}

#[tokio::test]
async fn the_serial_port_behind_ipmi_sim_is_heard() {
    if !has("ipmi_sim") {
        return;
    }
    let mut simulator = Simulator::start().await;
    let client = simulator.connect().await;
    assert_eq!(client.open_console().await, Ok(ConsoleSet::Listening));
    let serial = simulator.serial.take().unwrap();
    let text: String = (0..200).map(|number| format!("line {number} of what the host says\r\n")).collect();
    let said = text.clone();
    let host = tokio::task::spawn_blocking(move || {
        let (mut port, _) = serial.accept().unwrap();
        port.write_all(said.as_bytes()).unwrap();
        port
    });
    let mut heard = Vec::new();
    let begin = Instant::now();
    while heard.len() < text.len() {
        assert!(begin.elapsed() < START_MAX, "heard only {:?}", String::from_utf8_lossy(&heard));
        heard.extend(client.receive_console_data(Duration::from_secs(1)).await.unwrap().characters);
    }
    assert_eq!(String::from_utf8(heard).unwrap(), text);
    // The session is as good for everything else as before.
    assert_eq!(client.power().await, Ok(PowerState::Off));
    let other = simulator.connect().await;
    assert_eq!(other.open_console().await, Ok(ConsoleSet::Taken));
    other.close().await;
    client.close().await;
    // Let go, it is there for the next one.
    let next = simulator.connect().await;
    assert_eq!(next.open_console().await, Ok(ConsoleSet::Listening));
    next.close().await;
    drop(host.await.unwrap());
}

#[tokio::test]
async fn ipmi_sim_refuses_logins_with_a_reason() {
    if !has("ipmi_sim") {
        return;
    }
    let simulator = Simulator::start().await;
    let with = |username: &str, password: &str| BmcCredentials { username: username.into(), password: password.into() };
    for (login, error) in
        [(with("nobody", "correct-horse"), Error::UnknownUser), (with("admin", "wrong"), Error::WrongPassword)]
    {
        assert_eq!(Ipmi::connect(&dialer(), &simulator.address, &login).await.unwrap_err(), error);
    }
    // What a user may be at most is nothing to it, whatever its file says; what is asked for is.
    let address = IpmiAddress::parse(&format!("{}?privilegelevel=OPERATOR", simulator.address)).unwrap();
    let operator = Ipmi::connect(&dialer(), &address, &with("watcher", "correct-horse")).await.unwrap();
    assert_eq!(operator.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(operator.set_power(PowerAction::ForceOff).await, Ok(PowerSent::Sent));
    operator.close().await;
    assert_eq!(simulator.connect().await.power().await, Ok(PowerState::Off), "and the right one is still let in");
}

/// virtualbmc for the machine `test` of libvirt's test driver, which lives as long as a connection to it.
const VIRTUALBMC: &str = "
import sys, libvirt
from virtualbmc.vbmc import VirtualBMC
uri = 'test:///default'
held = libvirt.open(uri)
VirtualBMC('admin', 'correct-horse', int(sys.argv[1]), '127.0.0.1', 'test', uri).listen(timeout=3600)
";

#[tokio::test]
async fn virtualbmc_is_driven() {
    if !has("python-bmc-peers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("python-bmc-peers");
    command.args(["-c", VIRTUALBMC, &port.to_string()]).env("HOME", folder.path()).stdin(Stdio::null());
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let address = IpmiAddress::parse(&format!("ipmi://127.0.0.1:{port}")).unwrap();
    let simulator = Simulator { child, folder, address, serial: None };
    simulator.wait().await;

    let client = simulator.connect().await;
    assert_eq!(client.power().await, Ok(PowerState::On));
    assert_eq!(client.set_power(PowerAction::ForceOff).await, Ok(PowerSent::Sent));
    let seen = client.identify().await.unwrap();
    // It has neither a GUID nor an inventory, and no serial port.
    assert_eq!((seen.power, seen.uuid, seen.serial), (PowerState::Off, None, None));
    assert!(matches!(client.open_console().await, Ok(ConsoleSet::NotOffered { .. })));
    assert_eq!(client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Legacy).await, Ok(BootSet::Confirmed));
    // It takes UEFI, and shows none: what is not sure is not called so.
    let set = client.set_boot_once(NextBootSource::Pxe, BmcBootMode::Uefi).await.unwrap();
    assert_eq!(set, BootSet::Unverified { seen: "Pxe once, Legacy".into() });
    assert_eq!(client.set_power(PowerAction::On).await, Ok(PowerSent::Sent));
    assert_eq!(client.set_power(PowerAction::ForceRestart).await, Ok(PowerSent::Sent));
    assert_eq!(client.set_power(PowerAction::GracefulOff).await, Ok(PowerSent::Sent));
    assert_eq!(client.power().await, Ok(PowerState::Off));
    client.close().await;

    let wrong = BmcCredentials { username: "admin".into(), password: "wrong".into() };
    assert_eq!(Ipmi::connect(&dialer(), &simulator.address, &wrong).await.unwrap_err(), Error::WrongPassword);
    let client = simulator.connect().await;
    assert_eq!(client.power().await, Ok(PowerState::Off), "and the right one is still let in");
    client.close().await;
}

/// What ipmitool says of the fake BMC.
async fn ipmitool(folder: &Path, port: u16, suite: &str, words: &str) -> String {
    let mut command = tokio::process::Command::new("ipmitool");
    let port = port.to_string();
    command.args(["-I", "lanplus", "-H", "127.0.0.1", "-p", &port, "-U", "admin", "-P", "correct-horse", "-C", suite]);
    // It keeps a table of vendors there.
    let output = command.args(words.split(' ')).env("HOME", folder).stdin(Stdio::null()).output().await.unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "ipmitool -C {suite} {words}: {told}");
    told
}

#[tokio::test]
async fn ipmitool_takes_the_fake_bmc_for_one() {
    if !has("ipmitool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for suite in ["17", "3"] {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let fake = FakeIpmi::new(credentials(), 3);
        tokio::spawn(fake.clone().serve(socket));
        for (words, expected) in [
            ("chassis power status", "Chassis Power is off"),
            ("chassis power on", "Up/On"),
            ("chassis power status", "Chassis Power is on"),
            ("chassis bootdev pxe options=efiboot", "Set Boot Device to pxe"),
            ("chassis bootparam get 5", "Force PXE"),
            ("chassis power reset", "Reset"),
            ("mc guid", "System GUID"),
        ] {
            let told = ipmitool(folder.path(), port, suite, words).await;
            assert!(told.contains(expected), "ipmitool -C {suite} {words}: {told}");
        }
        let state = fake.state();
        assert_eq!(state.controls, [1, 3]);
        assert_eq!(state.sessions(), 0, "it closes its sessions");
    }
}
