//! Backups: the appliance's objects as of one revision in one file, and restoring such a file to a data folder.
//!
//! ```text
//!   firesteel backup FILE ──► GET /firesteel.dev/backup ──► snapshot of the store ──► stream, digest
//!   firesteel restore FILE ──► staging folder beside DIR: database, keys, images ──► one rename
//! ```
//!
//! A backup holds what cannot be had again: the objects. Images are fetched again, and clients ask for their leases
//! again. It holds only the digests of the private keys: a person who may fetch a backup must not get the keys that
//! sign for the appliance, and a copied file must not hold what opens the Secrets in it. [`restore`] takes the keys
//! from where they are kept and compares them with the digests.

mod folder;
pub mod format;
pub mod keys;
pub mod restore;
pub mod serve;

pub use format::{BackupFormatError, BackupHeader};
pub use restore::{RestoreKeySource, RestoreOptions, RestoreReport, restore};
pub use serve::Backups;
