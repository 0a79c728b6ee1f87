//! One running lab: a network, the appliance, machines with their BMCs, and a place where image
//! files are fetched from. What the demo and the scenarios are written in.

mod applied;
mod files;
mod plan;
mod waits;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use thiserror::Error;

use self::applied::AppliedManifests;
pub(crate) use self::plan::DISK_BYTES;
pub use self::plan::{HostPlan, LabDiskPlan, MachineOptions};
pub use self::waits::{LIMIT, PATIENCE};
use crate::appliance::{ApplianceConfig, ApplianceError, ApplianceProcess};
use crate::artefacts::Artefacts;
use crate::attack::{Attack, Attacker, AttackerSecrets};
use crate::bmc::{AnyBmc, BmcError, BmcKind, LabBmcFault};
use crate::files::FileServer;
use crate::host_view::HostView;
use crate::libvirt::{Libvirt, LibvirtError};
use crate::link::{FaultyLink, LinkFaults};
use crate::machine::{
    Accel, BootOrder, DiskBus, DiskConfig, Machine, MachineDiskError, MachineError, MachineSettings, create_empty,
    create_from,
};
pub use crate::manifests::DesiredHost;
use crate::manifests::{self, HostManifest};
use crate::net::{APPLIANCE_ADDRESS, LabBridge, NetError};
use crate::serial::SerialLog;
use crate::switch::{ROUTER_ADDRESS, Switch, SwitchMode, VLAN_CIDR, extra_macs};
use crate::tools::Tools;

/// Machines are numbered in MAC addresses and BMC addresses.
const MACHINES_MAX: usize = 99;

#[derive(Debug, Error)]
pub enum LabError {
    #[error("making the network")]
    Network(#[from] NetError),
    #[error("running the appliance")]
    Appliance(#[from] ApplianceError),
    #[error("running the machine {name}")]
    Machine {
        name: String,
        #[source]
        source: MachineError,
    },
    #[error("running the BMC of {name}")]
    Bmc {
        name: String,
        #[source]
        source: BmcError,
    },
    #[error("running libvirt")]
    Libvirt(#[from] LibvirtError),
    #[error("making a disk")]
    Disk(#[from] MachineDiskError),
    #[error("serving a disk")]
    Serve(#[from] firesteel_lab_disk::FaultyDiskError),
    #[error("using the file {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("reading a manifest of the lab")]
    Manifest(#[source] serde_json::Error),
    #[error("there is no machine {0}")]
    Unknown(String),
    #[error("the lab has room for {MACHINES_MAX} machines")]
    Full,
    #[error("reading what the appliance says of {name}")]
    View {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("gave up waiting for {what} of {name}; it says\n{object:#}")]
    GaveUpOn { name: String, what: String, object: Box<serde_json::Value> },
    #[error("{name}: gave up waiting for {what}; state {state:?}, {reason}\nThe serial console ends with:\n{serial}")]
    GaveUp { name: String, what: String, state: String, reason: String, serial: String },
}

#[derive(Clone, Debug)]
pub struct LabConfig {
    pub tools: Tools,
    pub artefacts: Artefacts,
    pub accel: Accel,
    /// The run's folder.
    pub folder: PathBuf,
    pub upgrade_ipxe: bool,
    /// The appliance serves configs without TLS too, at this port.
    pub config_plain_port: Option<u16>,
    /// The appliance has neither an interface nor files to boot.
    pub is_bmc_only: bool,
}

#[derive(Debug)]
pub struct LabHost {
    pub machine: Machine,
    bmc: Option<AnyBmc>,
    link: Option<FaultyLink>,
    switch: Option<Switch>,
    plan: HostPlan,
    number: u8,
}

#[derive(Debug)]
pub struct Lab {
    // Machines go before the network that they hang on.
    hosts: BTreeMap<String, LabHost>,
    /// The libvirt, from the first machine on that is driven through it.
    libvirt: Option<Arc<Libvirt>>,
    pub appliance: ApplianceProcess,
    files: FileServer,
    digests: BTreeMap<PathBuf, String>,
    applied: Mutex<AppliedManifests>,
    network: LabBridge,
    config: LabConfig,
}

impl Lab {
    /// Network and appliance; no machine yet. Inside the lab's own network namespace.
    pub async fn start(config: LabConfig) -> Result<Self, LabError> {
        let network = LabBridge::create().await?;
        let files = FileServer::start(APPLIANCE_ADDRESS)
            .await
            .map_err(|source| LabError::File { path: config.folder.clone(), source })?;
        let provisioning = config.folder.join("provisioning.yaml");
        let object = if config.is_bmc_only { manifests::disabled_network() } else { manifests::provisioning() };
        fs::write(&provisioning, object).map_err(|source| LabError::File { path: provisioning.clone(), source })?;
        let appliance = ApplianceProcess::start(ApplianceConfig {
            program: config.artefacts.firesteel.clone(),
            folder: config.folder.clone(),
            boot_files: config.artefacts.boot_files.clone(),
            loaders: config.tools.loaders.clone(),
            provisioning,
            upgrade_ipxe: config.upgrade_ipxe,
            config_plain_port: config.config_plain_port,
            is_bmc_only: config.is_bmc_only,
        })
        .await?;
        Ok(Self {
            hosts: BTreeMap::new(),
            libvirt: None,
            appliance,
            files,
            digests: BTreeMap::new(),
            applied: Mutex::default(),
            network,
            config,
        })
    }

    /// Puts a machine into the rack: wired, switched off, unknown to the appliance.
    pub async fn add_machine(&mut self, plan: HostPlan) -> Result<(), LabError> {
        let number = self.hosts.len() + 1;
        let number = u8::try_from(number).ok().filter(|_| number <= MACHINES_MAX).ok_or(LabError::Full)?;
        let folder = self.config.folder.join("hosts").join(&plan.name);
        fs::create_dir_all(&folder).map_err(|source| LabError::File { path: folder.clone(), source })?;
        let tap = format!("tap{number}");
        self.network.add_tap(&tap).await?;
        let (mut disks, mut served) = (Vec::new(), Vec::new());
        for (index, disk) in plan.disks.iter().enumerate() {
            let path = folder.join(format!("disk{index}.raw"));
            create_empty(&path, disk.bytes)?;
            let mut config = disk_config(number, index, disk.bus, path);
            if let Some(plan) = &disk.served {
                let socket = format!("disk{index}.sock");
                served.push(firesteel_lab_disk::FaultyDisk::serve(&config.path, &folder.join(&socket), plan)?);
                config.socket = Some(socket.into());
            }
            disks.push(config);
        }
        let failed = |source| LabError::File { path: folder.clone(), source };
        let link = plan.link.map(|faults| FaultyLink::start(&tap, &folder, faults)).transpose().map_err(failed)?;
        let switch_mode = plan.switch;
        let switch = match switch_mode {
            Some(mode) => Some(self.start_switch(mode, &tap, &folder).await?),
            None => None,
        };
        let config = MachineSettings {
            name: plan.name.clone(),
            uuid: uuid::Uuid::new_v4(),
            mac: format!("52:54:00:77:01:{number:02x}"),
            tap,
            linked: link.is_some(),
            switched: switch_mode.map(|mode| extra_macs(mode, number)),
            firmware: plan.firmware,
            memory_mib: plan.memory_mib,
            accel: self.config.accel,
            boot_order: plan.boot_order,
            net_boot: plan.net_boot,
            disks,
            media: None,
            folder,
        };
        let name = plan.name.clone();
        let tools = self.config.tools.clone();
        let libvirt = if plan.bmc == BmcKind::Sushy { Some(self.libvirt().await?) } else { None };
        let machine = match &libvirt {
            None => Machine::new(config, tools.clone(), served),
            Some(libvirt) => Machine::managed_by_libvirt(config, tools.clone(), libvirt.clone()).await,
        }
        .map_err(|source| LabError::Machine { name: name.clone(), source })?;
        let bmc = AnyBmc::start(plan.bmc, &machine, &tools, libvirt.as_deref(), number)
            .await
            .map_err(|source| LabError::Bmc { name: name.clone(), source })?;
        self.hosts.insert(name, LabHost { machine, bmc, link, switch, plan, number });
        Ok(())
    }

    /// The libvirt of this lab, which is started when it is first asked for.
    pub async fn libvirt(&mut self) -> Result<Arc<Libvirt>, LabError> {
        if let Some(running) = &self.libvirt {
            return Ok(running.clone());
        }
        let started = Arc::new(Libvirt::start(&self.config.tools, &self.config.folder.join("v")).await?);
        self.libvirt = Some(started.clone());
        Ok(started)
    }

    /// A second disk for a machine that is off: a copy of its disk `of`, seen by the firmware before
    /// (or behind) all others. The copy has the same labels, UUIDs and GUIDs, and its own serial.
    pub fn add_copy(&self, name: &str, of: usize, before: bool) -> Result<PathBuf, LabError> {
        let host = self.host(name)?;
        let config = host.machine.config();
        let original = config.disks.get(of).ok_or_else(|| LabError::Unknown(format!("{name} disk {of}")))?;
        let index = config.disks.len();
        let path = config.folder.join(format!("disk{index}.raw"));
        create_from(&original.path, &path, 0)?;
        let copy = disk_config(host.number, index, original.bus, path.clone());
        host.machine.reconfigure(|config| {
            let position = if before { 0 } else { config.disks.len() };
            config.disks.insert(position, copy);
        });
        Ok(path)
    }

    pub fn host(&self, name: &str) -> Result<&LabHost, LabError> {
        self.hosts.get(name).ok_or_else(|| LabError::Unknown(name.to_owned()))
    }

    pub fn machine(&self, name: &str) -> Result<&Machine, LabError> {
        Ok(&self.host(name)?.machine)
    }

    pub fn serial(&self, name: &str) -> Result<SerialLog, LabError> {
        Ok(self.machine(name)?.serial())
    }

    pub async fn power_on(&self, name: &str) -> Result<(), LabError> {
        let failed = |source| LabError::Machine { name: name.to_owned(), source };
        self.machine(name)?.power_on().await.map_err(failed)
    }

    pub async fn power_off(&self, name: &str) -> Result<(), LabError> {
        let failed = |source| LabError::Machine { name: name.to_owned(), source };
        self.machine(name)?.power_off().await.map_err(failed)
    }

    /// Switches a machine off and on again with the network first in its boot order. Where its disk
    /// is UEFI's business, that order stands in its variables already.
    pub async fn restart_network_first(&self, name: &str) -> Result<SystemTime, LabError> {
        self.power_off(name).await?;
        self.machine(name)?.reconfigure(|config| config.boot_order = BootOrder::NetworkFirst);
        let since = SystemTime::now();
        self.power_on(name).await?;
        Ok(since)
    }

    async fn start_switch(&self, mode: SwitchMode, tap: &str, folder: &Path) -> Result<Switch, LabError> {
        let failed = |source| LabError::File { path: folder.to_owned(), source };
        let missing = || failed(io::Error::other("no switch was built for this run"));
        let initramfs = self.config.artefacts.switch.as_deref().ok_or_else(missing)?;
        if mode == SwitchMode::Vlan {
            self.network.add_route(VLAN_CIDR, ROUTER_ADDRESS).await?;
        }
        let kernel = self.config.artefacts.boot_files.join("vmlinuz");
        let LabConfig { tools, accel, .. } = &self.config;
        Switch::start(mode, tools, *accel, &kernel, initramfs, tap, folder).await.map_err(failed)
    }

    /// What a machine's switch says.
    pub fn switch_log(&self, name: &str) -> Result<SerialLog, LabError> {
        let switch = self.host(name)?.switch.as_ref();
        Ok(switch.ok_or_else(|| LabError::Unknown(format!("switch of {name}")))?.log())
    }

    /// Sets the faults of its wire from now on.
    pub fn set_link_faults(&self, name: &str, faults: LinkFaults) -> Result<(), LabError> {
        let link = self.host(name)?.link.as_ref();
        link.ok_or_else(|| LabError::Unknown(format!("link of {name}")))?.set_faults(faults);
        Ok(())
    }

    /// How many of its requests got no answer, by its link's faults.
    pub fn lost_answers(&self, name: &str) -> Result<u32, LabError> {
        let link = self.host(name)?.link.as_ref();
        Ok(link.ok_or_else(|| LabError::Unknown(format!("link of {name}")))?.lost_answers())
    }

    /// Connects another bridge of this network namespace.
    pub async fn join(&self, bridge: &str) -> Result<(), LabError> {
        Ok(self.network.join(bridge).await?)
    }

    /// Puts a hostile machine into the rack, which begins at once; with the first machine's MAC where it is to be at a
    /// stolen address.
    pub async fn attack(&self, kinds: &[Attack], loot: &AttackerSecrets) -> anyhow::Result<Attacker> {
        let victim = self.hosts.values().next().map(|host| host.machine.config().mac).unwrap_or_default();
        Attacker::start(&self.network, kinds, &victim, loot).await
    }

    /// Makes its BMC misbehave in these ways and in no other from now on.
    pub fn set_bmc_faults(&self, name: &str, faults: Vec<LabBmcFault>) -> Result<(), LabError> {
        let bmc = self.host(name)?.bmc.as_ref().and_then(AnyBmc::own);
        bmc.ok_or_else(|| LabError::Unknown(format!("BMC of {name}")))?.set_faults(faults);
        Ok(())
    }

    /// The run's folder, for files that a scenario makes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.config.folder
    }

    /// Tells the appliance of a machine, and what it shall become.
    pub async fn apply_host(&self, name: &str, wish: &DesiredHost) -> Result<(), LabError> {
        self.apply(&self.manifest(name, wish)?).await
    }

    /// The YAML of a machine.
    pub fn manifest(&self, name: &str, wish: &DesiredHost) -> Result<String, LabError> {
        let host = self.host(name)?;
        self.manifest_of(&HostManifest {
            name: name.to_owned(),
            mac: host.machine.config().mac,
            firmware: host.plan.firmware,
            bmc: host.bmc.as_ref().map(AnyBmc::url),
            wish: wish.clone(),
        })
    }

    /// The YAML of any machine on this network.
    pub fn manifest_of(&self, host: &HostManifest) -> Result<String, LabError> {
        let failed = |source| LabError::File { path: self.appliance.data(), source };
        Ok(manifests::host(host, &self.appliance.ca_pem().map_err(failed)?))
    }

    /// What the appliance says of a host.
    pub async fn view(&self, name: &str) -> Result<HostView, LabError> {
        let answer = self.appliance.json(&["describe", "host", name]).await?;
        serde_json::from_value(answer).map_err(|source| LabError::View { name: name.to_owned(), source })
    }

    /// An object as the API has it.
    pub async fn object(&self, kind: &str, name: &str) -> Result<serde_json::Value, LabError> {
        Ok(self.appliance.json(&["get", kind, name]).await?)
    }

    /// Switches everything off in order. What is dropped instead ends as well, only less politely.
    pub async fn stop(self) {
        for (name, host) in &self.hosts {
            if let Err(error) = host.machine.power_off().await {
                tracing::warn!(%error, name, "could not switch a machine off; it ends with the lab");
            }
        }
        self.appliance.stop().await;
        if let Err(error) = self.network.remove().await {
            tracing::warn!(%error, "could not remove the network; it ends with the lab's namespace");
        }
    }
}

fn disk_config(machine: u8, index: usize, bus: DiskBus, path: PathBuf) -> DiskConfig {
    DiskConfig {
        bus,
        path,
        serial: format!("LAB{machine:02}DISK{index}"),
        wwn: 0x5000_c500_1ab0_0000 | u64::from(machine) << 8 | index as u64,
        socket: None,
    }
}
