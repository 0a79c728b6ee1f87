//! The seam to the caller of an erasure, which shows how far the work is, holds it and stops it.

use std::time::Duration;

use firesteel_images::write::Aborted;

/// The time between two reports on a command that blocks.
const BEAT: Duration = Duration::from_secs(2);

/// The caller: shows how far the work is, holds it while it must pause, and stops it.
pub trait CleaningMonitor {
    /// Passes a safe point between pieces of work; may block.
    ///
    /// # Errors
    /// Fails if the work is to stop at this safe point.
    fn checkpoint(&self, activity: &str, done: u64, total: u64) -> Result<(), Aborted>;

    /// Waits between polls.
    fn pause(&self, time: Duration);

    /// Called now and then while the drive is at a command that nothing can interrupt; must not block. The
    /// answer is why the work would have to stop or to pause, were that possible.
    fn report_progress(&self, activity: &str, done: u64, total: u64) -> Option<String>;

    /// The time between two reports.
    fn beat(&self) -> Duration {
        BEAT
    }
}
