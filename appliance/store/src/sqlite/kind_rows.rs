//! Rows of `kind`: each kind with its tally.

use super::faults::{in_words, is_structural};
use super::kind_accounts::KindTally;
use crate::damage::DamageBook;
use crate::types::GroupResource;

/// Namespace and name.
pub(crate) type Place = (String, String);

/// A row of `kind`.
pub(super) struct KindRow {
    pub(super) id: i64,
    pub(super) kind: GroupResource,
    pub(super) tally: KindTally,
    /// The place up to which objects are counted; all are where it is none.
    pub(super) counted_to: Option<Place>,
}

impl KindRow {
    pub(super) fn counts(&self, namespace: &str, name: &str) -> bool {
        self.counted_to.as_ref().is_none_or(|to| (namespace, name) <= (to.0.as_str(), to.1.as_str()))
    }
}

/// What was read; nothing where the file's structure is damaged, which is noted.
pub(super) fn if_whole<T>(read: rusqlite::Result<T>, book: &DamageBook) -> rusqlite::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_structural(&error) => {
            book.structure(&in_words(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
