//! VMFS, GFS2, OCFS2, Ceph BlueStore, bcache, Oracle ASM, DRBD and Storage Spaces.

use super::{ContentKind, ContentOwner, VolumeView, array, be32, label::RecognisedLabel, le32, le64, text};

/// VMFS: the volume's head at 1 MiB (`vmfs_volinfo`), the filesystem's at 2 MiB (`vmfs_fsinfo`), as
/// vmfs-tools read them.
pub(super) fn vmfs(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const VOLUME_AT: u64 = 1 << 20;
    const FILESYSTEM_AT: u64 = 2 << 20;
    let volume = view.at(VOLUME_AT, 512).filter(|head| le32(head, 0) == Some(0xc001_d00d));
    let filesystem = view.at(FILESYSTEM_AT, 512).filter(|head| le32(head, 0) == Some(0x2fab_f15e));
    let (offset, name) = match (volume, filesystem) {
        (_, Some(head)) => (FILESYSTEM_AT, text(head.get(0x1d..0x9d)?)),
        (Some(head), None) => (VOLUME_AT, text(head.get(0x12..0x2e)?)),
        (None, None) => return None,
    };
    Some(RecognisedLabel { kind: ContentKind::Vmfs, name, owner: ContentOwner::Unnamed, offset })
}

/// GFS2 (linux/gfs2_ondisk.h): the superblock at 64 KiB, big-endian; it names its lock manager.
pub(super) fn gfs2(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const AT: u64 = 64 << 10;
    let superblock = view.at(AT, 512)?;
    // Magic, and the type "superblock".
    if (be32(&superblock, 0)?, be32(&superblock, 4)?) != (0x0116_1970, 1) {
        return None;
    }
    let (protocol, table) = (text(superblock.get(96..160)?), text(superblock.get(160..224)?));
    let owner = match protocol.as_str() {
        "" | "lock_nolock" => ContentOwner::Unnamed,
        _ => ContentOwner::Shared(format!("{protocol} {table}").trim().to_owned()),
    };
    Some(RecognisedLabel { kind: ContentKind::Gfs2, name: table, owner, offset: AT })
}

/// OCFS2 (fs/ocfs2/ocfs2_fs.h): a dinode in the third block, of 512 to 4096 bytes.
pub(super) fn ocfs2(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const LOCAL_MOUNT: u32 = 0x0008;
    const SUPER_AT: usize = 0xc0;
    for offset in [1024, 2048, 4096, 8192] {
        let Some(inode) = view.at(offset, 512).filter(|inode| inode.starts_with(b"OCFSV2")) else { continue };
        let superblock = inode.get(SUPER_AT..)?;
        let is_local = le32(superblock, 32)? & LOCAL_MOUNT != 0;
        let cluster = text(superblock.get(168..184)?);
        let owner = if is_local {
            ContentOwner::Unnamed
        } else {
            ContentOwner::Shared(format!("o2cb {cluster}").trim().to_owned())
        };
        return Some(RecognisedLabel { kind: ContentKind::Ocfs2, name: text(superblock.get(80..144)?), owner, offset });
    }
    None
}

/// Ceph BlueStore (`bluestore_bdev_label_t`): a line of text with the OSD's UUID, then the label with a
/// map of texts. Keys of secrets are never read.
pub(super) fn ceph(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const MAGIC: &[u8] = b"bluestore block device";
    let label = view.at(0, 4096)?;
    if !label.starts_with(MAGIC) {
        return None;
    }
    let meta = ceph_meta(&label).unwrap_or_default();
    let said = |key: &str| meta.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let name = said("whoami").map(|number| format!("osd.{number}")).unwrap_or_default();
    let owner = said("ceph_fsid")
        .map_or(ContentOwner::Unnamed, |cluster| ContentOwner::Shared(format!("Ceph cluster {cluster}")));
    Some(RecognisedLabel { kind: ContentKind::Ceph, name, owner, offset: 0 })
}

/// Most entries of a label's map; real ones have about ten.
const CEPH_META_MAX: u32 = 64;

fn ceph_meta(label: &[u8]) -> Option<Vec<(String, String)>> {
    // The line, its UUID and two line ends take 60 bytes; then version, compatible version, length.
    let mut rest = label.get(60 + 6..)?;
    // The OSD's UUID, the size, the time of its making.
    rest = rest.get(16 + 8 + 8..)?;
    take_text(&mut rest)?;
    let count = take_u32(&mut rest)?;
    let mut meta = Vec::new();
    for _ in 0..count.min(CEPH_META_MAX) {
        let (Some(key), Some(value)) = (take_text(&mut rest), take_text(&mut rest)) else { break };
        if matches!(key, b"whoami" | b"ceph_fsid") {
            meta.push((text(key), text(value)));
        }
    }
    Some(meta)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let number = array(rest, 0).map(u32::from_le_bytes)?;
    *rest = &rest[4..];
    Some(number)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_u32(rest)?).ok()?;
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// bcache (drivers/md/bcache, `struct cache_sb_disk`): the superblock at 4 KiB.
pub(super) fn bcache(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const AT: u64 = 4096;
    const MAGIC: [u8; 16] =
        [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
    let superblock = view.at(AT, 512)?;
    // It says where it stands, in sectors.
    if array(&superblock, 24) != Some(MAGIC) || le64(&superblock, 8) != Some(AT / 512) {
        return None;
    }
    Some(RecognisedLabel {
        kind: ContentKind::Bcache,
        name: text(superblock.get(72..104)?),
        owner: ContentOwner::Unnamed,
        offset: AT,
    })
}

/// Oracle ASM: the provision string of a disk's header, `ORCLDISK` with the disk's name behind it, at 32 (`kfdhdb`),
/// and the names of disk and group where the header was written whole.
pub(super) fn asm(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const PROVISION_AT: usize = 32;
    let header = view.at(0, 512)?;
    // Without ASMLib the string stays as it is; a header alone says its type (KFBTYP_DISKHEAD) and that it is in use.
    let is_provisioned = header.get(PROVISION_AT..).is_some_and(|rest| rest.starts_with(b"ORCLDISK"));
    if !is_provisioned {
        return None;
    }
    let group = text(header.get(104..136)?);
    let disk = text(header.get(72..104)?);
    let label = text(header.get(PROVISION_AT + 8..PROVISION_AT + 32)?);
    let name = [group, disk, label].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    Some(RecognisedLabel { kind: ContentKind::Asm, name, owner: ContentOwner::Unnamed, offset: 0 })
}

/// DRBD's internal metadata (drbd, `struct meta_data_on_disk`): its head is the last 4 KiB; big-endian magic numbers of
/// versions 8.0 to 9.
pub(super) fn drbd(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    const HEAD_BYTES: u64 = 4096;
    const MAGIC_AT: usize = 60;
    let offset = (view.size_bytes() & !(HEAD_BYTES - 1)).checked_sub(HEAD_BYTES)?;
    let head = view.at(offset, 512)?;
    let magic = be32(&head, MAGIC_AT)?;
    let is_known = matches!(magic, 0x8374_026b..=0x8374_026d);
    is_known.then(|| RecognisedLabel {
        kind: ContentKind::Drbd,
        name: String::new(),
        owner: ContentOwner::Unnamed,
        offset,
    })
}

/// A disk of a pool of Storage Spaces: its database begins with its name, at one of the first pages of the partition.
pub(super) fn storage_spaces(view: &VolumeView<'_>) -> Option<RecognisedLabel> {
    let offset = [0, 4096].into_iter().find(|at| view.at(*at, 8).is_some_and(|head| head == b"SPACEDB "))?;
    Some(RecognisedLabel {
        kind: ContentKind::StorageSpaces,
        name: String::new(),
        owner: ContentOwner::Unnamed,
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{disk, look};
    use super::*;

    #[test]
    fn asm_drbd_and_storage_spaces_by_their_heads() {
        let bytes = disk(1 << 20, &[(32, b"ORCLDISKDATA01"), (104, b"RECO")]);
        assert_eq!(look(&bytes)[0].to_string(), "Oracle ASM \"RECO\"");
        assert_eq!(look(&disk(1 << 20, &[(32, b"ORCLDISKDATA01")]))[0].to_string(), "Oracle ASM \"DATA01\"");
        for magic in [0x8374_026b_u32, 0x8374_026c, 0x8374_026d] {
            let bytes = disk(1 << 20, &[((1 << 20) - 4096 + 60, &magic.to_be_bytes())]);
            assert_eq!(look(&bytes)[0].kind, ContentKind::Drbd);
        }
        assert_eq!(look(&disk(1 << 20, &[(4096, b"SPACEDB ")]))[0].kind, ContentKind::StorageSpaces);
    }

    #[test]
    fn vmfs_by_volume_and_by_filesystem() {
        let volume: (usize, &[u8]) = (1 << 20, &[0x0d, 0xd0, 0x01, 0xc0]);
        let bytes = disk(4 << 20, &[volume, ((1 << 20) + 0x12, b"LUN-7")]);
        let found = look(&bytes);
        assert_eq!((found.len(), found[0].to_string()), (1, "VMFS \"LUN-7\"".to_owned()));
        let filesystem: (usize, &[u8]) = (2 << 20, &[0x5e, 0xf1, 0xab, 0x2f]);
        let bytes = disk(4 << 20, &[volume, filesystem, ((2 << 20) + 0x1d, b"datastore1\0junk")]);
        assert_eq!(look(&bytes)[0].to_string(), "VMFS \"datastore1\"");
    }

    #[test]
    fn gfs2_names_its_lock_manager() {
        let at = 64 << 10;
        let head: (usize, &[u8]) = (at, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
        let bytes = disk(1 << 20, &[head, (at + 96, b"lock_dlm"), (at + 160, b"alpha:data")]);
        assert_eq!(look(&bytes)[0].to_string(), "GFS2 \"alpha:data\" shared by lock_dlm alpha:data");
        let bytes = disk(1 << 20, &[head, (at + 96, b"lock_nolock")]);
        assert_eq!(look(&bytes)[0].owner, ContentOwner::Unnamed);
        let other: (usize, &[u8]) = (at, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 2]);
        assert_eq!(look(&disk(1 << 20, &[other])), [], "another kind of block");
    }

    #[test]
    fn ocfs2_names_its_cluster() {
        for at in [1024, 2048, 4096, 8192] {
            let parts: [(usize, &[u8]); 3] =
                [(at, b"OCFSV2"), (at + 0xc0 + 80, b"shared"), (at + 0xc0 + 168, b"webfarm")];
            assert_eq!(look(&disk(1 << 20, &parts))[0].to_string(), "OCFS2 \"shared\" shared by o2cb webfarm");
        }
        let local = disk(1 << 20, &[(4096, b"OCFSV2"), (4096 + 0xc0 + 32, &[8, 0, 0, 0])]);
        assert_eq!(look(&local)[0].owner, ContentOwner::Unnamed);
    }

    #[test]
    fn ceph_names_osd_and_cluster_and_keeps_the_key() {
        let mut label = b"bluestore block device\n11111111-2222-3333-4444-555555555555\n".to_vec();
        assert_eq!(label.len(), 60);
        label.extend([2, 1, 0, 1, 0, 0]);
        label.extend([7; 32]);
        let mut put = |text: &[u8]| {
            label.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
            label.extend(text);
        };
        put(b"main");
        let mut meta = Vec::new();
        for (key, value) in
            [("ceph_fsid", "aaaa-bbbb"), ("osd_key", "AQSECRET=="), ("whoami", "12"), ("ready", "ready")]
        {
            for text in [key, value] {
                meta.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
                meta.extend(text.as_bytes());
            }
        }
        label.extend(4_u32.to_le_bytes());
        label.extend(meta);
        let found = look(&disk(1 << 20, &[(0, &label)]));
        assert_eq!(found[0].to_string(), "Ceph \"osd.12\" shared by Ceph cluster aaaa-bbbb");
        let cut = look(&disk(1 << 20, &[(0, &label[..60])]));
        assert_eq!(cut[0].kind, ContentKind::Ceph, "without its map it is still Ceph's");
    }

    #[test]
    fn bcache_says_where_it_stands() {
        let magic = [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
        let parts: [(usize, &[u8]); 3] = [(4096 + 8, &[8]), (4096 + 24, &magic), (4096 + 72, b"fast")];
        assert_eq!(look(&disk(1 << 20, &parts))[0].to_string(), "bcache \"fast\"");
        assert_eq!(look(&disk(1 << 20, &parts[1..])), []);
    }
}
