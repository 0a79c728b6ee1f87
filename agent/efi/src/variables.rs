//! Firmware variables in efivarfs (Documentation/filesystems/efivarfs.rst): a file per variable,
//! four bytes of attributes, then the value.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use firesteel_os as os;
use firesteel_sysfs::{bytes, names};

use super::load_option;
use super::order::{self, BootVariable};

/// Vendor GUID of the variables that the UEFI specification defines.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// The variables stay over resets, visible to boot services and to the operating system.
const ATTRIBUTES: u32 = 7;

/// The variables below one efivarfs.
#[derive(Clone, Debug)]
pub struct EfiVariables {
    folder: PathBuf,
}

impl EfiVariables {
    #[must_use]
    pub fn new(sysfs: &Path) -> Self {
        Self { folder: sysfs.join("firmware/efi/efivars") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-{GLOBAL}"))
    }

    /// A variable's value; `None` where there is none.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        bytes(&self.path(name))?.get(4..).map(<[u8]>::to_vec)
    }

    /// Writes a variable in one call, as efivarfs wants it.
    pub fn write(&self, name: &str, value: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        os::inode::make_mutable(&path)?;
        let bytes = [&ATTRIBUTES.to_le_bytes()[..], value].concat();
        let mut file = File::options().write(true).create(true).truncate(true).open(&path)?;
        let written = file.write(&bytes)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        os::inode::make_mutable(&path)?;
        fs::remove_file(&path)
    }

    /// Every boot entry that can be read.
    #[must_use]
    pub fn entries(&self) -> Vec<BootVariable> {
        let numbers = names(&self.folder).into_iter().filter_map(|name| {
            let digits = name.strip_suffix(GLOBAL)?.strip_suffix('-')?.strip_prefix("Boot")?;
            let upper = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if upper { u16::from_str_radix(digits, 16).ok() } else { None }
        });
        numbers
            .filter_map(|number| {
                Some(BootVariable { number, option: load_option::decode(&self.read(&entry_name(number))?)? })
            })
            .collect()
    }

    #[must_use]
    pub fn order(&self) -> Vec<u16> {
        order::decode(&self.read("BootOrder").unwrap_or_default())
    }

    /// The entry that started this boot.
    #[must_use]
    pub fn current(&self) -> Option<u16> {
        order::decode(&self.read("BootCurrent")?).first().copied()
    }
}

#[must_use]
pub fn entry_name(number: u16) -> String {
    format!("Boot{number:04X}")
}
