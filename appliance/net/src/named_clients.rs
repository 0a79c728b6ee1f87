//! Remembers clients that the log has named, so that each is named once, however often it asks. Pure.
//!
//! Clients of known hosts have places of their own, so that strangers cannot use them up.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// How many clients of each of the two sorts are remembered: more than people look for at a time.
pub const NAMED_MAX: usize = 1024;
/// How long a full table names no other client; then it starts again.
const FULL_FOR: SignedDuration = SignedDuration::from_hours(1);

/// The decision whether to name a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamingDecision {
    Now,
    /// It is the first one for which there is no place: say that there are more.
    More,
    Not,
}

/// The clients that were named.
#[derive(Debug)]
pub struct NamedClients<K> {
    known: NamedClientSet<K>,
    strangers: NamedClientSet<K>,
}

#[derive(Debug)]
struct NamedClientSet<K> {
    taken: BTreeSet<K>,
    full_since: Option<Timestamp>,
}

impl<K: Ord> Default for NamedClients<K> {
    fn default() -> Self {
        Self { known: NamedClientSet::new(), strangers: NamedClientSet::new() }
    }
}

impl<K: Ord> NamedClients<K> {
    /// Decides whether a client is named, and takes a place for it.
    pub fn name(&mut self, now: Timestamp, client: K, is_known: bool) -> NamingDecision {
        let places = if is_known { &mut self.known } else { &mut self.strangers };
        places.name(now, client)
    }
}

impl<K: Ord> NamedClientSet<K> {
    const fn new() -> Self {
        Self { taken: BTreeSet::new(), full_since: None }
    }

    fn name(&mut self, now: Timestamp, client: K) -> NamingDecision {
        if self.taken.contains(&client) {
            return NamingDecision::Not;
        }
        if self.taken.len() >= NAMED_MAX {
            let since = match self.full_since {
                None => {
                    self.full_since = Some(now);
                    return NamingDecision::More;
                }
                Some(since) => since,
            };
            // A clock that was set back ends the wait, too.
            if (SignedDuration::ZERO..FULL_FOR).contains(&now.duration_since(since)) {
                return NamingDecision::Not;
            }
            *self = Self::new();
        }
        self.taken.insert(client);
        NamingDecision::Now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn each_client_is_named_once() {
        let mut named = NamedClients::default();
        assert_eq!(named.name(at(0), 1, false), NamingDecision::Now);
        assert_eq!(named.name(at(9_999_999), 1, false), NamingDecision::Not);
        assert_eq!(named.name(at(0), 2, false), NamingDecision::Now);
    }

    #[test]
    fn a_flood_of_strangers_is_bounded_and_takes_no_place_of_known_hosts() {
        let mut named = NamedClients::default();
        let words: Vec<NamingDecision> = (0..3 * NAMED_MAX).map(|client| named.name(at(0), client, false)).collect();
        assert_eq!(words.iter().filter(|word| **word == NamingDecision::Now).count(), NAMED_MAX);
        assert_eq!(words.iter().filter(|word| **word == NamingDecision::More).count(), 1);
        assert_eq!(named.name(at(0), usize::MAX, true), NamingDecision::Now, "a known host");
        assert_eq!(named.name(at(3599), usize::MAX, false), NamingDecision::Not);
        assert_eq!(named.name(at(3600), usize::MAX, false), NamingDecision::Now, "the table begins again");
    }
}
