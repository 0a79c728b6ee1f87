//! How many datagrams of one peer are read in a second. Pure.
//!
//! A datagram socket has no connection that could be ended: what comes too fast is left in the kernel's buffer, which
//! drops the rest.

use std::time::Duration;

/// Datagrams in a [`SPAN`]. A serial console at 115,200 baud brings about a hundred.
const DATAGRAMS_MAX: u32 = 500;
const SPAN: Duration = Duration::from_secs(1);

/// The pace of one socket, by the time since any start.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatagramPace {
    span_began: Duration,
    count: u32,
}

impl DatagramPace {
    /// Counts a datagram that was read at `now`. `Some`: when the next one may be read.
    pub fn read_at(&mut self, now: Duration) -> Option<Duration> {
        if now >= self.span_began + SPAN {
            *self = Self { span_began: now, count: 0 };
        }
        self.count += 1;
        (self.count >= DATAGRAMS_MAX).then(|| self.span_began + SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_read_at_the_pace_and_a_console_without_a_pause() {
        let (mut pace, mut now, mut read) = (DatagramPace::default(), Duration::ZERO, 0_u32);
        while now < Duration::from_secs(10) {
            read += 1;
            now = pace.read_at(now).unwrap_or(now);
        }
        assert_eq!(read, 10 * DATAGRAMS_MAX);
        let mut pace = DatagramPace::default();
        let each = Duration::from_millis(8);
        assert!((0..10_000_u32).all(|number| pace.read_at(each * number).is_none()));
    }
}
