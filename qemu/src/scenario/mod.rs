//! End-to-end runs that end in a verdict: what `lab test` does after the unit tests. Each scenario
//! is a story written with [`crate::lab::Lab`], or a file in `qemu/scenarios`: those have machines with
//! faults, and steps. A scenario names what it saw when it fails.

mod bmc_only;
mod bmcs;
mod boot_loader;
mod cloud;
pub mod file;
mod first_boot;
mod foreign_release;
mod forged_wipe;
mod import;
mod inspection;
mod judge;
mod lanes;
mod libvirt;
mod life;
mod modes;
mod paths;
mod play;
mod pool;
mod releases;
mod second_claimant;
mod stream;
mod switched;

pub use lanes::{OnEnd, run_all};
pub(crate) use play::is_blank;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use clap::ValueEnum as _;
use firesteel_lab_image::{OsImageSystem, PackedFormat};

use crate::artefacts::{NEXT_VERSION, WantedImage, repository};
use crate::bmc::BmcKind;
use crate::lab::{Lab, LabConfig, PATIENCE};
use crate::machine::MachineFirmware;
use crate::progress::print_status;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// On BIOS and on UEFI at once: install, boot the network first and reach the own disk, delete
    Life,
    /// The life of a host on BIOS only
    LifeBios,
    /// The life of a host on UEFI only
    LifeUefi,
    /// A life in which another image is installed, and the own disk reached, though an older copy of it stands before it
    OlderCopy,
    /// A machine without BMC is discovered, adopted, installed, and erased by the word of its agent alone
    NoBmc,
    /// BIOS: the network card's iPXE loads our undionly.kpxe by TFTP
    Chain,
    /// UEFI firmware that boots by HTTP and knows no PXE
    HttpBoot,
    /// Three machines at once, 512 MiB each
    Three,
    /// A whole life by IPMI: installed, switched off, deprovisioned, deleted
    Ipmi,
    /// A whole life by sushy-tools and libvirt
    Sushy,
    /// An appliance without an interface and without boot files: power, fencing by the reboot annotation and inspection by
    /// sushy-tools and by IPMI
    BmcOnly,
    /// Machines as virt-install makes them, on a network of libvirt: disks without a serial number, Secure Boot, blocks of
    /// 4096 bytes
    Libvirt,
    /// The hardware record of a machine with a disk of each kind, and a switch that speaks late
    Inspection,
    /// The agent's way is a tagged VLAN with a fixed address, behind a switch
    Vlan,
    /// The agent's way is an LACP bond of two ports of a switch
    Bond,
    /// cloud-init reads a NoCloud volume and a config drive: hostname, user, key and address are what was asked for
    CloudInit,
    /// Ignition on OpenStack's platform: without a config it reports, with one the next boot is configured
    Openstack,
    /// Kernel arguments through entries of systemd-boot, and through GRUB's menu: there at the first boot and later; and
    /// one that leads Ignition to its config
    SystemdBoot,
    /// Ignition's first boot has a fixed address, by network arguments
    FirstBootNetwork,
    /// Ignition refuses its config: the host shows it with the end of the log
    FirstBootFails,
    /// Hosts of a pool: managed stubs, a lost answer, a rotation of the CA, refusals
    Pool,
    /// A group follows a stream: a canary, the next host, restore
    Releases,
    /// An image of 2 GiB is imported through a stall, a kill and a cut; a wrong digest is no release
    Import,
    /// Four kinds of disks wiped by the agent's own steps and read from outside, signatures that stop a wipe,
    /// and a wipe whose power is cut; without an appliance
    FullWipe,
    /// More than a hundred disks, made by hand, by partitioners, mkfs, lvm2 and mdadm: the guard looks at everything that
    /// Linux shows, and erases none of another's; without an appliance
    ForeignDisks,
    /// A host with a consumer and six disks that are not its own is released: each stays, and the host says why
    ForeignRelease,
    /// A host is released under a machine with its MAC and address that asks for its boot script: it gets no token before
    /// the BMC has shown the host off, and the host's own erasure is proven
    ForgedWipe,
    /// The network's mode changes while one host is written and another one boots: no DHCP outside Managed, and both are
    /// installed
    Modes,
    /// Another machine says hello with a host's token and a key of its own: both stop, the BMC switches the host off, who
    /// still speaks is not the host, and the host itself is installed
    SecondClaimant,
}

/// What `--scenario` names: a story, or a file.
#[derive(Clone, Debug)]
pub enum SelectedScenario {
    Story(Scenario),
    File { name: String, plan: Box<file::ScenarioPlan> },
}

/// The usual way, the two things that must never happen, and the bounds. Each takes minutes of both cores; the rest is
/// for `--all`.
const STANDARD: [&str; 4] = ["life", "altered-block", "foreign-disks", "floods"];

/// Where the files lie.
#[must_use]
pub fn files_folder() -> PathBuf {
    repository().join("qemu/scenarios")
}

impl fmt::Display for SelectedScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Story(scenario) => {
                f.write_str(scenario.to_possible_value().as_ref().map_or("", |value| value.get_name()))
            }
            Self::File { name, .. } => f.write_str(name),
        }
    }
}

impl SelectedScenario {
    /// What every run of the tests goes through.
    pub fn standard() -> anyhow::Result<Vec<Self>> {
        STANDARD.iter().map(|name| named(name)).collect()
    }

    /// `--all`.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let mut all: Vec<_> = Scenario::ALL.iter().copied().map(Self::Story).collect();
        for name in file_names() {
            all.push(named(&name)?);
        }
        Ok(all)
    }

    /// Images that it needs.
    #[must_use]
    pub fn images(&self) -> Vec<WantedImage> {
        match self {
            Self::Story(scenario) => scenario.images(),
            Self::File { plan, .. } => vec![plan.image.clone()],
        }
    }

    /// Whether it needs the lab's switch.
    #[must_use]
    pub fn has_switch(&self) -> bool {
        matches!(self, Self::Story(Scenario::Vlan | Scenario::Bond))
    }

    /// Whether it needs the program of [`crate::wipe`].
    #[must_use]
    pub fn wipes(&self) -> bool {
        matches!(self, Self::Story(Scenario::FullWipe | Scenario::ForeignDisks))
    }

    /// Whether its machine makes volumes and arrays.
    #[must_use]
    pub fn has_volumes(&self) -> bool {
        matches!(self, Self::Story(Scenario::ForeignDisks))
    }

    /// Runs it in a lab of its own.
    async fn run(&self, mut config: LabConfig) -> anyhow::Result<()> {
        config.folder = config.folder.join(self.to_string());
        config.upgrade_ipxe = matches!(self, Self::Story(Scenario::Chain));
        config.config_plain_port =
            matches!(self, Self::Story(Scenario::SystemdBoot)).then_some(boot_loader::CONFIG_PLAIN_PORT);
        config.is_bmc_only = matches!(self, Self::Story(Scenario::BmcOnly));
        std::fs::create_dir_all(&config.folder).context("making the scenario's folder")?;
        if self.wipes() {
            let work = if self.has_volumes() { crate::wipe::foreign_disks } else { crate::wipe::full };
            let wiped = tokio::task::spawn_blocking(move || work(&config));
            return wiped.await.context("the scenario came to no end")?;
        }
        let mut lab = Lab::start(config.clone()).await?;
        let outcome = match self {
            Self::Story(scenario) => scenario.run_story(&mut lab, &config).await,
            Self::File { plan, .. } => play::play(&mut lab, &config, plan).await,
        };
        if outcome.is_err() {
            print_status(&format!("the appliance's log ends with:\n{}", lab.appliance.log_tail(15)));
        }
        lab.stop().await;
        outcome
    }
}

/// A story's name, a file's name in the folder of scenarios, or the path of a file.
pub fn named(text: &str) -> anyhow::Result<SelectedScenario> {
    if let Ok(scenario) = Scenario::from_str(text, false) {
        return Ok(SelectedScenario::Story(scenario));
    }
    let path =
        if text.contains(['/', '.']) { PathBuf::from(text) } else { files_folder().join(format!("{text}.toml")) };
    let content = std::fs::read_to_string(&path).map_err(|error| {
        let stories = Scenario::value_variants().iter().map(|scenario| SelectedScenario::Story(*scenario).to_string());
        let known: Vec<_> = stories.chain(file_names()).collect();
        anyhow!("{}: {error}; scenarios are {}, and files", path.display(), known.join(", "))
    })?;
    let plan = file::parse(&content).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(SelectedScenario::File { name, plan: Box::new(plan) })
}

fn file_names() -> Vec<String> {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let entries = std::fs::read_dir(files_folder()).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| stem(&entry.path())).collect();
    names.sort();
    names
}

impl Scenario {
    /// `--all`.
    const ALL: &[Self] = &[
        Self::Life,
        Self::OlderCopy,
        Self::NoBmc,
        Self::Chain,
        Self::HttpBoot,
        Self::Three,
        Self::Ipmi,
        Self::Sushy,
        Self::BmcOnly,
        Self::Libvirt,
        Self::Inspection,
        Self::Vlan,
        Self::Bond,
        Self::CloudInit,
        Self::Openstack,
        Self::SystemdBoot,
        Self::FirstBootNetwork,
        Self::FirstBootFails,
        Self::Pool,
        Self::Releases,
        Self::Import,
        Self::FullWipe,
        Self::ForeignDisks,
        Self::ForeignRelease,
        Self::ForgedWipe,
        Self::Modes,
        Self::SecondClaimant,
    ];

    fn images(self) -> Vec<WantedImage> {
        match self {
            Self::OlderCopy => {
                vec![PackedFormat::Gz.into(), WantedImage::of_version(NEXT_VERSION, PackedFormat::Qcow2)]
            }
            Self::NoBmc
            | Self::HttpBoot
            | Self::Three
            | Self::Ipmi
            | Self::Sushy
            | Self::Vlan
            | Self::Bond
            | Self::FirstBootNetwork
            | Self::FirstBootFails
            | Self::Pool
            | Self::ForeignRelease
            | Self::ForgedWipe
            | Self::Modes
            | Self::SecondClaimant
            | Self::Import => {
                vec![PackedFormat::Zst.into()]
            }
            Self::Releases => {
                vec![PackedFormat::Zst.into(), WantedImage::of_version(NEXT_VERSION, PackedFormat::Zst)]
            }
            Self::Libvirt => vec![
                PackedFormat::Zst.into(),
                WantedImage::of_version(NEXT_VERSION, PackedFormat::Zst),
                WantedImage::of_system(OsImageSystem::LargeBlocks),
            ],
            Self::CloudInit => cloud::systems().map(WantedImage::of_system).collect(),
            Self::Openstack => vec![WantedImage::of_system(OsImageSystem::Openstack)],
            Self::SystemdBoot => boot_loader::systems().map(WantedImage::of_system).collect(),
            Self::Life | Self::LifeBios | Self::LifeUefi | Self::Chain => vec![PackedFormat::Gz.into()],
            Self::BmcOnly | Self::Inspection | Self::FullWipe | Self::ForeignDisks => Vec::new(),
        }
    }

    async fn run_story(self, lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
        match self {
            Self::Life => life::run_lives(lab, config, &[MachineFirmware::Bios, MachineFirmware::Uefi]).await,
            Self::LifeBios => life::run_lives(lab, config, &[MachineFirmware::Bios]).await,
            Self::LifeUefi => life::run_lives(lab, config, &[MachineFirmware::Uefi]).await,
            Self::OlderCopy => life::beside_copies(lab, config, &[MachineFirmware::Bios, MachineFirmware::Uefi]).await,
            Self::NoBmc => paths::no_bmc(lab, config).await,
            Self::Chain => paths::chain(lab, config).await,
            Self::HttpBoot => paths::http_boot(lab, config).await,
            Self::Three => paths::three(lab, config).await,
            Self::Ipmi => bmcs::run_life(lab, config, BmcKind::Ipmi).await,
            Self::Sushy => bmcs::run_life(lab, config, BmcKind::Sushy).await,
            Self::BmcOnly => bmc_only::bmc_only(lab).await,
            Self::Libvirt => libvirt::guests(lab, config).await,
            Self::Inspection => inspection::inspection(lab).await,
            Self::Vlan => switched::vlan(lab, config).await,
            Self::Bond => switched::bond(lab, config).await,
            Self::CloudInit => cloud::cloud_init(lab, config).await,
            Self::Openstack => first_boot::openstack(lab, config).await,
            Self::SystemdBoot => boot_loader::arguments(lab, config).await,
            Self::FirstBootNetwork => first_boot::network(lab, config).await,
            Self::FirstBootFails => first_boot::fails(lab, config).await,
            Self::Pool => pool::pool(lab, config).await,
            Self::Releases => releases::releases(lab, config).await,
            Self::Import => import::import(lab, config).await,
            Self::ForeignRelease => foreign_release::release(lab, config).await,
            Self::ForgedWipe => forged_wipe::forged_wipe(lab, config).await,
            Self::Modes => modes::modes(lab, config).await,
            Self::SecondClaimant => second_claimant::second_claimant(lab, config).await,
            // They have no lab: see `SelectedScenario::run`.
            Self::FullWipe | Self::ForeignDisks => Ok(()),
        }
    }
}

/// Waits until a machine has said this on its console, after `position`.
async fn console(lab: &Lab, name: &str, wanted: &str, position: u64) -> anyhow::Result<()> {
    let serial = lab.serial(name)?;
    let seen = serial.wait_for(wanted, position, PATIENCE).await?;
    ensure!(seen.is_some(), "{name}: no {wanted:?} on the console, which ends with:\n{}", serial.tail(25));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_are_stories_or_files_and_an_unknown_one_is_told_the_others() {
        assert!(matches!(named("life").unwrap(), SelectedScenario::Story(Scenario::Life)));
        let SelectedScenario::File { name, plan } = named("altered-block").unwrap() else { panic!("no file") };
        assert_eq!((name.as_str(), plan.machines.len()), ("altered-block", 1));
        let error = named("no-such").unwrap_err().to_string();
        assert!(error.contains("life-bios") && error.contains("recovery"), "{error}");
        assert_eq!(SelectedScenario::standard().unwrap().len(), STANDARD.len());
        assert!(SelectedScenario::all().unwrap().len() > STANDARD.len());
    }
}
