//! The hot loop of a host: where another program writes a host's image back each time, one of the two must stop
//! (systems.md S1-3.2, step 8, for what groups write). Kept in memory: a restart gives three more tries. Pure.

use std::collections::BTreeMap;

/// Times that the same is written to a host in a row.
pub(super) const GIVES_MAX: u32 = 3;

/// What was written to hosts that are not installed yet, and how often in a row, by their UIDs.
#[derive(Debug, Default)]
pub(super) struct Gives(BTreeMap<String, (String, u32)>);

impl Gives {
    /// Whether this is not written to the host again.
    pub(super) fn refuses(&self, uid: &str, value: &str) -> bool {
        self.0.get(uid).is_some_and(|(last, count)| last == value && *count >= GIVES_MAX)
    }

    /// It was written. Whether that was the last time.
    pub(super) fn count(&mut self, uid: &str, value: &str) -> bool {
        let (last, count) = self.0.entry(uid.to_owned()).or_default();
        if last != value {
            value.clone_into(last);
            *count = 0;
        }
        *count += 1;
        *count == GIVES_MAX
    }

    /// The image comes onto its disk, or the host is gone: nobody fights over it.
    pub(super) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_written_three_times_in_a_row() {
        let mut gives = Gives::default();
        let written: Vec<bool> = (0..3).map(|_| gives.count("a", "1")).collect();
        assert_eq!(written, [false, false, true]);
        assert!(gives.refuses("a", "1") && !gives.refuses("a", "2") && !gives.refuses("b", "1"));
        assert!(!gives.count("a", "2"));
        assert!(!gives.refuses("a", "1"), "another value begins anew");
        for _ in 0..3 {
            gives.count("a", "2");
        }
        assert!(gives.refuses("a", "2"));
        gives.forget("a");
        assert!(!gives.refuses("a", "2"));
    }
}
