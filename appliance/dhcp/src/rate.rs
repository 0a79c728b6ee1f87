//! How many requests one hardware address may make.
//!
//! A client in a loop (a ROM that dislikes our answer, a script) must not cost a disk write per
//! packet. It must not know what the packets say.

use std::collections::BTreeMap;

use firesteel_facts::{BucketLimits, Mac, TokenBucket};
use jiff::{SignedDuration, Timestamp};

/// One boot asks about eight times: ROM, iPXE and agent, each a pair, some repeated. Then one request more each half
/// second.
const LIMITS: BucketLimits = BucketLimits { burst: 20, refill: SignedDuration::from_millis(500) };
/// Hosts of four full racks that boot at once, twofold; each costs some 40 bytes.
const MACS_MAX: usize = 4096;

/// A bucket of tokens per hardware address.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<Mac, TokenBucket>);

impl Rates {
    /// Takes a token; false when there is none.
    pub(crate) fn allow(&mut self, now: Timestamp, mac: Mac) -> bool {
        if self.0.len() >= MACS_MAX && !self.0.contains_key(&mac) {
            self.make_room(now);
        }
        self.0.entry(mac).or_insert_with(|| TokenBucket::full(&LIMITS, now)).take(&LIMITS, now)
    }

    /// Forgets clients whose bucket would be full by now. Where that frees nothing, the addresses are made
    /// up, and remembering them limits no real client: forget all.
    fn make_room(&mut self, now: Timestamp) {
        self.0.retain(|_, bucket| !bucket.is_full(&LIMITS, now));
        if self.0.len() >= MACS_MAX {
            self.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("in range")
    }

    #[test]
    fn a_chatty_client_is_slowed_and_others_are_not() {
        let mut rates = Rates::default();
        let (loud, quiet) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let allowed = (0..100).filter(|_| rates.allow(at(0), loud)).count();
        assert_eq!(allowed, 20);
        assert!(rates.allow(at(0), quiet));
        assert!(rates.allow(at(1), loud) && rates.allow(at(1), loud) && !rates.allow(at(1), loud));
        assert!(rates.allow(at(-5000), loud), "a clock set back does not lock anybody out");
    }

    #[test]
    fn a_flood_of_made_up_addresses_stays_bounded() {
        let mut rates = Rates::default();
        for number in 0..20_000u32 {
            let [a, b, c, d] = number.to_be_bytes();
            assert!(rates.allow(at(0), Mac([2, 0, a, b, c, d])));
            assert!(rates.0.len() <= MACS_MAX);
        }
    }

    #[test]
    fn who_was_quiet_is_forgotten_first_and_who_is_known_makes_no_room() {
        let mut rates = Rates::default();
        let (loud, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        for number in 1..MACS_MAX {
            let [.., high, low] = number.to_be_bytes();
            assert!(rates.allow(at(0), Mac([2, 0, 9, 9, high, low])));
        }
        assert_eq!((0..30).filter(|_| rates.allow(at(0), loud)).count(), 20);
        assert_eq!(rates.0.len(), MACS_MAX);
        assert!(rates.allow(at(1), other));
        assert_eq!(rates.0.len(), 2, "the buckets of all others are full again");
        assert_eq!((0..30).filter(|_| rates.allow(at(1), loud)).count(), 2, "it is slowed on");
    }
}
