//! What a kernel module says about itself: the `.modinfo` section of its ELF file.
//!
//! Names of modules are kept with `_`, as the kernel does; file names often have `-`.

/// A module has a few dozen aliases, the largest drivers some thousands; 64-bit objects only.
const SECTIONS_MAX: usize = 4096;

/// The parts of a module's description that matter for finding and loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modinfo {
    /// Modules whose symbols it uses: they must be loaded before it.
    pub depends: Vec<String>,
    /// Modules (or aliases of modules) that should be loaded before it.
    pub soft_before: Vec<String>,
    /// Modules (or aliases of modules) that should be loaded after it.
    pub soft_after: Vec<String>,
    /// Patterns of the devices and services that it serves.
    pub aliases: Vec<String>,
    /// Firmware files that it may ask for.
    pub firmware: Vec<String>,
}

/// Why a file is no kernel module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModinfoError {
    #[error("it is not a 64-bit little-endian ELF object")]
    NotElf,
    #[error("its section table is damaged")]
    Sections,
    #[error("it has no .modinfo section")]
    NoModinfo,
}

/// The kernel's spelling of a module's name.
pub fn normal_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Reads the description out of a module's bytes. Usable as a fuzz target.
pub fn parse(elf: &[u8]) -> Result<Modinfo, ModinfoError> {
    let section = modinfo_section(elf)?;
    let mut info = Modinfo::default();
    for field in section.split(|byte| *byte == 0) {
        let Ok(field) = std::str::from_utf8(field) else { continue };
        let Some((key, value)) = field.split_once('=') else { continue };
        match key {
            "depends" => info.depends.extend(value.split(',').filter(|name| !name.is_empty()).map(normal_name)),
            "softdep" => add_soft_dependencies(&mut info, value),
            "alias" => info.aliases.push(value.to_owned()),
            "firmware" => info.firmware.push(value.to_owned()),
            _ => {}
        }
    }
    Ok(info)
}

/// Module descriptions must never panic, whatever the bytes.
pub fn check(bytes: &[u8]) {
    drop(parse(bytes));
}

fn add_soft_dependencies(info: &mut Modinfo, value: &str) {
    let mut after = false;
    for word in value.split_whitespace() {
        match word {
            "pre:" => after = false,
            "post:" => after = true,
            name if after => info.soft_after.push(normal_name(name)),
            name => info.soft_before.push(normal_name(name)),
        }
    }
}

fn modinfo_section(elf: &[u8]) -> Result<&[u8], ModinfoError> {
    if !elf.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(ModinfoError::NotElf);
    }
    let table = number(elf, 40, 8)?;
    let entry_bytes = number(elf, 58, 2)?;
    let count = number(elf, 60, 2)?;
    let names_index = number(elf, 62, 2)?;
    if entry_bytes < 64 || count > SECTIONS_MAX || names_index >= count {
        return Err(ModinfoError::Sections);
    }
    let header = |index: usize| -> Result<usize, ModinfoError> {
        index.checked_mul(entry_bytes).and_then(|at| at.checked_add(table)).ok_or(ModinfoError::Sections)
    };
    let content = |header: usize| -> Result<&[u8], ModinfoError> {
        let at = |field: usize| header.checked_add(field).ok_or(ModinfoError::Sections);
        let offset = number(elf, at(24)?, 8)?;
        let length = number(elf, at(32)?, 8)?;
        let end = offset.checked_add(length).ok_or(ModinfoError::Sections)?;
        elf.get(offset..end).ok_or(ModinfoError::Sections)
    };
    let names = content(header(names_index)?)?;
    for index in 0..count {
        let header = header(index)?;
        let name = names.get(number(elf, header, 4)?..).ok_or(ModinfoError::Sections)?;
        if name.starts_with(b".modinfo\0") {
            return content(header);
        }
    }
    Err(ModinfoError::NoModinfo)
}

fn number(bytes: &[u8], at: usize, length: usize) -> Result<usize, ModinfoError> {
    let end = at.checked_add(length).ok_or(ModinfoError::Sections)?;
    let field = bytes.get(at..end).ok_or(ModinfoError::Sections)?;
    let mut value = [0; 8];
    value[..length].copy_from_slice(field);
    usize::try_from(u64::from_le_bytes(value)).map_err(|_| ModinfoError::Sections)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    #[test]
    fn reads_every_kind_of_field() {
        let elf = fixture::module(&[
            ("license", "GPL"),
            ("depends", "libahci,scsi-mod"),
            ("softdep", "pre: crc32c aes post: late-one"),
            ("alias", "pci:v00008086d*sv*"),
            ("alias", "fs-ext4"),
            ("firmware", "a/b.bin"),
        ]);
        let info = parse(&elf).unwrap();
        assert_eq!(info.depends, ["libahci", "scsi_mod"]);
        assert_eq!(info.soft_before, ["crc32c", "aes"]);
        assert_eq!(info.soft_after, ["late_one"]);
        assert_eq!(info.aliases, ["pci:v00008086d*sv*", "fs-ext4"]);
        assert_eq!(info.firmware, ["a/b.bin"]);
    }

    #[test]
    fn no_dependency_is_an_empty_list() {
        assert_eq!(parse(&fixture::module(&[("depends", "")])).unwrap(), Modinfo::default());
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(parse(b"#!/bin/sh"), Err(ModinfoError::NotElf));
        let elf = fixture::module(&[("depends", "a")]);
        assert_eq!(parse(&elf[..elf.len() - 64]), Err(ModinfoError::Sections));
    }

    proptest! {
        #[test]
        fn survives_damage(at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<proptest::sample::Index>()) {
            let mut elf = fixture::module(&[("depends", "a,b"), ("alias", "x")]);
            let at = at.index(elf.len());
            elf[at] = byte;
            check(&elf);
            check(&elf[..cut.index(elf.len())]);
        }
    }
}
