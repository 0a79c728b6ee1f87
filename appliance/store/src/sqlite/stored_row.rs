//! A value as it lies in its row, and its checksum.
//!
//! The checksum is CRC-32 (IEEE 802.3) over key, revision, kind of the change, the revision before, whether it is
//! sealed, and the bytes as they lie there. It shows damage and not an attacker: who can write to the file can write
//! checksums, whatever their kind, as long as no secret is in them. It is kept in a table of its own, `sum`, so that no
//! page holds both.

use bytes::Bytes;
use crc32fast::Hasher;
use rusqlite::{OptionalExtension as _, Row, Transaction, params, types::ValueRef};

use super::faults::in_words;
use crate::damage::DamageCause;
use crate::seal::{KeyId, SealingKeys};
use crate::types::{ChangeKind, GroupResource, ObjectKey};

/// The columns of a row of `log`, under the name of that table in the query, that [`RowFound::of`] reads.
macro_rules! stored_columns {
    ($log:literal) => {
        concat!(
            $log,
            ".value, ",
            $log,
            ".sealed, ",
            $log,
            ".op, ",
            $log,
            ".previous, (SELECT s.sum FROM sum s WHERE s.revision = ",
            $log,
            ".revision), ",
            $log,
            ".revision > (SELECT value FROM meta WHERE key = 'unsummed')"
        )
    };
}
pub(super) use stored_columns;

/// A text of a row, as it lies there.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// What a row of `log` says beside its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowHead {
    pub(super) revision: i64,
    /// See [`code`].
    pub(super) op: i64,
    pub(super) previous: i64,
    pub(super) sealed: bool,
}

/// The checksum of a row without its value.
pub(super) fn head_checksum(key: &ObjectKey, head: RowHead) -> u32 {
    head_hasher(key, head).finalize()
}

/// The checksum of a value in its row.
pub(super) fn checksum(key: &ObjectKey, head: RowHead, value: &[u8]) -> u32 {
    let mut hasher = head_hasher(key, head);
    hasher.update(&[u8::from(head.sealed)]);
    hasher.update(value);
    hasher.finalize()
}

fn head_hasher(key: &ObjectKey, head: RowHead) -> Hasher {
    let mut hasher = Hasher::new();
    key_into(&mut hasher, &key.kind, &key.namespace, &key.name);
    for number in [head.revision, head.op, head.previous] {
        hasher.update(&number.to_le_bytes());
    }
    hasher
}

/// No two keys are the same bytes here.
pub(super) fn key_into(hasher: &mut Hasher, kind: &GroupResource, namespace: &str, name: &str) {
    for part in [&*kind.group, &*kind.resource, namespace, name] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
}

/// A value as it lies in its row.
#[derive(Debug)]
pub(super) struct SealedRow {
    value: Vec<u8>,
    sealed: bool,
    op: i64,
    previous: i64,
    sum: Option<i64>,
    /// Every row of its time has a checksum.
    is_due: bool,
}

/// What was found of a row of `log`.
#[derive(Debug)]
pub(super) enum RowFound {
    Row(SealedRow),
    /// There is none.
    Nothing,
    /// There is one, and SQLite does not give it as it should be.
    Unreadable(String),
}

impl RowFound {
    /// Reads the columns of `stored_columns`, the first of which is at this place. The row is not there where the query
    /// joined nothing to it.
    pub(super) fn of(row: &Row<'_>, column: usize) -> Self {
        match row.get_ref(column) {
            Ok(ValueRef::Null) => return Self::Nothing,
            Ok(_) => {}
            Err(error) => return Self::Unreadable(in_words(&error)),
        }
        let read = || -> rusqlite::Result<SealedRow> {
            Ok(SealedRow {
                value: row.get(column)?,
                sealed: row.get(column + 1)?,
                op: row.get(column + 2)?,
                previous: row.get(column + 3)?,
                sum: row.get(column + 4)?,
                is_due: row.get(column + 5)?,
            })
        };
        read().map_or_else(|error| Self::Unreadable(in_words(&error)), Self::Row)
    }

    /// The key that it is sealed by; none of a value in the clear, or of one that is too short to be sealed.
    pub(super) fn sealed_by(&self) -> Option<KeyId> {
        match self {
            Self::Row(stored) => KeyId::named_in(&stored.value).filter(|_| stored.sealed),
            Self::Nothing | Self::Unreadable(_) => None,
        }
    }

    /// How long the value is, as it lies there; nothing where it cannot be read.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Row(stored) => stored.value.len(),
            Self::Nothing | Self::Unreadable(_) => 0,
        }
    }

    /// The bytes that were written, and what the row says beside them.
    pub(super) fn open(
        self,
        keyring: Option<&SealingKeys>,
        key: &ObjectKey,
        revision: i64,
    ) -> Result<(Bytes, RowHead), DamageCause> {
        match self {
            Self::Row(stored) => {
                let head = stored.head(revision);
                stored.open(keyring, key, revision).map(|value| (value, head))
            }
            Self::Nothing => Err(DamageCause::Missing),
            Self::Unreadable(why) => Err(DamageCause::Unreadable(why)),
        }
    }
}

impl SealedRow {
    /// The head of the row, which stands at this revision.
    pub(super) fn head(&self, revision: i64) -> RowHead {
        RowHead { revision, op: self.op, previous: self.previous, sealed: self.sealed }
    }

    /// Whether all of it is as it was written, as far as that can be known.
    pub(super) fn check(&self, key: &ObjectKey, revision: i64) -> Result<(), DamageCause> {
        match self.sum {
            Some(sum) if sum == i64::from(checksum(key, self.head(revision), &self.value)) => Ok(()),
            Some(_) => Err(DamageCause::Checksum),
            // An older program wrote it, and its turn has not come yet.
            None if !self.is_due => Ok(()),
            None => Err(DamageCause::Unchecked),
        }
    }

    fn open(self, keyring: Option<&SealingKeys>, key: &ObjectKey, revision: i64) -> Result<Bytes, DamageCause> {
        self.check(key, revision)?;
        if !self.sealed {
            return Ok(self.value.into());
        }
        keyring.and_then(|keyring| keyring.open(key, &self.value).ok()).ok_or(DamageCause::Sealed)
    }
}

/// Keeps the checksums of a row of this kind, in the place of those that it had before.
pub(super) fn put_sum(
    transaction: &Transaction<'_>,
    kind: i64,
    key: &ObjectKey,
    head: RowHead,
    value: &[u8],
) -> rusqlite::Result<()> {
    let (of_head, of_all) = (head_checksum(key, head), checksum(key, head, value));
    transaction
        .prepare_cached(
            "INSERT INTO sum(revision, kind, head, sum) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET kind = excluded.kind, head = excluded.head, sum = excluded.sum",
        )?
        .execute(params![head.revision, kind, i64::from(of_head), i64::from(of_all)])?;
    Ok(())
}

/// The number of a kind, which has one from its first change on. There are some dozens: they are all looked at,
/// so that there is no index that could lead astray.
pub(super) fn kind_id(transaction: &Transaction<'_>, kind: &GroupResource) -> rusqlite::Result<i64> {
    let known = transaction
        .prepare_cached("SELECT id FROM kind WHERE grp = ?1 AND resource = ?2 ORDER BY id LIMIT 1")?
        .query_row(params![&*kind.group, &*kind.resource], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    transaction
        .prepare_cached("INSERT INTO kind(grp, resource, objects, sum) VALUES (?1, ?2, 0, 0)")?
        .execute(params![&*kind.group, &*kind.resource])?;
    Ok(transaction.last_insert_rowid())
}

/// How `log.op` says what happened; part of the format on disk.
pub(super) fn code(kind: ChangeKind) -> i64 {
    match kind {
        ChangeKind::Created => 1,
        ChangeKind::Updated => 2,
        ChangeKind::Deleted => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_any_part_changes_the_checksum() {
        let kind = GroupResource::new("example.org", "hosts");
        let key = ObjectKey::new(&kind, "default", "a");
        let head = RowHead { revision: 7, op: 2, previous: 3, sealed: false };
        let sum = checksum(&key, head, b"value");
        // The same letters, cut elsewhere.
        for other in [
            ObjectKey::new(&kind, "defaul", "ta"),
            ObjectKey::new(&kind, "default", "b"),
            ObjectKey::new(&GroupResource::new("example.orgh", "osts"), "default", "a"),
        ] {
            assert_ne!(checksum(&other, head, b"value"), sum, "{other}");
        }
        for other in [
            RowHead { revision: 8, ..head },
            RowHead { op: 3, ..head },
            RowHead { previous: 2, ..head },
            RowHead { sealed: true, ..head },
        ] {
            assert_ne!(checksum(&key, other, b"value"), sum, "{other:?}");
        }
        for at in 0..40 {
            let mut value = *b"value";
            value[at / 8] ^= 1 << (at % 8);
            assert_ne!(checksum(&key, head, &value), sum, "bit {at}");
        }
        assert_ne!(checksum(&key, head, b"valu"), sum);
        assert_ne!(head_checksum(&key, RowHead { op: 3, ..head }), head_checksum(&key, head));
    }
}
