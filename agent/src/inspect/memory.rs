//! Memory: what the kernel manages and what SMBIOS says is installed.

use firesteel_wire::Memory;

use super::{Roots, bytes, text};

/// SMBIOS structure type 17, memory device (DSP0134, section 7.18).
const MEMORY_DEVICE: u8 = 17;
/// More structures than any table has; ends walks through tables that point nowhere.
const STRUCTURES_MAX: usize = 10_000;

#[must_use]
pub fn read(roots: &Roots) -> Memory {
    Memory {
        total_mib: total_mib(&text(&roots.proc.join("meminfo"))),
        installed_mib: bytes(&roots.sys.join("firmware/dmi/tables/DMI")).map_or(0, |table| installed_mib(&table)),
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

/// Sum of the memory devices of an SMBIOS structure table, in MiB.
#[must_use]
pub fn installed_mib(table: &[u8]) -> u64 {
    let mut rest = table;
    let mut mib = 0_u64;
    for _ in 0..STRUCTURES_MAX {
        let &[kind, length, ..] = rest else { break };
        let Some(formatted) = rest.get(..usize::from(length)).filter(|_| length >= 4) else { break };
        if kind == MEMORY_DEVICE {
            mib = mib.saturating_add(device_mib(formatted));
        }
        // The strings behind the formatted part end with two zeros.
        let strings = &rest[usize::from(length)..];
        let Some(end) = strings.windows(2).position(|pair| pair == [0, 0]) else { break };
        rest = &strings[end + 2..];
    }
    mib
}

fn device_mib(device: &[u8]) -> u64 {
    let Some(&[low, high]) = device.get(12..14) else { return 0 };
    match u16::from_le_bytes([low, high]) {
        0 | 0xffff => 0,
        0x7fff => match device.get(28..32) {
            Some(&[a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d]) & 0x7fff_ffff),
            _ => 0,
        },
        kib if kib & 0x8000 != 0 => u64::from(kib & 0x7fff) / 1024,
        mib => u64::from(mib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(size: u16, extended: u32) -> Vec<u8> {
        let mut device = vec![0_u8; 34];
        device[0] = MEMORY_DEVICE;
        device[1] = 34;
        device[12..14].copy_from_slice(&size.to_le_bytes());
        device[28..32].copy_from_slice(&extended.to_le_bytes());
        device.extend_from_slice(b"DIMM 0\0\0");
        device
    }

    #[test]
    fn sums_the_devices() {
        let other = [1, 4, 0, 0, b'x', 0, 0].to_vec();
        let table = [other, device(8192, 0), device(0, 0), device(0x7fff, 65_536), device(0x8000 | 2048, 0)].concat();
        assert_eq!(installed_mib(&table), 8192 + 65_536 + 2);
        assert_eq!(installed_mib(&table[..table.len() - 5]), 8192 + 65_536 + 2, "a cut table gives what it has");
        assert_eq!(total_mib("MemFree: 1 kB\nMemTotal:       2048000 kB\n"), 2000);
    }
}
