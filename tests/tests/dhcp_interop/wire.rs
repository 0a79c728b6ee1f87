//! Network namespaces joined by virtual cables, with the appliance's DHCP server in one of them.
//!
//! Everything made here goes when its value is dropped. It takes root and `ip`; [`Tools::find`] says
//! what is missing.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firesteel_dhcp::{DhcpConfig, DhcpEvent};
use firesteel_net::{dhcp::DhcpServer, leases::LeaseFile};
use nix::sched::{CloneFlags, setns};

/// Clients wait seconds between their messages; a loaded machine makes that longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of one test.
pub(crate) struct Tools(Vec<PathBuf>);

impl Tools {
    /// `None`, after saying why, where the test cannot run.
    pub(crate) fn find(test: &str, names: &[&str]) -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("{test} skipped: network namespaces take root");
            return None;
        }
        let mut found = Vec::new();
        for name in names.iter().chain(&["ip"]) {
            let folders = std::env::var("PATH").unwrap_or_default();
            let folders = folders.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]);
            let Some(path) = folders.map(|folder| Path::new(folder).join(name)).find(|path| path.exists()) else {
                eprintln!("{test} skipped: no {name} here");
                return None;
            };
            found.push(path);
        }
        Some(Self(found))
    }

    pub(crate) fn path(&self, index: usize) -> &Path {
        &self.0[index]
    }
}

/// A named network namespace.
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn new(role: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = Self(format!("fs-{}-{count}-{role}", std::process::id()));
        run(Command::new("ip").args(["netns", "add", &namespace.0]));
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// `ip` in this namespace.
    pub(crate) fn ip(&self, arguments: &[&str]) {
        run(Command::new("ip").args(["-n", &self.0]).args(arguments));
    }

    /// A cable from interface `mine` here to `theirs` there.
    pub(crate) fn cable(&self, mine: &str, other: &Namespace, theirs: &str) {
        let ends = ["link", "add", mine, "type", "veth", "peer", "name", theirs, "netns", &other.0];
        self.ip(&ends);
        self.ip(&["link", "set", mine, "up"]);
        other.ip(&["link", "set", theirs, "up"]);
    }

    pub(crate) fn address(&self, interface: &str, address: &str) {
        self.ip(&["address", "add", address, "dev", interface]);
    }

    /// A program that runs here; `ip netns exec` becomes that program, so its process id is its own.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program).stdin(Stdio::null());
        command
    }

    /// Runs `body` on a thread that lives here.
    pub(crate) fn inside<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = File::open(Path::new("/run/netns").join(&self.0)).unwrap();
        std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            body()
        })
    }

    /// Whether the interface has this address.
    pub(crate) fn has_address(&self, interface: &str, address: Ipv4Addr) -> bool {
        let output = Command::new("ip").args(["-n", &self.0, "-4", "-o", "address", "show", "dev", interface]).output();
        String::from_utf8_lossy(&output.unwrap().stdout).contains(&format!(" {address}/"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let status = Command::new("ip").args(["netns", "delete", &self.0]).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("the namespace {} is left behind", self.0);
        }
    }
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program that ends with its value.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let log = if std::env::var_os("SHOW").is_some() { Stdio::inherit } else { Stdio::null };
        Self(command.stdout(log()).stderr(log()).spawn().unwrap())
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("{:?} did not end: {error}", self.0);
        }
    }
}

/// Waits until it is so.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The appliance's server on a thread in a namespace.
pub(crate) struct Server {
    events: Arc<Mutex<Vec<DhcpEvent>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(namespace: &Namespace, interface: &str, config: DhcpConfig, leases: &Path) -> Self {
        let events = Arc::<Mutex<Vec<DhcpEvent>>>::default();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (seen, interface, leases) = (Arc::clone(&events), interface.to_owned(), leases.to_owned());
        let thread = namespace.inside(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let note = Arc::new(move |_, event: &DhcpEvent| {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                });
                let opened = DhcpServer::open(&interface, config, LeaseFile::new(&leases), Arc::new(|_| None), note);
                let (server, _handle) = opened.unwrap();
                ready.send(()).unwrap();
                tokio::select! {
                    ended = server.run() => panic!("the server ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Self { events, stop: Some(stop), thread: Some(thread) }
    }

    /// Waits for such an event and takes it, and all before it, off the record.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&DhcpEvent) -> bool) -> DhcpEvent {
        let mut found = None;
        wait_for(what, || {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(position) = events.iter().position(&is_it) {
                found = events.drain(..=position).next_back();
            }
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the server's thread panicked");
        }
    }
}
