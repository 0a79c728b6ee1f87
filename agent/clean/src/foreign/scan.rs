//! Looks whole disks over: themselves, every partition of their tables, and every volume that stands on them. Reads
//! only.

use std::{collections::BTreeSet, rc::Rc};

use firesteel_contents::{DiskContents, OrdinaryContent, Unread};
use firesteel_images::write::signature;
use firesteel_sysfs::disks::KernelPartition;

use super::assemble::{PlacedLabel, assemble};
use super::label::{ArrayMember, PhysicalVolume, RecognisedLabel, RegionLabels, UnreadLabel};
use super::tables::{self, Partitions};
use super::volume::{BlockVolume, DiskSource, Disks, VolumeLayout};
use super::{ContentKind, ContentOwner, VolumeView, find_members, recognise};

/// Regions of one disk that are looked at.
pub(super) const REGIONS_MAX: usize = 1024;
/// Volumes on volumes: an array, a group on it, an array in a volume.
const ROUNDS_MAX: usize = 4;

/// A part of a disk, or a volume on it, that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedRegion {
    pub place: String,
    /// The offset from the start of the disk, in bytes; `None` for a volume that does not lie on it in one piece.
    pub offset: Option<u64>,
    pub size_bytes: u64,
}

/// What one disk holds, and all of it that was looked at. Not bounded: see [`DiskContents::bounded`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    pub contents: DiskContents,
    /// GUIDs of the partitions of all copies of its GPT, in lower case.
    pub partition_guids: Vec<String>,
    pub looked: Vec<ScannedRegion>,
    /// A part of a volume on it lies on disks that this scan did not have.
    pub is_partial: bool,
}

impl Scan {
    /// Returns why a part of the disk could not be read.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.contents.unread.iter().find(|unread| unread.failed).map(|unread| unread.why.as_str())
    }

    /// Remarks that parts of its volumes may lie on disks that could not be read, each with its name and why.
    pub fn remark_missing(&mut self, unreadable: &[(String, String)]) {
        if !self.is_partial {
            return;
        }
        self.contents.unread.extend(unreadable.iter().map(|(device, why)| {
            let why = format!("a volume on it may go on on {device}, which could not be read: {why}");
            Unread { place: "the disk".to_owned(), why, failed: false }
        }));
    }
}

/// Looks at one disk alone.
#[must_use]
pub fn scan(source: &DiskSource<'_>) -> Scan {
    scan_all(&[source]).pop().unwrap_or_default()
}

/// Looks at disks together, so that volumes that lie on several of them are seen. The answers are in the same order.
#[must_use]
pub fn scan_all(sources: &[&DiskSource<'_>]) -> Vec<Scan> {
    walk(sources, None)
}

/// Looks at the first of the disks. Of the others only what volumes of the first one go on there, and what of them
/// could not be read: what is missing may lie there.
#[must_use]
pub fn scan_beside(sources: &[&DiskSource<'_>]) -> Vec<Scan> {
    walk(sources, Some(0))
}

fn walk(sources: &[&DiskSource<'_>], only: Option<usize>) -> Vec<Scan> {
    let disks = Disks::new(sources);
    let mut walk = DiskScanner {
        disks: &disks,
        only,
        scans: vec![Scan::default(); sources.len()],
        known: vec![LabelPositions::default(); sources.len()],
        physical: Vec::new(),
        members: Vec::new(),
        assembled: BTreeSet::new(),
    };
    for (number, source) in sources.iter().enumerate() {
        let volume = Rc::new(BlockVolume { size_bytes: source.size_bytes, layout: VolumeLayout::Disk(number) });
        walk.region(&ScanTarget { place: "the disk".to_owned(), volume, kind: None, has_tables: true });
    }
    for round in 0..ROUNDS_MAX {
        if !walk.stand_on(round == 0) {
            break;
        }
    }
    walk.end()
}

/// One place to look at.
struct ScanTarget {
    place: String,
    volume: Rc<BlockVolume>,
    /// What the type of its partition says.
    kind: Option<ContentKind>,
    /// Systems look for partitions in it.
    has_tables: bool,
}

impl ScanTarget {
    fn holds<T>(&self, label: T) -> PlacedLabel<T> {
        PlacedLabel { place: self.place.clone(), volume: Rc::clone(&self.volume), label }
    }
}

/// Places of labels on a disk, by their offsets from its start: a label at the end of a partition may be seen as one
/// of the whole disk, which it is not.
#[derive(Clone, Debug, Default)]
struct LabelPositions {
    labels: BTreeSet<u64>,
    /// The remarks, each with the offset of its label where that may belong to another region.
    remarks: Vec<(Option<u64>, Unread)>,
}

struct DiskScanner<'a> {
    disks: &'a Disks<'a>,
    /// The only disk that is looked at whole; of what does not touch it, labels of members are enough.
    only: Option<usize>,
    scans: Vec<Scan>,
    known: Vec<LabelPositions>,
    physical: Vec<PlacedLabel<PhysicalVolume>>,
    members: Vec<PlacedLabel<ArrayMember>>,
    /// Places of volumes that were looked at.
    assembled: BTreeSet<String>,
}

impl DiskScanner<'_> {
    fn region(&mut self, region: &ScanTarget) {
        let numbers = region.volume.disks();
        if !self.record_scanned(region, &numbers) {
            return;
        }
        let view = VolumeView::new(self.disks, &region.volume);
        let is_whole = self.only.is_none_or(|only| numbers.contains(&only));
        let mut seen = RegionLabels::default();
        if is_whole {
            seen = recognise(&view);
        } else {
            find_members(&view, &mut seen);
        }
        let partitions = if region.has_tables { self.tables(&view, region, &numbers) } else { Partitions::default() };
        let names = if is_whole { plain_names(&view, &partitions) } else { Vec::new() };
        let by_type = region.kind.filter(|kind| !seen.holdings.iter().any(|holding| holding.kind == *kind));
        // A type without the superblock that belongs to it still says what the partition is part of.
        let by_type =
            by_type.map(|kind| RecognisedLabel { kind, name: String::new(), owner: ContentOwner::Unnamed, offset: 0 });
        let base = region.volume.place();
        for number in numbers {
            let Some(scan) = self.scans.get_mut(number) else { continue };
            let contents = &mut scan.contents;
            let holdings = seen.holdings.iter().chain(&by_type);
            contents.findings.extend(holdings.map(|holding| holding.finding(&region.place)));
            let plain = names.iter().map(|name| OrdinaryContent { place: region.place.clone(), name: name.clone() });
            contents.plain.extend(plain);
            if let Some(why) = view.failure() {
                contents.unread.push(Unread { place: region.place.clone(), why, failed: true });
            }
            if let Some(why) = view.unclear_reason() {
                contents.unread.push(Unread { place: region.place.clone(), why: why.to_owned(), failed: false });
            }
            let place = |offset: u64| base.map(|(_, at)| at.saturating_add(offset));
            let known = &mut self.known[number];
            known.labels.extend(seen.holdings.iter().filter_map(|holding| place(holding.offset)));
            let remarks = seen.remarks.iter().chain(&partitions.remarks);
            known.remarks.extend(remarks.map(|remark| {
                let label = place(remark.offset).filter(|_| remark.is_of_another);
                (label, unread_finding(&region.place, remark))
            }));
        }
        self.physical.extend(seen.physical_volumes.into_iter().map(|label| region.holds(label)));
        self.members.extend(seen.members.into_iter().map(|label| region.holds(label)));
        for slot in partitions.slots {
            let volume = BlockVolume::part(&region.volume, slot.offset, slot.size_bytes);
            let place = inner(&region.place, &slot.place);
            self.region(&ScanTarget { place, volume, kind: slot.kind, has_tables: false });
        }
    }

    /// Whether the region is still to be looked at: it counts for each of its disks.
    fn record_scanned(&mut self, region: &ScanTarget, numbers: &BTreeSet<usize>) -> bool {
        let mut may = true;
        for number in numbers {
            let Some(scan) = self.scans.get_mut(*number) else { continue };
            if scan.looked.len() >= REGIONS_MAX {
                may = false;
                let why = format!("more than {REGIONS_MAX} partitions and volumes");
                let unread = Unread { place: "the disk".to_owned(), why, failed: false };
                if !scan.contents.unread.contains(&unread) {
                    scan.contents.unread.push(unread);
                }
                continue;
            }
            let offset = region.volume.place().map(|(_, offset)| offset);
            let size_bytes = region.volume.size_bytes;
            scan.looked.push(ScannedRegion { place: region.place.clone(), offset, size_bytes });
        }
        may
    }

    fn tables(&mut self, view: &VolumeView<'_>, region: &ScanTarget, numbers: &BTreeSet<usize>) -> Partitions {
        let first = numbers.first().and_then(|number| self.disks.sources.get(*number));
        let block_bytes = first.map_or(512, |source| source.block_bytes);
        let own = |source: &&DiskSource<'_>| source.partitions.clone();
        let is_disk = matches!(region.volume.layout, VolumeLayout::Disk(_));
        let kernel: Vec<KernelPartition> = first.filter(|_| is_disk).map(own).unwrap_or_default();
        let found = tables::read(view, block_bytes, &kernel);
        for number in numbers {
            let Some(scan) = self.scans.get_mut(*number).filter(|_| is_disk) else { continue };
            scan.contents.guid.clone_from(&found.guid);
            scan.partition_guids.clone_from(&found.partition_guids);
        }
        found
    }

    /// Looks at the volumes that stand on what was found; whether there were new ones.
    fn stand_on(&mut self, is_first: bool) -> bool {
        let all = assemble(&self.physical, &self.members);
        for number in &all.partial {
            if let Some(scan) = self.scans.get_mut(*number) {
                scan.is_partial = true;
            }
        }
        if is_first {
            for index in all.undescribed {
                self.undescribed(index);
            }
        }
        for remark in all.unclear.into_iter().filter(|_| is_first) {
            let unread = Unread { place: remark.place, why: remark.why, failed: false };
            remark.disks.iter().for_each(|number| self.known[*number].remarks.push((None, unread.clone())));
        }
        let mut is_new = false;
        for volume in all.volumes {
            if self.assembled.insert(format!("{} {:?}", volume.place, volume.volume.disks())) {
                is_new = true;
                self.region(&ScanTarget { place: volume.place, volume: volume.volume, kind: None, has_tables: true });
            }
        }
        is_new
    }

    fn undescribed(&mut self, index: usize) {
        let Some(placed) = self.physical.get(index) else { return };
        for number in placed.volume.disks() {
            let why = "an LVM label whose volume group is described on no disk that is here".to_owned();
            let unread = Unread { place: placed.place.clone(), why, failed: false };
            self.known[number].remarks.push((None, unread));
        }
    }

    fn end(mut self) -> Vec<Scan> {
        for (scan, known) in self.scans.iter_mut().zip(self.known) {
            let is_unclear = |at: &Option<u64>| at.is_none_or(|at| !known.labels.contains(&at));
            let unclear = known.remarks.iter().filter(|(at, _)| is_unclear(at)).map(|(_, unread)| unread.clone());
            scan.contents.unread.extend(unclear);
            scan.contents.unread.dedup();
        }
        self.scans
    }
}

fn unread_finding(place: &str, remark: &UnreadLabel) -> Unread {
    Unread { place: place.to_owned(), why: remark.why.clone(), failed: false }
}

/// `partition 1` of the disk, `partition 1 of array "nas:0"`.
fn inner(of: &str, place: &str) -> String {
    if of == "the disk" { place.to_owned() } else { format!("{place} of {of}") }
}

/// Names of ordinary tables and filesystems, as blkid has them; what the guard recognises by itself is left out.
fn plain_names(view: &VolumeView<'_>, partitions: &Partitions) -> Vec<String> {
    const OWN: [&str; 10] = [
        "LVM2_member",
        "linux_raid_member",
        "zfs_member",
        "gfs2",
        "VMFS_volume",
        "ceph_bluestore",
        "bcache",
        "isw_raid_member",
        "ddf_raid_member",
        "unreadable",
    ];
    let mut found = signature::in_start(&view.start(signature::EDGE_BYTES));
    found.extend(signature::in_end(&view.end(signature::EDGE_BYTES), view.size_bytes()));
    for (offset, length) in signature::deep_places() {
        let name = view.at(offset, length).and_then(|bytes| signature::name_of_deep(offset, &bytes));
        found.extend(name.map(|name| signature::DiskSignature { name: name.to_owned(), offset }));
    }
    let tables = partitions.names.iter().map(|name| (*name).to_owned());
    let mut names: Vec<String> = tables.chain(found.into_iter().map(|found| found.name)).collect();
    names.retain(|name| !OWN.contains(&name.as_str()));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
