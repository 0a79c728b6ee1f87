//! A real `firesteel serve`: a process with a data folder of its own, alone with its API on a port that the
//! system gives, or whole. Whoever has it has its kubeconfig; it ends, and its folder goes, with the value.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot start it fails by panicking")]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, sockopt::ReuseAddr};
use serde_json::Value;

use crate::fake_clock::WrongBy;

/// Only a process that hangs takes so long to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Only a service that hangs takes so long: DHCP listens for other servers first.
const NETWORK_PATIENCE: Duration = Duration::from_secs(300);

/// Where tests have their BMCs and origins: on this machine, which is refused by itself.
pub const ALLOW_LOOPBACK: [&str; 2] = ["--allow-target", "127.0.0.0/8"];

/// How far revisions go on when a backup is restored, at least.
const RESTORED: u64 = 1_000_000;

/// A running appliance.
#[derive(Debug)]
pub struct Appliance {
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
    folder: tempfile::TempDir,
    clock: WrongBy,
}

impl Appliance {
    /// Starts the command, which a test names as `env!("CARGO_BIN_EXE_firesteel-tested")`.
    pub fn start(program: impl AsRef<Path>) -> Self {
        Self::start_with(program, &[])
    }

    /// The same with more flags.
    pub fn start_with(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let arguments = [&["--api-only"], ALLOW_LOOPBACK.as_slice(), arguments].concat();
        Self::start_whole(program, "127.0.0.1:0", &arguments, tempfile::tempdir().unwrap())
    }

    /// With the services for machines, which take the flags that say where. It runs in this folder, in which
    /// the files are that they name, and in this thread's network namespace.
    pub fn start_whole(program: impl AsRef<Path>, api: &str, arguments: &[&str], folder: tempfile::TempDir) -> Self {
        let program = program.as_ref().to_owned();
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let clock = WrongBy::NOTHING;
        let child = spawn(&program, (api, arguments.as_slice()), folder.path(), clock);
        let mut appliance = Self { program, arguments, child, folder, clock };
        appliance.wait_until_reachable();
        appliance
    }

    /// Whatever it is doing, it ends now, and comes again with the same data on the same port.
    pub fn kill_and_start_again(&mut self) {
        self.kill_and_start_again_after(|| ());
    }

    /// The same, with something done while it is dead.
    pub fn kill_and_start_again_after(&mut self, meanwhile: impl FnOnce()) {
        self.start_again_after(|_| meanwhile());
    }

    /// The same, with another clock: it comes again at that time.
    pub fn start_again_at(&mut self, clock: WrongBy) {
        self.clock = clock;
        self.kill_and_start_again();
    }

    /// Has it started with these flags, too, from the next start on.
    pub fn add_arguments(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
    }

    /// How wrong its clock is.
    pub fn clock(&self) -> WrongBy {
        self.clock
    }

    /// The same, and meanwhile revisions went on and every change is forgotten, as after a restore of a
    /// backup: nobody who followed can go on where he was.
    pub fn forget_history(&mut self) {
        self.start_again_after(|data| {
            let database = rusqlite::Connection::open(data.join("resources.db")).unwrap();
            let forget = format!(
                "UPDATE meta SET value = value + {RESTORED} WHERE key = 'revision';
                 UPDATE meta SET value = (SELECT value FROM meta WHERE key = 'revision') WHERE key = 'compacted';
                 DELETE FROM log WHERE revision NOT IN (SELECT revision FROM object);"
            );
            database.execute_batch(&forget).unwrap();
        });
    }

    fn start_again_after(&mut self, meanwhile: impl FnOnce(&Path)) {
        let url = self.url();
        let address = url.strip_prefix("https://").unwrap();
        self.end();
        let kept = keep_port(address);
        meanwhile(&self.data());
        // What was done meanwhile may have removed it.
        drop(fs::remove_file(self.kubeconfig()));
        self.child = spawn(&self.program, (address, self.arguments.as_slice()), self.folder.path(), self.clock);
        self.wait_until_reachable();
        drop(kept);
    }

    /// Kills it, and starts it again with whatever was done to its data folder meanwhile; its kubeconfig stays, so that
    /// nothing has to be written to say that it is there.
    pub fn start_again_with(&mut self, meanwhile: impl FnOnce(&Path)) {
        let url = self.url();
        let address = url.strip_prefix("https://").unwrap();
        self.end();
        let kept = keep_port(address);
        meanwhile(&self.data());
        self.child = spawn(&self.program, (address, self.arguments.as_slice()), self.folder.path(), self.clock);
        let ends_at = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let over = self.child.try_wait().unwrap();
            assert!(over.is_none() && Instant::now() < ends_at, "it does not start ({over:?}):\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(kept);
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder for a client's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The admin's.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data().join("admin.kubeconfig")
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        self.of_kubeconfig("/clusters/0/cluster/server")
    }

    /// The CA that its certificate is verified against, in PEM.
    pub fn ca_pem(&self) -> Vec<u8> {
        STANDARD.decode(self.of_kubeconfig("/clusters/0/cluster/certificate-authority-data")).unwrap()
    }

    /// The command with the admin's kubeconfig, for what a person would type, on a machine whose clock is right.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(log_of(self.folder.path())).unwrap_or_default()
    }

    /// Waits for a line of the log: it is written by a thread of its own, after what it tells of.
    pub fn wait_for_log(&self, text: &str) {
        let ends_at = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < ends_at, "the log does not say {text:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The admin's token.
    pub fn token(&self) -> String {
        self.of_kubeconfig("/users/0/user/token")
    }

    /// The most memory that the process had, and what it says that it has at most, in KiB.
    pub fn memory_kib(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let log = self.log();
        let (_, bound) = log.rsplit_once("memory_mib_max=").unwrap();
        let digits = |text: &str| -> u64 {
            let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        };
        (digits(peak), digits(bound) << 10)
    }

    fn of_kubeconfig(&self, pointer: &str) -> String {
        let config: Value = serde_json::from_slice(&fs::read(self.kubeconfig()).unwrap()).unwrap();
        config.pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
    }

    /// Waits until the conditions of the provisioning network say that all services of its object as it is now run.
    pub fn wait_until_network_is_served(&self) {
        let ends_at = Instant::now() + NETWORK_PATIENCE;
        loop {
            let words = ["get", "provisioning", "provisioning-configuration", "-o", "json"];
            let output = self.command().args(words).output().unwrap();
            let object: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let (metadata, status) = (&object["metadata"], &object["status"]);
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let is_served = conditions.iter().any(|condition| condition["reason"] == "DeployComplete");
            if is_served && status["observedGeneration"] == metadata["generation"] {
                return;
            }
            assert!(Instant::now() < ends_at, "the network is not served: {status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The kubeconfig is written after the port is bound: who reads it is answered.
    fn wait_until_reachable(&mut self) {
        let ends_at = Instant::now() + PATIENCE;
        while !self.kubeconfig().exists() {
            let over = self.child.try_wait().unwrap();
            assert!(over.is_none() && Instant::now() < ends_at, "it does not start ({over:?}):\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        self.child.wait().unwrap();
        self.clock.tidy(self.child.id());
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("the appliance's log:\n{}", self.log());
        }
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("appliance.log")
}

/// Keeps the system from giving this port to another program, until it is dropped. A socket that is bound and
/// does not listen is in nobody's way who binds the same address with `SO_REUSEADDR`, as the appliance does.
fn keep_port(address: &str) -> OwnedFd {
    let address: SocketAddr = address.parse().unwrap();
    let (family, kind) = (if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }, SockType::Stream);
    let socket = socket::socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    socket::setsockopt(&socket, ReuseAddr, &true).unwrap();
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
    socket
}

fn spawn(program: &Path, (address, arguments): (&str, &[String]), folder: &Path, clock: WrongBy) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(log_of(folder)).unwrap();
    Command::new(program)
        .args(["serve", "--api", address, "--data"])
        .arg(folder.join("data"))
        .args(arguments)
        .current_dir(folder)
        .envs(clock.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("starting {}: {error}", program.display()))
}
