//! Time servers that the Provisioning object names by DNS names: looked up from time to time, in the background.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel_runtime::lock;

/// How long the addresses of a name are used before it is looked up again. A pool may answer others each time, and each
/// change is one of DHCP.
const RESOLVED_FOR: Duration = Duration::from_hours(1);
/// How long a name without an address waits for its next look-up.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The most names that are looked up.
const NAMES_MAX: usize = 16;

/// The names with their addresses, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct NamedTimeServers {
    names: Arc<Mutex<BTreeMap<String, ResolvedName>>>,
}

/// What is known of a name.
#[derive(Debug)]
struct ResolvedName {
    addresses: Vec<Ipv4Addr>,
    asked_at: Instant,
}

impl ResolvedName {
    fn is_fresh(&self, now: Instant) -> bool {
        let pause = if self.addresses.is_empty() { RETRY_AFTER } else { RESOLVED_FOR };
        now.duration_since(self.asked_at) < pause
    }

    /// Takes in an answer. A name of a pool has others at each look-up: those that are still among them stay, and no
    /// host sees a change.
    fn answered(&mut self, addresses: Vec<Ipv4Addr>) {
        let stays = |known: &&Ipv4Addr| addresses.contains(known);
        let kept: Vec<Ipv4Addr> = self.addresses.iter().filter(stays).copied().collect();
        self.addresses = if kept.is_empty() { addresses } else { kept };
    }
}

impl NamedTimeServers {
    /// Returns the addresses that these names have, in the order of the names, and looks up what is not known or old. A
    /// name that is not asked for any more is forgotten.
    pub(super) fn addresses(&self, names: &[String]) -> Vec<Ipv4Addr> {
        let now = Instant::now();
        let mut due = Vec::new();
        let found = {
            let mut known = lock(&self.names);
            known.retain(|name, _| names.contains(name));
            for name in names.iter().take(NAMES_MAX) {
                if !known.get(name).is_some_and(|known| known.is_fresh(now)) {
                    // What it was is used on until it is known what it is.
                    let addresses = known.remove(name).map(|known| known.addresses).unwrap_or_default();
                    known.insert(name.clone(), ResolvedName { addresses, asked_at: now });
                    due.push(name.clone());
                }
            }
            names.iter().filter_map(|name| known.get(name)).flat_map(|known| known.addresses.clone()).collect()
        };
        due.into_iter().for_each(|name| self.look_up(name));
        found
    }

    fn look_up(&self, name: String) {
        let names = Arc::clone(&self.names);
        tokio::spawn(async move {
            match tokio::net::lookup_host((name.as_str(), 123)).await {
                Ok(found) => {
                    let v4 = |address: IpAddr| match address {
                        IpAddr::V4(address) => Some(address),
                        IpAddr::V6(_) => None,
                    };
                    let mut addresses: Vec<Ipv4Addr> = found.filter_map(|at| v4(at.ip().to_canonical())).collect();
                    // Another order of the same is no change.
                    addresses.sort_unstable();
                    addresses.dedup();
                    if let Some(known) = lock(&names).get_mut(&name) {
                        known.answered(addresses);
                    }
                }
                // What it was is used on.
                Err(error) => {
                    tracing::warn!(name, %error, "could not look up a time server of the Provisioning object");
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_name_is_looked_up_in_the_background_and_forgotten_when_it_is_edited_away() {
        let servers = NamedTimeServers::default();
        let local = names(&["localhost"]);
        assert!(servers.addresses(&local).is_empty(), "no turn waits for a server of names");
        let begun = Instant::now();
        while servers.addresses(&local) != [Ipv4Addr::LOCALHOST] {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not looked up");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(servers.addresses(&[]).is_empty() && lock(&servers.names).is_empty());
        let many: Vec<String> = (0..40).map(|number| format!("n{number}.invalid")).collect();
        servers.addresses(&many);
        assert_eq!(lock(&servers.names).len(), NAMES_MAX);
    }

    #[test]
    fn what_a_pool_still_names_stays_as_it_is() {
        let at = |last: u8| Ipv4Addr::new(192, 0, 2, last);
        let mut name = ResolvedName { addresses: Vec::new(), asked_at: Instant::now() };
        for (answer, used) in [
            (vec![at(1), at(2)], vec![at(1), at(2)]),
            (vec![at(2), at(3)], vec![at(2)]),
            (vec![at(2), at(4), at(5)], vec![at(2)]),
            (vec![at(6), at(7)], vec![at(6), at(7)]),
        ] {
            name.answered(answer);
            assert_eq!(name.addresses, used);
        }
    }

    #[test]
    fn a_name_without_an_address_is_looked_up_again_soon() {
        let now = Instant::now();
        let known = |addresses| ResolvedName { addresses, asked_at: now };
        let (failed, resolved) = (known(Vec::new()), known(vec![Ipv4Addr::LOCALHOST]));
        assert!(failed.is_fresh(now) && !failed.is_fresh(now + RETRY_AFTER));
        assert!(resolved.is_fresh(now + RETRY_AFTER) && !resolved.is_fresh(now + RESOLVED_FOR));
    }
}
