//! Which disk is written. Nothing is destroyed without a plan that names the disk by a stable
//! identity, so this module chooses one disk or says, for every disk, why not.
//!
//! - With hints, exactly one disk must match all of them.
//! - Without hints it is the smallest disk of at least [`SIZE_BYTES_MIN`], ties by by-path order. A disk that is removable,
//!   on USB or behind a network is not among them ([`set_apart`]): its owner has to name it.
//! - A disk without a unique identity is chosen only when the owner names it by its
//!   `/dev/disk/by-path/` name.

mod attachment;
mod cleaning;
#[cfg(test)]
mod edges;
mod hints;
mod identity;
mod mark;
mod proof;
mod select;
#[cfg(test)]
mod table;

pub use attachment::{names_one, set_apart};
pub use cleaning::{
    Cleaning, CleaningMethod, CleaningPolicies, CleaningPolicy, CleaningScope, NextOwner, all_there, holders,
    identity_of, is_mark_of, is_named_by, plan_cleaning, record_of,
};
pub use firesteel_facts::{DiskIdentity, Grade, size_text};
pub use hints::{mismatch, names_kernel_device};
pub use identity::{NoIdentity, OwnerNamedPlaces, full_wwn, identity};
pub(crate) use identity::{fits, unite};
pub use mark::InstallationMark;
pub use proof::{CleaningProof, ErasureShortfall, claims, describe_proof, proof, shortfall};
pub use select::{DiskChoice, DiskVerdict, NoDisk, SIZE_BYTES_MIN, select_disk, verdicts};
