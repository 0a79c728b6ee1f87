//! How far an acquisition is.

/// Where an acquisition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquisitionStage {
    /// The number of others that are downloaded, or imported, before it. `done_bytes`: of it, so far.
    Waiting {
        ahead: u32,
        done_bytes: u64,
    },
    /// What an earlier process downloaded is read again, so that the digest is one of bytes that are on the disk.
    Rereading {
        done_bytes: u64,
        total_bytes: u64,
    },
    /// `done_bytes` counts what earlier attempts brought.
    Downloading {
        done_bytes: u64,
        total_bytes: Option<u64>,
    },
    Importing {
        source_bytes: u64,
        raw_bytes: u64,
    },
}
