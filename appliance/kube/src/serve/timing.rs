//! How long requests wait and watches last.

use std::time::Duration;

/// How long lists and watches wait. A user cannot set it; tests have less time.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a request waits for a revision that has not happened yet.
    pub future: Duration,
    /// Time between two bookmarks.
    pub bookmarks: Duration,
    /// The longest life of a watch. Without a word of its client it lasts between half of that and
    /// all of it, so that clients that came together do not come back together.
    pub watch: Duration,
}

impl Default for Timing {
    /// The times of Kubernetes.
    fn default() -> Self {
        Self { future: Duration::from_secs(3), bookmarks: Duration::from_secs(60), watch: Duration::from_secs(3600) }
    }
}
