//! What is said once in the log of each client, however often it asks. Pure.
//!
//! Clients of known hosts have places of their own, so that strangers cannot use them up.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// Clients of each of the two kinds that are remembered: more than machines that people look for at a time.
pub const NAMED_MAX: usize = 1024;
/// How long a table that is full names no other client; then it begins again.
const FULL_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Whether a client is to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    Now,
    /// It is the first of those for which there is no place: say that there are more.
    More,
    Not,
}

/// Which clients were named.
#[derive(Debug)]
pub struct Named<K> {
    known: Places<K>,
    strangers: Places<K>,
}

#[derive(Debug)]
struct Places<K> {
    taken: BTreeSet<K>,
    full_since: Option<Timestamp>,
}

impl<K: Ord> Default for Named<K> {
    fn default() -> Self {
        Self { known: Places::new(), strangers: Places::new() }
    }
}

impl<K: Ord> Named<K> {
    /// Takes a place for what is to be said of a client.
    pub fn name(&mut self, now: Timestamp, client: K, is_known: bool) -> Naming {
        let places = if is_known { &mut self.known } else { &mut self.strangers };
        places.name(now, client)
    }
}

impl<K: Ord> Places<K> {
    const fn new() -> Self {
        Self { taken: BTreeSet::new(), full_since: None }
    }

    fn name(&mut self, now: Timestamp, client: K) -> Naming {
        if self.taken.contains(&client) {
            return Naming::Not;
        }
        if self.taken.len() >= NAMED_MAX {
            let since = match self.full_since {
                None => {
                    self.full_since = Some(now);
                    return Naming::More;
                }
                Some(since) => since,
            };
            // A clock that was set back ends the wait, too.
            if (SignedDuration::ZERO..FULL_FOR).contains(&now.duration_since(since)) {
                return Naming::Not;
            }
            *self = Self::new();
        }
        self.taken.insert(client);
        Naming::Now
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
        let mut named = Named::default();
        assert_eq!(named.name(at(0), 1, false), Naming::Now);
        assert_eq!(named.name(at(9_999_999), 1, false), Naming::Not);
        assert_eq!(named.name(at(0), 2, false), Naming::Now);
    }

    #[test]
    fn a_flood_of_strangers_is_bounded_and_takes_no_place_of_known_hosts() {
        let mut named = Named::default();
        let words: Vec<Naming> = (0..3 * NAMED_MAX).map(|client| named.name(at(0), client, false)).collect();
        assert_eq!(words.iter().filter(|word| **word == Naming::Now).count(), NAMED_MAX);
        assert_eq!(words.iter().filter(|word| **word == Naming::More).count(), 1);
        assert_eq!(named.name(at(0), usize::MAX, true), Naming::Now, "a known host");
        assert_eq!(named.name(at(3599), usize::MAX, false), Naming::Not);
        assert_eq!(named.name(at(3600), usize::MAX, false), Naming::Now, "the table begins again");
    }
}
