//! Whether the bytes of a raw image are those of a whole disk, as they pass. Pure: it keeps the first MiB and the last
//! sector, and looks at the sectors that tables lead to.
//!
//! ```text
//! first MiB --> looks like something else? a GPT that cannot be used?
//! links of logical partitions, the backup GPT --> looked at as they pass
//! end --> footer of another format, odd length, partitions that end behind it
//! ```
//!
//! What an image looks like is a guess that its owner may overrule by declaring a format; a table that is damaged, or leads
//! behind the image, is none: the disk writer refuses it too.

mod lookalikes;

use std::io;

pub use lookalikes::Lookalike;

use super::pack::RawImage;
use crate::write::gpt::{self, GptError, GptTable, HEAD_BYTES};
use crate::write::mbr::{self, MbrEntry};
use crate::write::{PartitionBeyondEnd, extent};

const SECTOR_BYTES: usize = 512;

/// Why an image is not taken for a whole disk.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentFault {
    /// A declared format overrules it.
    #[error("{0}")]
    Lookalike(Lookalike),
    #[error("the partition table (GPT) at the start of the image cannot be used: {0}")]
    Table(GptError),
    #[error(transparent)]
    Partition(#[from] PartitionBeyondEnd),
}

impl ContentFault {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Lookalike(lookalike) => lookalike.help(),
            Self::Table(_) => {
                "repair the table where the image is built (`sgdisk -v FILE` shows it), or download it again"
            }
            Self::Partition(beyond) => beyond.help(),
        }
    }
}

/// Watches a disk from its first byte to its last. Sectors that tables lead to are looked at in pieces of a MiB or more, of
/// whole sectors, but for the last one.
pub(crate) struct DiskWatch {
    is_declared: bool,
    /// Bytes that passed.
    at: u64,
    head: Vec<u8>,
    is_judged: bool,
    block_bytes: u32,
    table: Option<GptTable>,
    has_backup: bool,
    chains: Vec<LogicalChain>,
    /// Partitions of the chains, each with the block that it counts from.
    logical: Vec<(u64, MbrEntry)>,
    tail: Vec<u8>,
}

impl DiskWatch {
    /// `is_declared`: the owner says that it is a disk.
    pub(crate) fn new(is_declared: bool) -> Self {
        Self {
            is_declared,
            at: 0,
            head: Vec::new(),
            is_judged: false,
            block_bytes: 512,
            table: None,
            has_backup: false,
            chains: Vec::new(),
            logical: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// These bytes come next.
    pub(crate) fn bytes(&mut self, data: &[u8]) -> Result<(), ContentFault> {
        if !self.is_judged {
            let wanted = (HEAD_BYTES - self.head.len()).min(data.len());
            self.head.extend_from_slice(&data[..wanted]);
            self.judge_whole_head()?;
        }
        if self.is_judged {
            self.observe_bytes(self.at, data);
        }
        self.tail.extend_from_slice(&data[data.len().saturating_sub(SECTOR_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(SECTOR_BYTES);
        self.tail.drain(..surplus);
        self.at += data.len() as u64;
        Ok(())
    }

    /// Takes the next zeros: a sector or more.
    pub(crate) fn zeros(&mut self, bytes: u64) -> Result<(), ContentFault> {
        if !self.is_judged {
            let wanted = HEAD_BYTES - self.head.len();
            let more = usize::try_from(bytes).unwrap_or(usize::MAX).min(wanted);
            self.head.resize(self.head.len() + more, 0);
            self.judge_whole_head()?;
        }
        let (end, block_bytes) = (self.at.saturating_add(bytes), self.block_bytes);
        // A link that is zeros is the last one.
        self.chains.retain(|chain| chain.offset(block_bytes) >= end);
        self.tail.clear();
        self.tail.resize(SECTOR_BYTES, 0);
        self.at = end;
        Ok(())
    }

    /// Judges the disk as a whole. `true`: it has a GPT, and no second one at its end.
    pub(crate) fn finish(mut self) -> Result<bool, ContentFault> {
        if !self.is_judged {
            self.judge()?;
            let head = std::mem::take(&mut self.head);
            self.observe_bytes(0, &head);
            self.head = head;
        }
        if !self.is_declared {
            let odd = (!self.at.is_multiple_of(SECTOR_BYTES as u64)).then_some(Lookalike::OddLength { bytes: self.at });
            if let Some(lookalike) = lookalikes::vhd_footer(&self.tail, self.at).or(odd) {
                return Err(ContentFault::Lookalike(lookalike));
            }
        }
        // What is packed is padded to whole sectors.
        let image_bytes = self.at.next_multiple_of(SECTOR_BYTES as u64);
        extent::check_classic(&self.head, self.block_bytes, image_bytes)?;
        for (base, entry) in &self.logical {
            extent::check_entry(entry, *base, self.block_bytes, image_bytes)?;
        }
        if let Some(table) = &self.table {
            extent::check_table(table, image_bytes)?;
        }
        Ok(self.table.is_some() && !self.has_backup)
    }

    fn judge_whole_head(&mut self) -> Result<(), ContentFault> {
        if self.head.len() == HEAD_BYTES { self.judge() } else { Ok(()) }
    }

    fn judge(&mut self) -> Result<(), ContentFault> {
        self.is_judged = true;
        if !self.is_declared
            && let Some(lookalike) = lookalikes::lookalike(&self.head)
        {
            return Err(ContentFault::Lookalike(lookalike));
        }
        self.block_bytes = gpt::block_bytes_of(&self.head).unwrap_or(512);
        self.table = gpt::parse(&self.head, self.block_bytes).map_err(ContentFault::Table)?;
        let entries = mbr::parse(&self.head).unwrap_or_default();
        let extended = entries.iter().filter(|entry| entry.is_extended());
        self.chains = extended.map(|entry| LogicalChain::new(entry.first)).collect();
        Ok(())
    }

    /// Looks at what tables lead to in these bytes, which begin at `begin`.
    fn observe_bytes(&mut self, begin: u64, data: &[u8]) {
        if let Some(table) = &self.table {
            let header = sector(begin, data, offset(table.alternate_lba, self.block_bytes), self.block_bytes as usize);
            let parsed = header.map(|header| gpt::parse_backup_header(header, table.alternate_lba, self.block_bytes));
            // One that names itself as its backup has none.
            self.has_backup |= table.alternate_lba > 1 && matches!(parsed, Some(Ok(Some(_))));
        }
        let (block_bytes, logical) = (self.block_bytes, &mut self.logical);
        self.chains.retain_mut(|chain| chain.follow(begin, data, block_bytes, logical));
    }
}

/// The links of the logical partitions in an extended one.
struct LogicalChain {
    /// Links count from the first block of the extended partition.
    base: u64,
    /// Block of the next link.
    at: u64,
    left: usize,
}

impl LogicalChain {
    fn new(base: u64) -> Self {
        Self { base, at: base, left: mbr::LOGICAL_MAX }
    }

    fn offset(&self, block_bytes: u32) -> u64 {
        offset(self.at, block_bytes)
    }

    /// Follows the links that lie in these bytes. `false`: the chain has ended, or leads back, as no sound one does.
    fn follow(&mut self, begin: u64, data: &[u8], block_bytes: u32, found: &mut Vec<(u64, MbrEntry)>) -> bool {
        loop {
            let at = self.offset(block_bytes);
            if at >= begin.saturating_add(data.len() as u64) {
                return true;
            }
            let link = sector(begin, data, at, SECTOR_BYTES);
            let mut next = None;
            for entry in link.and_then(mbr::parse).unwrap_or_default() {
                if entry.is_extended() {
                    next = Some(self.base.saturating_add(entry.first));
                } else {
                    found.push((self.at, entry));
                }
            }
            self.left = self.left.saturating_sub(1);
            match next {
                Some(next) if next > self.at && self.left > 0 => self.at = next,
                Some(_) | None => return false,
            }
        }
    }
}

fn offset(block: u64, block_bytes: u32) -> u64 {
    block.saturating_mul(u64::from(block_bytes))
}

/// The bytes at this offset of the disk, of a piece that begins at `begin`.
fn sector(begin: u64, data: &[u8], offset: u64, bytes: usize) -> Option<&[u8]> {
    let start = usize::try_from(offset.checked_sub(begin)?).ok()?;
    data.get(start..start.checked_add(bytes)?)
}

/// An image that is watched while it is packed.
pub(crate) struct WatchedImage<'a> {
    pub(crate) image: &'a mut dyn RawImage,
    pub(crate) watch: DiskWatch,
}

impl RawImage for WatchedImage<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.image.fill(buffer)?;
        self.watch.bytes(&buffer[..bytes]).map_err(io::Error::other)?;
        Ok(bytes)
    }

    fn skip_zeros(&mut self, bytes: u64) -> io::Result<bool> {
        let is_skipped = self.image.skip_zeros(bytes)?;
        if is_skipped {
            self.watch.zeros(bytes).map_err(io::Error::other)?;
        }
        Ok(is_skipped)
    }
}

/// Watches any bytes as a disk. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    for is_declared in [false, true] {
        let mut watch = DiskWatch::new(is_declared);
        if bytes.chunks(2 << 20).try_for_each(|piece| watch.bytes(piece)).is_ok() {
            drop(watch.finish());
        }
    }
}

#[cfg(test)]
mod tests;
