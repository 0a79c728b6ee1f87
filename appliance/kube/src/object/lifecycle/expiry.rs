//! Events tell what happened lately: each goes an hour after it was written last, or earlier where
//! there are more than anybody reads. Pure.

use std::collections::{BTreeSet, HashMap};

use firesteel_store::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// How long events are kept, as in Kubernetes.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// Events of one namespace: ten of each of some hundred hosts.
const NAMESPACE_EVENTS_MAX: usize = 5_000;
/// Events of all namespaces, at a kilobyte each some 20 MB of the database.
const EVENTS_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// The time of the last write of each event, and its name, by namespace.
    namespaces: HashMap<String, BTreeSet<(Timestamp, ObjectKey)>>,
    written: HashMap<ObjectKey, Timestamp>,
}

impl Expiry {
    pub(super) fn seen(&mut self, key: &ObjectKey, at: Timestamp) {
        self.remove_event(key);
        self.written.insert(key.clone(), at);
        self.namespaces.entry(key.namespace.clone()).or_default().insert((at, key.clone()));
    }

    pub(super) fn remove_event(&mut self, key: &ObjectKey) {
        let Some(at) = self.written.remove(key) else { return };
        if let Some(events) = self.namespaces.get_mut(&key.namespace) {
            events.remove(&(at, key.clone()));
            if events.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    /// The next event that has to go.
    pub(super) fn due(&self, now: Timestamp) -> Option<ObjectKey> {
        let too_many = self.written.len() > EVENTS_MAX;
        let fullest = self.namespaces.values().max_by_key(|events| events.len());
        let crowded = fullest.filter(|events| too_many || events.len() > NAMESPACE_EVENTS_MAX);
        let expired = || {
            let is_old = |events: &&BTreeSet<(Timestamp, ObjectKey)>| {
                events.first().is_some_and(|(at, _)| now.duration_since(*at) >= KEPT)
            };
            self.namespaces.values().find(is_old)
        };
        crowded.or_else(expired).and_then(|events| events.first()).map(|(_, key)| key.clone())
    }
}

/// The times that an event says of itself.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Times {
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<Series>,
    metadata: EventCreation,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventCreation {
    creation_timestamp: Option<Timestamp>,
}

/// When an event was written last that this process did not see being written, as far as the event says so. A time in
/// the future does not count.
pub(super) fn written_at(value: &[u8], now: Timestamp) -> Timestamp {
    let times: Times = serde_json::from_slice(value).unwrap_or_default();
    let observed = times.series.and_then(|series| series.last_observed_time);
    let said = [times.last_timestamp, times.event_time, observed, times.metadata.creation_timestamp];
    said.into_iter().flatten().filter(|at| *at <= now).max().unwrap_or(now)
}

pub(super) fn is_event(key: &ObjectKey) -> bool {
    key.kind.group.is_empty() && *key.kind.resource == *"events"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use firesteel_store::GroupResource;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(namespace: &str, number: usize) -> ObjectKey {
        ObjectKey::new(&GroupResource::new("", "events"), namespace, &format!("e{number}"))
    }

    #[test]
    fn an_event_goes_an_hour_after_its_last_word() {
        let mut expiry = Expiry::default();
        expiry.seen(&key("a", 1), at(0));
        expiry.seen(&key("a", 2), at(10));
        assert_eq!(expiry.due(at(3599)), None);
        assert_eq!(expiry.due(at(3600)), Some(key("a", 1)));
        expiry.seen(&key("a", 1), at(20));
        assert_eq!(expiry.due(at(3600)), None, "it was said again");
        expiry.remove_event(&key("a", 2));
        assert_eq!((expiry.due(at(3619)), expiry.due(at(3620))), (None, Some(key("a", 1))));
    }

    #[test]
    fn of_too_many_the_oldest_of_the_fullest_namespace_go() {
        let mut expiry = Expiry::default();
        for number in 0..=NAMESPACE_EVENTS_MAX {
            expiry.seen(&key("a", number), at(i64::try_from(number).unwrap()));
        }
        expiry.seen(&key("b", 1), at(0));
        assert_eq!(expiry.due(at(0)), Some(key("a", 0)));
        expiry.remove_event(&key("a", 0));
        assert_eq!(expiry.due(at(0)), None);
        for namespace in ["c", "d", "e", "f"] {
            (0..4_000).for_each(|number| expiry.seen(&key(namespace, number), at(1)));
        }
        assert_eq!(expiry.due(at(0)), Some(key("a", 1)), "too many in all");
    }

    #[test]
    fn the_newest_time_that_was_counts() {
        let event = br#"{"metadata":{"creationTimestamp":"1970-01-01T00:00:10Z"},"lastTimestamp":null,
            "eventTime":"1970-01-01T00:00:20.000001Z","series":{"lastObservedTime":"1970-01-01T02:00:00Z"}}"#;
        assert_eq!(written_at(event, at(3600)), "1970-01-01T00:00:20.000001Z".parse().unwrap());
        assert_eq!(written_at(b"{}", at(7)), at(7));
        assert_eq!(written_at(b"nonsense", at(7)), at(7));
    }
}
