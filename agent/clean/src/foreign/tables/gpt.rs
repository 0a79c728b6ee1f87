//! GUID partition tables (UEFI specification 2.10, chapter 5), every copy that can be found.

use std::collections::BTreeSet;

use firesteel_facts::Guid;
use firesteel_images::write::mbr;

use super::super::{VolumeView, array, le32, le64, of_partition_type};
use super::{PartitionSlot, Partitions};

const SIGNATURE: &[u8] = b"EFI PART";
const HEADER_BYTES_MIN: usize = 92;
const ENTRY_BYTES: u64 = 128;
/// Places where a header is looked for.
const COPIES_MAX: usize = 16;
/// The largest array of entries that is read; the kernel reads no more.
const ENTRIES_BYTES_MAX: u64 = 4 << 20;

/// A header as it stands, sound or not.
struct GptHeader {
    lba: u64,
    alternate_lba: u64,
    last_usable_lba: u64,
    guid: Guid,
    entries_lba: u64,
    entry_count: u64,
    entry_bytes: u64,
    entries_checksum: u32,
    /// Why systems would not go by it.
    flaw: Option<&'static str>,
}

/// Reads every copy for blocks of this size; whether there is any.
pub(super) fn read(view: &VolumeView<'_>, block_bytes: u32, found: &mut Partitions) -> bool {
    let headers = headers(view, u64::from(block_bytes));
    let mut sound = None;
    let mut flaws = Vec::new();
    let mut damaged = None;
    for header in &headers {
        let flaw = header.flaw.or(entries(view, block_bytes, header, sound.is_none() && flaws.is_empty(), found));
        match flaw {
            None => sound = sound.or(Some(header.guid)),
            Some(flaw) => {
                flaws.push(format!("the copy at block {} {flaw}", header.lba));
                // A checksum that is right says that the GUID is, too.
                damaged = damaged.filter(|_| header.flaw.is_some()).or(Some(header.guid));
            }
        }
    }
    if found.guid.is_empty()
        && let Some(guid) = sound.or(damaged).filter(|guid| !guid.is_nil())
    {
        found.guid = guid.to_string();
    }
    if !headers.is_empty() && !found.names.contains(&"gpt") {
        found.names.push("gpt");
    }
    if !headers.is_empty() && sound.is_none() {
        let block = u64::from(block_bytes);
        found.remark(block, format!("a GUID partition table without a sound copy: {}", flaws.join("; ")));
    }
    !headers.is_empty()
}

/// Whether a classic table says that a GPT stands behind it.
pub(super) fn is_announced(view: &VolumeView<'_>) -> bool {
    protective_ends(view).next().is_some()
}

/// The headers that stand where one may be: first, last, and where others and the protective entry point to.
fn headers(view: &VolumeView<'_>, block: u64) -> Vec<GptHeader> {
    let Some(last) = (view.size_bytes() / block).checked_sub(1) else { return Vec::new() };
    let mut places: Vec<u64> = [1, last].into_iter().chain(protective_ends(view)).collect();
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    let mut next = 0;
    while let Some(lba) = places.get(next).copied() {
        next += 1;
        if lba == 0 || lba > last || !seen.insert(lba) || seen.len() > COPIES_MAX {
            continue;
        }
        let bytes = lba.checked_mul(block).and_then(|at| view.at(at, usize::try_from(block).unwrap_or(512)));
        let Some(header) = bytes.and_then(|bytes| header(&bytes, lba)) else { continue };
        let entries_blocks = header.entry_count.saturating_mul(header.entry_bytes).div_ceil(block);
        places.push(header.alternate_lba);
        // Behind the usable blocks stand the entries of the second copy, and behind these its header.
        places.push(header.last_usable_lba.saturating_add(entries_blocks).saturating_add(1));
        found.push(header);
    }
    found
}

/// Where the protective entry of a classic table ends: the last block of the disk that the table was made for.
fn protective_ends(view: &VolumeView<'_>) -> impl Iterator<Item = u64> {
    let sector = view.at(0, 512).unwrap_or_default();
    let entries = mbr::entries(&sector).unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| entry.kind == mbr::PROTECTIVE)
        .flat_map(|entry| [(entry.first + entry.blocks).saturating_sub(1), entry.blocks])
}

/// Reads the header; `None` without a signature.
fn header(bytes: &[u8], lba: u64) -> Option<GptHeader> {
    if !bytes.starts_with(SIGNATURE) {
        return None;
    }
    let long = |at: usize| le64(bytes, at).unwrap_or(0);
    let word = |at: usize| le32(bytes, at).unwrap_or(0);
    let length = word(12) as usize;
    let is_sealed = (HEADER_BYTES_MIN..=bytes.len()).contains(&length) && {
        let mut header = bytes[..length].to_vec();
        header[16..20].fill(0);
        crc32fast::hash(&header) == word(16)
    };
    let (entry_count, entry_bytes) = (u64::from(word(80)), u64::from(word(84)));
    let flaw = if !is_sealed {
        Some("has a wrong checksum")
    } else if long(24) != lba {
        Some("says that it stands elsewhere")
    } else if entry_count == 0 || entry_bytes < ENTRY_BYTES {
        Some("has entries of an impossible size")
    } else {
        None
    };
    Some(GptHeader {
        lba,
        alternate_lba: long(32),
        last_usable_lba: long(48),
        guid: Guid(array(bytes, 56).unwrap_or_default()),
        entries_lba: long(72),
        entry_count,
        entry_bytes,
        entries_checksum: word(88),
        flaw,
    })
}

/// Adds what the entries show; says why systems would not go by them.
fn entries(
    view: &VolumeView<'_>,
    block_bytes: u32,
    header: &GptHeader,
    is_first: bool,
    found: &mut Partitions,
) -> Option<&'static str> {
    let length = header.entry_count.checked_mul(header.entry_bytes).filter(|length| *length <= ENTRIES_BYTES_MAX);
    let at = header.entries_lba.checked_mul(u64::from(block_bytes));
    let Some(at) = at.filter(|at| *at < view.size_bytes()) else { return Some("has entries outside of the disk") };
    // What has an impossible length is read as any other table, as far as the disk goes.
    let usual = length.unwrap_or(ENTRY_BYTES * 128).max(ENTRY_BYTES).min(view.size_bytes() - at);
    let bytes = view.at(at, usize::try_from(usual).unwrap_or(0)).unwrap_or_default();
    let strides = [header.entry_bytes.clamp(ENTRY_BYTES, ENTRIES_BYTES_MAX), ENTRY_BYTES];
    let mut outside = false;
    for (index, stride) in strides.iter().enumerate() {
        if index > 0 && strides[0] == ENTRY_BYTES {
            break;
        }
        let stride = usize::try_from(*stride).unwrap_or(usize::MAX);
        for (entry, number) in bytes.chunks(stride).zip(1..) {
            let place = GptEntryPosition { number, header, is_first, block: u64::from(block_bytes) };
            outside |= !add(entry, &place, view.size_bytes(), found) && index == 0;
        }
    }
    if outside && header.flaw.is_none() {
        found.remark(at, format!("entries of the table at block {} lie outside of the disk", header.lba));
    }
    match length {
        None => Some("has more entries than are read"),
        Some(length) if length != bytes.len() as u64 => Some("has entries that cannot be read"),
        Some(_) if crc32fast::hash(&bytes) != header.entries_checksum => Some("has entries with a wrong checksum"),
        Some(_) => None,
    }
}

/// Which entry of which copy.
struct GptEntryPosition<'a> {
    number: u32,
    header: &'a GptHeader,
    is_first: bool,
    block: u64,
}

/// Whether the entry, if it is used, lies on the disk.
fn add(entry: &[u8], place: &GptEntryPosition<'_>, size_bytes: u64, found: &mut Partitions) -> bool {
    let Some(kind) = array::<16>(entry, 0).map(Guid).filter(|kind| !kind.is_nil()) else { return true };
    let (Some(first), Some(last)) = (le64(entry, 32), le64(entry, 40)) else { return true };
    found.partition_guids.extend(array(entry, 16).map(|guid| Guid(guid).to_string()));
    let number = place.number;
    let (block, lba) = (place.block, place.header.lba);
    let name = if place.is_first {
        format!("partition {number}")
    } else {
        format!("partition {number} (table at block {lba})")
    };
    let offset = first.saturating_mul(block);
    let is_inside = first <= last && last.saturating_add(1).saturating_mul(block) <= size_bytes;
    let blocks = if first <= last { (last - first).saturating_add(1) } else { u64::MAX };
    let kind = of_partition_type(&kind.to_string());
    let slot = PartitionSlot { place: name, offset, size_bytes: blocks.saturating_mul(block), kind };
    if offset < size_bytes {
        found.add(slot, size_bytes);
    } else if kind.is_some() {
        // Its type still says what the disk is part of.
        found.slots.push(PartitionSlot { offset: size_bytes, size_bytes: 0, ..slot });
    }
    is_inside
}
