//! Memory: arrays, modules and mapped ranges, types 16, 17 and 19 (DSP0134, sections 7.17, 7.18 and 7.20).

use firesteel_wire::limits::MODULES_MAX;
use firesteel_wire::parts::{MemoryArray, MemoryModule};

use super::{Structure, known_word, structures};

const ARRAY: u8 = 16;
const MODULE: u8 = 17;
const MAPPED: u8 = 19;
/// Use of an array: there are arrays of graphics memory, flash and cache, too.
const SYSTEM_MEMORY: u8 = 3;
const MIB: u64 = 1 << 20;

/// All arrays of system memory together.
#[must_use]
pub fn array(table: &[u8]) -> MemoryArray {
    let mut all = MemoryArray::default();
    for structure in structures(table) {
        match structure.kind {
            ARRAY if structure.byte(0x05) == Some(SYSTEM_MEMORY) => {
                all.slots = all.slots.saturating_add(known_word(structure.word(0x0d)));
                all.capacity_mib = all.capacity_mib.saturating_add(capacity_mib(&structure));
                if all.error_correction.is_empty() {
                    structure.byte(0x06).map_or("", error_correction).clone_into(&mut all.error_correction);
                }
            }
            MAPPED => all.mapped_mib = all.mapped_mib.saturating_add(mapped_bytes(&structure) / MIB),
            _ => {}
        }
    }
    all
}

fn capacity_mib(array: &Structure<'_>) -> u64 {
    match array.double_word(0x07) {
        Some(0x8000_0000) => array.quad_word(0x0f).unwrap_or(0) / MIB,
        kib => u64::from(kib.unwrap_or(0)) / 1024,
    }
}

fn mapped_bytes(range: &Structure<'_>) -> u64 {
    let (start, last) = match (range.double_word(0x04), range.double_word(0x08)) {
        (Some(u32::MAX), _) => (range.quad_word(0x0f), range.quad_word(0x17)),
        // Both in KiB, the last one included.
        (start, last) => (start.map(|kib| u64::from(kib) * 1024), last.map(|kib| (u64::from(kib) + 1) * 1024 - 1)),
    };
    let (Some(start), Some(last)) = (start, last) else { return 0 };
    if last < start { 0 } else { (last - start).saturating_add(1) }
}

fn error_correction(kind: u8) -> &'static str {
    match kind {
        3 => "none",
        4 => "parity",
        5 => "single-bit ECC",
        6 => "multi-bit ECC",
        7 => "CRC",
        _ => "",
    }
}

/// The slots that are not empty, in the table's order; how many were left out.
#[must_use]
pub fn modules(table: &[u8]) -> (Vec<MemoryModule>, usize) {
    let mut found = populated(table).map(|structure| module(&structure));
    let kept: Vec<_> = found.by_ref().take(MODULES_MAX).collect();
    let rest = found.count();
    (kept, rest)
}

/// Sum of the modules' sizes in MiB, of those beyond the list's bound, too.
#[must_use]
pub fn installed_mib(table: &[u8]) -> u64 {
    populated(table).fold(0, |sum, structure| sum.saturating_add(size_mib(&structure)))
}

fn populated(table: &[u8]) -> impl Iterator<Item = Structure<'_>> {
    structures(table).filter(|structure| structure.kind == MODULE && size_mib(structure) > 0)
}

fn module(structure: &Structure<'_>) -> MemoryModule {
    let (total_bits, data_bits) = (known_word(structure.word(0x08)), known_word(structure.word(0x0a)));
    MemoryModule {
        locator: structure.text(0x10),
        bank: structure.text(0x11),
        size_mib: size_mib(structure),
        kind: structure.byte(0x12).map_or("", kind).to_owned(),
        form: structure.byte(0x0e).map_or("", form).to_owned(),
        speed_mts: speed(structure, 0x15, 0x54),
        configured_mts: speed(structure, 0x20, 0x58),
        ranks: structure.byte(0x1b).map_or(0, |attributes| attributes & 0x0f),
        ecc: data_bits > 0 && total_bits > data_bits,
        manufacturer: structure.text(0x17),
        serial: structure.text(0x18),
        part: structure.text(0x1a),
    }
}

/// 0 for an empty slot, and for one of which the firmware does not know.
fn size_mib(module: &Structure<'_>) -> u64 {
    match module.word(0x0c) {
        None | Some(0 | u16::MAX) => 0,
        Some(0x7fff) => module.double_word(0x1c).map_or(0, |mib| u64::from(mib & 0x7fff_ffff)),
        Some(kib) if kib & 0x8000 != 0 => u64::from(kib & 0x7fff) / 1024,
        Some(mib) => u64::from(mib),
    }
}

/// Reads a speed, which has two bytes, and four where it is above 65534.
fn speed(module: &Structure<'_>, short: usize, long: usize) -> u32 {
    match module.word(short) {
        Some(u16::MAX) => module.double_word(long).map_or(0, |speed| speed & 0x7fff_ffff),
        short => known_word(short),
    }
}

fn kind(kind: u8) -> &'static str {
    match kind {
        0x03 => "DRAM",
        0x07 => "RAM",
        0x0f => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x14 => "DDR2 FB-DIMM",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x1f => "non-volatile",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => "",
    }
}

fn form(form: u8) -> &'static str {
    match form {
        0x03 => "SIMM",
        0x05 => "chip",
        0x09 => "DIMM",
        0x0b => "row of chips",
        0x0c => "RIMM",
        0x0d => "SODIMM",
        0x0f => "FB-DIMM",
        0x10 => "die",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::structure;

    fn of_size(size: u16, extended: u32) -> Vec<u8> {
        structure(17, 0x22, &[(0x0c, &size.to_le_bytes()), (0x1c, &extended.to_le_bytes())], &["DIMM 0"])
    }

    #[test]
    fn sums_the_modules() {
        let other = structure(1, 4, &[], &["x"]);
        let table =
            [other, of_size(8192, 0), of_size(0, 0), of_size(0x7fff, 65_536), of_size(0x8000 | 2048, 0)].concat();
        assert_eq!(installed_mib(&table), 8192 + 65_536 + 2);
        assert_eq!(installed_mib(&table[..table.len() - 5]), 8192 + 65_536 + 2, "a cut table gives what it has");
        assert_eq!(modules(&table).0.len(), 3, "an empty slot is no module");
        let crowd = of_size(8, 0).repeat(MODULES_MAX + 2);
        let (kept, rest) = modules(&crowd);
        assert_eq!((kept.len(), rest, installed_mib(&crowd)), (MODULES_MAX, 2, 8 * (MODULES_MAX as u64 + 2)));
    }

    #[test]
    fn a_module_of_today() {
        let set: &[(usize, &[u8])] = &[
            (0x08, &[80, 0, 64, 0]),
            (0x0c, &[0xff, 0x7f]),
            (0x0e, &[9]),
            (0x10, &[1, 2, 0x22]),
            (0x15, &5600_u16.to_le_bytes()),
            (0x17, &[3, 4, 0, 5, 2]),
            (0x1c, &98_304_u32.to_le_bytes()),
            (0x20, &4800_u16.to_le_bytes()),
        ];
        let table = structure(17, 0x5c, set, &["A1", "P0 CHANNEL A", "Maker", "8C3D21A7", "MTC40F2046S1RC56BD1"]);
        let expected = MemoryModule {
            locator: "A1".into(),
            bank: "P0 CHANNEL A".into(),
            size_mib: 98_304,
            kind: "DDR5".into(),
            form: "DIMM".into(),
            speed_mts: 5600,
            configured_mts: 4800,
            ranks: 2,
            ecc: true,
            manufacturer: "Maker".into(),
            serial: "8C3D21A7".into(),
            part: "MTC40F2046S1RC56BD1".into(),
        };
        assert_eq!(modules(&table).0, [expected]);
    }

    #[test]
    fn arrays_of_system_memory_only() {
        let ours: &[(usize, &[u8])] = &[
            (5, &[3, 6]),
            (7, &0x8000_0000_u32.to_le_bytes()),
            (0x0d, &[16, 0]),
            (0x0f, &(4_u64 << 40).to_le_bytes()),
        ];
        let small: &[(usize, &[u8])] = &[(5, &[3, 3]), (7, &(1_u32 << 20).to_le_bytes()), (0x0d, &[2, 0])];
        let flash: &[(usize, &[u8])] = &[(5, &[5]), (7, &(1_u32 << 20).to_le_bytes()), (0x0d, &[1, 0])];
        // The first 2 GiB, then 62 GiB from 4 GiB on, in the long form.
        let low: &[(usize, &[u8])] = &[(8, &((2_u32 << 20) - 1).to_le_bytes())];
        let high: &[(usize, &[u8])] =
            &[(4, &[0xff; 8]), (0x0f, &(4_u64 << 30).to_le_bytes()), (0x17, &((66_u64 << 30) - 1).to_le_bytes())];
        let backwards: &[(usize, &[u8])] = &[(4, &9_u32.to_le_bytes()), (8, &1_u32.to_le_bytes())];
        let table = [
            structure(16, 0x17, ours, &[]),
            structure(16, 0x0f, small, &[]),
            structure(16, 0x17, flash, &[]),
            structure(19, 0x0f, low, &[]),
            structure(19, 0x1f, high, &[]),
            structure(19, 0x0f, backwards, &[]),
        ]
        .concat();
        let expected = MemoryArray {
            slots: 18,
            capacity_mib: (4 << 20) + 1024,
            mapped_mib: 64 << 10,
            error_correction: "multi-bit ECC".into(),
        };
        assert_eq!(array(&table), expected);
    }
}
