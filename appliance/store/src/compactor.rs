//! Decides how much history to keep. Pure: the caller brings the time and does the compaction.

use std::collections::VecDeque;

use crate::types::Revision;

/// History is kept while it is younger than `age_ms` *or* among the newest `revisions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age_ms: i64,
    pub revisions: u64,
}

impl Default for Retention {
    /// Long enough for a client that pages through a list or reconnects after a pause.
    fn default() -> Self {
        Self { age_ms: 10 * 60 * 1000, revisions: 10_000 }
    }
}

/// The most remembered samples; sampling is thinned to `age_ms` over this number.
const SAMPLES_MAX: i64 = 128;

/// Remembers which revision was current when. After a restart it knows nothing, so all history
/// counts as new for another `age_ms`.
#[derive(Debug)]
pub struct Compactor {
    retention: Retention,
    samples: VecDeque<(i64, Revision)>,
    aged: Revision,
}

impl Compactor {
    pub fn new(retention: Retention) -> Self {
        Self { retention, samples: VecDeque::new(), aged: Revision(0) }
    }

    /// Takes the current revision at a time, and returns up to which revision (inclusive) history may go now;
    /// `Revision(0)` means none.
    pub fn observe(&mut self, now_ms: i64, current: Revision) -> Revision {
        let spacing_ms = self.retention.age_ms / SAMPLES_MAX;
        if self.samples.back().is_none_or(|&(at_ms, _)| now_ms - at_ms >= spacing_ms) {
            self.samples.push_back((now_ms, current));
        }
        while let Some(&(at_ms, revision)) = self.samples.front() {
            if now_ms - at_ms < self.retention.age_ms {
                break;
            }
            self.aged = self.aged.max(revision);
            self.samples.pop_front();
        }
        Revision(self.aged.0.min(current.0.saturating_sub(self.retention.revisions)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_young_history_and_the_newest_revisions() {
        let mut compactor = Compactor::new(Retention { age_ms: 1_000, revisions: 10 });
        assert_eq!(compactor.observe(0, Revision(100)), Revision(0), "nothing is old yet");
        assert_eq!(compactor.observe(999, Revision(150)), Revision(0));
        assert_eq!(compactor.observe(1_000, Revision(200)), Revision(100), "what was there at 0 is old");
        assert_eq!(compactor.observe(1_001, Revision(105)), Revision(95), "the newest ten stay whatever their age");
    }

    #[test]
    fn an_idle_store_remembers_few_samples() {
        let mut compactor = Compactor::new(Retention { age_ms: 1_280, revisions: 0 });
        for now_ms in 0..10_000 {
            compactor.observe(now_ms, Revision(7));
        }
        assert!(compactor.samples.len() <= 130, "{}", compactor.samples.len());
    }
}
