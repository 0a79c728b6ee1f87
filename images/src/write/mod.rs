//! The safe disk writer. A disk becomes bootable only after everything else on it is proven.
//!
//! ```text
//! first chunk of the image fits this disk, and its partitions end within the image?  -> no: nothing was changed
//! old tables and signatures zeroed, read back
//! all but first and last MiB of the image written (zero runs by the device's zeroing)
//! the stream's length and digest match
//! flush, read back by a fresh descriptor past the page cache: the raw image's digest matches
//! last MiB + backup table, then first MiB (table completed for the disk) written, read back
//! ```
//!
//! Any failure after the first change zeroes both tables again. The module knows no plan, no
//! network and no report: `WriteControl` is how its caller watches, pauses and stops it.
//!
//! The readers of partition tables and signatures are pure, and imports use them too: of this module they are all that the
//! feature `import` compiles.

#[cfg(feature = "write")]
mod control;
#[cfg(feature = "write")]
mod disk;
#[cfg(feature = "write")]
mod error;
pub mod extent;
pub mod gpt;
#[cfg(feature = "write")]
mod image;
#[cfg(feature = "write")]
mod layout;
pub mod mbr;
#[cfg(feature = "write")]
pub mod metadata;
#[cfg(feature = "write")]
pub mod partition;
#[cfg(feature = "write")]
mod readback;
pub mod signature;
#[cfg(feature = "write")]
mod spec;
#[cfg(feature = "write")]
mod stream;
#[cfg(feature = "write")]
mod sys;
#[cfg(feature = "write")]
mod table;

#[cfg(feature = "write")]
pub use control::{Aborted, Unattended, WriteControl, WritePhase, WriteProgress};
#[cfg(feature = "write")]
pub use disk::{ALIGNMENT_BYTES, AlignedBuffer, DiskReader, WritableDisk};
#[cfg(feature = "write")]
pub use error::{DiskState, WriteError, WriteFailure};
pub use extent::{PartitionBeyondEnd, PartitionName};
#[cfg(feature = "write")]
pub use image::{CompletedTable, WriteEvidence, write_image};
#[cfg(feature = "write")]
pub use metadata::{ClearError, ClearedMetadata};
pub use signature::DiskSignature;
#[cfg(feature = "write")]
pub use spec::WriteSpec;
#[cfg(feature = "write")]
pub use stream::SourceError;
#[cfg(feature = "write")]
pub use sys::{DiskOpenError, ExclusiveDisk, Inspected};
#[cfg(feature = "write")]
pub use table::{ReadTableError, read_table};
