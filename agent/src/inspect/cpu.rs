//! Processors, from `/proc/cpuinfo` and the frequency driver.

use firesteel_wire::Cpu;

use super::{Roots, field, number, text};

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
    cpu
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
            "cpu MHz" => {
                let mhz = value.parse::<f64>().ok().filter(|mhz| mhz.is_finite() && *mhz > 0.0).unwrap_or_default();
                cpu.clock_mhz = cpu.clock_mhz.max(mhz);
            }
            "flags" | "Features" if cpu.flags.is_empty() => {
                cpu.flags = value.split_ascii_whitespace().take(FLAGS_MAX).map(field).collect();
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
