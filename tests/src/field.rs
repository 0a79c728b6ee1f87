//! The real process on a wire of its own, and what a machine says on it: DHCP, TFTP and HTTP.
//!
//! ```text
//!   the test's namespace                      a namespace for machines
//!     s0 10.77.0.1 firesteel serve ── veth ── c0 10.77.0.2, and what DHCP leases
//! ```
//!
//! It takes root. Suites share it that look at what machines get, and that attack. Whatever is waited for comes, or the
//! test fails after a time that only what hangs takes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot have it fails by panicking")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_facts::Mac;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::appliance::{ALLOW_LOOPBACK, Appliance};
use crate::network::{ADDRESS, BOOT_FILES, Dhcp, PROVISIONING, ProvisionedNetwork, SMALL, ip, prepare_for};

const PATIENCE: Duration = Duration::from_secs(300);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(500);
/// Where relays are, and the network behind them.
pub const RELAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// An appliance that serves machines, and their end of the wire.
#[derive(Debug)]
pub struct Field {
    /// Of the data folder, where it has one of its own. It goes before the folder that it is in.
    _disk: Option<FieldDisk>,
    pub appliance: Appliance,
    machines: File,
}

/// A mounted tmpfs that only this thread sees, and what it starts.
#[derive(Debug)]
struct FieldDisk(PathBuf);

impl FieldDisk {
    fn mount(at: PathBuf, mib: u32) -> Self {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace of its own takes root");
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        fs::create_dir(&at).unwrap();
        let options = format!("size={mib}m,mode=700");
        mount(Some("tmpfs"), &at, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
        Self(at)
    }
}

impl Drop for FieldDisk {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.0, MntFlags::MNT_DETACH) {
            eprintln!("the disk of the test stays mounted: {error}");
        }
    }
}

/// Runs a test with such an appliance, in namespaces that end with it. `program` is the command. BMCs and origins may be
/// on loopback.
pub fn with_field(program: &'static str, dhcp: Dhcp, test: impl FnOnce(&mut Field) + Send + 'static) {
    with_field_and(program, dhcp, &[], test);
}

/// The same with more flags of the appliance.
pub fn with_field_and(
    program: &'static str,
    dhcp: Dhcp,
    flags: &'static [&'static str],
    test: impl FnOnce(&mut Field) + Send + 'static,
) {
    with_setting(program, FieldSetting { flags, ..FieldSetting::of(dhcp) }, test);
}

/// The same with an appliance that is started with these flags, and lets nothing be dialled by itself.
pub fn with_field_that(
    program: &'static str,
    dhcp: Dhcp,
    flags: &'static [&'static str],
    test: impl FnOnce(&mut Field) + Send + 'static,
) {
    with_setting(program, FieldSetting { flags, allowed: &[], ..FieldSetting::of(dhcp) }, test);
}

/// The same as [`with_field`] on this network.
pub fn with_network(
    program: &'static str,
    dhcp: Dhcp,
    network: ProvisionedNetwork,
    test: impl FnOnce(&mut Field) + Send + 'static,
) {
    with_setting(program, FieldSetting { network, ..FieldSetting::of(dhcp) }, test);
}

/// The same as [`with_field`] with a disk of so many MiB for the data folder.
pub fn with_small_disk(program: &'static str, mib: u32, test: impl FnOnce(&mut Field) + Send + 'static) {
    with_setting(program, FieldSetting { disk_mib: Some(mib), ..FieldSetting::of(Dhcp::Managed) }, test);
}

/// How an appliance and its wire differ from those of other tests.
struct FieldSetting {
    dhcp: Dhcp,
    network: ProvisionedNetwork,
    /// Flags of the appliance: what may be dialled, and others.
    allowed: &'static [&'static str],
    flags: &'static [&'static str],
    disk_mib: Option<u32>,
}

impl FieldSetting {
    fn of(dhcp: Dhcp) -> Self {
        Self { dhcp, network: SMALL, allowed: &ALLOW_LOOPBACK, flags: &[], disk_mib: None }
    }
}

fn with_setting(program: &'static str, setting: FieldSetting, test: impl FnOnce(&mut Field) + Send + 'static) {
    let thread = std::thread::spawn(move || test(&mut Field::start(program, &setting)));
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Prints the line of a case in the table, and fails where it got something else.
#[allow(clippy::print_stdout, reason = "the table is what a test is run for")]
pub fn judge(case: &str, wanted: &str, got: &str) {
    println!("{case} | {wanted} | {got}");
    assert_eq!(got, wanted, "{case}");
}

impl Field {
    fn start(program: &str, setting: &FieldSetting) -> Self {
        let namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of its own takes root");
            ip("link set lo up");
            File::open("/proc/thread-self/ns/net").unwrap()
        };
        let machines = namespace();
        let _appliances = namespace();
        let far = format!("/proc/{}/fd/{}", std::process::id(), machines.as_raw_fd());
        ip(&format!("link add s0 type veth peer name c0 netns {far}"));
        ip(&format!("address add 10.77.0.1/{} dev s0", setting.network.prefix_length));
        ip("link set s0 up");
        ip("route add 10.88.0.0/24 dev s0");
        let folder = tempfile::tempdir().unwrap();
        prepare_for(folder.path(), setting.dhcp, setting.network);
        let disk = setting.disk_mib.map(|mib| FieldDisk::mount(folder.path().join("data"), mib));
        let arguments = [
            ["--interface", "s0"],
            ["--provisioning", PROVISIONING],
            ["--boot-files", BOOT_FILES],
            ["--loaders", BOOT_FILES],
            ["--relayed", "10.88.0.0/24,10.88.0.10,10.88.0.99"],
        ];
        let near = File::open("/proc/thread-self/ns/net").unwrap();
        setns(&machines, CloneFlags::CLONE_NEWNET).unwrap();
        ip(&format!("address add 10.77.0.2/{} dev c0", setting.network.prefix_length));
        ip("link set c0 up");
        setns(&near, CloneFlags::CLONE_NEWNET).unwrap();
        let arguments = [arguments.concat().as_slice(), setting.allowed, setting.flags].concat();
        let appliance = Appliance::start_whole(program, &format!("{ADDRESS}:6443"), &arguments, folder);
        appliance.wait_until_network_is_served();
        Self { _disk: disk, appliance, machines }
    }

    /// Takes the wire away, as a driver does that is loaded again, and then puts another one of the same names in its
    /// place. The appliance's end is off and has no address.
    pub fn replace_wire(&self, meanwhile: impl FnOnce()) {
        ip("link delete s0");
        meanwhile();
        let far = format!("/proc/{}/fd/{}", std::process::id(), self.machines.as_raw_fd());
        ip(&format!("link add s0 type veth peer name c0 netns {far}"));
        self.there(|| {
            ip("address add 10.77.0.2/24 dev c0");
            ip("link set c0 up");
        });
    }

    /// Gives the network these fields beside those that each has here, and waits until it is served so.
    pub fn edit_network(&self, fields: &Value) {
        let mut object = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "provisioning-configuration"},
            "spec": {
                "provisioningNetwork": "Managed", "provisioningInterface": "s0", "provisioningIP": ADDRESS,
                "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.100,10.77.0.199",
            },
        });
        object["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.apply(&object);
        self.appliance.wait_until_network_is_served();
    }

    /// Does something at the machines' end of the wire.
    pub fn there<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.machines, CloneFlags::CLONE_NEWNET).unwrap();
                what()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// What the command prints.
    pub fn firesteel(&self, arguments: &[&str]) -> String {
        let output = self.appliance.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What `firesteel describe host` prints, without its line breaks.
    pub fn page(&self, host: &str) -> String {
        flat(&self.firesteel(&["describe", "host", host]))
    }

    /// Asks the command until its answer is as wanted.
    pub fn until(&self, arguments: &[&str], is_it: impl Fn(&str) -> bool) -> String {
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let said = self.firesteel(arguments);
            if is_it(&flat(&said)) {
                return flat(&said);
            }
            assert!(Instant::now() < ends_at, "{arguments:?} still says:\n{said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Adds a host without BMC, and waits until the appliance knows it.
    pub fn add_host(&self, name: &str, mac: Mac) {
        self.apply(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
            "spec": {"online": true, "bootMACAddress": mac.to_string()},
        }));
        self.until(&["describe", "host", name], |page| page.contains("waiting for the host to boot"));
    }

    /// Applies an object, which must be taken.
    pub fn apply(&self, object: &Value) {
        let file = self.appliance.folder().join("applied.json");
        fs::write(&file, object.to_string()).unwrap();
        self.firesteel(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// Sends a message until the appliance answers it.
    pub fn ask(&self, packet: &Packet) -> Packet {
        let bytes = wire::encode(packet).unwrap();
        let port = if packet.giaddr.is_unspecified() { 68 } else { 67 };
        self.there(|| {
            let socket = dhcp_socket(port);
            let ends_at = Instant::now() + PATIENCE;
            while Instant::now() < ends_at {
                send(&socket, &bytes);
                let mut buffer = [0; 2048];
                while let Ok(length) = socket.recv(&mut buffer) {
                    let reply = wire::decode(&buffer[..length]);
                    let is_it = |reply: &Packet| reply.operation == DhcpOperation::Reply && reply.xid == packet.xid;
                    if let Some(reply) = reply.ok().filter(is_it) {
                        return reply;
                    }
                }
            }
            panic!("no answer to {packet:?}");
        })
    }

    /// Gives the address of this lease back. There is no answer.
    pub fn release(&self, ask: &Packet, leased: Ipv4Addr) {
        let mut release = Packet { xid: ask.xid + 2, ciaddr: leased, ..ask.clone() };
        release.options.set_message_type(MessageType::Release);
        release.options.set(code::SERVER_ID, ADDRESS.octets());
        self.send(&wire::encode(&release).unwrap());
    }

    /// Says that another machine has the address of this lease. There is no answer.
    pub fn decline(&self, ask: &Packet, leased: Ipv4Addr) {
        let mut decline = Packet { xid: ask.xid + 2, ..ask.clone() };
        decline.options.set_message_type(MessageType::Decline);
        decline.options.set(code::REQUESTED_ADDRESS, leased.octets());
        decline.options.set(code::SERVER_ID, ADDRESS.octets());
        self.send(&wire::encode(&decline).unwrap());
    }

    /// Sends a datagram to port 67, and waits for no answer.
    pub fn send(&self, bytes: &[u8]) {
        self.there(|| send(&dhcp_socket(68), bytes));
    }

    /// Gets the address that was offered, and puts it on the wire's end, as a ROM does.
    pub fn lease(&self, ask: &Packet) -> Ipv4Addr {
        let leased = self.obtain(ask);
        self.there(|| ip(&format!("address replace {leased}/24 dev c0")));
        leased
    }

    /// Gets the address that was offered, and does not use it.
    pub fn obtain(&self, ask: &Packet) -> Ipv4Addr {
        let offer = self.ask(ask);
        let mut request = ask.clone();
        request.xid += 1;
        request.options.set_message_type(MessageType::Request);
        request.options.set(code::REQUESTED_ADDRESS, offer.yiaddr.octets());
        request.options.set(code::SERVER_ID, ADDRESS.octets());
        let ack = self.ask(&request);
        assert_eq!(ack.options.message_type(), Some(MessageType::Ack));
        ack.yiaddr
    }

    /// Fetches a small file by TFTP from this address.
    pub fn tftp(&self, from: Ipv4Addr, file: &str) -> Vec<u8> {
        self.there(|| {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let read_request = [&[0, 1], file.as_bytes(), b"\0octet\0"].concat();
            socket.send_to(&read_request, (ADDRESS, 69)).unwrap();
            let mut buffer = [0; 1024];
            let (length, transfer) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..4], [0, 3, 0, 1], "the first block: {:?}", &buffer[..length]);
            assert!(length < 4 + 512, "and the last");
            socket.send_to(&[0, 4, 0, 1], transfer).unwrap();
            buffer[4..length].to_vec()
        })
    }

    /// Status and body of a GET at the boot listener, from an address that the wire's end has.
    pub fn get(&self, from: Ipv4Addr, path: &str) -> (u16, String) {
        self.there(|| boot_request(from, "GET", path))
    }
}

/// Status and body of a request at the boot listener, from an address that this thread's namespace has.
pub fn boot_request(from: Ipv4Addr, method: &str, path: &str) -> (u16, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    // After a start the API is there before the listeners for machines are.
    let ends_at = Instant::now() + PATIENCE;
    while let Err(error) = socket.connect(&SocketAddr::from((ADDRESS, 8080)).into()) {
        assert!(Instant::now() < ends_at, "the boot listener does not answer: {error}");
        std::thread::sleep(AGAIN / 10);
    }
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// A text without its line breaks and columns.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A socket of a DHCP client or relay at the machines' end of the wire.
///
/// # Panics
/// Where there is no such end.
#[must_use]
pub fn dhcp_socket(port: u16) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    // Several machines listen there: each gets what is broadcast.
    socket.set_reuse_address(true).unwrap();
    setsockopt(&socket, sockopt::BindToDevice, &"c0".into()).unwrap();
    socket.set_broadcast(true).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).unwrap();
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    socket
}

fn send(socket: &UdpSocket, bytes: &[u8]) {
    socket.send_to(bytes, (Ipv4Addr::BROADCAST, 67)).unwrap();
}

pub fn mac(last: u8) -> Mac {
    Mac([0x52, 0x54, 0, 0x77, 9, last])
}

/// The boot MAC of one of many hosts.
#[must_use]
pub fn host_mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([0x52, 0x54, 0, 0x78, high, low])
}

/// A DISCOVER with this vendor class and, if any, architectures.
pub fn discover(last: u8, class: &str, archs: &[u16]) -> Packet {
    let mut packet = Packet::new(DhcpOperation::Request, 0x2500_0000 + 16 * u32::from(last), mac(last));
    packet.broadcast = true;
    packet.options.set_message_type(MessageType::Discover);
    packet.options.set(code::VENDOR_CLASS, class.as_bytes());
    if !archs.is_empty() {
        packet.options.set(code::ARCHITECTURE, archs.iter().flat_map(|arch| arch.to_be_bytes()).collect::<Vec<u8>>());
    }
    packet
}

/// The boot file of a reply.
pub fn file_of(reply: &Packet) -> String {
    reply.options.text(code::BOOT_FILE).unwrap_or_else(|| "none".to_owned())
}
