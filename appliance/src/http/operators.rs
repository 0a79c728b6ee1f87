//! Addresses of the people and programs that run hosts: the API keeps places for them, since it may be on a network
//! with other clients.
//!
//! An address is an operator's for a day after a request from it was proven to be an operator's. The address gives no
//! rights: each request from it must prove itself again. An operator's very first request has no such place and
//! competes with others; connections that have sent no request yield to it.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{client_classes::is_on_this_machine, connection_admission::Standings, connection_table::ClientClass};

/// How many operators at addresses are remembered; the one that was seen least recently is dropped first.
pub const OPERATORS_MAX: usize = 256;
/// How long an address is an operator's after the last request.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 3600);
/// How long a caller's rights are not checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The addresses of operators. Clones share them.
#[derive(Clone, Default)]
pub struct Operators {
    /// The appliance's own address: connections from it come from this machine.
    own: Arc<Mutex<Option<IpAddr>>>,
    seen: Arc<Mutex<OperatorAddresses>>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators").field("own", &self.own).finish_non_exhaustive()
    }
}

/// When each operator was last proven to be at an address.
#[derive(Debug, Default)]
struct OperatorAddresses(HashMap<IpAddr, Vec<(Arc<str>, Instant)>>);

impl Operators {
    /// Makes an empty list. `own` is the appliance's own address, if it has one on a network.
    #[must_use]
    pub fn new(own: Option<IpAddr>) -> Self {
        Self { own: Arc::new(Mutex::new(own)), ..Self::default() }
    }

    /// Changes the appliance's own address, for all clones.
    pub fn set_own(&self, own: IpAddr) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }

    fn own(&self) -> Option<IpAddr> {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this caller proved its identity from there. `runs_hosts` checks its rights, which happens now and
    /// then.
    pub fn proved(&self, address: IpAddr, caller: &str, runs_hosts: impl FnOnce() -> bool) {
        let (address, now) = (address.to_canonical(), Instant::now());
        if is_on_this_machine(address, self.own()) || self.lock().is_fresh(address, caller, now) {
            return;
        }
        let runs_hosts = runs_hosts();
        let mut seen = self.lock();
        if runs_hosts {
            seen.note(address, caller, now);
        } else {
            seen.forget(address, caller);
        }
    }

    /// Returns the function that classifies addresses.
    #[must_use]
    pub fn client_classes(&self) -> Standings {
        let operators = self.clone();
        Standings::new(move |address| operators.standing(address))
    }

    fn standing(&self, address: IpAddr) -> ClientClass {
        if is_on_this_machine(address, self.own()) {
            return ClientClass::Owner;
        }
        let known = self.lock().at(address.to_canonical(), Instant::now());
        if known.is_empty() { ClientClass::Stranger } else { ClientClass::Known(known) }
    }

    fn lock(&self) -> MutexGuard<'_, OperatorAddresses> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OperatorAddresses {
    fn is_fresh(&self, address: IpAddr, caller: &str, now: Instant) -> bool {
        let at = self.0.get(&address).into_iter().flatten().find(|(name, _)| **name == *caller);
        at.is_some_and(|(_, at)| now.saturating_duration_since(*at) < LOOK_AGAIN)
    }

    fn at(&self, address: IpAddr, now: Instant) -> Vec<Arc<str>> {
        let all = self.0.get(&address).into_iter().flatten();
        let remembered = all.filter(|(_, at)| now.saturating_duration_since(*at) < REMEMBERED_FOR);
        remembered.map(|(name, _)| Arc::clone(name)).collect()
    }

    fn note(&mut self, address: IpAddr, caller: &str, now: Instant) {
        self.forget(address, caller);
        if self.0.values().map(Vec::len).sum::<usize>() >= OPERATORS_MAX {
            let all =
                self.0.iter().flat_map(|(address, seen)| seen.iter().map(move |(name, at)| (*at, *address, name)));
            let oldest = all.min_by_key(|(at, ..)| *at).map(|(_, address, name)| (address, Arc::clone(name)));
            oldest.iter().for_each(|(address, name)| self.forget(*address, name));
        }
        self.0.entry(address).or_default().push((Arc::from(caller), now));
    }

    fn forget(&mut self, address: IpAddr, caller: &str) {
        if let Some(seen) = self.0.get_mut(&address) {
            seen.retain(|(name, _)| **name != *caller);
            if seen.is_empty() {
                self.0.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> IpAddr {
        IpAddr::from(u32::try_from(number).unwrap_or(0).to_be_bytes())
    }

    #[test]
    fn an_address_is_an_operators_once_one_proved_itself_there() {
        let operators = Operators::new(Some(address(1)));
        assert_eq!(operators.standing(address(2)), ClientClass::Stranger);
        operators.proved(address(2), "ann", || true);
        operators.proved(address(2), "bob", || false);
        operators.proved(address(3), "eve", || false);
        assert_eq!(operators.standing(address(2)), ClientClass::Known(vec!["ann".into()]));
        assert_eq!(operators.standing(address(3)), ClientClass::Stranger, "a tenant is none");
        operators.proved(address(2), "ann", || unreachable!("that was looked at a moment ago"));
        operators.proved(address(1), "root", || unreachable!("it is this machine"));
        assert_eq!(operators.standing(address(1)), ClientClass::Owner);
        assert_eq!(operators.standing([127, 0, 0, 1].into()), ClientClass::Owner);
    }

    #[test]
    fn who_came_last_longest_ago_is_forgotten_and_all_are_after_a_day() {
        let (mut seen, began) = (OperatorAddresses::default(), Instant::now());
        let at = |number: usize| began + Duration::from_secs(number as u64);
        for number in 0..=OPERATORS_MAX {
            seen.note(address(number), "ann", at(number));
        }
        assert!(seen.at(address(0), at(0)).is_empty());
        assert_eq!(seen.at(address(1), at(1)), vec![Arc::<str>::from("ann")]);
        assert!(seen.is_fresh(address(1), "ann", at(60)) && !seen.is_fresh(address(1), "ann", at(61)));
        assert!(seen.at(address(1), at(1) + REMEMBERED_FOR).is_empty());
        seen.forget(address(1), "ann");
        assert_eq!(seen.0.len(), OPERATORS_MAX - 1);
    }
}
