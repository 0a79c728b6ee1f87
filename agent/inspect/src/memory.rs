//! Memory: what the kernel manages and what SMBIOS says is installed.

use firesteel_sysfs::{Roots, text};
use firesteel_wire::InstalledMemory;

use super::smbios;

#[must_use]
pub fn read(roots: &Roots, table: &[u8]) -> InstalledMemory {
    InstalledMemory {
        total_mib: total_mib(&text(&roots.proc.join("meminfo"))),
        installed_mib: smbios::memory::installed_mib(table),
    }
}

/// `MemTotal` of `/proc/meminfo` in MiB.
#[must_use]
pub fn total_mib(meminfo: &str) -> u64 {
    let kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_manages() {
        assert_eq!(total_mib("MemFree: 1 kB\nMemTotal:       2048000 kB\n"), 2000);
        assert_eq!(total_mib("MemTotal: lots\n"), 0);
    }
}
