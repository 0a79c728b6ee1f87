//! The one judge of what is proven. Pure: it looks at receipts, and at the plan that they are to prove.
//!
//! ```text
//!   plan, promised files, firmware ─┐
//!   receipts of the plan ───────────┴─► judge_write ─► what is missing, by the check that found it; nothing: proven
//! ```
//!
//! The planner asks it before a host is provisioned, and no other place decides that. What disks show of being erased
//! is judged in [`crate::disk::proof`]. Each check has a name and looks at one thing, so that its test finds one that
//! is taken away.

mod boot;
mod erasure_request;
mod write;

pub use boot::{BootEvidence, unseen};
pub use erasure_request::{DiskWork, asks};
pub use write::{PlannedWrite, judge_write};

/// Something that is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProof {
    /// Name of the check that found it.
    pub check: &'static str,
    /// The missing proof in words, for people.
    pub text: String,
}

/// Puts what is missing into one line.
#[must_use]
pub fn missing_words(missing: &[MissingProof]) -> String {
    missing.iter().map(|missing| missing.text.as_str()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_stands_in_one_line() {
        let missing = ["no receipt", "another disk"].map(|text| MissingProof { check: "any", text: text.to_owned() });
        assert_eq!(missing_words(&missing), "no receipt; another disk");
        assert_eq!((missing_words(&missing[..1]), missing_words(&[])), ("no receipt".to_owned(), String::new()));
    }
}
