//! How the erasure of a drive ended: the evidence for its receipt, or why there is none.

use firesteel_wire::DiskIdentity;
use firesteel_wire::erasure::{ErasureEvidence, ErasurePolicy, Grade, LeftOut, Samples, TriedMethod};

/// A cleaned drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanedDrive {
    /// Name of the method; `sanitize` for one that was begun before this run.
    pub method: &'static str,
    pub grade: Grade,
    pub drive_log: String,
    pub samples: Samples,
    pub tried: Vec<TriedMethod>,
    pub left_out: Vec<LeftOut>,
    pub unverified: Vec<String>,
}

impl CleanedDrive {
    /// The receipt's content for one of the drive's disks, with what its owner overrode.
    #[must_use]
    pub fn evidence(
        &self,
        disk: &DiskIdentity,
        device: &str,
        policy: ErasurePolicy,
        overridden: Vec<String>,
    ) -> ErasureEvidence {
        let log = (!self.drive_log.is_empty()).then(|| self.drive_log.clone());
        ErasureEvidence {
            disk: disk.clone(),
            device: device.to_owned(),
            policy,
            method: self.method.to_owned(),
            grade: self.grade,
            drive_log: log.into_iter().collect(),
            samples: self.samples,
            tried: self.tried.clone(),
            left_out: self.left_out.clone(),
            overridden,
            unverified: self.unverified.clone(),
        }
    }
}

/// The drive is not proven to be clean.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotCleaned {
    pub why: String,
    pub tried: Vec<TriedMethod>,
    pub left_out: Vec<LeftOut>,
    /// Whether anything on a disk may have been changed.
    pub disk_changed: bool,
}
