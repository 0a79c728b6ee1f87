//! Processors, from `/proc/cpuinfo`, the frequency driver and the kernel's view of the topology.
//!
//! | | x86 | arm64 | s390x |
//! |---|---|---|---|
//! | count | CPUs of the topology that are online | the same | the same |
//! | count without a topology | `processor` | `processor` | `cpu number`, else `# processors` |
//! | model | `model name` | the cores' names, by implementer and part | the machine's name, by its type |
//! | flags | `flags` | `Features` | `features` |
//! | clock without a driver | `cpu MHz` | none | `cpu MHz static` |

mod models;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, path::Path};

use firesteel_sysfs::{Roots, attribute, names, number, text};
use firesteel_wire::{InventoryCpu, text::field};

/// More flags than any processor has (about 150).
const FLAGS_MAX: usize = 512;
/// Kinds of cores in one machine that are named; boards have up to three.
const KINDS_MAX: usize = 4;

#[must_use]
pub fn read(roots: &Roots) -> InventoryCpu {
    let mut cpu = parse(&text(&roots.proc.join("cpuinfo")), std::env::consts::ARCH);
    let topology = topology(&roots.sys.join("devices/system/cpu"));
    if topology.online > 0 {
        cpu.count = topology.online;
    }
    if topology.clock_khz > 0 {
        #[allow(clippy::cast_precision_loss, reason = "a clock rate is far below 2^52")]
        let mhz = topology.clock_khz as f64 / 1000.0;
        cpu.clock_mhz = mhz;
    }
    (cpu.sockets, cpu.cores, cpu.offline) = (topology.sockets, topology.cores, topology.offline);
    cpu
}

/// Counts, and the highest clock of any core; 0 where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Topology {
    sockets: u32,
    cores: u32,
    online: u32,
    offline: u32,
    clock_khz: u64,
}

/// A socket's number counts within its book, and a book's within its drawer (s390x; others have neither).
type Socket = (i64, i64, i64);
/// A socket, and what distinguishes its cores.
type Core = (Socket, String);

/// A CPU that is switched off has no number of socket and core.
fn topology(folder: &Path) -> Topology {
    let is_cpu = |name: &String| {
        let digits = name.strip_prefix("cpu").unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    let mut cores: BTreeSet<Core> = BTreeSet::new();
    let mut found = Topology::default();
    for name in names(folder).into_iter().filter(is_cpu) {
        let cpu = folder.join(name);
        let online = attribute(&cpu.join("online"));
        if online == "0" {
            found.offline = found.offline.saturating_add(1);
            continue;
        }
        let core = core(&cpu.join("topology"));
        // The first CPU often cannot be switched off, and has no file that says so.
        if core.is_some() || online == "1" {
            found.online = found.online.saturating_add(1);
        }
        cores.extend(core);
        found.clock_khz = found.clock_khz.max(number(&cpu.join("cpufreq/cpuinfo_max_freq")).unwrap_or(0));
    }
    let sockets: BTreeSet<Socket> = cores.iter().map(|(socket, ..)| *socket).collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (found.sockets, found.cores) = (count(sockets.len()), count(cores.len()));
    found
}

/// The core that a CPU belongs to: the CPUs that share it, as the kernel lists them. Without such a list by its number,
/// which counts within its die and its cluster: boards with two kinds of arm64 cores begin again at 0 in each cluster.
fn core(topology: &Path) -> Option<Core> {
    // Arm's numbers of sockets can be as large as 32 bits; -1 is none.
    let said = |name: &str| attribute(&topology.join(name)).parse::<i64>().ok();
    let or_none = |name: &str| said(name).unwrap_or(-1);
    let socket = (or_none("drawer_id"), or_none("book_id"), said("physical_package_id")?);
    let number = said("core_id")?;
    let threads = attribute(&topology.join("thread_siblings_list"));
    let core = if threads.is_empty() {
        format!("die {} cluster {} core {number}", or_none("die_id"), or_none("cluster_id"))
    } else {
        format!("threads {threads}")
    };
    Some((socket, core))
}

/// Reads cpuinfo of x86, arm64 and s390x.
#[must_use]
pub fn parse(cpuinfo: &str, arch: &str) -> InventoryCpu {
    let mut cpu = InventoryCpu { arch: arch.to_owned(), ..InventoryCpu::default() };
    let mut model = CpuModel::default();
    let mut stated_count = 0;
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "processor" | "cpu number" if value.parse::<u32>().is_ok() => cpu.count = cpu.count.saturating_add(1),
            "# processors" => stated_count = value.parse().unwrap_or(0),
            "microcode" if cpu.microcode.is_empty() => cpu.microcode = field(value),
            "cpu MHz" | "cpu MHz static" => {
                let mhz = value.parse::<f64>().ok().filter(|mhz| mhz.is_finite() && *mhz > 0.0).unwrap_or_default();
                cpu.clock_mhz = cpu.clock_mhz.max(mhz);
            }
            "flags" | "Features" | "features" if cpu.flags.is_empty() => cpu.flags = flags(value),
            _ => model.take(key, value),
        }
    }
    if cpu.count == 0 {
        cpu.count = stated_count;
    }
    cpu.model = model.name();
    cpu
}

fn flags(value: &str) -> Vec<String> {
    let mut flags: Vec<String> = value.split_ascii_whitespace().take(FLAGS_MAX).map(field).collect();
    flags.retain(|flag| !flag.is_empty());
    flags.sort();
    flags.dedup();
    flags
}

/// What cpuinfo says of the model, in the words of each architecture.
#[derive(Clone, Debug, Default)]
struct CpuModel {
    /// x86: a text.
    text: String,
    /// arm64: the implementer of the CPU whose lines are read.
    implementer: Option<u32>,
    /// arm64: implementer and part of each kind of core.
    kinds: Vec<(u32, u32)>,
    /// s390x: it is one, and the type of the machine.
    is_z: bool,
    machine: String,
}

impl CpuModel {
    fn take(&mut self, key: &str, value: &str) {
        match key {
            "model name" if self.text.is_empty() => self.text = field(value),
            "CPU implementer" => self.implementer = hexadecimal(value),
            "CPU part" => {
                let kind = self.implementer.zip(hexadecimal(value));
                let is_new = |kind: &(u32, u32)| self.kinds.len() < KINDS_MAX && !self.kinds.contains(kind);
                if let Some(kind) = kind.filter(is_new) {
                    self.kinds.push(kind);
                }
            }
            "vendor_id" => self.is_z = value == "IBM/S390",
            "machine" if self.machine.is_empty() => self.machine = field(value),
            // Older kernels have all in one line: `processor 0: version = FF,  identification = 0133E8,  machine = 2964`
            _ if self.machine.is_empty() && key.starts_with("processor ") => {
                self.machine = value.rsplit_once("machine = ").map(|(_, machine)| field(machine)).unwrap_or_default();
            }
            _ => {}
        }
    }

    fn name(self) -> String {
        if self.is_z && !self.machine.is_empty() {
            return models::z_machine(&self.machine);
        }
        if self.kinds.is_empty() {
            return self.text;
        }
        let names: Vec<String> =
            self.kinds.iter().map(|(implementer, part)| models::arm_core(*implementer, *part)).collect();
        field(&names.join(" + "))
    }
}

/// Reads a number such as `0xd0c`.
fn hexadecimal(value: &str) -> Option<u32> {
    u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}
