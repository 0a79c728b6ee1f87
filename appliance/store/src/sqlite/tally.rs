//! Whether the list of each kind, its rows in `object`, is what was written.
//!
//! ```text
//!   kind    how many objects there are, and the sum of a checksum of each     kept with every change
//!   object  the objects themselves                                            what lists are read from
//!   log     the changes that led there                                        folded, they give the lists again
//! ```
//!
//! The first two are compared when the database is opened, before anything is answered: a row of `object` that was lost
//! would look like a deletion. So would one in the wrong place, which no search finds, so their order is compared as
//! well. Where the two differ the third decides ([`super::kind_accounts`]): what is wrong is written again, or nothing
//! is answered about the kind.

use std::collections::{BTreeMap, BTreeSet};

use crc32fast::Hasher;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::kind_accounts::{KindTally, KindVerdict, verdict};
use super::kind_rows::{KindRow, Place, if_whole};
use super::stored_row::{self, RowHead, head_checksum, key_into, kind_id, text};
use super::{Database, histories, integer, revision};
use crate::damage::DamageBook;
use crate::error::StoreReadError;
use crate::types::{ChangeKind, GroupResource, ObjectKey, Revision};

/// Objects that one step counts of what an older program left.
const COUNT_STEP: usize = 1000;

/// What objects stand where, by kind.
type Lists = BTreeMap<GroupResource, BTreeMap<Place, Revision>>;

/// What an object that stands at a revision counts for.
fn weight(kind: &GroupResource, namespace: &str, name: &str, at: Revision) -> i64 {
    let mut hasher = Hasher::new();
    key_into(&mut hasher, kind, namespace, name);
    hasher.update(&integer(at).to_le_bytes());
    i64::from(hasher.finalize())
}

/// Takes a change of one object of a kind into account: where it stood before and where it stands now; zero means
/// nowhere.
pub(super) fn note(
    transaction: &Transaction<'_>,
    kind: i64,
    key: &ObjectKey,
    before: Revision,
    now: Revision,
) -> rusqlite::Result<()> {
    let (mut objects, mut sum) = (0_i64, 0_i64);
    if now.0 > 0 {
        (objects, sum) = (objects + 1, sum.wrapping_add(weight(&key.kind, &key.namespace, &key.name, now)));
    }
    if before.0 > 0 {
        (objects, sum) = (objects - 1, sum.wrapping_sub(weight(&key.kind, &key.namespace, &key.name, before)));
    }
    // What is not counted yet is counted as it is then.
    transaction
        .prepare_cached(
            "UPDATE kind SET objects = objects + ?2, sum = sum + ?3
             WHERE id = ?1 AND (at_name IS NULL OR (at_namespace, at_name) >= (?4, ?5))",
        )?
        .execute(params![kind, objects, sum, key.namespace, key.name])?;
    Ok(())
}

/// Compares all kinds, writes again what can be written, and notes what cannot.
pub(super) fn at_start(connection: &mut Connection, book: &DamageBook) -> rusqlite::Result<()> {
    let rows = if_whole(rows(connection), book)?.unwrap_or_default();
    let listed = if_whole(tallies(connection, &rows), book)?.flatten();
    let is_sound = listed.as_ref().is_some_and(|listed| {
        let counted: BTreeMap<_, _> = rows.iter().map(|row| (&row.kind, row.tally)).collect();
        let has = |kind: &GroupResource| listed.get(kind).copied().unwrap_or_default();
        counted.iter().all(|(kind, tally)| has(kind) == *tally) && listed.keys().all(|kind| counted.contains_key(kind))
    });
    if !is_sound {
        mend(connection, &rows, listed.as_ref(), book)?;
    }
    histories::check(connection, &rows, book)
}

/// Decides about every kind, and does it.
fn mend(
    connection: &mut Connection,
    rows: &[KindRow],
    listed: Option<&BTreeMap<GroupResource, KindTally>>,
    book: &DamageBook,
) -> rusqlite::Result<()> {
    let folded = if_whole(fold(connection), book)?.flatten();
    let of_rows = rows.iter().map(|row| &row.kind);
    let of_lists = listed.into_iter().flat_map(BTreeMap::keys).chain(folded.iter().flat_map(BTreeMap::keys));
    let kinds: BTreeSet<GroupResource> = of_rows.chain(of_lists).cloned().collect();
    let mut verdicts = BTreeMap::new();
    for kind in kinds {
        let row = rows.iter().find(|row| row.kind == kind);
        let counted = row.map(|row| row.tally);
        let listed = listed.map(|listed| listed.get(&kind).copied().unwrap_or_default());
        let folded = folded.as_ref().map(|folded| tally_of(folded, &kind, row));
        verdicts.insert(kind, verdict(counted, listed, folded));
    }
    for (kind, _) in verdicts.iter().filter(|(_, verdict)| **verdict == KindVerdict::Count) {
        let row = rows.iter().find(|row| row.kind == *kind);
        let tally = listed.and_then(|listed| listed.get(kind).copied()).unwrap_or_default();
        // It may have another number now than its changes say.
        tracing::warn!(%kind, "the count of a kind's objects was damaged; it is written again");
        if if_whole(put_tally(connection, kind, row, tally), book)?.is_none() {
            book.broke(kind, "the count of its objects cannot be written".to_owned());
        }
    }
    let is_any = |wanted: KindVerdict| verdicts.values().any(|verdict| *verdict == wanted);
    let mut is_done = !is_any(KindVerdict::List);
    if let Some(folded) = folded.filter(|_| !is_done && !is_any(KindVerdict::Lost)) {
        is_done = relist(connection, rows, &verdicts, folded, book)?;
    }
    for (kind, verdict) in verdicts {
        let is_lost = verdict == KindVerdict::Lost || (verdict == KindVerdict::List && !is_done);
        if is_lost {
            let why = "what is listed, what was counted and what the changes say do not fit together";
            book.broke(&kind, why.to_owned());
        }
    }
    Ok(())
}

fn put_tally(
    connection: &mut Connection,
    kind: &GroupResource,
    row: Option<&KindRow>,
    tally: KindTally,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id = match row {
        Some(row) => row.id,
        None => kind_id(&transaction, kind)?,
    };
    let values = params![id, tally.objects, tally.sum];
    transaction.execute("UPDATE kind SET objects = ?2, sum = ?3 WHERE id = ?1", values)?;
    transaction.commit()
}

/// Writes all lists again: by the changes, and as they are where those do not say it. False where it cannot be done.
fn relist(
    connection: &mut Connection,
    rows: &[KindRow],
    verdicts: &BTreeMap<GroupResource, KindVerdict>,
    mut lists: Lists,
    book: &DamageBook,
) -> rusqlite::Result<bool> {
    // A page that two tables claim would be taken from the other one.
    let pages_are_apart = if_whole(
        connection.query_row("SELECT count(*) = count(DISTINCT pageno) FROM dbstat", [], |row| row.get::<_, bool>(0)),
        book,
    )?;
    if pages_are_apart != Some(true) {
        return Ok(false);
    }
    for (kind, verdict) in verdicts {
        if matches!(verdict, KindVerdict::Sound | KindVerdict::Count) {
            lists.insert(kind.clone(), list_of(connection, kind)?);
        }
    }
    let wanted: BTreeMap<GroupResource, KindTally> = lists
        .keys()
        .map(|kind| (kind.clone(), tally_of(&lists, kind, rows.iter().find(|row| row.kind == *kind))))
        .filter(|(_, tally)| tally.objects > 0)
        .collect();
    if if_whole(write_lists(connection, &lists), book)?.is_none() {
        return Ok(false);
    }
    let found = if_whole(tallies(connection, rows), book)?.flatten();
    let is_whole = found.is_some_and(|found| wanted.iter().all(|(kind, tally)| found.get(kind) == Some(tally)));
    if is_whole {
        tracing::warn!("a list of objects was damaged; the lists are written again from their changes");
    }
    Ok(is_whole)
}

fn write_lists(connection: &mut Connection, lists: &Lists) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM object", [])?;
    for (kind, objects) in lists {
        for ((namespace, name), at) in objects {
            transaction
                .prepare_cached(
                    "INSERT INTO object(grp, resource, namespace, name, revision) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![&*kind.group, &*kind.resource, namespace, name, integer(*at)])?;
        }
    }
    transaction.commit()
}

/// What a list comes to, as far as its kind is counted.
fn tally_of(lists: &Lists, kind: &GroupResource, row: Option<&KindRow>) -> KindTally {
    let mut tally = KindTally::default();
    for ((namespace, name), at) in lists.get(kind).into_iter().flatten() {
        if row.is_none_or(|row| row.counts(namespace, name)) {
            tally.add(weight(kind, namespace, name, *at));
        }
    }
    tally
}

pub(super) fn rows(connection: &Connection) -> rusqlite::Result<Vec<KindRow>> {
    connection
        .prepare("SELECT id, grp, resource, objects, sum, at_namespace, at_name FROM kind ORDER BY id")?
        .query_map([], |row| {
            let (namespace, name): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
            Ok(KindRow {
                id: row.get(0)?,
                kind: GroupResource::new(&row.get::<_, String>(1)?, &row.get::<_, String>(2)?),
                tally: KindTally { objects: row.get(3)?, sum: row.get(4)? },
                counted_to: namespace.zip(name),
            })
        })?
        .collect()
}

/// The kinds that objects are of, or were once.
pub(crate) fn kinds(database: &mut Database) -> Result<Vec<GroupResource>, StoreReadError> {
    Ok(rows(&database.connection)?.into_iter().map(|row| row.kind).collect())
}

/// What `object` has of each kind, as far as it is counted; none where its rows are not in their order.
fn tallies(connection: &Connection, rows: &[KindRow]) -> rusqlite::Result<Option<BTreeMap<GroupResource, KindTally>>> {
    let mut tallies: BTreeMap<GroupResource, KindTally> = BTreeMap::new();
    let mut listed = connection.prepare(
        "SELECT grp, resource, namespace, name, revision FROM object ORDER BY grp, resource, namespace, name",
    )?;
    let mut objects = listed.query([])?;
    let (mut kind, mut last, mut row) = (GroupResource::new("", ""), Place::default(), None);
    while let Some(object) = objects.next()? {
        let (group, resource) = (text(object, 0)?, text(object, 1)?);
        let (namespace, name) = (text(object, 2)?, text(object, 3)?);
        if (&*kind.group, &*kind.resource) == (group, resource) {
            if (last.0.as_str(), last.1.as_str()) >= (namespace, name) {
                return Ok(None);
            }
        } else {
            if (&*kind.group, &*kind.resource) > (group, resource) {
                return Ok(None);
            }
            kind = GroupResource::new(group, resource);
            row = rows.iter().find(|row| row.kind == kind);
            tallies.insert(kind.clone(), KindTally::default());
        }
        last = (namespace.to_owned(), name.to_owned());
        if row.is_none_or(|row| row.counts(namespace, name))
            && let Some(tally) = tallies.get_mut(&kind)
        {
            tally.add(weight(&kind, namespace, name, revision(object.get(4)?)));
        }
    }
    Ok(Some(tallies))
}

/// The list of one kind as it is.
fn list_of(connection: &Connection, kind: &GroupResource) -> rusqlite::Result<BTreeMap<Place, Revision>> {
    connection
        .prepare_cached("SELECT namespace, name, revision FROM object WHERE grp = ?1 AND resource = ?2")?
        .query_map(params![&*kind.group, &*kind.resource], |row| {
            Ok(((row.get(0)?, row.get(1)?), revision(row.get(2)?)))
        })?
        .collect()
}

/// What objects there are by the changes that are kept: what they do not tell any more was replaced or deleted. None
/// where one of them is not as it was written.
fn fold(connection: &Connection) -> rusqlite::Result<Option<Lists>> {
    let mut lists = Lists::new();
    let mut changes = connection.prepare(
        "SELECT l.grp, l.resource, l.namespace, l.name, l.revision, l.op, l.previous,
           (SELECT s.head FROM sum s WHERE s.revision = l.revision),
           l.revision > (SELECT value FROM meta WHERE key = 'unsummed')
         FROM log l NOT INDEXED ORDER BY l.revision",
    )?;
    let mut rows = changes.query([])?;
    while let Some(row) = rows.next()? {
        let kind = GroupResource::new(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?);
        let key = ObjectKey { kind, namespace: row.get(2)?, name: row.get(3)? };
        let head = RowHead { revision: row.get(4)?, op: row.get(5)?, previous: row.get(6)?, sealed: false };
        let (sum, is_due): (Option<i64>, bool) = (row.get(7)?, row.get(8)?);
        if sum.map_or(is_due, |sum| sum != i64::from(head_checksum(&key, head))) {
            return Ok(None);
        }
        let objects = lists.entry(key.kind).or_default();
        if head.op == stored_row::code(ChangeKind::Deleted) {
            objects.remove(&(key.namespace, key.name));
        } else {
            objects.insert((key.namespace, key.name), revision(head.revision));
        }
    }
    Ok(Some(lists))
}

/// Counts some objects that an older program left; false where all are counted.
pub(super) fn count_step(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let due = rows(transaction)?.into_iter().find(|row| row.counted_to.is_some());
    let Some(KindRow { id, kind, mut tally, counted_to: Some((namespace, name)) }) = due else { return Ok(false) };
    let (mut last, mut counted) = (None, 0);
    {
        let mut listed = transaction.prepare_cached(
            "SELECT namespace, name, revision FROM object WHERE grp = ?1 AND resource = ?2
             AND (namespace, name) > (?3, ?4) ORDER BY namespace, name LIMIT ?5",
        )?;
        let most = i64::try_from(COUNT_STEP).unwrap_or(i64::MAX);
        let mut objects = listed.query(params![&*kind.group, &*kind.resource, namespace, name, most])?;
        while let Some(object) = objects.next()? {
            let place: Place = (object.get(0)?, object.get(1)?);
            tally.add(weight(&kind, &place.0, &place.1, revision(object.get(2)?)));
            (last, counted) = (Some(place), counted + 1);
        }
    }
    let (namespace, name) = last.filter(|_| counted == COUNT_STEP).unzip();
    transaction.execute(
        "UPDATE kind SET objects = ?2, sum = ?3, at_namespace = ?4, at_name = ?5 WHERE id = ?1",
        params![id, tally.objects, tally.sum, namespace, name],
    )?;
    Ok(true)
}

/// Counts what is listed again, step by step: it was changed past the count.
pub(super) fn recount(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute("UPDATE kind SET objects = 0, sum = 0, at_namespace = '', at_name = ''", []).map(drop)
}
