//! What of the store is known to be damaged: single values, the list of a kind, the file's structure.
//!
//! Reads find damage, the check at the start, and the pass after it. Damage never reads as an absence: a value that is
//! not what was written is an error that names its object, and a kind whose list is not what was written answers
//! nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::types::{GroupResource, ListPage, ObjectKey, Position, Revision};

/// Damaged objects that are known one by one. Of more it is known that there are more.
pub const DAMAGES_MAX: usize = 1024;

/// What is wrong with a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageCause {
    /// The bytes, or what stands beside them, are not what was written.
    Checksum,
    /// There is no checksum where each value has one.
    Unchecked,
    /// The row is gone.
    Missing,
    /// It is what was written, and no key at hand opens it.
    Sealed,
    /// The file does not give it.
    Unreadable(String),
}

impl fmt::Display for DamageCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("its bytes are not those that were written"),
            Self::Unchecked => f.write_str("its checksum is missing"),
            Self::Missing => f.write_str("its bytes are missing"),
            Self::Sealed => f.write_str("no key at hand opens it"),
            Self::Unreadable(why) => write!(f, "it cannot be read: {why}"),
        }
    }
}

/// An object whose stored value is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub key: ObjectKey,
    /// Where the object stands.
    pub revision: Revision,
    pub cause: DamageCause,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored value of {} (revision {}) is damaged: {}", self.key, self.revision, self.cause)
    }
}

/// Everything that is known to be damaged now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageReport {
    /// The damaged objects in the order of their keys.
    pub objects: Vec<Damage>,
    /// There are more than these.
    pub has_more: bool,
    /// Kinds of which nothing is answered, and why.
    pub kinds: Vec<(GroupResource, String)>,
    /// Pages of the file that SQLite could not make sense of were met.
    pub structure: Option<String>,
}

impl DamageReport {
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && !self.has_more && self.kinds.is_empty() && self.structure.is_none()
    }

    /// Why nothing may be concluded from what seems to be absent among the objects that are asked for.
    pub fn casts_doubt(&self, is_asked: impl Fn(&ObjectKey) -> bool) -> Option<String> {
        let object = self.objects.iter().find(|damage| is_asked(&damage.key)).map(ToString::to_string);
        let kind = || self.kinds.first().map(|(kind, why)| format!("the list of {kind} is damaged: {why}"));
        let more = || self.has_more.then(|| "more objects are damaged than are listed".to_owned());
        object.or_else(kind).or_else(more).or_else(|| self.structure.clone())
    }
}

/// What is known, shared by all threads of one open store.
#[derive(Debug)]
pub(crate) struct DamageBook {
    known: Mutex<Entries>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Entries {
    objects: BTreeMap<ObjectKey, Damage>,
    has_more: bool,
    kinds: BTreeMap<GroupResource, String>,
    structure: Option<String>,
    /// The first revision whose history may be read: earlier history may have gaps.
    floors: BTreeMap<GroupResource, Revision>,
}

impl Default for DamageBook {
    fn default() -> Self {
        Self { known: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl DamageBook {
    /// An object's value as it stands is damaged.
    pub(crate) fn found(&self, damage: &Damage) {
        let mut known = self.lock();
        if known.objects.get(&damage.key) == Some(damage) {
            return;
        }
        if known.objects.len() >= DAMAGES_MAX && !known.objects.contains_key(&damage.key) {
            if std::mem::replace(&mut known.has_more, true) {
                return;
            }
        } else {
            known.objects.insert(damage.key.clone(), damage.clone());
        }
        drop(known);
        tracing::error!("{damage}; restore a backup, or delete the object unread");
        self.notify_damage();
    }

    /// An object was deleted, or has another value: what was wrong with it is over.
    pub(crate) fn settled(&self, key: &ObjectKey) {
        if self.lock().objects.remove(key).is_some() {
            self.notify_damage();
        }
    }

    /// The list of a kind is not what was written.
    pub(crate) fn broke(&self, kind: &GroupResource, why: String) {
        tracing::error!(%kind, "the list of a kind is damaged and nothing of it is answered: {why}; restore a backup");
        self.lock().kinds.insert(kind.clone(), why);
        self.notify_damage();
    }

    /// SQLite met a page that it cannot make sense of.
    pub(crate) fn structure(&self, why: &str) {
        let is_news = self.lock().structure.replace(why.to_owned()).is_none();
        if is_news {
            tracing::error!("{why}");
            self.notify_damage();
        }
    }

    pub(crate) fn has_structure(&self) -> bool {
        self.lock().structure.is_some()
    }

    /// Why nothing of a kind is answered.
    pub(crate) fn why_broken(&self, kind: &GroupResource) -> Option<String> {
        self.lock().kinds.get(kind).cloned()
    }

    /// The history of a kind up to a revision may have gaps.
    pub(crate) fn set_floor(&self, kind: &GroupResource, floor: Revision) {
        self.lock().floors.insert(kind.clone(), floor);
    }

    pub(crate) fn floors(&self) -> Vec<(GroupResource, Revision)> {
        self.lock().floors.iter().map(|(kind, floor)| (kind.clone(), *floor)).collect()
    }

    pub(crate) fn floor(&self, kind: &GroupResource) -> Revision {
        self.lock().floors.get(kind).copied().unwrap_or_default()
    }

    pub(crate) fn report(&self) -> DamageReport {
        let known = self.lock();
        DamageReport {
            objects: known.objects.values().cloned().collect(),
            has_more: known.has_more,
            kinds: known.kinds.iter().map(|(kind, why)| (kind.clone(), why.clone())).collect(),
            structure: known.structure.clone(),
        }
    }

    /// Moves with each change of what is known.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn notify_damage(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Each change is one insertion: nothing half done is seen after a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page with what of it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// The objects that are as they were written.
    pub page: ListPage,
    /// Those that are there and are not; in the same order.
    pub damaged: Vec<Damage>,
    /// The place after which the next page begins.
    pub last: Option<Position>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(number: usize) -> Damage {
        let key = ObjectKey::new(&GroupResource::new("example.org", "toys"), "a", &format!("n{number}"));
        Damage { key, revision: Revision(7), cause: DamageCause::Checksum }
    }

    #[test]
    fn what_is_damaged_is_remembered_up_to_a_bound_and_forgotten_when_it_is_over() {
        let book = DamageBook::default();
        let mut changes = book.changes();
        for number in 0..=DAMAGES_MAX {
            book.found(&damage(number));
        }
        let report = book.report();
        assert_eq!((report.objects.len(), report.has_more), (DAMAGES_MAX, true));
        assert!(changes.has_changed().is_ok_and(|changed| changed));
        changes.mark_unchanged();
        book.found(&damage(0));
        assert!(changes.has_changed().is_ok_and(|changed| !changed), "it was known");
        book.settled(&damage(0).key);
        assert_eq!(book.report().objects.len(), DAMAGES_MAX - 1);
        assert!(changes.has_changed().is_ok_and(|changed| changed));
    }

    #[test]
    fn doubt_is_about_the_named_object_or_about_everything() {
        let book = DamageBook::default();
        assert_eq!(book.report().casts_doubt(|_| true), None);
        book.found(&damage(1));
        let doubt = |namespace: &str| book.report().casts_doubt(|key| key.namespace == namespace);
        assert!(doubt("a").is_some_and(|why| why.contains("toys.example.org/a/n1 (revision 7)")));
        assert_eq!(doubt("b"), None);
        book.broke(&GroupResource::new("", "secrets"), "a row is missing".into());
        assert!(doubt("b").is_some_and(|why| why.contains("secrets")), "what is not listed may be anywhere");
        assert!(!book.report().is_empty());
    }
}
