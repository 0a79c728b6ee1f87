//! The hot loop of a host: where another program writes a host's image back each time, one of the two must stop
//! (S1-3.2, step 8, for what groups write). Kept in memory: a restart gives three more tries. Pure.

use std::collections::BTreeMap;

/// Times that the same is written to a host in a row.
pub(super) const GIVES_MAX: u32 = 3;

/// What was written to hosts that are not installed yet, by their UIDs.
#[derive(Debug, Default)]
pub(super) struct GroupWrites(BTreeMap<String, GroupWrite>);

#[derive(Debug, Default)]
struct GroupWrite {
    value: String,
    /// How often in a row.
    count: u32,
    /// It was set back after the last time.
    is_fought: bool,
}

impl GroupWrites {
    /// Whether this is not written to the host again, now that something else stands there.
    pub(super) fn refuses(&mut self, uid: &str, value: &str) -> bool {
        let Some(written) = self.0.get_mut(uid) else { return false };
        written.is_fought = written.value == value && written.count >= GIVES_MAX;
        written.is_fought
    }

    /// Whether what was written last, for this edition of a group, was refused a further time.
    pub(super) fn is_fought(&self, uid: &str, edition: &str) -> bool {
        self.0.get(uid).is_some_and(|written| written.is_fought && written.value.starts_with(edition))
    }

    /// An image that is wanted stands there.
    pub(super) fn stands(&mut self, uid: &str) {
        if let Some(written) = self.0.get_mut(uid) {
            written.is_fought = false;
        }
    }

    /// It was written. Whether that was the last time.
    pub(super) fn count(&mut self, uid: &str, value: &str) -> bool {
        let written = self.0.entry(uid.to_owned()).or_default();
        if written.value != value {
            *written = GroupWrite { value: value.to_owned(), ..GroupWrite::default() };
        }
        written.count += 1;
        written.count == GIVES_MAX
    }

    /// Forgets a host whose image comes onto its disk, or that is gone: its spec is not fought over any more.
    pub(super) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_written_three_times_in_a_row() {
        let mut gives = GroupWrites::default();
        let written: Vec<bool> = (0..3).map(|_| gives.count("a", "1")).collect();
        assert_eq!(written, [false, false, true]);
        assert!(gives.refuses("a", "1") && !gives.refuses("a", "2") && !gives.refuses("b", "1"));
        assert!(!gives.count("a", "2"));
        assert!(!gives.refuses("a", "1"), "another value begins anew");
        for _ in 0..3 {
            gives.count("a", "2");
        }
        assert!(gives.refuses("a", "2"));
        assert!(gives.is_fought("a", "2"));
        assert!(!gives.is_fought("a", "3"), "another edition of the group begins anew");
        gives.stands("a");
        assert!(!gives.is_fought("a", "") && gives.refuses("a", "2"));
        assert!(!gives.refuses("a", "3") && !gives.is_fought("a", ""), "another value is another matter");
        gives.forget("a");
        assert!(!gives.refuses("a", "2") && !gives.is_fought("a", ""));
    }
}
