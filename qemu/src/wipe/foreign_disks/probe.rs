//! What libblkid shows of a file: the same library that shows it of a disk.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::Context as _;

use super::guest_report::{Partition, SECTOR};
use super::tools::on_path;

/// What is smaller holds no filesystem; a chain of a table may have hundreds of them.
const PROBED_SECTORS_MIN: u64 = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Probed {
    pub(super) table: Vec<Partition>,
    /// The types by partition; 0 is the disk.
    pub(super) types: BTreeMap<u64, String>,
}

pub(super) fn probe(path: &Path, bytes: u64) -> anyhow::Result<Probed> {
    let file = path.to_string_lossy();
    let table = table(&program_output("partx", &["-g", "-o", "NR,START,SECTORS", "--show", &file])?);
    let mut types: BTreeMap<u64, String> =
        kind(&program_output("blkid", &["-p", "-o", "export", &file])?).map(|kind| (0, kind)).into_iter().collect();
    for (number, first, sectors) in table.iter().filter(|(_, _, sectors)| *sectors >= PROBED_SECTORS_MIN) {
        let from = first.saturating_mul(SECTOR);
        let Some(room) = bytes.checked_sub(from).filter(|room| *room > 0) else { continue };
        let (from, length) = (from.to_string(), sectors.saturating_mul(SECTOR).min(room).to_string());
        let text = program_output("blkid", &["-p", "-o", "export", "-O", &from, "-S", &length, &file])?;
        types.extend(kind(&text).map(|kind| (*number, kind)));
    }
    Ok(Probed { table, types })
}

/// Number, first sector and sectors in each line; a line of which a field is no number shows no place.
pub(super) fn table(text: &str) -> Vec<Partition> {
    let row = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    };
    text.lines().filter_map(row).collect()
}

/// The type among the names and values.
pub(super) fn kind(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("TYPE=")).map(str::to_owned)
}

/// What a program prints; these fail where there is nothing to show.
fn program_output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(on_path(program)?).args(arguments).output();
    let output = output.with_context(|| format!("running {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_types_are_read() {
        assert_eq!(table(" 1  2048    8192\n 2 10240   22528\npartx: x\n"), [(1, 2048, 8192), (2, 10_240, 22_528)]);
        assert_eq!(kind("DEVNAME=/dev/sda\nTYPE=ext4\nUSAGE=filesystem\n").as_deref(), Some("ext4"));
        assert_eq!(kind("PTTYPE=gpt\nPART_ENTRY_TYPE=x\n"), None);
    }
}
