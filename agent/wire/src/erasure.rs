//! What the receipt of an erased disk says: which method with which grade, what was tried before, what was read back,
//! and what could not be verified.

pub use firesteel_facts::Grade;

use firesteel_facts::DiskIdentity;
use serde::{Deserialize, Serialize};

/// How much of a disk is to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasurePolicy {
    /// Partition tables and signatures; data stays.
    Metadata,
    /// The quickest method that erases all of it; without a quick one a slow one, never less.
    Quick,
    /// The best grade that the drive can give, the quickest method of that grade first.
    Full,
}

impl ErasurePolicy {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// Whether a step's activity is a command by which a drive erases itself: nothing can interrupt it, and a reset or a
/// cut of the power could lock or break the drive. By the beginnings of the methods' names.
#[must_use]
pub fn cannot_stop(activity: &str) -> bool {
    ["secure-erase", "sanitiz", "format-"].iter().any(|beginning| activity.starts_with(beginning))
}

/// The evidence of one erased disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureEvidence {
    #[serde(with = "crate::disk_names")]
    pub disk: DiskIdentity,
    /// Device name in this boot, for people.
    pub device: String,
    /// The policy that the plan asked for.
    pub policy: ErasurePolicy,
    /// The method that led to the end, such as `sanitize-block` or `overwrite`.
    pub method: String,
    pub grade: Grade,
    /// What the drive itself says of it; its log in hexadecimal where it keeps one. Empty where the
    /// method is the kernel's.
    pub drive_log: Vec<String>,
    pub samples: Samples,
    /// Methods that were tried, in this order, with how each ended.
    pub tried: Vec<TriedMethod>,
    /// Methods that were not tried.
    pub left_out: Vec<LeftOut>,
    /// What a guard found and the owner overrode: `partition 3: VMFS "datastore1"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
    /// What could not be verified or was not reached, in words that a person reads.
    pub unverified: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedMethod {
    pub method: String,
    /// `done`, or why not.
    pub ended: String,
    /// Whether it reported success although the medium said otherwise.
    pub lied: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub method: String,
    pub why: String,
}

/// What was read from the medium before and after, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Sectors with data before: each must be another one now.
    pub told_before: u64,
    /// Sectors that held one repeated byte before: they prove something only where zeros are due.
    pub blank_before: u64,
    /// Sectors that held a canary of this erasure before.
    pub canaries: u64,
    /// Sectors that were read back, from the medium, past all caches of the kernel.
    pub read_back: u64,
    /// How many of these hold one repeated byte now.
    pub blank_after: u64,
}
