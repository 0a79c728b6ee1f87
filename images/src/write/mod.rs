//! The safe disk writer. A disk becomes bootable only after everything else on it is proven.
//!
//! ```text
//! first chunk of the image fits this disk?  -> no: nothing was changed
//! old tables and signatures zeroed, read back
//! all but first and last MiB of the image written (zero runs by the device's zeroing)
//! the stream's length and digest match
//! flush, read back by a fresh descriptor past the page cache: the raw image's digest matches
//! last MiB + backup table, then first MiB (table completed for the disk) written, read back
//! ```
//!
//! Any failure after the first change zeroes both tables again. The module knows no plan, no
//! network and no report: [`Control`] is how its caller watches, pauses and stops it.

mod control;
mod disk;
pub mod gpt;
mod guid;
mod image;
mod layout;
pub mod mbr;
pub mod metadata;
pub mod partition;
mod readback;
pub mod signature;
mod stream;
mod sys;
mod table;

pub use control::{Aborted, Control, Phase, Progress, Unattended};
pub use disk::{ALIGNMENT_BYTES, AlignedBuffer, Disk, DiskReader};
pub use guid::{Guid, ParseGuidError};
pub use image::{CompletedTable, DiskState, WriteError, WriteFailure, WriteSpec, Written, write_image};
pub use metadata::{ClearError, Cleared};
pub use signature::Signature;
pub use stream::SourceError;
pub use sys::{Device, Inspected, OpenError};
pub use table::{ReadTableError, read_table};
