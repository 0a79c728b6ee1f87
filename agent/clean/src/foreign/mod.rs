//! What stands on a disk that must not be wiped by mistake: filesystems and volumes of clusters, pools and arrays of
//! other hosts, with the owner's name where the format has one.
//!
//! ```text
//! disks ─► scan ─┬─► tables: every partition that any reader would show ─┐
//!                ├─► recognise: labels and superblocks of each region ◄──┤
//!                └─► assemble: logical volumes, arrays ── new regions ───┘
//!                                      │
//!                                      ▼
//!              Scan: DiskContents (findings, ordinary names, unread) and what was looked at
//! ```
//!
//! - [`volume`], [`raid_layout`] and [`thin`] know where bytes lie, [`volume_view`] shows one region to the
//!   recognisers.
//! - [`tables`] is the lenient reader of partition tables. It is for guards alone: the reader of
//!   `firesteel_images` judges images that we write, and refuses what this one looks into.
//! - Each recogniser reads the format's own superblock, never a name or a partition type alone; a partition type
//!   counts beside it, because GPFS has no published superblock.
//! - A label that is there and cannot be understood is a remark: what such a disk holds is not known.
//!
//! What of all this forbids an erasure is [`firesteel_contents`]' to say.

mod assemble;
mod cluster;
mod firmware_raid;
mod gap;
mod label;
mod lvm;
mod md;
mod raid_layout;
mod scan;
mod tables;
mod thin;
mod volume;
mod volume_view;
mod zfs;

pub use firesteel_contents::{ContentKind, ContentOwner};
pub use scan::{Scan, ScannedRegion, scan, scan_all, scan_beside};
pub use volume::DiskSource;

use firesteel_drives::array;
use firesteel_wire::text::field;
use label::RegionLabels;
use volume_view::VolumeView;

/// All that is recognised in one region.
fn recognise(view: &VolumeView<'_>) -> RegionLabels {
    let mut seen = RegionLabels::default();
    seen.holdings.extend(
        [
            cluster::vmfs(view),
            cluster::gfs2(view),
            cluster::ocfs2(view),
            cluster::ceph(view),
            cluster::bcache(view),
            cluster::asm(view),
            cluster::drbd(view),
            cluster::storage_spaces(view),
            zfs::find(view),
        ]
        .into_iter()
        .flatten(),
    );
    firmware_raid::find(view, &mut seen);
    find_members(view, &mut seen);
    seen
}

/// Labels of what lies on several disks.
fn find_members(view: &VolumeView<'_>, seen: &mut RegionLabels) {
    lvm::find(view, seen);
    md::find(view, seen);
}

/// What a partition's type says: its GUID as text, in either case.
fn of_partition_type(guid: &str) -> Option<ContentKind> {
    let kinds = [
        ("aa31e02a-400f-11db-9590-000c2911d1b8", ContentKind::Vmfs),
        // VMFS-L of ESXi 7 and later.
        ("4eb2ea39-7855-4790-a79e-fae495e21f8d", ContentKind::Vmfs),
        ("381cfccc-7288-11e0-92ee-000c2911d0b2", ContentKind::Vsan),
        ("77719a0c-a4a0-11e3-a47e-000c29745a24", ContentKind::Vsan),
        ("37affc90-ef7d-4e96-91c3-2d7ae055b174", ContentKind::Gpfs),
        ("4fbd7e29-9d25-41b8-afd0-062c0ceff05d", ContentKind::Ceph),
        ("4fbd7e29-9d25-41b8-afd0-5ec00ceff05d", ContentKind::Ceph),
        ("4fbd7e29-8ae0-4982-bf9d-5a8d867af560", ContentKind::Ceph),
        ("45b0969e-9b03-4f30-b4c6-b4b80ceff106", ContentKind::Ceph),
        ("45b0969e-9b03-4f30-b4c6-5ec00ceff106", ContentKind::Ceph),
        ("45b0969e-8ae0-4982-bf9d-5a8d867af560", ContentKind::Ceph),
        ("cafecafe-9b03-4f30-b4c6-b4b80ceff106", ContentKind::Ceph),
        ("cafecafe-9b03-4f30-b4c6-5ec00ceff106", ContentKind::Ceph),
        ("cafecafe-8ae0-4982-bf9d-5a8d867af560", ContentKind::Ceph),
        ("30cd0809-c2b2-499c-8879-2d6b78529876", ContentKind::Ceph),
        ("93b0052d-02d9-4d8a-a43b-33a3ee4dfbc3", ContentKind::Ceph),
        ("5ce17fce-4087-4169-b7ff-056cc58473f9", ContentKind::Ceph),
        ("306e8683-4fe2-4330-b7c0-00a917c16966", ContentKind::Ceph),
        ("89c57f98-2fe5-4dc0-89c1-f3ad0ceff2be", ContentKind::Ceph),
        ("89c57f98-2fe5-4dc0-89c1-5ec00ceff2be", ContentKind::Ceph),
        ("fb3aabf9-d25f-47cc-bf5e-721d1816496b", ContentKind::Ceph),
        ("6a898cc3-1dd2-11b2-99a6-080020736631", ContentKind::Zfs),
        ("516e7cba-6ecf-11d6-8ff8-00022d09712b", ContentKind::Zfs),
        ("e75caf8f-f680-4cee-afa3-b001e56efc2d", ContentKind::StorageSpaces),
        ("5808c8aa-7e8f-42e0-85d2-e1e90434cfb3", ContentKind::Ldm),
        ("af9b60a0-1431-4f62-bc68-3311714a69ad", ContentKind::Ldm),
    ];
    kinds.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(guid)).map(|(_, kind)| kind)
}

/// What the type byte of a classic table says.
fn of_classic_type(kind: u8) -> Option<ContentKind> {
    match kind {
        0xfb => Some(ContentKind::Vmfs),
        0xe7 => Some(ContentKind::StorageSpaces),
        0x42 => Some(ContentKind::Ldm),
        _ => None,
    }
}

/// Bytes up to the first zero, as plain text for people.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    field(&String::from_utf8_lossy(&bytes[..end]))
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// A disk in memory, for tests and fuzzing.
#[derive(Debug)]
struct MemoryDisk<'a>(&'a [u8]);

impl firesteel_images::write::DiskReader for MemoryDisk<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let at = usize::try_from(offset).map_err(std::io::Error::other)?;
        let bytes = at.checked_add(buffer.len()).and_then(|end| self.0.get(at..end));
        buffer.copy_from_slice(bytes.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Scans any bytes as a disk of each block size, and as two disks of one host. For fuzzing: never panics, and ends.
pub fn check(bytes: &[u8]) {
    let memory = MemoryDisk(bytes);
    let source = |bytes: &[u8], block_bytes| DiskSource {
        reader: &memory,
        size_bytes: bytes.len() as u64,
        block_bytes,
        partitions: Vec::new(),
    };
    for block_bytes in [512, 4096] {
        let scan = scan(&source(bytes, block_bytes));
        assert!(scan.looked.len() <= scan::REGIONS_MAX, "{} regions", scan.looked.len());
        let contents = scan.contents.bounded();
        for line in contents.lines() {
            assert!(line.len() < 4096 && !line.chars().any(char::is_control), "{line:?}");
        }
    }
    let both = scan_all(&[&source(bytes, 512), &source(bytes, 512)]);
    assert_eq!(both.len(), 2);
}

#[cfg(test)]
mod tests;
