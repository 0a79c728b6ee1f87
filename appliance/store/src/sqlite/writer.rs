//! What the writer keeps, and what comes to it.

use std::collections::BTreeSet;

use tokio::sync::oneshot;

use super::Database;
use super::faults::{in_words, is_structural};
use crate::damage::DamageBook;
use crate::error::{self, CommitError};
use crate::high_water::HighWater;
use crate::meter::{CommitTerms, Meter};
use crate::types::{GroupResource, Op, Revision, WritePrecondition};

#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) op: Op,
    pub(crate) guards: Vec<WritePrecondition>,
    pub(crate) terms: CommitTerms,
    pub(crate) answer: oneshot::Sender<Result<Revision, CommitError>>,
}

/// What is said of a failure of the database; where the file's structure is damaged that is noted.
pub(super) fn refusal(damages: &DamageBook, error: &rusqlite::Error) -> CommitError {
    let words = in_words(error);
    if error::disk_is_full(error) {
        return CommitError::Full(words);
    }
    if is_structural(error) {
        damages.structure(&words);
        return CommitError::Damaged(words);
    }
    CommitError::Database(words)
}

/// What the writer keeps beside the database.
pub(super) struct StoreWriter {
    pub(super) database: Database,
    pub(super) meter: Meter,
    pub(super) water: HighWater,
    /// Kinds whose histories may be too long.
    pub(super) grown: BTreeSet<GroupResource>,
    /// Values were sealed, and are of other lengths than the meter has.
    pub(super) resized: bool,
}
