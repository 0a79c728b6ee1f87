//! The formats that are more than one host's ordinary data.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentKind {
    Vmfs,
    Vsan,
    Gfs2,
    Ocfs2,
    Gpfs,
    Ceph,
    Zfs,
    Ovirt,
    StorageSpaces,
    Asm,
    Drbd,
    Lvm,
    Md,
    Bcache,
    /// Dynamic disks of Windows.
    Ldm,
    /// Intel's firmware RAID.
    Imsm,
    /// SNIA's common RAID format.
    Ddf,
    /// A kind that only a newer agent knows.
    #[serde(other)]
    Unknown,
}

impl ContentKind {
    /// Whether the format is made to be used by several hosts, so that no single one owns what it finds.
    #[must_use]
    pub fn is_of_clusters(self) -> bool {
        match self {
            Self::Vmfs
            | Self::Vsan
            | Self::Gfs2
            | Self::Ocfs2
            | Self::Gpfs
            | Self::Ceph
            | Self::Zfs
            | Self::Ovirt
            | Self::StorageSpaces
            | Self::Asm
            | Self::Drbd
            | Self::Unknown => true,
            Self::Lvm | Self::Md | Self::Bcache | Self::Ldm | Self::Imsm | Self::Ddf => false,
        }
    }
}

impl fmt::Display for ContentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vmfs => "VMFS",
            Self::Vsan => "vSAN",
            Self::Gfs2 => "GFS2",
            Self::Ocfs2 => "OCFS2",
            Self::Gpfs => "GPFS",
            Self::Ceph => "Ceph",
            Self::Zfs => "ZFS",
            Self::Ovirt => "oVirt storage domain",
            Self::StorageSpaces => "Storage Spaces",
            Self::Asm => "Oracle ASM",
            Self::Drbd => "DRBD",
            Self::Lvm => "LVM",
            Self::Md => "md RAID",
            Self::Bcache => "bcache",
            Self::Ldm => "LDM (dynamic disk of Windows)",
            Self::Imsm => "Intel RAID (IMSM)",
            Self::Ddf => "DDF RAID",
            Self::Unknown => "a format that this version does not know",
        })
    }
}
