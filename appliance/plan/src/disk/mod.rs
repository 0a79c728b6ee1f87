//! Which disk is written. Nothing is destroyed without a plan that names the disk by a stable
//! identity, so this module chooses one disk or says, for every disk, why not.
//!
//! - With hints, exactly one disk must match all of them.
//! - Without hints it is the smallest disk of at least [`SIZE_BYTES_MIN`], ties by by-path order.
//! - A disk without a unique identity is chosen only when the owner names it by its
//!   `/dev/disk/by-path/` name.

mod cleaning;
mod hints;
mod mark;
mod proof;
mod select;
#[cfg(test)]
mod table;

use serde::{Deserialize, Serialize};

pub use cleaning::{
    Cleaning, CleaningPolicies, CleaningPolicy, Method, NextOwner, Scope, all_there, holders, identity_of, is_mark_of,
    is_named_by, plan_cleaning, record_of,
};
pub use hints::{mismatch, names_kernel_device};
pub use mark::Mark;
pub use proof::{Cleaned, Grade, proof, shortfall, words};
pub use select::{DiskChoice, DiskVerdict, NoDisk, SIZE_BYTES_MIN, select_disk, verdicts};

/// What names one disk across boots: a WWN, or serial number with model and size. Every field that
/// is not empty must match before anything destructive runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskIdentity {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    pub size_bytes: u64,
    /// Only where the owner named a disk without identity by its path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
}

impl std::fmt::Display for DiskIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = [("model", &self.model), ("serial", &self.serial), ("wwn", &self.wwn), ("path", &self.by_path)];
        for (name, value) in named {
            if !value.is_empty() {
                write!(f, "{name} {value}, ")?;
            }
        }
        f.write_str(&size_text(self.size_bytes))
    }
}

/// `10.7 GB`, in powers of ten as disks are sold.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000_000) / 100_000_000;
    format!("{}.{} GB", tenths / 10, tenths % 10)
}
