//! Scenario files: machines with their faults, what happens to them when, and how it must end. One
//! TOML file is one scenario. Pure: text in, a checked [`ScenarioPlan`] out, or an error that names the field.
//!
//! ```toml
//! about = "A disk that alters one block of the write"
//! image = "zst"
//!
//! [[machine]]
//! name = "altered"
//! firmware = "bios"
//! memory-mib = 512
//!
//! [[machine.disk]]
//! bus = "virtio"
//! faults = [{ kind = "alter-writes", from = 0x0c80_0000, to = 0x0c80_1000 }]
//!
//! [[step]]                          # in order; each waits for its moment and then acts
//! when = { written-mib = 120 }      # by what the disk, the console or the timeline says
//! do = "kill-appliance"
//!
//! [appliance]
//! peak-mib-max = 300                # its memory, at any time
//! within-its-bound = true           # and within the bound that it states in its log
//!
//! [expect.altered]
//! reason = "did not keep what was written"
//! never = ["provisioning_complete"]
//! disk = "cleared"
//! ```

use std::collections::BTreeMap;

use firesteel_lab_disk::{CacheMode, DiskFault, FaultyDiskPlan as ServedDisk, Loss, StopPoint};
use firesteel_lab_image::PackedFormat;
use serde::Deserialize;
use thiserror::Error;

use crate::artefacts::{LARGE_VERSION, VERSION, WantedImage};
use crate::attack::Attack;
use crate::bmc::{BmcKind, LabBmcFault};
use crate::files::OriginFault;
use crate::lab::{DISK_BYTES, HostPlan, LabDiskPlan};
use crate::link::LinkFaults;
use crate::machine::{DiskBus, MachineFirmware};

const MIB: u64 = 1 << 20;
/// The most machines: as many as a lab has serial ports worth reading.
const MACHINES_MAX: usize = 9;
const STEPS_MAX: usize = 100;

#[derive(Debug, Error)]
pub enum FileError {
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    #[error("machine: there must be one to {MACHINES_MAX}")]
    Machines,
    #[error("step: there are more than {STEPS_MAX}")]
    Steps,
    #[error("machine {name:?}: {what}")]
    Machine { name: String, what: &'static str },
    #[error("step {number}: {what}")]
    Step { number: usize, what: String },
    #[error("expect: there is no machine {0:?}")]
    ExpectUnknown(String),
    #[error("expect.{0}: is missing: say how this machine must end")]
    ExpectMissing(String),
    #[error("expect.{name}: {what}")]
    Expect { name: String, what: &'static str },
}

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct ScenarioPlan {
    pub about: String,
    pub image: WantedImage,
    pub machines: Vec<MachinePlan>,
    pub appliance: AppliancePlan,
    pub steps: Vec<ScenarioStep>,
    pub expect: BTreeMap<String, Expect>,
}

/// A machine, and what around it misbehaves from the start.
#[derive(Clone, Debug)]
pub struct MachinePlan {
    pub host: HostPlan,
    pub bmc_faults: Vec<LabBmcFault>,
    pub origin_faults: Vec<OriginFault>,
    /// Whether it is inspected before it is installed; else it is not switched on before its image is there.
    pub inspected: bool,
}

/// What the appliance must bear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AppliancePlan {
    /// The most memory that it may ever hold.
    pub peak_mib_max: Option<u64>,
    /// Whether it must hold no more than it states itself.
    pub within_its_bound: bool,
    /// Attacks from the start to the end.
    pub attacks: Vec<Attack>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioStep {
    pub machine: String,
    pub when: When,
    pub act: ScenarioAction,
    /// What the machine's disk must be after a power cut, before the power is back.
    pub disk_is: Option<DiskEnd>,
}

/// The moment of a step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The step comes at once.
    Now,
    /// The serial port says this, after the step before.
    Console(String),
    /// The timeline has one more of this event.
    Event(String),
    /// The host's error or reason contains this.
    Says(String),
    /// The seconds after the step before.
    AfterS(u64),
    /// The disk has so much of the image's body; the machine is held meanwhile.
    WrittenMib(u64),
    /// The MiB that were read back; the machine is held meanwhile.
    ReadBackMib(u64),
    /// The first block is written and not yet flushed; the machine is held meanwhile.
    Head,
    /// … and flushed; the machine is held meanwhile.
    HeadFlushed,
}

impl When {
    /// The disk's part in it.
    #[must_use]
    pub fn stop(&self) -> Option<StopPoint> {
        match self {
            Self::Now | Self::Console(_) | Self::Event(_) | Self::Says(_) | Self::AfterS(_) => None,
            Self::WrittenMib(mib) => Some(StopPoint::Written(mib.saturating_mul(MIB))),
            Self::ReadBackMib(mib) => Some(StopPoint::ReadBack(mib.saturating_mul(MIB))),
            Self::Head => Some(StopPoint::Head),
            Self::HeadFlushed => Some(StopPoint::HeadFlushed),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioAction {
    /// SIGKILL, and a new start on the same data.
    KillAppliance,
    /// The plug is pulled and put back: unflushed writes are lost, the machine starts by itself.
    PowerCut,
    /// Faults of the disk end.
    MendDisk,
    /// The BMC misbehaves in these ways from now on, and in no other.
    Bmc(Vec<LabBmcFault>),
    /// The wire is like this from now on.
    Link(LinkFaults),
    /// The wire is pulled (false) or put back (true), as the machine sees it.
    Carrier(bool),
}

/// How a disk is at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskEnd {
    /// No boot sector and no first partition table. The copy of the table at the disk's end may be
    /// there: firmware and kernel look at it only where the first sector says that there is a GPT.
    BootsNothing,
    /// Neither of the two partition tables is there, nor a boot sector.
    Cleared,
    /// No byte was written.
    Untouched,
}

/// How a machine must end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Expect {
    /// Whether it is provisioned, with all evidence, and its OS has reported.
    pub runs: bool,
    /// The host's error or reason comes to contain this.
    pub reason: Option<String>,
    /// Events that the timeline must have exactly once.
    pub once: Vec<String>,
    /// Events that it must never have.
    pub never: Vec<String>,
    pub disk: Option<DiskEnd>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawPlan {
    about: String,
    #[serde(default = "zst")]
    image: PackedFormat,
    /// One that is larger than 512 MiB, packed and unpacked.
    #[serde(default)]
    large_image: bool,
    machine: Vec<RawMachine>,
    #[serde(default)]
    appliance: AppliancePlan,
    #[serde(default)]
    step: Vec<RawStep>,
    #[serde(default)]
    expect: BTreeMap<String, Expect>,
}

fn zst() -> PackedFormat {
    PackedFormat::Zst
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawMachine {
    name: String,
    firmware: MachineFirmware,
    #[serde(default = "memory")]
    memory_mib: u32,
    #[serde(default = "yes")]
    bmc: bool,
    #[serde(default)]
    bmc_faults: Vec<LabBmcFault>,
    #[serde(default)]
    origin_faults: Vec<OriginFault>,
    #[serde(default = "yes")]
    inspected: bool,
    link: Option<LinkFaults>,
    disk: Vec<RawDisk>,
}

fn memory() -> u32 {
    512
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawDisk {
    bus: DiskBus,
    mib: Option<u64>,
    cache: Option<CacheMode>,
    loss: Option<Loss>,
    #[serde(default)]
    faults: Vec<DiskFault>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawStep {
    machine: Option<String>,
    when: When,
    #[serde(rename = "do")]
    act: ScenarioAction,
    disk_is: Option<DiskEnd>,
}

/// Reads a scenario file's text.
pub fn parse(text: &str) -> Result<ScenarioPlan, FileError> {
    let raw: RawPlan = toml::from_str(text)?;
    if raw.machine.is_empty() || raw.machine.len() > MACHINES_MAX {
        return Err(FileError::Machines);
    }
    if raw.step.len() > STEPS_MAX {
        return Err(FileError::Steps);
    }
    let mut machines: Vec<MachinePlan> = Vec::new();
    for raw in raw.machine {
        let failed = |what| FileError::Machine { name: raw.name.clone(), what };
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if raw.name.is_empty() || raw.name.len() > 20 || !raw.name.chars().all(is_word) {
            return Err(failed("name: use at most 20 small letters, digits and '-'"));
        }
        if machines.iter().any(|machine| machine.host.name == raw.name) {
            return Err(failed("name: there are two of it"));
        }
        if raw.disk.is_empty() {
            return Err(failed("disk: there must be one at least"));
        }
        if !raw.bmc && !raw.bmc_faults.is_empty() {
            return Err(failed("bmc-faults: this machine has no BMC"));
        }
        machines.push(machine(raw));
    }
    let steps = raw.step.into_iter().enumerate();
    let steps = steps.map(|(index, raw)| step(index + 1, raw, &machines)).collect::<Result<_, _>>()?;
    for name in raw.expect.keys() {
        if !machines.iter().any(|machine| machine.host.name == *name) {
            return Err(FileError::ExpectUnknown(name.clone()));
        }
    }
    for MachinePlan { host: HostPlan { name, .. }, .. } in &machines {
        let expect = raw.expect.get(name).ok_or_else(|| FileError::ExpectMissing(name.clone()))?;
        if expect.runs == expect.reason.is_some() {
            let what = "give either runs = true or a reason: that is what the end is known by";
            return Err(FileError::Expect { name: name.clone(), what });
        }
    }
    let image = WantedImage::of_version(if raw.large_image { LARGE_VERSION } else { VERSION }, raw.image);
    Ok(ScenarioPlan { about: raw.about, image, machines, appliance: raw.appliance, steps, expect: raw.expect })
}

fn machine(raw: RawMachine) -> MachinePlan {
    let disks = raw.disk.into_iter().map(|disk| LabDiskPlan {
        bus: disk.bus,
        bytes: disk.mib.map_or(DISK_BYTES, |mib| mib.saturating_mul(MIB)),
        // All are served: steps may ask any of them how far the writer is.
        served: Some(ServedDisk {
            cache: disk.cache.unwrap_or_default(),
            loss: disk.loss.unwrap_or_default(),
            faults: disk.faults,
        }),
    });
    let host = HostPlan {
        disks: disks.collect(),
        memory_mib: raw.memory_mib,
        bmc: if raw.bmc { BmcKind::Redfish } else { BmcKind::None },
        link: raw.link,
        ..HostPlan::new(&raw.name, raw.firmware, DiskBus::Virtio)
    };
    let (bmc_faults, origin_faults) = (raw.bmc_faults, raw.origin_faults);
    MachinePlan { host, bmc_faults, origin_faults, inspected: raw.inspected }
}

fn step(number: usize, raw: RawStep, machines: &[MachinePlan]) -> Result<ScenarioStep, FileError> {
    let failed = |what: String| FileError::Step { number, what };
    let name = match raw.machine {
        Some(name) => name,
        None if machines.len() == 1 => machines[0].host.name.clone(),
        None => return Err(failed("machine: say which of the machines".to_owned())),
    };
    if !machines.iter().any(|machine| machine.host.name == name) {
        return Err(failed(format!("machine: there is no {name:?}")));
    }
    let linked = machines.iter().any(|machine| machine.host.name == name && machine.host.link.is_some());
    if matches!(raw.act, ScenarioAction::Link(_)) && !linked {
        return Err(failed(format!("do: {name:?} has no link; say link = {{}} at the machine")));
    }
    if raw.disk_is.is_some() && raw.act != ScenarioAction::PowerCut {
        return Err(failed("disk-is: a disk is looked at after do = \"power-cut\" only".to_owned()));
    }
    Ok(ScenarioStep { machine: name, when: raw.when, act: raw.act, disk_is: raw.disk_is })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        about = "x"
        [[machine]]
        name = "a"
        firmware = "bios"
        [[machine.disk]]
        bus = "virtio"
        cache = "volatile"
        loss = { some = { seed = 3 } }
        faults = [{ kind = "alter-writes", from = 0x1000, to = 0x2000 }]
        [[step]]
        when = { written-mib = 120 }
        do = "power-cut"
        disk-is = "boots-nothing"
        [expect.a]
        runs = true
        once = ["running"]
    "#;

    #[test]
    fn a_file_says_machines_faults_moments_and_the_end() {
        let plan = parse(SMALL).unwrap();
        let served = plan.machines[0].host.disks[0].served.clone().unwrap();
        assert_eq!((served.cache, served.loss), (CacheMode::Volatile, Loss::Some { seed: 3 }));
        assert_eq!((served.faults[0].from, served.faults[0].to), (4096, Some(8192)));
        assert_eq!(plan.steps[0].when.stop(), Some(StopPoint::Written(120 << 20)));
        assert_eq!((plan.steps[0].machine.as_str(), &plan.steps[0].act), ("a", &ScenarioAction::PowerCut));
        assert!(plan.expect["a"].runs);
    }

    #[test]
    fn errors_name_the_field() {
        let error = |from: &str, to: &str| parse(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
        for (from, to, wanted) in [
            ("firmware = \"bios\"", "firmwear = \"bios\"", "unknown field `firmwear`"),
            ("\"bios\"", "\"coreboot\"", "unknown variant `coreboot`"),
            ("when = { written-mib = 120 }", "", "missing field `when`"),
            ("written-mib", "written-gib", "unknown variant `written-gib`"),
            ("kind = \"alter-writes\"", "kind = \"eat\"", "unknown variant `eat`"),
            ("name = \"a\"", "name = \"A\"", "machine \"A\": name"),
            ("[[step]]", "[[step]]\nmachine = \"b\"", "step 1: machine: there is no \"b\""),
            ("\"power-cut\"", "\"kill-appliance\"", "step 1: disk-is"),
            ("[expect.a]", "[expect.b]", "expect: there is no machine \"b\""),
            ("runs = true", "", "expect.a: give either"),
            ("[expect.a]", "[appliance]\nattacks = [\"rain\"]\n[expect.a]", "unknown variant `rain`"),
            ("firmware = \"bios\"", "firmware = \"bios\"\nbmc = false\nbmc-faults = [\"garbage\"]", "bmc-faults: this"),
        ] {
            let message = error(from, to);
            assert!(message.contains(wanted), "{from} -> {to}: {message}");
        }
        assert!(error("firmware = \"bios\"", "firmwear = \"bios\"").contains("line 5"));
    }

    /// Whatever lies in the folder of scenarios can be read.
    #[test]
    fn all_files_of_the_lab_are_right() {
        let mut count = 0;
        for entry in std::fs::read_dir(super::super::files_folder()).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            count += 1;
        }
        assert!(count > 0);
    }
}
