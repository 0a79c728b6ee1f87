//! libvirt, for BMCs of others that drive machines through it: one daemon per lab, in the lab's network, with mount and
//! process namespaces of its own (`run.sh`). What it starts ends with it.

mod domain;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

pub use domain::domain;
use nix::sys::signal::Signal;
use thiserror::Error;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    machine::MachineConfig,
    os,
    tools::{Tools, ToolsError},
};

/// It asks QEMU for what it can when it is first used.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// One command of virsh; starting a machine waits until QEMU is there.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOG: &str = "libvirt.log";
const RUN: &str = include_str!("run.sh");

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
    #[error("virsh {command}")]
    Run {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("virsh {command}: {message}")]
    Refused { command: String, message: String },
}

/// A running libvirtd; it and its machines end when this is dropped.
#[derive(Debug)]
pub struct Libvirt {
    child: Child,
    folder: PathBuf,
    unpacked: PathBuf,
}

impl Libvirt {
    /// Starts it, and waits until it answers. Inside the lab's own network namespace.
    pub async fn start(tools: &Tools, folder: &Path) -> Result<Self, LibvirtError> {
        let unpacked = tools.unpacked("libvirt", "usr/sbin/libvirtd")?;
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
            .args([folder, unpacked.as_path()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .kill_on_drop(true);
        os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
        let child = command.spawn().map_err(failed)?;
        let mut libvirt = Self { child, folder: folder.to_owned(), unpacked };
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
    pub async fn define(&self, config: &MachineConfig, tools: &Tools) -> Result<(), LibvirtError> {
        let path = config.folder.join("domain.xml");
        fs::write(&path, domain(config, tools)).map_err(LibvirtError::Start)?;
        self.run(&["define", &path.to_string_lossy()]).await.map(drop)
    }

    /// What virsh prints.
    pub async fn run(&self, words: &[&str]) -> Result<String, LibvirtError> {
        let command = words.join(" ");
        let failed = |source| LibvirtError::Run { command: command.clone(), source };
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
            .map(|folder| self.unpacked.join(folder).to_string_lossy().into_owned());
        let running = Command::new(self.unpacked.join("usr/bin/virsh"))
            .args(["--quiet", "--connect", &self.uri()])
            .args(words)
            .env("LD_LIBRARY_PATH", libraries.join(":"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = match timeout(COMMAND_TIMEOUT, running).await {
            Ok(output) => output.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(LibvirtError::Refused { command, message: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
    }
}
