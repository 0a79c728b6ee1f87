//! The appliance under strace, in a network namespace of its own, with a wire to the test's.
//!
//! ```text
//!   test thread (own namespace)             strace ─► this test program again ─► serve::run
//!     c0 10.77.0.2 ───────────── veth ───────────── s0 10.77.0.1
//!     standard input of both: one line when the wire is there, its end when it is over
//! ```
//!
//! Nothing of it has a name that could be left behind: the namespaces and the wire go with the
//! threads, and the appliance goes with the pipe from the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use firesteel_appliance::serve::{self, settings::RawSettings};
use firesteel_store::Durability;
use firesteel_tests::network::{ADDRESS, BOOT_FILES, Dhcp, PROVISIONING, ip, prepare};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;

pub(crate) const INTERFACE: &str = "c0";
/// The test that is the appliance when it is started with this variable.
const CHILD: &str = "served::the_appliance_under_strace";
const CHILD_FOLDER: &str = "FIRESTEEL_DURABILITY_FOLDER";
const CHILD_DURABILITIES: &str = "FIRESTEEL_DURABILITY_OF";
/// What the judge looks at.
const TRACED: &str = "trace=openat,accept,accept4,read,readv,recvfrom,recvmsg,write,writev,pwrite64,pwritev,sendto,\
                      sendmsg,sendmmsg,fsync,fdatasync";
/// As much as a page of a database, and any DHCP packet.
const STRING_BYTES: &str = "4096";

/// How the two databases are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durabilities {
    pub(crate) resources: Durability,
    pub(crate) leases: Durability,
}

/// A running appliance.
pub(crate) struct Served {
    strace: Child,
    input: Option<ChildStdin>,
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl Served {
    /// Starts it, and gives this thread a namespace with a wire to it.
    pub(crate) fn start(durabilities: Durabilities) -> Self {
        Self::start_in(durabilities, None)
    }

    /// The same with a disk for its data that has so many MiB, which only this thread and it see.
    pub(crate) fn start_in(durabilities: Durabilities, disk_mib: Option<u32>) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace of its own takes root");
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), Dhcp::Managed);
        if let Some(mib) = disk_mib {
            unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace of its own takes root");
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let data = folder.path().join("data");
            fs::create_dir(&data).unwrap();
            let size = format!("size={mib}m");
            mount(Some("tmpfs"), &data, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
        }
        let mut strace = Command::new("strace")
            .args(["-f", "-ttt", "-y", "--seccomp-bpf", "-s", STRING_BYTES, "-e", TRACED, "-o"])
            .arg(folder.path().join("trace"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .env(CHILD_DURABILITIES, format!("{:?} {:?}", durabilities.resources, durabilities.leases))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .expect("strace (Debian's package `strace`) is needed to see what the appliance does");
        let input = strace.stdin.take();
        let thread = strace.stdout.take().and_then(|stdout| thread_of(BufReader::new(stdout)));
        let mut served = Self { strace, input, folder, is_mounted: disk_mib.is_some() };
        let Some(thread) = thread else {
            panic!(
                "strace could not start the appliance; where ptrace is forbidden this cannot be tested:\n{}",
                served.log()
            );
        };
        ip(&format!("link add {INTERFACE} type veth peer name s0 netns {thread}"));
        ip(&format!("address add 10.77.0.2/24 dev {INTERFACE}"));
        ip(&format!("link set {INTERFACE} up"));
        if let Some(input) = &mut served.input {
            input.write_all(b"the wire is there\n").unwrap();
        }
        served
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Whether it ended by itself.
    pub(crate) fn is_over(&mut self) -> bool {
        self.strace.try_wait().unwrap().is_some()
    }

    /// Ends it and gives the trace.
    pub(crate) fn stop(mut self) -> String {
        drop(self.input.take());
        self.strace.wait().unwrap();
        fs::read_to_string(self.folder.path().join("trace")).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The appliance ends with the pipe, and strace with the appliance.
        drop(self.input.take());
        if let Err(error) = self.strace.wait() {
            eprintln!("strace did not end: {error}");
        }
        if self.is_mounted
            && let Err(error) = umount2(&self.data(), MntFlags::MNT_DETACH)
        {
            eprintln!("the disk of the test stays mounted: {error}");
        }
    }
}

/// The thread that the appliance says it starts from. No such line: it does not run.
fn thread_of(mut output: impl BufRead + Send + 'static) -> Option<String> {
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let Some((_, thread)) = line.trim_end().split_once("thread=") {
            let thread = thread.to_owned();
            // The harness writes there too; nobody reads it, and it must not block.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return Some(thread);
        }
        line.clear();
    }
    None
}

/// Not a test by itself: what [`Served::start`] runs.
#[test]
fn the_appliance_under_strace() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER).map(PathBuf::from) else { return };
    let durabilities = std::env::var(CHILD_DURABILITIES).unwrap();
    let (resources, leases) = durabilities.split_once(' ').unwrap();
    let of = |name: &str| {
        let all = [Durability::PowerCut, Durability::ProcessDeath, Durability::Nothing];
        all.into_iter().find(|durability| format!("{durability:?}") == name).unwrap()
    };
    let mut settings = RawSettings {
        data: Some(folder.join("data")),
        interface: Some("s0".to_owned()),
        provisioning: Some(folder.join(PROVISIONING)),
        boot_files: Some(folder.join(BOOT_FILES)),
        loaders: Some(folder.join(BOOT_FILES)),
        api: Some(SocketAddr::from((ADDRESS, 6443))),
        ..RawSettings::default()
    }
    .check()
    .unwrap();
    (settings.durability, settings.lease_durability) = (of(resources), of(leases));
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    eprintln!("durability of the resources and of the leases: {durabilities}");
    std::io::stdout().write_all(format!("thread={}\n", gettid()).as_bytes()).unwrap();
    let mut input = BufReader::new(std::io::stdin());
    input.read_line(&mut String::new()).unwrap();
    ip("link set lo up");
    ip("address add 10.77.0.1/24 dev s0");
    ip("link set s0 up");
    std::thread::spawn(move || {
        // Until the test ends, or dies.
        drop(input.read_to_end(&mut Vec::new()));
        std::process::exit(0);
    });
    // Threads made here belong to the namespace as well.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(serve::run(settings));
    panic!("the appliance ended by itself: {ended:?}");
}
