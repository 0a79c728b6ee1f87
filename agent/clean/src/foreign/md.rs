//! Members of md arrays (kernel, include/uapi/linux/raid/md_p.h): superblocks 0.90, 1.0, 1.1 and 1.2, and where the
//! array's data lies on the member.

use super::label::{ArrayMember, RecognisedLabel, RegionLabels, UnreadLabel};
use super::{ContentKind, ContentOwner, VolumeView, array, le16, le32, le64, text};

const MAGIC: u32 = 0xa92b_4efc;
/// Members of one array; the kernel's version 1 has 1920 at most, version 0.90 has 27.
const MEMBERS_MAX: u32 = 1920;
/// Roles of members that hold no data: spare, faulty, journal.
const ROLE_MAX: u16 = 0xfff0;
const ROLES_AT: usize = 256;

/// Every superblock in the region. One that is there and says what cannot be is a remark.
pub(super) fn find(view: &VolumeView<'_>, seen: &mut RegionLabels) {
    let sectors = view.size_bytes() / 512;
    let last = sectors.checked_sub(16).map(|sector| (sector & !7) * 512);
    for offset in [Some(0), Some(4096), last].into_iter().flatten() {
        version_1(view, offset, seen);
    }
    version_0(view, seen);
}

/// 1.1 at the start, 1.2 at 4 KiB, 1.0 at least 8 KiB before the end on a boundary of 4 KiB. The set's
/// name is `host:name` where mdadm knew its host.
fn version_1(view: &VolumeView<'_>, offset: u64, seen: &mut RegionLabels) {
    let Some(superblock) = view.at(offset, 4096).or_else(|| view.at(offset, 512)) else { return };
    if le32(&superblock, 0) != Some(MAGIC) {
        return;
    }
    match version_1_member(&superblock, offset) {
        Ok((holding, member)) => {
            seen.holdings.push(holding);
            seen.members.push(member);
        }
        Err(why) => {
            let is_of_another = why == ELSEWHERE;
            seen.remarks.push(UnreadLabel { offset, why: format!("an md superblock {why}"), is_of_another });
        }
    }
}

const ELSEWHERE: &str = "that belongs elsewhere";

fn version_1_member(superblock: &[u8], offset: u64) -> Result<(RecognisedLabel, ArrayMember), &'static str> {
    const CUT: &str = "that is cut";
    let word = |at: usize| le32(superblock, at).ok_or(CUT);
    let long = |at: usize| le64(superblock, at).ok_or(CUT);
    if word(4)? != 1 {
        return Err("of a version that is not known");
    }
    // `super_offset` says where it stands: a copy elsewhere belongs to another region.
    if long(144)? != offset / 512 {
        return Err(ELSEWHERE);
    }
    let (max_dev, members) = (word(220)?, word(92)?);
    if max_dev > MEMBERS_MAX || members > MEMBERS_MAX {
        return Err("with more members than there can be");
    }
    let length = ROLES_AT + 2 * max_dev as usize;
    let checked = superblock.get(..length).ok_or(CUT)?;
    if folded_sum(checked, 216) != word(216)? {
        return Err("whose checksum is wrong");
    }
    let set = text(superblock.get(32..64).ok_or(CUT)?);
    let (host, name) = set.split_once(':').unwrap_or(("", set.as_str()));
    // What mdadm writes when it is to name no host, or did not know its own.
    let is_default = matches!(host, "" | "any" | "localhost" | "localhost.localdomain" | "(none)");
    let owner = if is_default { ContentOwner::Unnamed } else { ContentOwner::Host(host.to_owned()) };
    let number = word(160)? as usize;
    let role = if number < max_dev as usize { le16(superblock, ROLES_AT + 2 * number) } else { None };
    let member = ArrayMember {
        uuid: array(superblock, 16).ok_or(CUT)?,
        name: name.to_owned(),
        level: word(72)?.cast_signed(),
        layout: word(76)?,
        chunk_bytes: u64::from(word(88)?) * 512,
        members,
        role: role.filter(|role| *role < ROLE_MAX).map(u32::from),
        data_offset: long(128)?.saturating_mul(512),
        data_bytes: used(long(80)?, long(136)?).saturating_mul(512),
    };
    Ok((RecognisedLabel { kind: ContentKind::Md, name: name.to_owned(), owner, offset }, member))
}

/// Returns how much of a member the array uses. For striped and linear arrays the superblock says no size: all that
/// there is.
fn used(size: u64, room: u64) -> u64 {
    if size == 0 { room } else { size.min(room) }
}

/// The sum of all words but the one at `skip`, folded into one (`calc_sb_1_csum`, `calc_sb_csum`).
fn folded_sum(bytes: &[u8], skip: usize) -> u32 {
    let mut sum: u64 = 0;
    for (index, word) in bytes.chunks_exact(4).enumerate() {
        if index * 4 != skip {
            sum += u64::from(le32(word, 0).unwrap_or(0));
        }
    }
    // An odd number of roles leaves half a word.
    if let [low, high] = bytes.chunks_exact(4).remainder() {
        sum += u64::from(u16::from_le_bytes([*low, *high]));
    }
    #[allow(clippy::cast_possible_truncation, reason = "the sum is folded")]
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    folded
}

/// 0.90 in the last 64 KiB boundary with 64 KiB behind it, in the byte order of its maker; it knows the
/// number of its array and no host.
fn version_0(view: &VolumeView<'_>, seen: &mut RegionLabels) {
    const RESERVED_BYTES: u64 = 64 << 10;
    let Some(offset) = (view.size_bytes() & !(RESERVED_BYTES - 1)).checked_sub(RESERVED_BYTES) else { return };
    let Some(superblock) = view.at(offset, 4096) else { return };
    let words: Vec<[u8; 4]> = superblock.chunks_exact(4).filter_map(|word| word.first_chunk().copied()).collect();
    let is_little = match words.first() {
        Some(magic) if u32::from_le_bytes(*magic) == MAGIC => true,
        Some(magic) if u32::from_be_bytes(*magic) == MAGIC => false,
        Some(_) | None => return,
    };
    let read = |word: [u8; 4]| if is_little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) };
    let words: Vec<u32> = words.into_iter().map(read).collect();
    let found = seen.holdings.iter().any(|holding| holding.kind == ContentKind::Md && holding.offset == offset);
    match version_0_member(&words, offset) {
        // The place of version 1.0 on a disk of that size.
        _ if found => {}
        Ok(member) => {
            seen.remarks.retain(|remark| remark.offset != offset);
            let name = member.name.clone();
            seen.holdings.push(RecognisedLabel { kind: ContentKind::Md, name, owner: ContentOwner::Unnamed, offset });
            seen.members.push(member);
        }
        Err(why) => seen.remark(offset, format!("an md superblock {why}")),
    }
}

fn version_0_member(words: &[u32], offset: u64) -> Result<ArrayMember, &'static str> {
    /// Index of the checksum, of layout and chunk, and of what this member is (`mdp_super_t`).
    const CHECKSUM: usize = 38;
    const LAYOUT: usize = 64;
    const THIS_DISK: usize = 992;
    let word = |index: usize| words.get(index).copied().ok_or("that is cut");
    if (word(1)?, word(2)?) != (0, 90) {
        return Err("of a version that is not known");
    }
    let sum: u64 =
        words.iter().enumerate().filter(|(index, _)| *index != CHECKSUM).map(|(_, word)| u64::from(*word)).sum();
    #[allow(clippy::cast_possible_truncation, reason = "the sum is folded")]
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    if folded != word(CHECKSUM)? {
        return Err("whose checksum is wrong");
    }
    let members = word(10)?;
    let mut uuid = [0; 16];
    for (bytes, index) in uuid.chunks_exact_mut(4).zip([5, 13, 14, 15]) {
        bytes.copy_from_slice(&word(index)?.to_le_bytes());
    }
    let role = word(THIS_DISK + 3)?;
    Ok(ArrayMember {
        uuid,
        name: format!("md{}", word(11)?),
        level: word(7)?.cast_signed(),
        layout: word(LAYOUT)?,
        chunk_bytes: u64::from(word(LAYOUT + 1)?),
        members: members.min(MEMBERS_MAX),
        role: (role < members).then_some(role),
        data_offset: 0,
        data_bytes: used(u64::from(word(8)?) * 1024, offset),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{disk, look, remarks};
    use super::*;

    const SIZE: usize = 4 << 20;

    pub(in super::super) fn superblock(sector: u64, set: &str) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        bytes[32..32 + set.len()].copy_from_slice(set.as_bytes());
        bytes[144..152].copy_from_slice(&sector.to_le_bytes());
        sealed(bytes)
    }

    #[test]
    fn versions_with_a_host_name_in_each_place() {
        for at in [0, 4096, SIZE - 8192] {
            let bytes = disk(SIZE, &[(at, &superblock(at as u64 / 512, "storage-3:data"))]);
            let found = look(&bytes);
            assert_eq!(found[0].to_string(), "md RAID \"data\" of host \"storage-3\"");
            assert_eq!(found[0].offset, at as u64);
        }
        let moved = disk(SIZE, &[(4096, &superblock(0, "x:y"))]);
        assert_eq!(look(&moved), []);
        assert_eq!(remarks(&moved), ["an md superblock that belongs elsewhere"]);
        let nobody = look(&disk(SIZE, &[(0, &superblock(0, "any:0"))]));
        assert_eq!((nobody[0].name.as_str(), &nobody[0].owner), ("0", &ContentOwner::Unnamed));
    }

    /// Adds the checksum.
    pub(in super::super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = folded_sum(&bytes, 216);
        bytes[216..220].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn any_altered_field_is_remarked_on() {
        let whole = superblock(0, "storage-3:data");
        for at in (4..256).filter(|at| *at < 144 || *at >= 152) {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            let disk = disk(SIZE, &[(0, &altered)]);
            assert!(look(&disk).is_empty() && remarks(&disk).len() == 1, "byte {at}");
        }
    }

    #[test]
    fn the_old_version_in_both_byte_orders() {
        for big in [false, true] {
            let order = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
            let words = [MAGIC, 0, 90, 0, 0, 1, 2, 1, 3, 2, 2, 127];
            let mut all = vec![0; 1024];
            all[..words.len()].copy_from_slice(&words);
            all[38] = all.iter().sum();
            let bytes: Vec<u8> = all.into_iter().flat_map(order).collect();
            let found = look(&disk(SIZE, &[(SIZE - 0x1_0000, &bytes)]));
            assert_eq!(found[0].to_string(), "md RAID \"md127\"");
            let mut other = bytes.clone();
            other[40] ^= 1;
            let altered = disk(SIZE, &[(SIZE - 0x1_0000, &other)]);
            assert_eq!(remarks(&altered), ["an md superblock whose checksum is wrong"]);
        }
    }
}
