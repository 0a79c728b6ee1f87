//! How often what anyone can make happen is written into a host's journal. Pure: the time is given.
//!
//! The first of its kind is written at once, and at most [`AT_ONCE_MAX`] of them of a host in [`WINDOW`], and
//! [`ALL_AT_ONCE_MAX`] of all hosts; everything else is counted in memory, and written together when the window ends.

use std::collections::HashMap;

use firesteel_resources::host_journal::NetworkNote;
use firesteel_runtime::HostKey;
use jiff::{SignedDuration, Timestamp};

/// The time between two writes of what comes again.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// Kinds that are written at once in one window: a boot has about ten.
const AT_ONCE_MAX: usize = 16;

/// Writes at once for all hosts in one window: a stranger who knows the MACs of many hosts cannot have them all written
/// again and again. Hosts that are switched on together have more to say; what is left over comes with their boots'
/// stages, or a minute later.
const ALL_AT_ONCE_MAX: usize = 512;

/// Notes of all hosts that wait to be written; what comes beyond is not counted.
const PENDING_MAX: usize = 4096;

/// All hosts of which something was noted lately.
#[derive(Debug, Default)]
pub(crate) struct NotePace {
    hosts: HashMap<HostKey, HostPace>,
    /// Notes that are pending, of all hosts.
    waiting: usize,
    /// When the window of all hosts began.
    since: Timestamp,
    /// How much was written at once in that window.
    at_once: usize,
}

#[derive(Debug)]
struct HostPace {
    since: Timestamp,
    /// What was written at once in this window: MAC, event and detail.
    at_once: Vec<(String, String, String)>,
    pending: Vec<NetworkNote>,
}

impl HostPace {
    fn ends_at(&self) -> Timestamp {
        ends_at(self.since)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        is_over(self.since, now)
    }
}

/// Returns when the window ends that began then.
fn ends_at(since: Timestamp) -> Timestamp {
    since.checked_add(WINDOW).unwrap_or(Timestamp::MAX)
}

fn is_over(since: Timestamp, now: Timestamp) -> bool {
    // A clock that was set back begins another window.
    now >= ends_at(since) || now < since
}

impl NotePace {
    /// Takes a note in; whether what is pending of its host is to be written now.
    pub(crate) fn take(&mut self, key: &HostKey, note: NetworkNote, now: Timestamp) -> bool {
        let waiting: usize = self.waiting;
        if is_over(self.since, now) {
            (self.since, self.at_once) = (now, 0);
        }
        let has_room = self.at_once < ALL_AT_ONCE_MAX;
        let host = self.hosts.entry(key.clone()).or_insert_with(|| HostPace {
            since: now,
            at_once: Vec::new(),
            pending: Vec::new(),
        });
        if waiting >= PENDING_MAX {
            return false;
        }
        if host.is_over(now) {
            (host.since, host.at_once) = (now, Vec::new());
        }
        let kind = (note.mac.clone(), note.event.clone(), note.detail.clone());
        let is_first = has_room && host.at_once.len() < AT_ONCE_MAX && !host.at_once.contains(&kind);
        if is_first {
            host.at_once.push(kind);
            self.at_once += 1;
        }
        let before = host.pending.len();
        note.add_to(&mut host.pending);
        self.waiting += host.pending.len() - before;
        is_first
    }

    /// Takes what is pending of a host, to be written.
    pub(crate) fn pending(&mut self, key: &HostKey) -> Vec<NetworkNote> {
        let pending = self.hosts.get_mut(key).map(|host| std::mem::take(&mut host.pending)).unwrap_or_default();
        self.waiting -= pending.len();
        pending
    }

    /// Returns when something is to be written, unless it is before.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.hosts.values().filter(|host| !host.pending.is_empty()).map(HostPace::ends_at).min()
    }

    /// Lists the hosts of which something is to be written by now, and forgets those of which nothing is pending.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Vec<HostKey> {
        self.hosts.retain(|_, host| !host.pending.is_empty() || !host.is_over(now));
        self.hosts.iter().filter(|(_, host)| host.is_over(now)).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn key() -> HostKey {
        HostKey { namespace: "default".into(), name: "host".into() }
    }

    fn note(event: &str, detail: &str) -> NetworkNote {
        NetworkNote { event: event.into(), detail: detail.into(), count: 1, ..NetworkNote::default() }
    }

    #[test]
    fn a_flood_is_two_writes_a_minute_and_nothing_of_it_is_lost() {
        let mut pace = NotePace::default();
        assert!(pace.take(&key(), note("script", ""), at(0)));
        assert_eq!(pace.pending(&key()).len(), 1);
        assert_eq!(pace.poll_timeout(), None);
        for _ in 0..1500 {
            assert!(!pace.take(&key(), note("script", ""), at(1)));
        }
        assert_eq!(pace.poll_timeout(), Some(at(60)));
        assert!(pace.handle_timeout(at(59)).is_empty());
        assert_eq!(pace.handle_timeout(at(60)), [key()]);
        let pending = pace.pending(&key());
        assert_eq!((pending.len(), pending[0].count), (1, 1500));
        assert!(pace.handle_timeout(at(61)).is_empty() && pace.hosts.is_empty());
    }

    #[test]
    fn kinds_that_differ_by_a_strangers_words_are_bounded() {
        let mut pace = NotePace::default();
        let written =
            (0..1000).filter(|number| pace.take(&key(), note("dhcp_ack", &number.to_string()), at(0))).count();
        assert_eq!(written, AT_ONCE_MAX);
        assert!(pace.hosts[&key()].pending.len() <= 4);
    }

    #[test]
    fn a_flood_in_many_hosts_names_is_few_writes_at_once() {
        let mut pace = NotePace::default();
        let key = |number: usize| HostKey { name: number.to_string(), ..key() };
        let mut written = |second| {
            (0..1000)
                .filter(|number| pace.take(&key(*number), note(&format!("script{second}"), ""), at(second)))
                .count()
        };
        assert_eq!(written(0), ALL_AT_ONCE_MAX);
        assert_eq!(written(30), 0);
        assert_eq!(written(60), ALL_AT_ONCE_MAX, "in the next window");
    }

    #[test]
    fn what_waits_of_all_hosts_is_bounded() {
        let mut pace = NotePace::default();
        for number in 0..2 * PENDING_MAX {
            let key = HostKey { name: number.to_string(), ..key() };
            pace.take(&key, note("script", ""), at(0));
        }
        assert_eq!(pace.waiting, PENDING_MAX);
        assert_eq!(pace.pending(&HostKey { name: "1".into(), ..key() }).len(), 1);
        assert!(pace.take(&key(), note("script", ""), at(60)), "there is a place again");
    }

    #[test]
    fn another_window_begins_when_the_time_is_over_or_was_set_back() {
        for next in [60, -1] {
            let mut pace = NotePace::default();
            assert!(pace.take(&key(), note("script", ""), at(0)));
            assert!(pace.take(&key(), note("script", ""), at(next)));
        }
    }
}
