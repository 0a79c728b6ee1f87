//! What recognisers say of one region.

use std::fmt;

use firesteel_contents::Finding;

use super::{Kind, Owner, lvm::PhysicalVolume, md::ArrayMember};

/// A label or superblock that was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) kind: Kind,
    /// Volume, pool or array, as the format names it; empty where it does not.
    pub(super) name: String,
    pub(super) owner: Owner,
    /// Where its superblock stands, from the start of the region.
    pub(super) offset: u64,
}

/// A label that is there and cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    /// From the start of the region.
    pub(super) offset: u64,
    pub(super) why: String,
    /// It says that it belongs to another region, which may be one that begins elsewhere and ends here.
    pub(super) is_of_another: bool,
}

/// All of one region.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) holdings: Vec<Holding>,
    pub(super) remarks: Vec<Remark>,
    pub(super) physical_volumes: Vec<PhysicalVolume>,
    pub(super) members: Vec<ArrayMember>,
}

impl Seen {
    pub(super) fn remark(&mut self, offset: u64, why: impl Into<String>) {
        self.remarks.push(Remark { offset, why: why.into(), is_of_another: false });
    }
}

impl Holding {
    /// With its place, for people.
    pub(super) fn finding(&self, place: &str) -> Finding {
        Finding { place: place.to_owned(), kind: self.kind, name: self.name.clone(), owner: self.owner.clone() }
    }
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding("").fmt(f)
    }
}
