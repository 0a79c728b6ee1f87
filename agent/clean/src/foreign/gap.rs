//! Why bytes of a disk or volume cannot be read.

use std::io;

/// Why bytes are not at hand.
#[derive(Debug)]
pub(super) enum VolumeReadError {
    /// The disk did not give them.
    Failed(io::Error),
    /// They are on a disk that this scan does not have, or behind the end.
    Elsewhere,
    /// The structures that say where they lie cannot be understood.
    Unclear(&'static str),
}
