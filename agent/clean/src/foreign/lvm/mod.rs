//! Physical volumes of LVM2 (lvm2, lib/format_text/layout.h): a label in one of the first four sectors, the PV's header
//! in it, the metadata areas wherever they lie, and in them the volume group as text.
//!
//! A label whose checksum is wrong is read all the same, and remarked on: lvm2 would not show it, and the disk is
//! another host's for all that.

mod group;
mod text;

use std::rc::Rc;

use super::label::{PhysicalVolume, RecognisedLabel, RegionLabels};
use super::{ContentKind, ContentOwner, VolumeView, array, le32, le64};

pub(super) use group::{LogicalVolume, LvmSegment, SegmentKind, VolumeGroup};

/// Areas that a header may list; lvm2 writes one or two.
const AREAS_MAX: usize = 8;
/// The largest text that is read; lvm2's own areas have 1 MiB where nothing else was asked for.
const TEXT_BYTES_MAX: u64 = 16 << 20;
const AREA_HEAD_BYTES: usize = 512;
const LABEL_BYTES: usize = 512;
const UUID_BYTES: usize = 32;

pub(super) fn find(view: &VolumeView<'_>, seen: &mut RegionLabels) {
    for sector in 0..4 {
        let offset = sector * LABEL_BYTES as u64;
        let Some(label) = view.at(offset, LABEL_BYTES) else { return };
        let (has_name, has_type) = (label.starts_with(b"LABELONE"), label.get(24..32) == Some(b"LVM2 001"));
        if !has_name && !has_type {
            continue;
        }
        let remarks = seen.remarks.len();
        if !(has_name && has_type) || le64(&label, 8) != Some(sector) || !is_sealed(&label) {
            seen.remark(offset, "an LVM label that is damaged");
        }
        let volume = read(view, &label, offset, seen);
        if volume.is_none() && seen.remarks.len() == remarks {
            seen.remark(offset, "an LVM label whose header cannot be read");
        }
        let groups = volume.as_ref().map(|volume| volume.groups.clone()).unwrap_or_default();
        seen.holdings.extend(holdings(&groups, offset));
        seen.physical_volumes.extend(volume);
    }
}

/// A PV that belongs to no group, or whose group cannot be read, is still a PV.
fn holdings(groups: &[Rc<VolumeGroup>], offset: u64) -> Vec<RecognisedLabel> {
    let mut found = Vec::new();
    for group in groups {
        let owner = group.owner.clone();
        found.push(RecognisedLabel { kind: ContentKind::Lvm, name: group.name.clone(), owner, offset });
        if let Some((kind, by)) = &group.cluster {
            found.push(RecognisedLabel {
                kind: *kind,
                name: group.name.clone(),
                owner: ContentOwner::Shared(by.clone()),
                offset,
            });
        }
    }
    if found.is_empty() {
        found.push(RecognisedLabel {
            kind: ContentKind::Lvm,
            name: String::new(),
            owner: ContentOwner::Unnamed,
            offset,
        });
    }
    found.dedup();
    found
}

/// lvm2's checksum: CRC-32 with a start of its own, and not inverted at the end.
fn checksum(parts: &[&[u8]]) -> u32 {
    const START: u32 = 0xf597_a6cf;
    let mut hasher = crc32fast::Hasher::new_with_initial(!START);
    parts.iter().for_each(|part| hasher.update(part));
    !hasher.finalize()
}

fn is_sealed(label: &[u8]) -> bool {
    label.get(20..).is_some_and(|checked| le32(label, 16) == Some(checksum(&[checked])))
}

fn read(view: &VolumeView<'_>, label: &[u8], offset: u64, seen: &mut RegionLabels) -> Option<PhysicalVolume> {
    // After the PV's UUID and size: data areas, a pair of zeros, metadata areas, a pair of zeros.
    let header = label.get(usize::try_from(le32(label, 20)?).ok()?..)?;
    let uuid = String::from_utf8_lossy(header.get(..UUID_BYTES)?).into_owned();
    let mut pairs = header.get(40..)?.chunks_exact(16).map_while(|pair| Some((le64(pair, 0)?, le64(pair, 8)?)));
    let data = pairs.by_ref().take(AREAS_MAX).take_while(|(offset, _)| *offset != 0).count();
    if data == AREAS_MAX {
        return None;
    }
    let areas: Vec<_> = pairs.take(AREAS_MAX).take_while(|(offset, _)| *offset != 0).collect();
    let mut volume = PhysicalVolume { uuid, groups: Vec::new(), is_described_elsewhere: areas.is_empty() };
    let mut reasons = Vec::new();
    for (at, size) in areas {
        match area(view, at, size) {
            Area::Text(group) => volume.groups.push(Rc::new(*group)),
            Area::Empty => {}
            Area::Ignored => volume.is_described_elsewhere = true,
            Area::Damaged(group, why) => {
                volume.groups.extend(group.map(|group| Rc::new(*group)));
                reasons.push(why);
            }
        }
    }
    let is_readable = volume.groups.iter().any(|group| group.is_whole);
    if !is_readable {
        reasons.into_iter().for_each(|why| seen.remark(offset, format!("an LVM label {why}")));
    }
    Some(volume)
}

/// A metadata area.
enum Area {
    Text(Box<VolumeGroup>),
    /// The PV is in no group.
    Empty,
    /// The group keeps its text on other PVs (`RAW_LOCN_IGNORED`).
    Ignored,
    /// Why it is not sound, with what could be read all the same.
    Damaged(Option<Box<VolumeGroup>>, &'static str),
}

fn area(view: &VolumeView<'_>, offset: u64, size: u64) -> Area {
    const UNREADABLE: Area = Area::Damaged(None, "whose metadata area cannot be read");
    let Some(head) = view.at(offset, AREA_HEAD_BYTES) else { return UNREADABLE };
    let is_sealed = le32(&head, 0) == head.get(4..).map(|checked| checksum(&[checked]));
    let is_head = head.get(4..24) == Some(b" LVM2 x[5A%r0N*>\x01\0\0\0") && le64(&head, 24) == Some(offset);
    let Some(location) = array::<24>(&head, 40).filter(|_| is_head) else { return UNREADABLE };
    if location == [0; 24] && is_sealed {
        return Area::Empty;
    }
    if le32(&location, 20) == Some(1) && is_sealed {
        return Area::Ignored;
    }
    // The text's place may be what was altered: nothing is taken on trust.
    let Some(bytes) = text_bytes(view, offset, size, &location) else { return UNREADABLE };
    let mut group = group::read(&String::from_utf8_lossy(&bytes));
    let is_text = le32(&location, 16) == Some(checksum(&[&bytes]));
    group.is_whole &= is_text && is_sealed;
    match (group.is_whole, group.name.is_empty()) {
        (true, _) => Area::Text(Box::new(group)),
        (false, true) => Area::Damaged(None, "without a text that can be read"),
        (false, false) => Area::Damaged(Some(Box::new(group)), "whose text is damaged"),
    }
}

/// The area is a ring behind its head: a text may go on at its start.
fn text_bytes(view: &VolumeView<'_>, offset: u64, size: u64, location: &[u8]) -> Option<Vec<u8>> {
    let (at, length) = (le64(location, 0)?, le64(location, 8)?);
    if at < AREA_HEAD_BYTES as u64 || at >= size || length == 0 || length > TEXT_BYTES_MAX {
        return None;
    }
    let first = length.min(size - at);
    let mut bytes = view.at(offset.checked_add(at)?, usize::try_from(first).ok()?)?;
    if first < length {
        let again = offset.checked_add(AREA_HEAD_BYTES as u64)?;
        bytes.extend(view.at(again, usize::try_from(length - first).ok()?)?);
    }
    Some(bytes)
}

#[cfg(test)]
pub(super) mod tests;
