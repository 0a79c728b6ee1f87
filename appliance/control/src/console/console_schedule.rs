//! When a console is read, and how soon it is tried again: pure.

use std::time::Duration;

use firesteel_plan::host::{HostState, progress_outlook};
use firesteel_plan::{HostInputs, HostMemory};
use firesteel_resources::host_journal::InstanceRecord;
use jiff::{SignedDuration, Timestamp};

/// How long the first boot of a new OS is read; where it takes longer, the BMC itself shows its console.
const FIRST_BOOT: SignedDuration = SignedDuration::from_mins(10);
/// The time between two tries, the first one and the longest.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// What was heard for so long was no try.
const STEADY: Duration = Duration::from_secs(60);

/// What a step left of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsoleInputs {
    /// Its owner wants it left alone.
    is_set_aside: bool,
    /// It has a slot: it is inspected, written or cleaned.
    is_at_work: bool,
    /// The installation that it boots: its attempt, and when it was done.
    installed: Option<(u64, Timestamp)>,
}

impl ConsoleInputs {
    pub(crate) fn of(memory: &HostMemory, seen: &HostInputs) -> Self {
        let applied = memory.applied.as_ref().filter(|_| memory.state == HostState::Provisioned);
        Self {
            is_set_aside: progress_outlook::is_set_aside(memory, seen),
            is_at_work: memory.admitted.is_some(),
            installed: applied.map(|applied| (applied.attempt, applied.at)),
        }
    }

    /// Says whether the host's console is read: while the host is worked on, and while its new OS boots for the first
    /// time. Before and after it belongs to the user of the host.
    pub(crate) fn is_wanted(&self, instance: Option<&InstanceRecord>, now: Timestamp) -> bool {
        let boots_first = self.installed.is_some_and(|(attempt, at)| {
            let runs = instance.is_some_and(|seen| seen.attempt == attempt && seen.running_at.is_some());
            !runs && (SignedDuration::ZERO..FIRST_BOOT).contains(&now.duration_since(at))
        });
        !self.is_set_aside && (self.is_at_work || boots_first)
    }
}

/// Tries that came to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleTries {
    in_vain: u32,
}

impl ConsoleTries {
    /// How long to wait, after a console that was heard for so long; zero where there was none.
    pub(crate) fn pause(&mut self, heard_for: Duration) -> Duration {
        if heard_for >= STEADY {
            self.in_vain = 0;
        }
        let pause = PAUSE.saturating_mul(1 << self.in_vain.min(8)).min(PAUSE_MAX);
        self.in_vain = self.in_vain.saturating_add(1);
        pause
    }
}

/// Bytes of one console that are read at once, and then each second: more than a serial port of 115200 baud has. Who
/// says more is heard later; a BMC waits for the acknowledgement of what it said.
const BYTES_AT_ONCE: u64 = 64 << 10;
const BYTES_PER_SECOND: u64 = 16 << 10;

/// How fast one console is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsoleBudget {
    left: u64,
    at: Duration,
}

impl ConsoleBudget {
    pub(crate) fn new(now: Duration) -> Self {
        Self { left: BYTES_AT_ONCE, at: now }
    }

    /// These were read: how long to wait until the next ones are.
    pub(crate) fn take(&mut self, bytes: usize, now: Duration) -> Duration {
        let passed = u64::try_from(now.saturating_sub(self.at).as_millis()).unwrap_or(u64::MAX);
        let gained = passed.saturating_mul(BYTES_PER_SECOND) / 1000;
        self.at = now;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let all = self.left.saturating_add(gained).min(BYTES_AT_ONCE);
        self.left = all.saturating_sub(bytes);
        Duration::from_millis(bytes.saturating_sub(all).saturating_mul(1000).div_ceil(BYTES_PER_SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn a_console_is_read_while_the_host_is_worked_on_and_boots_first() {
        let rests = ConsoleInputs::default();
        assert!(!rests.is_wanted(None, at(0)));
        let works = ConsoleInputs { is_at_work: true, ..rests.clone() };
        assert!(works.is_wanted(None, at(0)));
        assert!(!ConsoleInputs { is_set_aside: true, ..works }.is_wanted(None, at(0)), "its owner wants it left alone");

        let installed = ConsoleInputs { installed: Some((3, at(1000))), ..rests };
        let runs = |attempt| InstanceRecord { attempt, running_at: Some(at(1001)), ..InstanceRecord::default() };
        for (now, instance, wanted) in [
            (1000, None, true),
            (1599, Some(runs(2)), true),
            (1599, Some(runs(3)), false),
            (1600, None, false),
            (999, None, false),
        ] {
            assert_eq!(installed.is_wanted(instance.as_ref(), at(now)), wanted, "{now} {instance:?}");
        }
    }

    #[test]
    fn tries_come_ever_more_seldom_and_a_console_that_was_heard_begins_anew() {
        let mut tries = ConsoleTries::default();
        let pauses: Vec<u64> = (0..7).map(|_| tries.pause(Duration::ZERO).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300]);
        for _ in 0..100 {
            assert_eq!(tries.pause(Duration::from_secs(3)), PAUSE_MAX);
        }
        assert_eq!(tries.pause(STEADY), PAUSE);
    }

    #[test]
    fn who_says_more_than_a_serial_port_can_is_heard_later() {
        let second = Duration::from_secs;
        let mut budget = ConsoleBudget::new(second(5));
        assert_eq!(budget.take(64 << 10, second(5)), Duration::ZERO);
        assert_eq!(budget.take(16 << 10, second(5)), second(1));
        assert_eq!(budget.take(16 << 10, second(6)), Duration::ZERO);
        assert_eq!(budget.take(0, second(1000)), Duration::ZERO);
        assert_eq!(budget.take(80 << 10, second(1000)), second(1), "no more than at once");
        assert_eq!(budget.take(16 << 10, second(3)), second(1), "a clock that went back");
    }
}
