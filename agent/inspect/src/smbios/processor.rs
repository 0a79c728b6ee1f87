//! Sockets: type 4 (DSP0134, section 7.5).

use firesteel_wire::{limits::PROCESSORS_MAX, parts::InventoryProcessor};

use super::{Structure, known_word, structures};

const PROCESSOR: u8 = 4;
/// Type "central processor"; there are entries for mathematics and graphics, too.
const CENTRAL: u8 = 3;
/// Bit of the status that says that the socket is not empty.
const POPULATED: u8 = 0x40;

/// The sockets that are not empty, in the table's order; how many were left out.
#[must_use]
pub fn processors(table: &[u8]) -> (Vec<InventoryProcessor>, usize) {
    let mut found = structures(table).filter(is_there).map(|structure| processor(&structure));
    let kept: Vec<_> = found.by_ref().take(PROCESSORS_MAX).collect();
    let rest = found.count();
    (kept, rest)
}

fn is_there(structure: &Structure<'_>) -> bool {
    structure.kind == PROCESSOR
        && structure.byte(0x05) == Some(CENTRAL)
        && structure.byte(0x18).is_some_and(|status| status & POPULATED != 0)
}

fn processor(structure: &Structure<'_>) -> InventoryProcessor {
    InventoryProcessor {
        socket: structure.text(0x04),
        manufacturer: structure.text(0x07),
        version: structure.text(0x10),
        serial: structure.text(0x20),
        cores: count(structure, 0x23, 0x2a),
        threads: count(structure, 0x25, 0x2e),
        max_mhz: known_word(structure.word(0x14)),
    }
}

/// A count in one byte, and in two where it is above 254.
fn count(structure: &Structure<'_>, short: usize, long: usize) -> u32 {
    match structure.byte(short) {
        Some(u8::MAX) => known_word(structure.word(long)),
        short => short.map_or(0, u32::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::structure;

    #[test]
    fn sockets_with_few_and_with_many_cores() {
        let names = ["CPU1", "Maker", "Model", "P-1"];
        let socket = |length: u8, set: &[(usize, &[u8])]| structure(4, length, set, &names);
        let small: &[(usize, &[u8])] = &[
            (4, &[1]),
            (5, &[3]),
            (7, &[2]),
            (0x10, &[3]),
            (0x14, &4000_u16.to_le_bytes()),
            (0x18, &[0x41]),
            (0x20, &[4]),
            (0x23, &[16, 16, 32]),
        ];
        let large: &[(usize, &[u8])] =
            &[(5, &[3]), (0x18, &[0x41]), (0x23, &[255, 255, 255]), (0x2a, &[0, 2]), (0x2e, &[0, 4])];
        let empty: &[(usize, &[u8])] = &[(5, &[3]), (0x18, &[0])];
        let table = [socket(0x2a, small), socket(0x30, large), socket(0x30, empty)].concat();
        let (found, rest) = processors(&table);
        assert_eq!((found.len(), rest), (2, 0));
        let expected = InventoryProcessor {
            socket: "CPU1".into(),
            manufacturer: "Maker".into(),
            version: "Model".into(),
            serial: "P-1".into(),
            cores: 16,
            threads: 32,
            max_mhz: 4000,
        };
        assert_eq!(found[0], expected);
        assert_eq!((found[1].cores, found[1].threads, found[1].max_mhz), (512, 1024, 0));
        let crowd = socket(0x30, small).repeat(PROCESSORS_MAX + 3);
        assert_eq!(processors(&crowd).1, 3);
    }
}
