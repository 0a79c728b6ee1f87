//! Volumes that stand on regions: the logical volumes of a group, and arrays. Pure: what labels say in, volumes out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::label::{ArrayMember, PhysicalVolume};
use super::lvm::{LogicalVolume, LvmSegment, SegmentKind, VolumeGroup};
use super::raid_layout::{RaidLevel, Stripes};
use super::thin::Thin;
use super::volume::{BlockVolume, VolumeLayout, VolumePiece};

/// Volumes of volumes of one group: a raid volume on its parts, and one more.
const DEPTH_MAX: u32 = 4;

/// A label and the region that it stands on.
#[derive(Debug)]
pub(super) struct PlacedLabel<T> {
    /// The region, for people.
    pub(super) place: String,
    pub(super) volume: Rc<BlockVolume>,
    pub(super) label: T,
}

/// A volume that was put together.
#[derive(Debug)]
pub(super) struct Assembled {
    /// Where it is, such as `volume "vg/data"` or `array "nas:0"`.
    pub(super) place: String,
    pub(super) volume: Rc<BlockVolume>,
}

/// All volumes of what was found, and the disks of which a part of a volume is elsewhere.
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    pub(super) volumes: Vec<Assembled>,
    pub(super) partial: BTreeSet<usize>,
    pub(super) unclear: Vec<UnreadableVolume>,
    /// PVs whose group no PV here describes, as indexes.
    pub(super) undescribed: Vec<usize>,
}

/// A volume that cannot be looked into.
#[derive(Debug)]
pub(super) struct UnreadableVolume {
    pub(super) place: String,
    pub(super) why: String,
    pub(super) disks: BTreeSet<usize>,
}

/// Puts together what the labels describe.
pub(super) fn assemble(physical: &[PlacedLabel<PhysicalVolume>], members: &[PlacedLabel<ArrayMember>]) -> Assemblies {
    let mut all = Assemblies::default();
    groups(physical, &mut all);
    arrays(members, &mut all);
    all
}

fn groups(physical: &[PlacedLabel<PhysicalVolume>], all: &mut Assemblies) {
    // The newest text of each group that says where its volumes lie.
    let mut newest: BTreeMap<&str, &Rc<VolumeGroup>> = BTreeMap::new();
    for group in physical.iter().flat_map(|placed| &placed.label.groups) {
        let known = newest.entry(&group.id).or_insert(group);
        if group.version > known.version {
            *known = group;
        }
    }
    let described: BTreeSet<&str> =
        newest.values().flat_map(|group| &group.physical_volumes).map(|member| member.uuid.as_str()).collect();
    for (index, placed) in physical.iter().enumerate() {
        if placed.label.is_described_elsewhere && !described.contains(placed.label.uuid.as_str()) {
            all.undescribed.push(index);
            all.partial.extend(placed.volume.disks());
        }
    }
    for group in newest.into_values() {
        let mut parts = BTreeMap::new();
        let mut is_partial = false;
        for member in &group.physical_volumes {
            match physical.iter().find(|placed| placed.label.uuid == member.uuid) {
                Some(placed) => {
                    parts.insert(member.name.as_str(), (&placed.volume, member.data_offset));
                }
                None => is_partial = true,
            }
        }
        if is_partial {
            parts.values().for_each(|(volume, _)| all.partial.extend(volume.disks()));
        }
        let group = PresentVolumes { group, parts };
        for volume in &group.group.volumes {
            let place = format!("volume {:?}", format!("{}/{}", group.group.name, volume.name));
            all.unclear.extend(group.opaque(volume, &place));
            all.volumes.extend(group.volume(&volume.name, 0).map(|volume| Assembled { place, volume }));
        }
    }
}

/// A group with those of its PVs that are here.
struct PresentVolumes<'a> {
    group: &'a VolumeGroup,
    /// The parts by their names in the text: region, and where its extents begin.
    parts: BTreeMap<&'a str, (&'a Rc<BlockVolume>, u64)>,
}

impl PresentVolumes<'_> {
    fn opaque(&self, volume: &LogicalVolume, place: &str) -> Option<UnreadableVolume> {
        let kind = volume
            .segments
            .iter()
            .find_map(|segment| if let SegmentKind::Opaque(kind) = &segment.kind { Some(kind) } else { None })?;
        let disks = self.parts.values().flat_map(|(volume, _)| volume.disks()).collect();
        let why = format!("a volume of the type {kind:?}, which is not looked into");
        Some(UnreadableVolume { place: place.to_owned(), why, disks })
    }

    /// A volume of a thin pool, with the pool's volumes for metadata and data.
    fn thin(&self, pool: &str, device: u64, depth: u32) -> Option<Rc<BlockVolume>> {
        let pool = self.group.volumes.iter().find(|volume| volume.name == pool)?;
        let (metadata, data) = pool.segments.iter().find_map(|segment| {
            if let SegmentKind::ThinPool { metadata, data } = &segment.kind { Some((metadata, data)) } else { None }
        })?;
        let (metadata, data) = (self.volume(metadata, depth + 1)?, self.volume(data, depth + 1)?);
        Some(Rc::new(BlockVolume { size_bytes: u64::MAX, layout: VolumeLayout::Thin(Thin { metadata, data, device }) }))
    }

    fn volume(&self, name: &str, depth: u32) -> Option<Rc<BlockVolume>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let volume = self.group.volumes.iter().find(|volume| volume.name == name)?;
        let mut pieces = Vec::new();
        let mut size_bytes = 0;
        for segment in &volume.segments {
            let at = segment.first_extent.checked_mul(self.group.extent_bytes)?;
            let bytes = segment.extents.checked_mul(self.group.extent_bytes)?;
            size_bytes = size_bytes.max(at.checked_add(bytes)?);
            pieces.extend(self.piece(segment, at, bytes, depth));
        }
        pieces.sort_by_key(|piece: &VolumePiece| piece.at);
        (!pieces.is_empty()).then(|| Rc::new(BlockVolume { size_bytes, layout: VolumeLayout::Pieces(pieces) }))
    }

    fn piece(&self, segment: &LvmSegment, at: u64, size_bytes: u64, depth: u32) -> Option<VolumePiece> {
        match &segment.kind {
            SegmentKind::Striped { stripes, .. } if stripes.len() == 1 => {
                let (name, first) = stripes.first()?;
                let (of, offset) = self.extent(name, *first)?;
                Some(VolumePiece { at, size_bytes, of: Rc::clone(of), offset })
            }
            SegmentKind::Striped { chunk_bytes, stripes } => {
                let bytes = size_bytes.checked_div(stripes.len() as u64)?;
                let members = stripes.iter().map(|(name, first)| {
                    let (of, offset) = self.extent(name, *first)?;
                    Some(BlockVolume::part(of, offset, bytes))
                });
                striped(RaidLevel::Raid0, *chunk_bytes, members.collect(), at, size_bytes)
            }
            SegmentKind::Raid { kind, chunk_bytes, members } => {
                let members: Vec<_> = members.iter().map(|name| self.volume(name, depth + 1)).collect();
                match raid_level(kind) {
                    Some(level) => striped(level, *chunk_bytes, members, at, size_bytes),
                    None => {
                        members.into_iter().flatten().next().map(|of| VolumePiece { at, size_bytes, of, offset: 0 })
                    }
                }
            }
            SegmentKind::Thin { pool, device } => {
                self.thin(pool, *device, depth).map(|of| VolumePiece { at, size_bytes, of, offset: 0 })
            }
            SegmentKind::ThinPool { .. } | SegmentKind::Indirect | SegmentKind::Opaque(_) => None,
        }
    }

    fn extent(&self, name: &str, extent: u64) -> Option<(&Rc<BlockVolume>, u64)> {
        let (volume, data_offset) = self.parts.get(name)?;
        Some((volume, data_offset.checked_add(extent.checked_mul(self.group.extent_bytes)?)?))
    }
}

fn striped(
    level: RaidLevel,
    chunk_bytes: u64,
    members: Vec<Option<Rc<BlockVolume>>>,
    at: u64,
    size_bytes: u64,
) -> Option<VolumePiece> {
    members.iter().any(Option::is_some).then(|| {
        let layout = VolumeLayout::Striped(Stripes { level, chunk_bytes, members });
        VolumePiece { at, size_bytes, of: Rc::new(BlockVolume { size_bytes, layout }), offset: 0 }
    })
}

/// Reads lvm2's name of a level (`raid5_ls`, `raid6_zr`). `None` for mirrors, whose members each hold all.
fn raid_level(kind: &str) -> Option<RaidLevel> {
    let (level, layout) = kind.split_once('_').unwrap_or((kind, ""));
    match level {
        "raid0" => Some(RaidLevel::Raid0),
        "raid4" => Some(RaidLevel::Raid4),
        "raid5" => Some(RaidLevel::Raid5(match layout {
            "la" => 0,
            "ra" => 1,
            "rs" => 3,
            "n" => 5,
            _ => 2,
        })),
        // lvm2's own three of raid6 are others than md's: where the first data of a stripe lies is the same for two.
        "raid6" => Some(RaidLevel::Raid6(match layout {
            "zr" => 1,
            "nr" => 0,
            _ => 2,
        })),
        "raid10" => Some(RaidLevel::Raid10(2)),
        _ => None,
    }
}

fn arrays(members: &[PlacedLabel<ArrayMember>], all: &mut Assemblies) {
    let mut sets: BTreeMap<[u8; 16], Vec<&PlacedLabel<ArrayMember>>> = BTreeMap::new();
    for placed in members {
        sets.entry(placed.label.uuid).or_default().push(placed);
    }
    for set in sets.into_values() {
        let Some(first) = set.first() else { continue };
        let label = &first.label;
        let count = label.members as usize;
        let mut roles: Vec<Option<Rc<BlockVolume>>> = vec![None; count];
        for placed in &set {
            let role = placed.label.role.and_then(|role| usize::try_from(role).ok());
            if let Some(slot) = role.and_then(|role| roles.get_mut(role)) {
                *slot = Some(BlockVolume::part(&placed.volume, placed.label.data_offset, placed.label.data_bytes));
            }
        }
        if roles.iter().any(Option::is_none) && label.level != 1 {
            set.iter().for_each(|placed| all.partial.extend(placed.volume.disks()));
        }
        let place = format!("array {:?}", label.name);
        let volumes = array(label, roles).into_iter();
        all.volumes.extend(volumes.map(|volume| Assembled { place: place.clone(), volume }));
    }
}

/// The array; of a mirror the copy on each member.
fn array(label: &ArrayMember, roles: Vec<Option<Rc<BlockVolume>>>) -> Vec<Rc<BlockVolume>> {
    if let Some(level) = RaidLevel::of_md(label.level, label.layout) {
        let known: Vec<u64> = roles.iter().flatten().map(|member| member.size_bytes).collect();
        // One that is not here is as large as another.
        let usual = known.first().copied().unwrap_or(0);
        let sizes: Vec<u64> = roles.iter().map(|member| member.as_ref().map_or(usual, |one| one.size_bytes)).collect();
        let size_bytes = level.size_bytes(&sizes, label.chunk_bytes);
        let stripes = Stripes { level, chunk_bytes: label.chunk_bytes, members: roles };
        return vec![Rc::new(BlockVolume { size_bytes, layout: VolumeLayout::Striped(stripes) })];
    }
    if label.level != -1 {
        return roles.into_iter().flatten().collect();
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for member in roles {
        // Where the next one begins is not known without it.
        let Some(member) = member else { break };
        let size_bytes = member.size_bytes;
        pieces.push(VolumePiece { at, size_bytes, of: member, offset: 0 });
        at += size_bytes;
    }
    if pieces.is_empty() {
        return Vec::new();
    }
    vec![Rc::new(BlockVolume { size_bytes: at, layout: VolumeLayout::Pieces(pieces) })]
}
