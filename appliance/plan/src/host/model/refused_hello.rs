//! A hello that did not count.

use jiff::Timestamp;

/// A hello that the appliance refused: its token has expired, or its boot was not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHello {
    pub attempt: u64,
    pub at: Timestamp,
    /// Why, in words.
    pub why: String,
}
