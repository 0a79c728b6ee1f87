//! Processors, from `/proc/cpuinfo`, the frequency driver and the kernel's view of the topology.

use std::{collections::BTreeSet, path::Path};

use firesteel_wire::Cpu;

use super::{Roots, attribute, field, names, number, text};

/// More flags than any processor has (about 150).
const FLAGS_MAX: usize = 512;

#[must_use]
pub fn read(roots: &Roots) -> Cpu {
    let mut cpu = parse(&text(&roots.proc.join("cpuinfo")), std::env::consts::ARCH);
    if let Some(khz) = number(&roots.sys.join("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")) {
        #[allow(clippy::cast_precision_loss, reason = "a clock rate is far below 2^52")]
        let mhz = khz as f64 / 1000.0;
        cpu.clock_mhz = mhz;
    }
    let topology = topology(&roots.sys.join("devices/system/cpu"));
    (cpu.sockets, cpu.cores, cpu.offline) = (topology.sockets, topology.cores, topology.offline);
    cpu
}

/// Counts; 0 where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Topology {
    sockets: u32,
    cores: u32,
    offline: u32,
}

/// A core is told from others by socket, die and its own number; a CPU that is switched off has none of them.
fn topology(folder: &Path) -> Topology {
    let is_cpu = |name: &String| {
        let digits = name.strip_prefix("cpu").unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    let mut cores = BTreeSet::new();
    let mut offline = 0_u32;
    for name in names(folder).into_iter().filter(is_cpu) {
        let cpu = folder.join(name);
        // Arm's numbers of sockets can be as large as 32 bits; -1 is none.
        let said = |name: &str| attribute(&cpu.join("topology").join(name)).parse::<i64>().ok();
        match (said("physical_package_id"), said("core_id")) {
            (Some(socket), Some(core)) => {
                cores.insert((socket, said("die_id").unwrap_or(0), core));
            }
            _ if attribute(&cpu.join("online")) == "0" => offline = offline.saturating_add(1),
            _ => {}
        }
    }
    let sockets: BTreeSet<i64> = cores.iter().map(|(socket, _, _)| *socket).collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Topology { sockets: count(sockets.len()), cores: count(cores.len()), offline }
}

/// Reads cpuinfo of x86 (`flags`) and arm64 (`Features`).
#[must_use]
pub fn parse(cpuinfo: &str, arch: &str) -> Cpu {
    let mut cpu = Cpu { arch: arch.to_owned(), ..Cpu::default() };
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key.trim() {
            "processor" if value.parse::<u32>().is_ok() => cpu.count = cpu.count.saturating_add(1),
            "model name" if cpu.model.is_empty() => cpu.model = field(value),
            "microcode" if cpu.microcode.is_empty() => cpu.microcode = field(value),
            "cpu MHz" => {
                let mhz = value.parse::<f64>().ok().filter(|mhz| mhz.is_finite() && *mhz > 0.0).unwrap_or_default();
                cpu.clock_mhz = cpu.clock_mhz.max(mhz);
            }
            "flags" | "Features" if cpu.flags.is_empty() => {
                cpu.flags = value.split_ascii_whitespace().take(FLAGS_MAX).map(field).collect();
                cpu.flags.retain(|flag| !flag.is_empty());
                cpu.flags.sort();
                cpu.flags.dedup();
            }
            _ => {}
        }
    }
    cpu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_and_arm() {
        let x86 = "processor\t: 0\nmodel name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2000.000\nflags\t\t: sse fpu sse2 fpu\n\n\
                   processor\t: 1\nmodel name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2100.5\n";
        let cpu = parse(x86, "x86_64");
        assert_eq!((cpu.count, cpu.model.as_str(), cpu.clock_mhz), (2, "QEMU Virtual CPU", 2100.5));
        assert_eq!(cpu.flags, ["fpu", "sse", "sse2"]);
        let arm = parse("processor\t: 0\nBogoMIPS\t: 125.00\nFeatures\t: fp asimd\n", "aarch64");
        assert_eq!((arm.count, arm.flags.len(), arm.clock_mhz), (1, 2, 0.0));
    }
}
