//! The UEFI variables of a machine that is off, as OVMF keeps them in its flash file: enough to read
//! the boot options and to set `BootNext`, which is how a BMC asks for one boot from somewhere.
//! (A boot index would do for the one boot, but makes OVMF rewrite its boot order.)
//!
//! The file is a firmware volume (UEFI PI 1.7, volume 3) with one store of authenticated variables:
//! header, then variables one after the other, each `header | name | data` aligned to four bytes, up
//! to the first free byte. A variable is changed by marking it deleted and appending the new one.

use std::{fs, io, path::Path};

use thiserror::Error;

use super::config::BootTarget;

/// EFI_GLOBAL_VARIABLE, 8be4df61-93ca-11d2-aa0d-00e098032b8c.
const GLOBAL: [u8; 16] = [0x61, 0xdf, 0xe4, 0x8b, 0xca, 0x93, 0xd2, 0x11, 0xaa, 0x0d, 0, 0xe0, 0x98, 0x03, 0x2b, 0x8c];
/// gEfiAuthenticatedVariableGuid, aaf32c78-947b-439a-a180-2e144ec37792.
const AUTHENTICATED_STORE: [u8; 16] =
    [0x78, 0x2c, 0xf3, 0xaa, 0x7b, 0x94, 0x9a, 0x43, 0xa1, 0x80, 0x2e, 0x14, 0x4e, 0xc3, 0x77, 0x92];
const VOLUME_SIGNATURE: &[u8] = b"_FVH";
const VOLUME_SIGNATURE_AT: usize = 0x28;
const VOLUME_HEADER_LENGTH_AT: usize = 0x30;
const STORE_HEADER_BYTES: usize = 28;
const VARIABLE_HEADER_BYTES: usize = 60;
const START: u16 = 0x55aa;
const ADDED: u8 = 0x3f;
/// Still valid: its successor was never completed.
const ADDED_IN_TRANSITION: u8 = 0x3e;
/// The bit that goes when a variable is deleted.
const NOT_DELETED: u8 = 0x02;
/// What OVMF calls QEMU's drives for CDs.
const CD: &str = "UEFI QEMU DVD-ROM";
/// Non-volatile, for boot services and at run time.
const ATTRIBUTES: u32 = 7;

#[derive(Debug, Error)]
pub enum VariablesError {
    #[error("reading the UEFI variables")]
    Read(#[source] io::Error),
    #[error("writing the UEFI variables")]
    Write(#[source] io::Error),
    #[error("the file holds no store of UEFI variables")]
    Format,
    #[error("the store of UEFI variables is full")]
    Full,
}

/// Makes the next boot of a machine that is off go to `target`. `false` where the firmware has no
/// entry for it yet, as before a machine's first boot.
pub(super) fn set_next_boot(path: &Path, target: BootTarget) -> Result<bool, VariablesError> {
    let mut store = UefiVariableStore::parse(fs::read(path).map_err(VariablesError::Read)?)?;
    let Some(number) = store.boot_options().into_iter().find(|option| option.is_for(target)).map(|found| found.number)
    else {
        return Ok(false);
    };
    store.set("BootNext", &number.to_le_bytes())?;
    fs::write(path, &store.bytes).map_err(VariablesError::Write)?;
    Ok(true)
}

/// Reads any bytes without a panic, for fuzzing.
pub fn check(bytes: &[u8]) {
    if let Ok(mut store) = UefiVariableStore::parse(bytes.to_vec()) {
        drop(store.boot_options());
        drop(store.set("BootNext", &[0, 0]));
    }
}

#[derive(Debug, PartialEq, Eq)]
struct BootOption {
    number: u16,
    description: String,
}

impl BootOption {
    fn is_for(&self, target: BootTarget) -> bool {
        let starts = |prefix: &str| self.description.starts_with(prefix);
        match target {
            BootTarget::None => false,
            BootTarget::Pxe => starts("UEFI PXEv4"),
            BootTarget::UefiHttp => starts("UEFI HTTPv4"),
            BootTarget::Cd => starts(CD),
            // Firmware's own programs are the only other entries.
            BootTarget::Hdd => {
                let others = ["UEFI PXE", "UEFI HTTP", "UiApp", "EFI Internal Shell", "BootManagerMenu", CD];
                !others.into_iter().any(starts)
            }
        }
    }
}

#[derive(Debug)]
struct UefiVariableStore {
    bytes: Vec<u8>,
    /// First variable and end of the store, in the file.
    first: usize,
    end: usize,
}

#[derive(Debug)]
struct Variable {
    at: usize,
    name: String,
    is_global: bool,
    data: std::ops::Range<usize>,
}

impl UefiVariableStore {
    fn parse(bytes: Vec<u8>) -> Result<Self, VariablesError> {
        let found = || {
            let signature = bytes.get(VOLUME_SIGNATURE_AT..VOLUME_SIGNATURE_AT + VOLUME_SIGNATURE.len())?;
            let store = usize::from(read_u16(&bytes, VOLUME_HEADER_LENGTH_AT)?);
            let kind = bytes.get(store..store + AUTHENTICATED_STORE.len())?;
            let end = store.checked_add(usize::try_from(read_u32(&bytes, store + 16)?).ok()?)?;
            let is_known = signature == VOLUME_SIGNATURE && kind == AUTHENTICATED_STORE;
            let first = store + STORE_HEADER_BYTES;
            (is_known && first <= end && end <= bytes.len()).then_some((first, end))
        };
        let (first, end) = found().ok_or(VariablesError::Format)?;
        Ok(Self { bytes, first, end })
    }

    /// Every variable that counts, and the first free byte.
    fn variables(&self) -> (Vec<Variable>, usize) {
        let mut found = Vec::new();
        let mut at = self.first;
        while let Some((variable, next)) = self.variable(at) {
            found.extend(variable);
            at = next;
        }
        (found, at)
    }

    /// The variable at this place, if it counts, and the place of the next. `None` at the end.
    fn variable(&self, at: usize) -> Option<(Option<Variable>, usize)> {
        let bytes = &self.bytes[..self.end];
        if read_u16(bytes, at)? != START {
            return None;
        }
        let state = *bytes.get(at + 2)?;
        let size = |field: usize| usize::try_from(read_u32(bytes, at + field)?).ok();
        let name_at = at + VARIABLE_HEADER_BYTES;
        let data_at = name_at.checked_add(size(36)?)?;
        let data_end = data_at.checked_add(size(40)?)?;
        let name = bytes.get(name_at..data_at)?;
        bytes.get(data_at..data_end)?;
        let counts = [ADDED, ADDED_IN_TRANSITION].contains(&state);
        let variable = counts.then(|| Variable {
            at,
            name: text(name),
            is_global: bytes.get(at + 44..at + 60) == Some(&GLOBAL),
            data: data_at..data_end,
        });
        Some((variable, data_end.checked_next_multiple_of(4)?))
    }

    /// Boot options, those of `BootOrder` first and in its order.
    fn boot_options(&self) -> Vec<BootOption> {
        let (variables, _) = self.variables();
        let mut order = Vec::new();
        let mut options = Vec::new();
        for variable in variables.iter().filter(|variable| variable.is_global) {
            let data = &self.bytes[variable.data.clone()];
            if variable.name == "BootOrder" {
                order = data.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            } else if let Some(number) = option_number(&variable.name) {
                // EFI_LOAD_OPTION: attributes, length of the device path, then the description.
                options.push(BootOption { number, description: text(data.get(6..).unwrap_or_default()) });
            }
        }
        let place = |option: &BootOption| order.iter().position(|number| *number == option.number);
        options.sort_by_key(|option| place(option).unwrap_or(usize::MAX));
        options
    }

    fn set(&mut self, name: &str, data: &[u8]) -> Result<(), VariablesError> {
        let (variables, free) = self.variables();
        let mut entry = Vec::new();
        let name_bytes: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        entry.extend(START.to_le_bytes());
        entry.extend([ADDED, 0]);
        entry.extend(ATTRIBUTES.to_le_bytes());
        // Monotonic count, time and key are those of authenticated variables; this is none.
        entry.extend([0; 28]);
        for length in [name_bytes.len(), data.len()] {
            entry.extend(u32::try_from(length).map_err(|_| VariablesError::Full)?.to_le_bytes());
        }
        entry.extend(GLOBAL);
        entry.extend(name_bytes);
        entry.extend(data);
        if free + entry.len() > self.end {
            return Err(VariablesError::Full);
        }
        for old in variables.iter().filter(|variable| variable.is_global && variable.name == name) {
            self.bytes[old.at + 2] &= !NOT_DELETED;
        }
        self.bytes[free..free + entry.len()].copy_from_slice(&entry);
        Ok(())
    }
}

/// `Boot0007` is 7.
fn option_number(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("Boot").filter(|digits| digits.len() == 4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// UTF-16 up to its zero.
fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units.take_while(|unit| *unit != 0)).map(|unit| unit.unwrap_or('\u{fffd}')).collect()
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An empty volume, and what OVMF has in it after a machine's first boot.
    fn volume(options: &[(u16, &str)], order: &[u16]) -> Vec<u8> {
        let mut bytes = vec![0xff; 0x1000];
        bytes[VOLUME_SIGNATURE_AT..VOLUME_SIGNATURE_AT + 4].copy_from_slice(VOLUME_SIGNATURE);
        bytes[VOLUME_HEADER_LENGTH_AT..VOLUME_HEADER_LENGTH_AT + 2].copy_from_slice(&72u16.to_le_bytes());
        bytes[72..88].copy_from_slice(&AUTHENTICATED_STORE);
        bytes[88..92].copy_from_slice(&0xf00u32.to_le_bytes());
        let mut store = UefiVariableStore::parse(bytes).unwrap();
        for (number, description) in options {
            let mut data = vec![1, 0, 0, 0, 0, 0];
            data.extend(description.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            store.set(&format!("Boot{number:04X}"), &data).unwrap();
        }
        let order: Vec<u8> = order.iter().flat_map(|number| number.to_le_bytes()).collect();
        store.set("BootOrder", &order).unwrap();
        store.bytes
    }

    fn value(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
        let store = UefiVariableStore::parse(bytes.to_vec()).unwrap();
        let (variables, _) = store.variables();
        let mut found = variables.iter().filter(|variable| variable.name == name);
        let one = found.next().map(|variable| bytes[variable.data.clone()].to_vec());
        assert!(found.next().is_none(), "two valid variables {name}");
        one
    }

    fn after_first_boot() -> Vec<u8> {
        let options = [
            (0, "UiApp"),
            (1, "UEFI QEMU NVMe Ctrl LAB01DISK0"),
            (2, "UEFI PXEv4 (MAC:525400770101)"),
            (3, "UEFI HTTPv4 (MAC:525400770101)"),
            (5, "EFI Internal Shell"),
            (7, "Firesteel host-1"),
        ];
        volume(&options, &[2, 7, 1, 0, 5])
    }

    #[test]
    fn the_next_boot_goes_to_the_target_and_the_order_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vars.fd");
        fs::write(&path, after_first_boot()).unwrap();
        for (target, number) in [(BootTarget::Pxe, 2), (BootTarget::UefiHttp, 3), (BootTarget::Hdd, 7)] {
            assert!(set_next_boot(&path, target).unwrap());
            let bytes = fs::read(&path).unwrap();
            assert_eq!(value(&bytes, "BootNext").unwrap(), [number, 0]);
            assert_eq!(value(&bytes, "BootOrder"), value(&after_first_boot(), "BootOrder"));
        }
    }

    #[test]
    fn without_an_entry_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vars.fd");
        fs::write(&path, volume(&[], &[])).unwrap();
        assert!(!set_next_boot(&path, BootTarget::Pxe).unwrap());
        assert_eq!(fs::read(&path).unwrap(), volume(&[], &[]));
        fs::write(&path, [0; 100]).unwrap();
        assert!(matches!(set_next_boot(&path, BootTarget::Pxe), Err(VariablesError::Format)));
    }

    #[test]
    fn a_full_store_is_an_error() {
        let mut store = UefiVariableStore::parse(after_first_boot()).unwrap();
        let filled = (0..200).map(|_| store.set("BootNext", &[0; 40])).find(Result::is_err);
        assert!(matches!(filled, Some(Err(VariablesError::Full))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(at in 0usize..0x200, noise in prop::collection::vec(any::<u8>(), 1..64)) {
            let mut bytes = after_first_boot();
            bytes[at..at + noise.len()].copy_from_slice(&noise);
            check(&bytes);
            check(&noise);
        }
    }
}
