//! ext2, ext3 and ext4 as the kernel's documentation lays them out (Documentation/filesystems/ext4).
//!
//! Folders with hash trees are read leaf by leaf: their index blocks look like empty folders to other readers. Names
//! are compared letter by letter, in folders without difference of case too.

mod blocks;
mod folder;
mod inode;
mod superblock;

use std::ops::ControlFlow;

use inode::{Ext4Inode, Ext4Kind};
use superblock::{Ext4Shape, SUPERBLOCK_AT, SUPERBLOCK_BYTES};

use super::fields::{index, product, sum};
use super::{FilesystemError, PartitionBytes};

/// The folder at the top.
const ROOT: u32 = 2;
const NAME_BYTES_MAX: usize = 255;
/// A link that leads to a link, and so on: as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Longest link, as for the kernel.
const LINK_BYTES_MAX: u64 = 4096;
/// Folders below one another. Nothing that is looked for lies deeper than ten.
const DEPTH_MAX: usize = 64;

/// An ext filesystem, for reading.
#[derive(Debug)]
pub struct Ext4Reader<'a> {
    bytes: PartitionBytes<'a>,
    shape: Ext4Shape,
}

impl<'a> Ext4Reader<'a> {
    /// Reads the superblock.
    ///
    /// # Errors
    /// When the disk fails, or the filesystem is damaged, unclean, or has what is not read here.
    pub fn open(bytes: PartitionBytes<'a>) -> Result<Self, FilesystemError> {
        let superblock = bytes.read(SUPERBLOCK_AT, SUPERBLOCK_BYTES)?;
        let shape = Ext4Shape::read(&superblock, bytes.size_bytes())?;
        Ok(Self { bytes, shape })
    }

    pub(super) fn names(&self, path: &str, most: usize) -> Result<Vec<String>, FilesystemError> {
        let (_, folder) = self.resolve(path)?;
        if folder.kind != Ext4Kind::Folder {
            return Err(FilesystemError::Absent);
        }
        let mut names = Vec::new();
        self.visit(&folder, &mut |_, name| {
            let Ok(name) = std::str::from_utf8(name) else { return Ok(ControlFlow::Continue(())) };
            if name != "." && name != ".." {
                if names.len() == most {
                    return Err(FilesystemError::TooMany { most: most as u64, what: "files" });
                }
                names.push(name.to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(names)
    }

    pub(super) fn file(&self, path: &str) -> Result<u64, FilesystemError> {
        self.resolve_file(path).map(|(number, _)| u64::from(number))
    }

    pub(super) fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, FilesystemError> {
        let (_, inode) = self.resolve_file(path)?;
        self.content(&inode, bytes_max)
    }

    fn resolve_file(&self, path: &str) -> Result<(u32, Ext4Inode), FilesystemError> {
        let (number, inode) = self.resolve(path)?;
        if inode.kind == Ext4Kind::File { Ok((number, inode)) } else { Err(FilesystemError::NotPlain) }
    }

    /// What lies at a path, through links, which lead nowhere but into this filesystem, as if it were the root.
    fn resolve(&self, path: &str) -> Result<(u32, Ext4Inode), FilesystemError> {
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut folders = vec![ROOT];
        let (mut number, mut links) = (ROOT, 0);
        let mut inode = self.inode(ROOT)?;
        while let Some(part) = rest.pop() {
            // Also a path that ends with a slash means a folder.
            if inode.kind != Ext4Kind::Folder {
                return Err(FilesystemError::Absent);
            }
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    if folders.len() > 1 {
                        folders.pop();
                    }
                }
                name => {
                    let child = self.child(&inode, name)?.ok_or(FilesystemError::Absent)?;
                    let found = self.inode(child)?;
                    if found.kind == Ext4Kind::Link {
                        links += 1;
                        let target = self.target(&found)?;
                        if links > LINKS_MAX {
                            return Err(FilesystemError::Absent);
                        }
                        if target.starts_with('/') {
                            folders.truncate(1);
                        }
                        rest.extend(target.split('/').rev().map(str::to_owned));
                    } else {
                        folders.push(child);
                    }
                }
            }
            if folders.len() > DEPTH_MAX {
                return Err(FilesystemError::Absent);
            }
            number = folders.last().copied().unwrap_or(ROOT);
            inode = self.inode(number)?;
        }
        Ok((number, inode))
    }

    /// Where a link leads; one that is no text leads nowhere.
    fn target(&self, link: &Ext4Inode) -> Result<String, FilesystemError> {
        if link.bytes == 0 || link.bytes > LINK_BYTES_MAX {
            return Err(FilesystemError::Damaged("a link has no length that a link may have"));
        }
        let target = match link.short_target() {
            Some(target) => target.to_vec(),
            None => self.content(link, LINK_BYTES_MAX)?,
        };
        String::from_utf8(target).map_err(|_| FilesystemError::Absent)
    }

    /// The inode with this name in a folder.
    fn child(&self, folder: &Ext4Inode, name: &str) -> Result<Option<u32>, FilesystemError> {
        if name.len() > NAME_BYTES_MAX {
            return Ok(None);
        }
        let mut found = None;
        self.visit(folder, &mut |number, entry| {
            if entry == name.as_bytes() {
                found = Some(number);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    fn inode(&self, number: u32) -> Result<Ext4Inode, FilesystemError> {
        let (group, place) = self.shape.place_of(number)?;
        let descriptor = self.bytes.read(self.shape.descriptor_at(group)?, index(self.shape.descriptor_bytes)?)?;
        let table = self.shape.table_of(&descriptor)?;
        let at = sum(product(table, self.shape.block_bytes)?, product(place, self.shape.inode_bytes)?)?;
        if sum(at, self.shape.inode_bytes)? > self.shape.size_bytes() {
            return Err(FilesystemError::Damaged("an inode lies outside of the filesystem"));
        }
        Ext4Inode::read(&self.bytes.read(at, index(self.shape.inode_bytes)?)?, &self.shape)
    }
}
