//! Images that left the store while another acquisition of theirs was under way. Pure.
//!
//! An acquisition looks an image up, and it is known as ready a moment later. If it is removed in between, who removes
//! it finds nothing to forget: the acquisition must find out by itself.

use std::collections::VecDeque;

/// Removals that are remembered. An acquisition that is older than all of them counts as overtaken by any.
const REMOVED_MAX: usize = 256;

/// A moment in the order of removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BeforeRemovals(u64);

/// The newest removals, by raw digest.
#[derive(Debug, Default)]
pub(crate) struct RemovedImages {
    count: u64,
    newest: VecDeque<(u64, String)>,
}

impl RemovedImages {
    /// An acquisition begins.
    pub(crate) fn now(&self) -> BeforeRemovals {
        BeforeRemovals(self.count)
    }

    /// These are gone.
    pub(crate) fn add(&mut self, raw_sha256: &[String]) {
        for raw in raw_sha256 {
            self.newest.push_back((self.count, raw.clone()));
            self.count += 1;
        }
        let excess = self.newest.len().saturating_sub(REMOVED_MAX);
        self.newest.drain(..excess);
    }

    /// Whether this image may have been removed since then.
    pub(crate) fn has_since(&self, since: BeforeRemovals, raw_sha256: &str) -> bool {
        let is_forgotten = self.newest.front().is_some_and(|(first, _)| *first > since.0);
        is_forgotten || self.newest.iter().any(|(number, raw)| *number >= since.0 && raw == raw_sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(number: usize) -> Vec<String> {
        vec![number.to_string()]
    }

    #[test]
    fn an_image_that_goes_while_it_is_acquired_is_noticed() {
        let mut removed = RemovedImages::default();
        removed.add(&gone(1));
        let began = removed.now();
        assert!(!removed.has_since(began, "1"), "it went before");
        removed.add(&gone(2));
        assert!(removed.has_since(began, "2") && !removed.has_since(began, "1"));
        let later = removed.now();
        assert!(!removed.has_since(later, "2"));
    }

    #[test]
    fn what_is_not_remembered_any_more_is_doubted() {
        let mut removed = RemovedImages::default();
        let began = removed.now();
        (0..REMOVED_MAX).for_each(|number| removed.add(&gone(number)));
        assert!(!removed.has_since(began, "another"), "all are remembered");
        removed.add(&gone(REMOVED_MAX));
        assert!(removed.has_since(began, "another"));
        assert_eq!(removed.newest.len(), REMOVED_MAX);
    }
}
