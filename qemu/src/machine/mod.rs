//! One virtual machine: a QEMU process that comes and goes with the power, and the boot override
//! that its BMC set. Off means that there is no process; a guest that switches itself off ends it.
//!
//! ```text
//!        power_on                    guest powers off, power_off, crash
//!  Off ------------> On(process, qmp) ---------------------------------> Off
//!                     | reset: the override's order for one boot, then the machine's own again
//! ```
//!
//! A machine may be libvirt's instead (`kept`): then libvirt starts and ends QEMU, and knows boot orders; the lab sees it by
//! a control socket that QEMU connects to, and asks libvirt where it would act itself.
//!
//! Disks that a server of the lab serves lose their unflushed writes with the power; QEMU is then
//! killed, because its orderly end would flush.
//!
//! A boot override for one boot is UEFI's `BootNext`, set while the machine is off. BIOS, and a UEFI
//! that has no boot entries yet, get a boot index that is there when the machine resets and gone right
//! after: QEMU reads the indices only at a reset, so the boot that follows is the only one to see it.

mod config;
mod disk;
mod process;
pub mod variables;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

pub use config::{
    Accel, BootOrder, BootTarget, CONSOLE_SOCKET, DiskBus, DiskConfig, MachineFirmware, MachineSettings, NIC_MODEL,
    NetBoot, QMP_SOCKET, SERIAL_LOG, VARIABLES, arguments, switch_port,
};
pub use disk::{MachineDiskError, create_empty, create_from};
use firesteel_lab_disk::FaultyDisk;
use serde_json::json;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::timeout;

use crate::libvirt::{Libvirt, LibvirtError};
use crate::qmp::{Qmp, QmpError, wait_for_event};
use crate::serial::SerialLog;
use crate::tools::Tools;

/// The time after `quit`, in which QEMU only has to close its files.
const QUIT_TIMEOUT: Duration = Duration::from_secs(10);
/// A reset is announced by the next turn of QEMU's main loop.
const RESET_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum MachineError {
    #[error("preparing the machine's folder")]
    Prepare(#[source] io::Error),
    #[error("starting QEMU")]
    Start(#[source] io::Error),
    #[error("QEMU ended at once ({status}): {message}")]
    EndedAtOnce { status: ExitStatus, message: String },
    #[error("QEMU did not connect within {} s", process::START_TIMEOUT.as_secs())]
    NoContact,
    #[error("controlling QEMU")]
    Control(#[from] QmpError),
    #[error("QEMU did not announce the reset")]
    NoReset,
    #[error("setting the next boot")]
    NextBoot(#[from] variables::VariablesError),
    #[error("cutting the power of a disk")]
    Disk(#[from] firesteel_lab_disk::FaultyDiskError),
    #[error("asking libvirt")]
    Libvirt(#[from] LibvirtError),
    #[error("the machine is off")]
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachinePower {
    Off,
    /// The power is on since then: the zero of a host's timeline.
    On {
        since: SystemTime,
    },
}

/// The BMC's wish for coming boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootOverride {
    pub target: BootTarget,
    /// Gone after one boot.
    pub once: bool,
}

/// A handle; clones are the same machine.
#[derive(Clone, Debug)]
pub struct Machine(Arc<MachineParts>);

#[derive(Debug)]
struct MachineParts {
    config: std::sync::Mutex<MachineSettings>,
    tools: Tools,
    state: Mutex<MachineRunState>,
    power: watch::Sender<MachinePower>,
    /// The served ones among its disks.
    disks: Vec<FaultyDisk>,
    /// Who starts and ends QEMU, where the lab does not.
    keeper: Option<Arc<Libvirt>>,
}

#[derive(Debug, Default)]
struct MachineRunState {
    boot: BootOverride,
    running: Option<RunningMachine>,
}

#[derive(Debug)]
struct RunningMachine {
    qmp: Arc<Qmp>,
    kill: oneshot::Sender<()>,
    /// Whether the process has ended and the power is off.
    ended: watch::Receiver<bool>,
    /// What it was started with.
    media: Option<PathBuf>,
}

impl MachineRunState {
    fn qmp(&self) -> Result<Arc<Qmp>, MachineError> {
        match &self.running {
            Some(running) if !*running.ended.borrow() => Ok(running.qmp.clone()),
            Some(_) | None => Err(MachineError::Off),
        }
    }
}

impl Machine {
    /// A machine that is switched off. Its folder is made here; its disks must exist, and `disks` are
    /// those of them that a server serves.
    pub fn new(config: MachineSettings, tools: Tools, disks: Vec<FaultyDisk>) -> Result<Self, MachineError> {
        Self::build(config, tools, disks, None)
    }

    /// A machine that is defined in libvirt, which keeps it from then on.
    pub async fn managed_by_libvirt(
        config: MachineSettings,
        tools: Tools,
        keeper: Arc<Libvirt>,
    ) -> Result<Self, MachineError> {
        let listener = UnixListener::bind(config.folder.join(QMP_SOCKET)).map_err(MachineError::Prepare)?;
        keeper.define(&config, &tools).await?;
        let machine = Self::build(config, tools, Vec::new(), Some(keeper))?;
        tokio::spawn(watch_kept(listener, Arc::downgrade(&machine.0)));
        Ok(machine)
    }

    fn build(
        config: MachineSettings,
        tools: Tools,
        disks: Vec<FaultyDisk>,
        keeper: Option<Arc<Libvirt>>,
    ) -> Result<Self, MachineError> {
        std::fs::create_dir_all(&config.folder).map_err(MachineError::Prepare)?;
        if config.firmware == MachineFirmware::Uefi {
            std::fs::copy(&tools.ovmf_vars, config.folder.join(VARIABLES)).map_err(MachineError::Prepare)?;
        }
        // The log exists from the start, so that followers need not wait for it.
        File::create(config.folder.join(SERIAL_LOG)).map_err(MachineError::Prepare)?;
        let (power, _) = watch::channel(MachinePower::Off);
        Ok(Self(Arc::new(MachineParts {
            config: std::sync::Mutex::new(config),
            tools,
            state: Mutex::default(),
            power,
            disks,
            keeper,
        })))
    }

    #[must_use]
    pub fn config(&self) -> MachineSettings {
        self.0.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Changes the hardware; seen at the next power-on.
    pub fn reconfigure(&self, change: impl FnOnce(&mut MachineSettings)) {
        change(&mut self.0.config.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    #[must_use]
    pub fn serial(&self) -> SerialLog {
        SerialLog::new(self.folder().join(SERIAL_LOG))
    }

    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.config().folder
    }

    #[must_use]
    pub fn power(&self) -> watch::Receiver<MachinePower> {
        self.0.power.subscribe()
    }

    pub async fn boot_override(&self) -> BootOverride {
        self.0.state.lock().await.boot
    }

    pub async fn set_boot_override(&self, boot: BootOverride) {
        self.0.state.lock().await.boot = boot;
    }

    /// Runs a command of virsh on a machine that libvirt keeps; `None` for others.
    async fn virsh(&self, command: &str) -> Option<Result<(), LibvirtError>> {
        let keeper = self.0.keeper.as_ref()?;
        Some(keeper.run(&[command, &self.config().name]).await.map(drop))
    }

    /// Starts the machine; does nothing where it runs.
    pub async fn power_on(&self) -> Result<(), MachineError> {
        if self.0.keeper.is_some() && *self.0.power.borrow() != MachinePower::Off {
            return Ok(());
        }
        if let Some(done) = self.virsh("start").await {
            return Ok(done?);
        }
        let mut state = self.0.state.lock().await;
        if state.qmp().is_ok() {
            return Ok(());
        }
        self.start(&mut state).await
    }

    async fn start(&self, state: &mut MachineRunState) -> Result<(), MachineError> {
        let config = self.config();
        let once = state.boot.once;
        let mut target = take_target(&mut state.boot);
        let variables = config.folder.join(VARIABLES);
        if once && config.firmware == MachineFirmware::Uefi && variables::set_next_boot(&variables, target)? {
            target = BootTarget::None;
        }
        self.0.disks.iter().for_each(FaultyDisk::power_on);
        let (child, qmp) = process::launch(&config, &self.0.tools, target).await?;
        let qmp = Arc::new(qmp);
        if target != state.boot.target {
            // The firmware configuration of this boot is already fixed; the next one finds these.
            process::set_order(&qmp, &config, state.boot.target).await?;
        }
        self.0.power.send_replace(MachinePower::On { since: SystemTime::now() });
        qmp.run("cont", json!({})).await?;
        let (ended_sender, ended) = watch::channel(false);
        let (kill, killed) = oneshot::channel();
        let power = self.0.power.clone();
        tokio::spawn(async move {
            process::until_ended(child, killed).await;
            power.send_replace(MachinePower::Off);
            ended_sender.send_replace(true);
        });
        state.running = Some(RunningMachine { qmp, kill, ended, media: config.media });
        Ok(())
    }

    /// Pulls the plug; does nothing where it is off.
    pub async fn power_off(&self) -> Result<(), MachineError> {
        if self.0.keeper.is_some() && *self.0.power.borrow() == MachinePower::Off {
            return Ok(());
        }
        if let Some(done) = self.virsh("destroy").await {
            done?;
            self.wait_off().await;
            return Ok(());
        }
        let mut state = self.0.state.lock().await;
        self.stop(&mut state).await
    }

    async fn stop(&self, state: &mut MachineRunState) -> Result<(), MachineError> {
        let Some(mut running) = state.running.take() else { return Ok(()) };
        if !self.0.disks.is_empty() {
            let lost: Vec<_> = self.0.disks.iter().map(FaultyDisk::power_cut).collect();
            running.kill.send(()).unwrap_or_default();
            drop(running.ended.wait_for(|ended| *ended).await);
            let lost: u64 = lost.into_iter().sum::<Result<u64, _>>()?;
            tracing::info!(machine = self.config().name, lost_bytes = lost, "the power was cut");
            return Ok(());
        }
        // An error means that QEMU is already on its way out.
        drop(running.qmp.run("quit", json!({})).await);
        if timeout(QUIT_TIMEOUT, running.ended.wait_for(|ended| *ended)).await.is_err() {
            tracing::warn!(machine = self.config().name, "QEMU does not quit and is killed");
            running.kill.send(()).unwrap_or_default();
            drop(running.ended.wait_for(|ended| *ended).await);
        }
        Ok(())
    }

    /// Presses the power button: the guest decides.
    pub async fn press_power_button(&self) -> Result<(), MachineError> {
        self.qmp().await?.run("system_powerdown", json!({})).await?;
        Ok(())
    }

    /// Resets a running machine, with the override's boot order if there is one.
    pub async fn reset(&self) -> Result<(), MachineError> {
        if let Some(done) = self.virsh("reset").await {
            return Ok(done?);
        }
        let mut state = self.0.state.lock().await;
        let qmp = state.qmp()?;
        let config = self.config();
        let media_changed = state.running.as_ref().is_some_and(|running| running.media != config.media);
        if media_changed || config.firmware == MachineFirmware::Uefi && state.boot.once {
            // The variables can be changed only while QEMU does not hold them, and a drive does not come or go.
            self.stop(&mut state).await?;
            return self.start(&mut state).await;
        }
        let target = take_target(&mut state.boot);
        process::set_order(&qmp, &config, target).await?;
        let mut events = qmp.events();
        qmp.run("system_reset", json!({})).await?;
        timeout(RESET_TIMEOUT, wait_for_event(&mut events, "RESET")).await.map_err(|_| MachineError::NoReset)?;
        if target != state.boot.target {
            process::set_order(&qmp, &config, state.boot.target).await?;
        }
        Ok(())
    }

    /// Its disks that a server serves, in order.
    #[must_use]
    pub fn served_disks(&self) -> &[FaultyDisk] {
        &self.0.disks
    }

    /// The connection for what is not a BMC's business, such as watching a guest's registers or dumping its memory.
    pub async fn qmp(&self) -> Result<Arc<Qmp>, MachineError> {
        self.0.state.lock().await.qmp()
    }

    /// Resolves when the machine is off.
    pub async fn wait_off(&self) {
        drop(self.power().wait_for(|power| *power == MachinePower::Off).await);
    }
}

/// Sees a machine come and go that libvirt keeps: its QEMU connects when it starts.
async fn watch_kept(listener: UnixListener, kept: Weak<MachineParts>) {
    loop {
        let connected = match listener.accept().await {
            Ok((stream, _)) => Qmp::start(stream).await,
            Err(error) => Err(QmpError::Io(error)),
        };
        let Some(machine) = kept.upgrade() else { return };
        let qmp = match connected {
            Ok(qmp) => Arc::new(qmp),
            Err(error) => {
                // A machine may end at once.
                tracing::debug!(%error, "a QEMU that libvirt started");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (ended_sender, ended) = watch::channel(false);
        // What libvirt keeps is not killed here.
        let (kill, _) = oneshot::channel();
        machine.state.lock().await.running = Some(RunningMachine { qmp: qmp.clone(), kill, ended, media: None });
        machine.power.send_replace(MachinePower::On { since: SystemTime::now() });
        drop(machine);
        qmp.until_closed().await;
        ended_sender.send_replace(true);
        if let Some(machine) = kept.upgrade() {
            machine.power.send_replace(MachinePower::Off);
        }
    }
}

/// The target of the boot that begins now; an override for one boot is used up by it.
fn take_target(boot: &mut BootOverride) -> BootTarget {
    let target = boot.target;
    if boot.once {
        *boot = BootOverride::default();
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_for_one_boot_is_used_up_and_a_continuous_one_stays() {
        let mut once = BootOverride { target: BootTarget::Pxe, once: true };
        assert_eq!(take_target(&mut once), BootTarget::Pxe);
        assert_eq!(take_target(&mut once), BootTarget::None);
        let mut always = BootOverride { target: BootTarget::Pxe, once: false };
        assert_eq!(take_target(&mut always), BootTarget::Pxe);
        assert_eq!(take_target(&mut always), BootTarget::Pxe);
    }
}
