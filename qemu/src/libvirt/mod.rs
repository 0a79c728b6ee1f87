//! libvirt, for BMCs of others that drive machines through it: one daemon per lab, in the lab's network, with mount and
//! process namespaces of its own (`run.sh`). What it starts ends with it.
//!
//! Its machines are the lab's, described by `domain`, or a user's: made by virt-install on a network of libvirt, see
//! [`LibvirtGuest`].

mod domain;
mod guest;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, io};

pub use domain::domain;
pub use guest::{GuestFirmware, GuestPlan, LibvirtGuest};
use nix::sys::signal::Signal;
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::machine::MachineSettings;
use crate::os;
use crate::tools::{Tools, ToolsError};

/// It asks QEMU for what it can when it is first used.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// One command of virsh; starting a machine waits until QEMU is there.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOG: &str = "libvirt.log";
const RUN: &str = include_str!("run.sh");
/// The network that guests hang on.
const ISOLATED: &str = "isolated";
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// No user of its own, no confinement, no groups: it is the lab's own. virtlogd is not here, so QEMU writes its own logs.
const QEMU_CONF: &str = "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\nnamespaces = []\n\
                         cgroup_controllers = []\nstdio_handler = \"file\"\ndynamic_ownership = 0\n";

#[derive(Debug, Error)]
pub enum LibvirtError {
    #[error("libvirt is not here")]
    Missing(#[from] ToolsError),
    #[error("starting libvirt")]
    Start(#[source] io::Error),
    #[error("libvirt does not answer; its log ends with:\n{log}")]
    NotReady { log: String },
    #[error("{command}")]
    Run {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("{command}: {message}")]
    Refused { command: String, message: String },
    #[error("libvirt names no {what} of {name}")]
    Odd { name: String, what: &'static str },
    #[error("writing {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A running libvirtd; it and its machines end when this is dropped.
#[derive(Debug)]
pub struct Libvirt {
    child: Child,
    folder: PathBuf,
    tools: PathBuf,
    /// One virt-install at a time: the first one makes the pool of disks, and two would both.
    installing: tokio::sync::Mutex<()>,
}

impl Libvirt {
    /// Starts it, and waits until it answers. Inside the lab's own network namespace.
    pub async fn start(tools: &Tools, folder: &Path) -> Result<Self, LibvirtError> {
        let unpacked = tools.unpacked("libvirt", "usr/sbin/libvirtd")?;
        let all_tools = unpacked.parent().unwrap_or(&unpacked).to_owned();
        let failed = LibvirtError::Start;
        fs::create_dir_all(folder.join("etc")).map_err(failed)?;
        fs::write(folder.join("etc/qemu.conf"), QEMU_CONF).map_err(failed)?;
        let config = format!(
            "unix_sock_dir = \"{}\"\nauth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\n",
            folder.join("s").display()
        );
        fs::write(folder.join("libvirtd.conf"), config).map_err(failed)?;
        let log = fs::File::create(folder.join(LOG)).map_err(failed)?;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", RUN, "libvirt"])
            .args([folder, all_tools.as_path()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .kill_on_drop(true);
        os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
        let child = command.spawn().map_err(failed)?;
        let mut libvirt =
            Self { child, folder: folder.to_owned(), tools: all_tools, installing: tokio::sync::Mutex::default() };
        libvirt.wait_ready().await?;
        Ok(libvirt)
    }

    async fn wait_ready(&mut self) -> Result<(), LibvirtError> {
        let begun = Instant::now();
        while self.run(&["list"]).await.is_err() {
            let has_ended = self.child.try_wait().map_err(LibvirtError::Start)?.is_some();
            if has_ended || begun.elapsed() > START_TIMEOUT {
                let log = fs::read(self.folder.join(LOG)).unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                let last: Vec<_> = log.lines().rev().take(15).collect();
                let log = last.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(LibvirtError::NotReady { log });
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Where its clients find it.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.folder.join("s/libvirt-sock").display())
    }

    /// Tells it of a machine.
    pub async fn define(&self, config: &MachineSettings, tools: &Tools) -> Result<(), LibvirtError> {
        let path = config.folder.join("domain.xml");
        fs::write(&path, domain(config, tools)).map_err(LibvirtError::Start)?;
        self.run(&["define", &path.to_string_lossy()]).await.map(drop)
    }

    /// Where a file of libvirt's own folder lies for those outside its namespaces.
    fn outside(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix("/var/lib/libvirt").ok().map(|inside| self.folder.join("lib").join(inside))
    }

    /// Makes and starts an isolated network: a bridge of this name, without address, DHCP and DNS.
    pub async fn isolated_network(&self, bridge: &str) -> Result<(), LibvirtError> {
        let path = self.folder.join(format!("{bridge}.xml"));
        let xml = format!("<network><name>{ISOLATED}</name><bridge name='{bridge}'/></network>\n");
        fs::write(&path, xml).map_err(|source| LibvirtError::File { path: path.clone(), source })?;
        self.run(&["net-define", &path.to_string_lossy()]).await?;
        self.run(&["net-start", ISOLATED]).await.map(drop)
    }

    /// Ends that network; its bridge goes with it.
    pub async fn end_network(&self) -> Result<(), LibvirtError> {
        self.run(&["net-destroy", ISOLATED]).await.map(drop)
    }

    /// What virsh prints.
    pub async fn run(&self, words: &[&str]) -> Result<String, LibvirtError> {
        let mut command = Command::new(self.tools.join("libvirt/usr/bin/virsh"));
        command.args(["--quiet", "--connect", &self.uri()]).args(words);
        self.output(command, &format!("virsh {}", words.join(" "))).await
    }

    /// What virt-install prints. It runs in libvirt's namespaces: there its parts, QEMU and firmware are laid over `/usr`.
    async fn virt_install(&self, words: &[String]) -> Result<String, LibvirtError> {
        let name = format!("virt-install {}", words.join(" "));
        let ended = || LibvirtError::Run { command: name.clone(), source: io::ErrorKind::NotConnected.into() };
        let pid = self.child.id().ok_or_else(ended)?;
        let _alone = self.installing.lock().await;
        let mut command = Command::new("nsenter");
        command
            .args([format!("--mount=/proc/{pid}/ns/mnt"), format!("--pid=/proc/{pid}/ns/pid_for_children")])
            .args(["virt-install", "--connect", &self.uri()])
            .args(words);
        self.output(command, &name).await
    }

    /// Runs a client of libvirt, with the libraries that were unpacked with it.
    async fn output(&self, mut command: Command, name: &str) -> Result<String, LibvirtError> {
        let failed = |source| LibvirtError::Run { command: name.to_owned(), source };
        let parts = ["libvirt", "virt-install"].map(|part| self.tools.join(part));
        let libraries = parts.iter().flat_map(|part| LIBRARIES.map(|folder| part.join(folder)));
        let libraries = env::join_paths(libraries).map_err(|error| failed(io::Error::other(error)))?;
        command.env("LD_LIBRARY_PATH", libraries).stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(COMMAND_TIMEOUT, command.output()).await {
            Ok(output) => output.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LibvirtError::Refused { command: name.to_owned(), message })
    }
}
