//! The names in a folder.

use std::ops::ControlFlow;

use super::Ext4Reader;
use super::inode::{AREA_BYTES, Ext4Inode};
use crate::filesystem::fields::{u8_at, u16_at, u32_at};
use crate::filesystem::{FOLDER_BYTES_MAX, FilesystemError};

/// The size of an entry's head, before its name.
const ENTRY_BYTES: usize = 8;
/// The shortest entry with a name.
const ENTRY_BYTES_MIN: usize = 12;
/// The number of the folder above, before the entries of a folder that its inode holds.
const PARENT_BYTES: usize = 4;

type Visit<'v> = dyn FnMut(u32, &[u8]) -> Result<ControlFlow<()>, FilesystemError> + 'v;

impl Ext4Reader<'_> {
    /// Shows each entry of a folder, inode and name, until one ends it.
    pub(super) fn visit(&self, folder: &Ext4Inode, visit: &mut Visit<'_>) -> Result<(), FilesystemError> {
        if folder.is_inline() {
            let content = folder.inline()?;
            let (first, second) = content.split_at(content.len().min(AREA_BYTES));
            for area in [first.get(PARENT_BYTES..).unwrap_or_default(), second] {
                if show(area, visit)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        if folder.bytes > FOLDER_BYTES_MAX {
            return Err(FilesystemError::TooMany { most: FOLDER_BYTES_MAX >> 20, what: "MiB of names in one folder" });
        }
        for logical in 0..folder.bytes.div_ceil(self.shape.block_bytes) {
            let run = self.run_of(folder, logical)?;
            let block = self.block(run.first.ok_or(FilesystemError::Damaged("a folder has a hole"))?)?;
            if show(&block, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Shows the entries of one block. Index blocks of hash trees, and checksums, are entries of no inode.
fn show(area: &[u8], visit: &mut Visit<'_>) -> Result<ControlFlow<()>, FilesystemError> {
    let mut at = 0;
    while at < area.len() {
        let number = u32_at(area, at)?;
        let length = match usize::from(u16_at(area, at + 4)?) {
            // 64 KiB do not fit into the field.
            0 | 0xffff if area.len() > 0xffff => area.len(),
            length => length,
        };
        let name_bytes = usize::from(u8_at(area, at + 6)?);
        let end = at + length;
        if length < ENTRY_BYTES_MIN
            || !length.is_multiple_of(4)
            || ENTRY_BYTES + name_bytes > length
            || end > area.len()
        {
            return Err(FilesystemError::Damaged("an entry of a folder lies outside of its block"));
        }
        let name = &area[at + ENTRY_BYTES..at + ENTRY_BYTES + name_bytes];
        if number != 0 {
            if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
                return Err(FilesystemError::Damaged("a folder has a name that is none"));
            }
            if visit(number, name)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        at = end;
    }
    Ok(ControlFlow::Continue(()))
}
