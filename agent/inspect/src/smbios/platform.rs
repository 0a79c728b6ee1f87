//! Firmware, system, board and chassis: types 0 to 3 (DSP0134, sections 7.1 to 7.4).

use firesteel_wire::parts::{Chassis, Mainboard};

use super::{Structure, structures};

const FIRMWARE: u8 = 0;
const SYSTEM: u8 = 1;
const BOARD: u8 = 2;
const CHASSIS: u8 = 3;

fn first(table: &[u8], kind: u8) -> Option<Structure<'_>> {
    structures(table).find(|structure| structure.kind == kind)
}

/// Release of the firmware, `5.22`; empty where it has none.
#[must_use]
pub fn firmware_release(table: &[u8]) -> String {
    let Some(structure) = first(table, FIRMWARE) else { return String::new() };
    match (structure.byte(0x14), structure.byte(0x15)) {
        (Some(u8::MAX), _) | (_, Some(u8::MAX)) => String::new(),
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        _ => String::new(),
    }
}

/// What type 1 says beyond the kernel's own files of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformModel {
    pub version: String,
    pub sku: String,
    pub family: String,
}

#[must_use]
pub fn model(table: &[u8]) -> PlatformModel {
    let model = |system: Structure<'_>| PlatformModel {
        version: system.text(0x06),
        sku: system.text(0x19),
        family: system.text(0x1a),
    };
    first(table, SYSTEM).map(model).unwrap_or_default()
}

/// The first board that says to be one, or the first of all: blades list their chassis' boards, too.
#[must_use]
pub fn board(table: &[u8]) -> Mainboard {
    /// "Motherboard", in the field for the board's type.
    const MOTHERBOARD: u8 = 0x0a;
    let mut boards = structures(table).filter(|structure| structure.kind == BOARD).peekable();
    let any = boards.peek().copied();
    let Some(board) = boards.find(|board| board.byte(0x0d) == Some(MOTHERBOARD)).or(any) else {
        return Mainboard::default();
    };
    Mainboard {
        manufacturer: board.text(0x04),
        product: board.text(0x05),
        version: board.text(0x06),
        serial: board.text(0x07),
        asset_tag: board.text(0x08),
    }
}

#[must_use]
pub fn chassis(table: &[u8]) -> Chassis {
    let Some(chassis) = first(table, CHASSIS) else { return Chassis::default() };
    // The highest bit says that there is a lock.
    let kind = chassis.byte(0x05).map_or(0, |kind| kind & 0x7f);
    Chassis {
        manufacturer: chassis.text(0x04),
        kind: chassis_kind(kind).to_owned(),
        serial: chassis.text(0x07),
        asset_tag: chassis.text(0x08),
    }
}

/// Those that servers and their stand-ins have; other kinds are of no use here.
fn chassis_kind(kind: u8) -> &'static str {
    match kind {
        0x03 => "Desktop",
        0x04 => "Low Profile Desktop",
        0x06 => "Mini Tower",
        0x07 => "Tower",
        0x08 => "Portable",
        0x09 => "Laptop",
        0x0a => "Notebook",
        0x11 => "Main Server Chassis",
        0x12 => "Expansion Chassis",
        0x16 => "RAID Chassis",
        0x17 => "Rack Mount Chassis",
        0x19 => "Multi-system Chassis",
        0x1c => "Blade",
        0x1d => "Blade Enclosure",
        0x21 => "IoT Gateway",
        0x22 => "Embedded PC",
        0x23 => "Mini PC",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::structure;

    #[test]
    fn a_server() {
        let table = [
            structure(0, 0x18, &[(0x14, &[5, 22])], &[]),
            structure(1, 0x1b, &[(4, &[1, 2, 3]), (0x19, &[4, 5])], &["Maker", "Model", "1.2", "SKU-7", "Family"]),
            structure(2, 0x0e, &[(4, &[1, 2])], &["Maker", "Riser"]),
            structure(2, 0x0e, &[(4, &[1, 2, 3, 4, 5]), (0x0d, &[0x0a])], &["Maker", "Main", "A00", "B-1", "Tag"]),
            structure(3, 0x15, &[(4, &[1, 0x97, 0, 2, 3])], &["Maker", "C-1", "Rack 4"]),
        ]
        .concat();
        assert_eq!(firmware_release(&table), "5.22");
        let found = model(&table);
        assert_eq!((&*found.version, &*found.sku, &*found.family), ("1.2", "SKU-7", "Family"));
        let found = board(&table);
        assert_eq!(
            (&*found.product, &*found.version, &*found.serial, &*found.asset_tag),
            ("Main", "A00", "B-1", "Tag")
        );
        let found = chassis(&table);
        assert_eq!((&*found.kind, &*found.serial, &*found.asset_tag), ("Rack Mount Chassis", "C-1", "Rack 4"));
    }

    #[test]
    fn old_and_empty_tables() {
        assert_eq!((board(&[]), chassis(&[]), model(&[])), Default::default());
        assert_eq!(firmware_release(&structure(0, 0x12, &[], &[])), "", "before version 2.4");
        assert_eq!(firmware_release(&structure(0, 0x18, &[(0x14, &[255, 255])], &[])), "", "said to be none");
        assert_eq!(board(&structure(2, 8, &[(5, &[1])], &["Only"])).product, "Only");
    }
}
