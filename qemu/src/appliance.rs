//! The appliance of one lab: started, stopped and asked as a user does it, by its command line.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::{net, os};

/// It listens for another DHCP server first, which takes seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The time after SIGTERM in which it closes its databases.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A client command waits for the API only.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
pub const LOG: &str = "appliance.log";

#[derive(Debug, Error)]
pub enum ApplianceError {
    #[error("starting the appliance")]
    Start(#[source] io::Error),
    #[error("the appliance ended at once; its log ends with:\n{log}")]
    Ended { log: String },
    #[error("the appliance does not answer after {} s; its log ends with:\n{log}", READY_TIMEOUT.as_secs())]
    NotReady { log: String },
    #[error("running firesteel {command}")]
    Run {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("firesteel {command}: {message}")]
    Refused { command: String, message: String },
    #[error("firesteel {command} answered no JSON")]
    NoJson {
        command: String,
        #[source]
        source: serde_json::Error,
    },
}

/// What the appliance is started with.
#[derive(Clone, Debug)]
pub struct ApplianceConfig {
    pub program: PathBuf,
    /// Its data and its log go below this folder.
    pub folder: PathBuf,
    pub boot_files: PathBuf,
    pub loaders: PathBuf,
    /// The Provisioning object, as a file.
    pub provisioning: PathBuf,
    /// Chain-load our own iPXE from a network card's older one.
    pub upgrade_ipxe: bool,
    /// Serve configs without TLS too, at this port.
    pub config_plain_port: Option<u16>,
    /// It gets neither an interface nor files to boot: hosts are driven by their BMCs alone.
    pub is_bmc_only: bool,
}

#[derive(Debug)]
pub struct ApplianceProcess {
    config: ApplianceConfig,
    child: Child,
}

impl ApplianceProcess {
    /// Starts it and waits until its API answers.
    pub async fn start(config: ApplianceConfig) -> Result<Self, ApplianceError> {
        let child = spawn(&config).map_err(ApplianceError::Start)?;
        let mut appliance = Self { config, child };
        appliance.wait_ready().await?;
        Ok(appliance)
    }

    async fn wait_ready(&mut self) -> Result<(), ApplianceError> {
        let begun = Instant::now();
        loop {
            if self.child.try_wait().map_err(ApplianceError::Start)?.is_some() {
                return Err(ApplianceError::Ended { log: self.log_tail(15) });
            }
            if self.cli(&["get", "hosts"]).await.is_ok() {
                return Ok(());
            }
            if begun.elapsed() > READY_TIMEOUT {
                return Err(ApplianceError::NotReady { log: self.log_tail(15) });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Kills it without warning and starts it again on the same data.
    pub async fn crash_and_restart(&mut self) -> Result<(), ApplianceError> {
        self.child.kill().await.map_err(ApplianceError::Start)?;
        self.child = spawn(&self.config).map_err(ApplianceError::Start)?;
        self.wait_ready().await
    }

    /// Stops it in order.
    pub async fn stop(mut self) {
        let asked = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = asked
            && let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM)
        {
            tracing::debug!(%error, "the appliance is gone already");
        }
        if timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            tracing::warn!("the appliance does not stop and is killed");
            drop(self.child.kill().await);
        }
    }

    #[must_use]
    pub fn data(&self) -> PathBuf {
        data(&self.config.folder)
    }

    /// Environment in which `firesteel` and `kubectl` reach this appliance.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        environment(&self.config.folder)
    }

    /// PEM of its certificate authority.
    pub fn ca_pem(&self) -> io::Result<String> {
        std::fs::read_to_string(self.data().join("pki/ca.crt"))
    }

    /// Runs a client command and returns what it printed.
    pub async fn cli(&self, arguments: &[&str]) -> Result<String, ApplianceError> {
        self.cli_within(arguments, COMMAND_TIMEOUT).await
    }

    /// Runs a command that does long work of its own.
    pub async fn cli_within(&self, arguments: &[&str], limit: Duration) -> Result<String, ApplianceError> {
        let command = arguments.join(" ");
        let failed = |source| ApplianceError::Run { command: command.clone(), source };
        let running = Command::new(&self.config.program)
            .args(arguments)
            .envs(self.environment())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = match timeout(limit, running).await {
            Ok(output) => output.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ApplianceError::Refused { command, message })
    }

    /// Runs a command that answers JSON.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value, ApplianceError> {
        let text = self.cli(&[arguments, &["-o", "json"]].concat()).await?;
        serde_json::from_str(&text).map_err(|source| ApplianceError::NoJson { command: arguments.join(" "), source })
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The most memory that this process ever held, in bytes, as the kernel says.
    pub fn peak_memory(&self) -> io::Result<u64> {
        let pid = self.child.id().ok_or(io::ErrorKind::NotFound)?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The most memory that it says it will ever hold, in bytes: the bound that its log states at the start.
    pub fn stated_memory(&self) -> io::Result<u64> {
        let log = std::fs::read(self.config.folder.join(LOG))?;
        stated_memory(&String::from_utf8_lossy(&log)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(self.config.folder.join(LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The newest line counts: the log goes on over restarts.
fn stated_memory(log: &str) -> Option<u64> {
    let (_, rest) = log.rsplit_once("memory_mib_max=")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<u64>().ok().map(|mib| mib << 20)
}

/// See [`ApplianceProcess::environment`].
#[must_use]
pub fn environment(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let data = data(folder);
    let kubeconfig = data.join("admin.kubeconfig");
    vec![("FIRESTEEL_KUBECONFIG", kubeconfig.clone()), ("KUBECONFIG", kubeconfig), ("FIRESTEEL_DATA", data)]
}

fn spawn(config: &ApplianceConfig) -> io::Result<Child> {
    std::fs::create_dir_all(&config.folder)?;
    let log = File::options().create(true).append(true).open(config.folder.join(LOG))?;
    let mut command = Command::new(&config.program);
    command
        .arg("serve")
        .arg("--data")
        .arg(data(&config.folder))
        .arg("--provisioning")
        .arg(&config.provisioning)
        // The machines have a serial port and no screen.
        .args(["--console", "ttyS0"])
        // Its BMCs are on this machine, each at an address of its own.
        .args(["--allow-target", crate::bmc::ADDRESSES])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    if !config.is_bmc_only {
        command.args(["--interface", net::BRIDGE]);
        command.arg("--boot-files").arg(&config.boot_files);
        command.arg("--loaders").arg(&config.loaders);
    }
    if config.upgrade_ipxe {
        command.arg("--upgrade-ipxe");
    }
    if let Some(port) = config.config_plain_port {
        command.args(["--config-plain-port", &port.to_string()]);
    }
    os::die_with_parent(command.as_std_mut(), Signal::SIGTERM);
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_finds_the_appliance_of_the_lab() {
        let found = environment(Path::new("/run"));
        let of = |name: &str| found.iter().find(|(found, _)| *found == name).map(|(_, path)| path.as_path());
        for name in ["KUBECONFIG", "FIRESTEEL_KUBECONFIG"] {
            assert_eq!(of(name), Some(Path::new("/run/data/admin.kubeconfig")), "{name}");
        }
        assert_eq!(of("FIRESTEEL_DATA"), Some(Path::new("/run/data")));
    }

    #[test]
    fn the_newest_bound_is_read_from_the_log() {
        let log = "INFO serves address=10.77.0.1 memory_mib_max=700\nINFO serves memory_mib_max=743 api=x\n";
        assert_eq!(stated_memory(log), Some(743 << 20));
        assert_eq!(stated_memory("INFO serves\n"), None);
    }
}
