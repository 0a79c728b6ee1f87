//! What the text of a volume group says: whose it is, and where its logical volumes lie.

use super::super::{ContentKind, ContentOwner, text as plain};
use super::text::{LvmValue, Section, parse};

/// Volumes and segments of one group that are looked at.
const VOLUMES_MAX: usize = 1024;
const SEGMENTS_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
pub(in super::super) struct VolumeGroup {
    pub(in super::super) name: String,
    pub(in super::super) id: String,
    /// Counts its versions; the newest holds.
    pub(in super::super) version: u64,
    pub(in super::super) owner: ContentOwner,
    /// What the group's name or tags say of a cluster that uses it, in its words.
    pub(in super::super) cluster: Option<(ContentKind, String)>,
    pub(in super::super) extent_bytes: u64,
    pub(in super::super) physical_volumes: Vec<PhysicalVolumeRef>,
    pub(in super::super) volumes: Vec<LogicalVolume>,
    /// Whether it was read to its end, with the right checksums.
    pub(in super::super) is_whole: bool,
}

/// A PV as the text names it.
#[derive(Clone, Debug)]
pub(in super::super) struct PhysicalVolumeRef {
    /// The name of the physical volume, such as `pv0`.
    pub(in super::super) name: String,
    /// The UUID without hyphens, as in the PV's header.
    pub(in super::super) uuid: String,
    pub(in super::super) data_offset: u64,
}

#[derive(Clone, Debug)]
pub(in super::super) struct LogicalVolume {
    pub(in super::super) name: String,
    pub(in super::super) segments: Vec<LvmSegment>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct LvmSegment {
    pub(in super::super) first_extent: u64,
    pub(in super::super) extents: u64,
    pub(in super::super) kind: SegmentKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum SegmentKind {
    /// Names of PVs with their first extents; one is a linear segment.
    Striped {
        chunk_bytes: u64,
        stripes: Vec<(String, u64)>,
    },
    /// A RAID by lvm2's name of the type, with the names of the volumes that hold its data.
    Raid {
        kind: String,
        chunk_bytes: u64,
        members: Vec<String>,
    },
    /// A volume of a thin pool: its blocks lie wherever the pool's metadata says.
    Thin {
        pool: String,
        device: u64,
    },
    ThinPool {
        metadata: String,
        data: String,
    },
    /// A type that shows what other volumes of the group hold, which are looked at by themselves.
    Indirect,
    /// A type whose data cannot be read here.
    Opaque(String),
}

/// Reads the text; what cannot be read is left out.
pub(super) fn read(text: &str) -> VolumeGroup {
    let (root, is_whole) = parse(text);
    let Some(section) = root.sections.first() else { return VolumeGroup::default() };
    let extent_bytes = section.number("extent_size").unwrap_or(0).saturating_mul(512);
    let below = |name: &str| section.section(name).map(|found| found.sections.as_slice()).unwrap_or_default();
    let name = plain(section.name.as_bytes());
    VolumeGroup {
        cluster: cluster(&name, section),
        name,
        id: section.text("id").unwrap_or_default().to_owned(),
        version: section.number("seqno").unwrap_or(0),
        owner: owner(section),
        extent_bytes,
        physical_volumes: below("physical_volumes").iter().take(VOLUMES_MAX).map(member).collect(),
        volumes: below("logical_volumes").iter().take(VOLUMES_MAX).map(volume).collect(),
        is_whole: is_whole && section.text("id").is_some() && extent_bytes > 0,
    }
}

fn owner(section: &Section) -> ContentOwner {
    let said = |key: &str| section.text(key).map(|said| plain(said.as_bytes())).filter(|said| !said.is_empty());
    let is_clustered = section.values("status").iter().any(|flag| flag.as_text() == Some("CLUSTERED"));
    if let Some(lock) = said("lock_type").filter(|lock| lock != "none") {
        ContentOwner::Shared(format!("lvmlockd {lock}"))
    } else if is_clustered {
        ContentOwner::Shared("clvmd".to_owned())
    } else {
        said("system_id").map_or(ContentOwner::Unnamed, ContentOwner::Host)
    }
}

/// Ceph names its groups `ceph-…` and tags its volumes `ceph.…`; oVirt tags its storage domains.
fn cluster(name: &str, section: &Section) -> Option<(ContentKind, String)> {
    let volumes = section.section("logical_volumes").map(|volumes| volumes.sections.as_slice()).unwrap_or_default();
    let tags = std::iter::once(section).chain(volumes).flat_map(|one| one.values("tags"));
    let tags: Vec<&str> = tags.filter_map(LvmValue::as_text).collect();
    let with = |beginning: &str| tags.iter().find(|tag| tag.starts_with(beginning)).copied();
    if let Some(tag) = with("RHAT_storage_domain").or_else(|| with("MDT_")) {
        return Some((ContentKind::Ovirt, format!("a cluster, as its tag {} says", plain(tag.as_bytes()))));
    }
    if let Some(tag) = with("ceph.cluster_fsid=").or_else(|| with("ceph.")) {
        return Some((ContentKind::Ceph, format!("a cluster, as its tag {} says", plain(tag.as_bytes()))));
    }
    name.starts_with("ceph-").then(|| (ContentKind::Ceph, "a cluster, as its name says".to_owned()))
}

fn member(section: &Section) -> PhysicalVolumeRef {
    PhysicalVolumeRef {
        name: section.name.clone(),
        uuid: section.text("id").unwrap_or_default().replace('-', ""),
        data_offset: section.number("pe_start").unwrap_or(0).saturating_mul(512),
    }
}

fn volume(section: &Section) -> LogicalVolume {
    let segments = section.sections.iter().filter(|one| one.name.starts_with("segment")).take(SEGMENTS_MAX);
    LogicalVolume { name: plain(section.name.as_bytes()), segments: segments.map(segment).collect() }
}

fn segment(section: &Section) -> LvmSegment {
    let text = |key: &str| section.text(key).unwrap_or_default().to_owned();
    let chunk_bytes = section.number("stripe_size").unwrap_or(0).saturating_mul(512);
    let kind = section.text("type").unwrap_or_default();
    let kind = match kind {
        "striped" | "linear" => {
            let pairs = section.values("stripes").chunks_exact(2);
            let stripes = pairs.filter_map(|pair| Some((pair[0].as_text()?.to_owned(), pair[1].as_number()?)));
            SegmentKind::Striped { chunk_bytes, stripes: stripes.collect() }
        }
        "thin" => SegmentKind::Thin { pool: text("thin_pool"), device: section.number("device_id").unwrap_or(0) },
        "thin-pool" => SegmentKind::ThinPool { metadata: text("metadata"), data: text("pool") },
        raid if raid.starts_with("raid") => {
            // Pairs of volumes for metadata and data, or data alone.
            let named = |key: &str| section.values(key).iter().filter_map(LvmValue::as_text).collect::<Vec<_>>();
            let pairs = named("raids");
            let data =
                if pairs.is_empty() { named("raid0_lvs") } else { pairs.into_iter().skip(1).step_by(2).collect() };
            let members = data.into_iter().map(str::to_owned).collect();
            SegmentKind::Raid { kind: raid.to_owned(), chunk_bytes, members }
        }
        // Their origins, images and pools are volumes of the group.
        "cache" | "cache-pool" | "mirror" | "snapshot" | "writecache" | "error" | "zero" => SegmentKind::Indirect,
        other => SegmentKind::Opaque(plain(other.as_bytes())),
    };
    let first_extent = section.number("start_extent").unwrap_or(0);
    LvmSegment { first_extent, extents: section.number("extent_count").unwrap_or(0), kind }
}
