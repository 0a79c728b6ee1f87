//! Backups: the appliance's objects as of one revision, in one file, and a data folder made of it.
//!
//! ```text
//!   firesteel backup FILE ──► GET /firesteel.dev/backup ──► snapshot of the store ──► stream, digest
//!   firesteel restore FILE ──► staging folder beside DIR: database, keys, images ──► one rename
//! ```
//!
//! What is in a backup is what cannot be had again: the objects. Images are fetched again, leases are
//! asked for again by who holds them. Private keys are not in it, only their digests: whoever may
//! fetch a backup shall not get by it what signs for the appliance, and a file that is copied about
//! shall not hold what opens the Secrets in it. [`restore`] takes the keys from where they are kept
//! and compares them with the digests.

mod folder;
pub mod format;
pub mod keys;
pub mod restore;
pub mod serve;

pub use format::{BackupFormatError, BackupHeader};
pub use restore::{RestoreKeySource, RestoreOptions, RestoreReport, restore};
pub use serve::Backups;
