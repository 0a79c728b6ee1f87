//! The processor time of this thread, which a slow disk or a busy machine does not make longer.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// So far. A kernel without this clock, which there is none of, would bound no time.
pub(crate) fn time_of_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
