//! Inodes, and the content that some hold themselves.

use super::superblock::Ext4Shape;
use crate::filesystem::FilesystemError;
use crate::filesystem::fields::{index, joined, u8_at, u16_at, u32_at};

/// The size of every inode's fixed part; what follows is as long as the filesystem says.
const FIXED_BYTES: usize = 128;
/// Numbers of blocks, the root of the extents, a short link, or the start of the content.
pub(super) const AREA_BYTES: usize = 60;
const AREA_AT: usize = 0x28;

const FLAG_ENCRYPTED: u32 = 0x800;
const FLAG_EXTENTS: u32 = 0x8_0000;
const FLAG_ATTRIBUTE: u32 = 0x20_0000;
const FLAG_INLINE: u32 = 0x1000_0000;

const ATTRIBUTES_MAGIC: u32 = 0xea02_0000;
/// The size of an attribute's head, before its name.
const ATTRIBUTE_BYTES: usize = 16;
/// Names that begin with `system.`
const SYSTEM: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ext4Kind {
    Folder,
    File,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

pub(super) struct Ext4Inode {
    pub(super) kind: Ext4Kind,
    pub(super) bytes: u64,
    pub(super) area: [u8; AREA_BYTES],
    flags: u32,
    /// The bytes behind the fixed fields, of an inode that holds its content.
    body: Vec<u8>,
}

impl Ext4Inode {
    pub(super) fn read(raw: &[u8], shape: &Ext4Shape) -> Result<Self, FilesystemError> {
        let mode = u16_at(raw, 0)?;
        let kind = match mode >> 12 {
            0x4 => Ext4Kind::Folder,
            0x8 => Ext4Kind::File,
            0xa => Ext4Kind::Link,
            0x1 | 0x2 | 0x6 | 0xc => Ext4Kind::Special,
            _ => return Err(FilesystemError::Damaged("a name is of an inode that is not in use")),
        };
        let flags = u32_at(raw, 0x20)?;
        if flags & FLAG_ENCRYPTED != 0 {
            return Err(FilesystemError::Unsupported("an encrypted file"));
        }
        if flags & FLAG_ATTRIBUTE != 0 {
            return Err(FilesystemError::Damaged("a name is of an inode that holds an attribute"));
        }
        // Folders have something else in this field, but for very large ones.
        let is_long = kind == Ext4Kind::File || shape.has_large_folders;
        let bytes = joined(if is_long { u32_at(raw, 0x6c)? } else { 0 }, u32_at(raw, 0x4)?);
        let area = raw.get(AREA_AT..).and_then(|rest| rest.first_chunk::<AREA_BYTES>());
        let area = *area.ok_or(FilesystemError::Damaged("an inode ends before its blocks"))?;
        let body = raw.get(FIXED_BYTES..).filter(|_| flags & FLAG_INLINE != 0).unwrap_or_default().to_vec();
        Ok(Self { kind, bytes, area, flags, body })
    }

    pub(super) fn has_extents(&self) -> bool {
        self.flags & FLAG_EXTENTS != 0
    }

    pub(super) fn is_inline(&self) -> bool {
        self.flags & FLAG_INLINE != 0
    }

    /// Where a link leads that stands where others have the numbers of their blocks.
    pub(super) fn short_target(&self) -> Option<&[u8]> {
        let bytes = usize::try_from(self.bytes).ok()?;
        let is_short = bytes < AREA_BYTES && !self.has_extents() && !self.is_inline();
        if is_short { self.area.get(..bytes) } else { None }
    }

    /// The content of an inode that holds it itself: what stands in place of blocks, then an attribute.
    pub(super) fn inline(&self) -> Result<Vec<u8>, FilesystemError> {
        let mut content = self.area.to_vec();
        content.extend_from_slice(data_attribute(&self.body)?);
        let bytes = index(self.bytes)?;
        if bytes > content.len() {
            return Err(FilesystemError::Damaged("an inode holds less than it says"));
        }
        content.truncate(bytes);
        Ok(content)
    }
}

/// The value of the attribute `system.data` among those that an inode holds; empty where it has none.
fn data_attribute(body: &[u8]) -> Result<&[u8], FilesystemError> {
    if body.len() < 4 {
        return Ok(&[]);
    }
    let start = usize::from(u16_at(body, 0)?);
    let Some(list) = body.get(start..).filter(|list| list.len() >= 4) else { return Ok(&[]) };
    if u32_at(list, 0)? != ATTRIBUTES_MAGIC {
        return Ok(&[]);
    }
    // Places of values count from here.
    let list = &list[4..];
    let mut at = 0;
    while list.len() >= at + ATTRIBUTE_BYTES && u32_at(list, at)? != 0 {
        let name_bytes = usize::from(u8_at(list, at)?);
        let name = list.get(at + ATTRIBUTE_BYTES..at + ATTRIBUTE_BYTES + name_bytes);
        if u8_at(list, at + 1)? == SYSTEM && name == Some(b"data".as_slice()) {
            if u32_at(list, at + 4)? != 0 {
                return Err(FilesystemError::Unsupported("a file's content in another inode"));
            }
            let (from, bytes) = (usize::from(u16_at(list, at + 2)?), index(u64::from(u32_at(list, at + 8)?))?);
            let value = from.checked_add(bytes).and_then(|end| list.get(from..end));
            return value.ok_or(FilesystemError::Damaged("an attribute lies outside of its inode"));
        }
        at += (ATTRIBUTE_BYTES + name_bytes).next_multiple_of(4);
    }
    Ok(&[])
}
