//! How often one address may ask.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses whose ration is remembered, of known hosts and of strangers alike; beyond it, new ones wait. An entry is a few
/// bytes and forgotten after a burst's intervals.
const CLIENTS_MAX: usize = 8192;

/// Requests at once, and the time for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestRation {
    pub(crate) burst: u32,
    pub(crate) interval: Duration,
}

/// The time until which an address has used up its requests. Strangers cannot fill the table of known hosts.
#[derive(Debug, Default)]
pub(crate) struct RequestRations {
    strangers: HashMap<IpAddr, Instant>,
    known: HashMap<IpAddr, Instant>,
}

impl RequestRations {
    /// Each request moves the address's clock on by one interval; it may run a burst ahead of the real one.
    pub(crate) fn take(&mut self, now: Instant, client: IpAddr, is_known: bool, ration: RequestRation) -> bool {
        let table = if is_known { &mut self.known } else { &mut self.strangers };
        if table.len() >= CLIENTS_MAX && !table.contains_key(&client) {
            table.retain(|_, until| *until > now);
            if table.len() >= CLIENTS_MAX {
                return false;
            }
        }
        let until = table.entry(client).or_insert(now);
        let next = (*until).max(now) + ration.interval;
        if next > now + ration.interval * ration.burst {
            return false;
        }
        *until = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATION: RequestRation = RequestRation { burst: 2, interval: Duration::from_secs(1) };

    #[test]
    fn a_crowd_of_made_up_addresses_uses_up_no_known_hosts_ration() {
        let mut rations = RequestRations::default();
        let now = Instant::now();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let taken = (0..10_000).filter(|number| rations.take(now, address(*number), false, RATION)).count();
        assert_eq!(taken, CLIENTS_MAX);
        let host = address(30_000);
        assert!(!rations.take(now, host, false, RATION), "a stranger has to wait");
        assert!(rations.take(now, host, true, RATION) && rations.take(now, host, true, RATION));
        assert!(!rations.take(now, host, true, RATION), "a known host has a ration, too");
        let later = now + Duration::from_secs(1);
        assert!(rations.take(later, host, false, RATION), "the crowd is forgotten");
    }
}
