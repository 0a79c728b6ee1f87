//! Which addresses are those of known hosts: places are kept for them when strangers want them all.
//!
//! An address is known while it is leased to the boot MAC of a host, or when an agent with a host's
//! token said hello from it (networks with another DHCP server). It opens nothing by itself.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use firesteel_dhcp::Mac;

use super::places::{Standing, Standings};

/// Addresses that proved themselves and are remembered; the oldest goes first. More than hosts that
/// are installed at a time.
pub const PROVED_MAX: usize = 4096;

/// Looks up who has a live lease of an address.
pub type Leaseholders = Arc<dyn Fn(IpAddr) -> Option<Mac> + Send + Sync>;

/// Shared by all its clones.
#[derive(Clone)]
pub struct Known {
    inner: Arc<Mutex<Inner>>,
    leaseholders: Leaseholders,
}

/// Knows no host, no lease and no address of its own.
impl Default for Known {
    fn default() -> Self {
        Self { inner: Arc::default(), leaseholders: Arc::new(|_| None) }
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Inner {
    hosts: HashSet<Mac>,
    proved: VecDeque<IpAddr>,
    /// The appliance's own: who comes from there is on this machine.
    own: Option<IpAddr>,
}

impl Known {
    /// Where the appliance itself is, and who has which lease.
    #[must_use]
    pub fn at(own: IpAddr, leaseholders: Leaseholders) -> Self {
        let inner = Inner { own: Some(own), ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)), leaseholders }
    }

    /// These are the boot MACs of all hosts.
    pub fn set_hosts(&self, macs: impl IntoIterator<Item = Mac>) {
        self.lock().hosts = macs.into_iter().collect();
    }

    /// Whether this is the boot MAC of a host.
    #[must_use]
    pub fn is_host(&self, mac: Mac) -> bool {
        self.lock().hosts.contains(&mac)
    }

    /// The agent of a host said hello from there.
    pub fn proved(&self, address: IpAddr) {
        let proved = &mut self.lock().proved;
        proved.retain(|other| *other != address);
        if proved.len() >= PROVED_MAX {
            proved.pop_front();
        }
        proved.push_back(address);
    }

    #[must_use]
    pub fn is(&self, address: IpAddr) -> bool {
        let holder = (self.leaseholders)(address);
        let inner = self.lock();
        holder.is_some_and(|mac| inner.hosts.contains(&mac)) || inner.proved.contains(&address)
    }

    /// For those who ask.
    #[must_use]
    pub fn standings(&self) -> Standings {
        let known = self.clone();
        Standings::new(move |address| known.standing(address))
    }

    fn standing(&self, address: IpAddr) -> Standing {
        if address.is_loopback() || self.lock().own == Some(address) {
            Standing::Owner
        } else if self.is(address) {
            Standing::Known
        } else {
            Standing::Stranger
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    #[test]
    fn who_is_on_this_machine_is_its_owner() {
        let known = Known::at([10, 0, 0, 1].into(), Arc::new(|_| None));
        known.proved([10, 0, 0, 2].into());
        for (address, standing) in [
            ([127, 0, 0, 1], Standing::Owner),
            ([10, 0, 0, 1], Standing::Owner),
            ([10, 0, 0, 2], Standing::Known),
            ([10, 0, 0, 3], Standing::Stranger),
        ] {
            assert_eq!(known.standing(address.into()), standing);
        }
        assert_eq!(Known::default().standing([10, 0, 0, 1].into()), Standing::Stranger);
    }

    #[test]
    fn a_leased_address_is_known_while_its_mac_is_a_hosts() {
        let (own, first, second) = ([10, 0, 0, 254].into(), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let leases = Arc::new(Mutex::new(vec![(first, HOST), (second, STRANGER)]));
        let table = Arc::clone(&leases);
        let known = Known::at(
            own,
            Arc::new(move |asked| {
                let table = table.lock().unwrap_or_else(PoisonError::into_inner);
                table.iter().find(|(address, _)| *address == asked).map(|(_, mac)| *mac)
            }),
        );
        assert!(!known.is(first), "no host is known yet");
        known.set_hosts([HOST]);
        assert!(known.is(first) && !known.is(second));
        leases.lock().unwrap_or_else(PoisonError::into_inner)[0].1 = STRANGER;
        assert!(!known.is(first), "the address went to another machine");
        known.set_hosts([STRANGER]);
        assert!(known.is(second));
        assert!(!known.is([10, 0, 0, 3].into()));
    }

    #[test]
    fn an_agent_that_proved_itself_is_remembered_until_many_others_did() {
        let known = Known::default();
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap_or(0).to_be_bytes());
        known.proved(address(1));
        known.proved(address(2));
        known.proved(address(1));
        for number in 3..PROVED_MAX + 2 {
            known.proved(address(number));
        }
        assert!(known.is(address(1)), "it came again");
        assert!(!known.is(address(2)));
        assert_eq!(known.lock().proved.len(), PROVED_MAX);
    }
}
