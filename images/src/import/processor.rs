//! The processor time of this thread, which a slow disk or a busy machine does not make longer.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The processor time so far. Linux has this clock always; where it had none, no time would be counted.
pub(crate) fn time_of_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
