//! What stands on a disk that must not be wiped by mistake: filesystems and volumes of clusters, pools and
//! arrays of other hosts, with the owner's name where the format has one. Pure: the first and last bytes
//! of a disk or partition in, findings out.
//!
//! Each recogniser reads the format's own superblock, never a name or a partition type alone; a partition
//! type counts beside it, because GPFS has no published superblock. [`scan`] reads for them.

mod cluster;
mod lvm;
mod md;
mod scan;
mod zfs;

use std::fmt;

use super::array;
use crate::inspect::field;

pub use scan::{Found, Looked, PARTITIONS_MAX, Scan, scan};

/// How much of the start of a disk or partition is looked at: VMFS keeps its name behind 2 MiB.
pub const HEAD_BYTES: usize = (2 << 20) + (64 << 10);
/// How much of the end: ZFS labels take 512 KiB behind a boundary of 256 KiB.
pub const TAIL_BYTES: usize = 1 << 20;

/// The first and last bytes of a disk or partition.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// At most [`HEAD_BYTES`] are looked at.
    pub head: &'a [u8],
    /// The last bytes, [`TAIL_BYTES`] where there are so many.
    pub tail: &'a [u8],
    pub size_bytes: u64,
}

impl<'a> View<'a> {
    /// `length` bytes at a distance from the start, wherever they are in view.
    fn at(&self, offset: u64, length: usize) -> Option<&'a [u8]> {
        let slice = |bytes: &'a [u8], at: u64| {
            let at = usize::try_from(at).ok()?;
            bytes.get(at..at.checked_add(length)?)
        };
        slice(self.head, offset).or_else(|| {
            let base = self.size_bytes.checked_sub(self.tail.len() as u64)?;
            slice(self.tail, offset.checked_sub(base)?)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Vmfs,
    Gfs2,
    Ocfs2,
    Gpfs,
    Ceph,
    Zfs,
    Lvm,
    Md,
    Bcache,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vmfs => "VMFS",
            Self::Gfs2 => "GFS2",
            Self::Ocfs2 => "OCFS2",
            Self::Gpfs => "GPFS",
            Self::Ceph => "Ceph",
            Self::Zfs => "ZFS",
            Self::Lvm => "LVM",
            Self::Md => "md RAID",
            Self::Bcache => "bcache",
        })
    }
}

/// Whom the format names as its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The format has no such field, or it is empty.
    Unnamed,
    Host(String),
    /// Several hosts by a lock manager, in its words: `lock_dlm alpha:data`.
    Shared(String),
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub kind: Kind,
    /// Volume, pool or array, as the format names it; empty where it does not.
    pub name: String,
    pub owner: Owner,
    /// Where its superblock stands, from the start of the disk or partition.
    pub offset: u64,
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        match &self.owner {
            Owner::Unnamed => Ok(()),
            Owner::Host(host) => write!(f, " of host {host:?}"),
            Owner::Shared(by) => write!(f, " shared by {by}"),
        }
    }
}

/// All that is recognised, one of each kind, name and owner.
#[must_use]
pub fn holdings(view: &View<'_>) -> Vec<Holding> {
    let head = &view.head[..view.head.len().min(HEAD_BYTES)];
    let view = View { head, ..*view };
    let mut found: Vec<Holding> = Vec::new();
    let each = [
        cluster::vmfs(&view),
        cluster::gfs2(&view),
        cluster::ocfs2(&view),
        cluster::ceph(&view),
        cluster::bcache(&view),
        zfs::find(&view),
        lvm::find(&view),
        md::find(&view),
    ];
    for holding in each.into_iter().flatten() {
        found.push(holding);
    }
    found
}

/// What a partition's type says: its GUID as text, in either case.
#[must_use]
pub fn of_partition_type(guid: &str) -> Option<Kind> {
    let kinds = [
        ("aa31e02a-400f-11db-9590-000c2911d1b8", Kind::Vmfs),
        ("37affc90-ef7d-4e96-91c3-2d7ae055b174", Kind::Gpfs),
        ("4fbd7e29-9d25-41b8-afd0-062c0ceff05d", Kind::Ceph),
        ("4fbd7e29-9d25-41b8-afd0-5ec00ceff05d", Kind::Ceph),
        ("4fbd7e29-8ae0-4982-bf9d-5a8d867af560", Kind::Ceph),
        ("45b0969e-9b03-4f30-b4c6-b4b80ceff106", Kind::Ceph),
        ("cafecafe-9b03-4f30-b4c6-b4b80ceff106", Kind::Ceph),
        ("6a898cc3-1dd2-11b2-99a6-080020736631", Kind::Zfs),
        ("516e7cba-6ecf-11d6-8ff8-00022d09712b", Kind::Zfs),
    ];
    kinds.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(guid)).map(|(_, kind)| kind)
}

/// Why a wipe stops at this, or `None` where it may go on. `own_names` are the names that this host had
/// under its last system: what it made itself is its own.
#[must_use]
pub fn objection(holding: &Holding, own_names: &[String]) -> Option<String> {
    let is_own = |host: &str| {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        own_names.iter().any(|own| !own.is_empty() && short(own) == short(host))
    };
    let is_made_for_many =
        matches!(holding.kind, Kind::Vmfs | Kind::Gfs2 | Kind::Ocfs2 | Kind::Gpfs | Kind::Ceph | Kind::Zfs);
    let is_foreign = match &holding.owner {
        Owner::Unnamed => false,
        Owner::Host(host) => !is_own(host),
        Owner::Shared(_) => true,
    };
    (is_made_for_many || is_foreign).then(|| format!("it holds {holding}"))
}

/// Bytes up to the first zero, as plain text for people.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    field(&String::from_utf8_lossy(&bytes[..end]))
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

/// Looks at any bytes. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    for size_bytes in [0, bytes.len() as u64, 1 << 40, u64::MAX] {
        let holdings = holdings(&View { head: bytes, tail: bytes, size_bytes });
        assert!(holdings.len() <= 8);
        for holding in holdings {
            let text = holding.to_string();
            assert!(text.len() < 4096 && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A disk in memory: zeros but for what is put.
    pub(super) fn disk(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for (at, part) in parts {
            bytes[*at..*at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    pub(super) fn look(bytes: &[u8]) -> Vec<Holding> {
        let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        holdings(&View { head: bytes, tail, size_bytes: bytes.len() as u64 })
    }

    #[test]
    fn clusters_and_strangers_stop_a_wipe_and_a_hosts_own_volumes_do_not() {
        let holding = |kind, owner| Holding { kind, name: "v".into(), owner, offset: 0 };
        let own = ["node-1.example.org".to_owned(), String::new()];
        let host = |name: &str| Owner::Host(name.to_owned());
        let shared = || Owner::Shared("lock_dlm a:b".into());
        for (kind, owner, stops) in [
            (Kind::Vmfs, Owner::Unnamed, true),
            (Kind::Ceph, Owner::Unnamed, true),
            (Kind::Zfs, host("node-1"), true),
            (Kind::Lvm, Owner::Unnamed, false),
            (Kind::Lvm, host("NODE-1"), false),
            (Kind::Lvm, host("node-2"), true),
            (Kind::Lvm, shared(), true),
            (Kind::Md, Owner::Unnamed, false),
            (Kind::Md, host("other"), true),
            (Kind::Bcache, Owner::Unnamed, false),
        ] {
            let holding = holding(kind, owner);
            assert_eq!(objection(&holding, &own).is_some(), stops, "{holding}");
        }
        let text = objection(&holding(Kind::Lvm, host("node-2")), &own);
        assert_eq!(text.as_deref(), Some("it holds LVM \"v\" of host \"node-2\""));
    }

    #[test]
    fn partition_types_are_known_in_either_case() {
        assert_eq!(of_partition_type("AA31E02A-400F-11DB-9590-000C2911D1B8"), Some(Kind::Vmfs));
        assert_eq!(of_partition_type("37affc90-ef7d-4e96-91c3-2d7ae055b174"), Some(Kind::Gpfs));
        assert_eq!(of_partition_type("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"), None);
    }

    #[test]
    fn an_empty_disk_holds_nothing() {
        assert_eq!(look(&vec![0; 4 << 20]), []);
        assert_eq!(look(&[]), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..70_000)) {
            check(&bytes);
        }
    }
}
