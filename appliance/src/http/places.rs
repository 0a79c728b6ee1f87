//! Who gets one of a bounded number of places: pure, and the doors that ask it.
//!
//! A place is a connection, or the memory for a large body. One client has so many, and strangers
//! together leave the last quarter to hosts that are known: as with the addresses of DHCP, a crowd of
//! machines that nobody owns must not keep a host from booting. What makes a client known is the
//! caller's to say.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many places there are, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// In all.
    pub total: usize,
    /// For one client.
    pub per_client: usize,
}

impl Share {
    /// For all clients together that are not known: three quarters.
    #[must_use]
    pub const fn strangers(&self) -> usize {
        self.total - self.total / 4
    }
}

/// What a client is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// On this machine: people and programs of its owner, whom no limit of one client holds.
    Owner,
    /// An address of a host, or of an agent that proved itself.
    Known,
    Stranger,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This client has as many as one may have.
    Client,
    /// Strangers have all of theirs.
    Strangers,
    /// There is none at all.
    Full,
}

/// Places that are taken.
#[derive(Debug)]
pub struct Places {
    share: Share,
    clients: HashMap<IpAddr, usize>,
    taken: usize,
    strangers: usize,
}

impl Places {
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, clients: HashMap::new(), taken: 0, strangers: 0 }
    }

    /// Takes a place; [`Places::leave`] gives it back.
    ///
    /// # Errors
    /// When this client may have none.
    pub fn enter(&mut self, client: IpAddr, standing: Standing) -> Result<(), Refused> {
        if self.taken >= self.share.total {
            return Err(Refused::Full);
        }
        let held = self.clients.get(&client).copied().unwrap_or_default();
        if held >= self.share.per_client && standing != Standing::Owner {
            return Err(Refused::Client);
        }
        if standing == Standing::Stranger {
            if self.strangers >= self.share.strangers() {
                return Err(Refused::Strangers);
            }
            self.strangers += 1;
        }
        self.taken += 1;
        self.clients.insert(client, held + 1);
        Ok(())
    }

    /// Gives back a place that was taken with this standing.
    pub fn leave(&mut self, client: IpAddr, standing: Standing) {
        self.taken = self.taken.saturating_sub(1);
        if standing == Standing::Stranger {
            self.strangers = self.strangers.saturating_sub(1);
        }
        if let Some(held) = self.clients.get_mut(&client) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.clients.remove(&client);
            }
        }
    }
}

/// What an address is to us, now.
#[derive(Clone)]
pub struct Standings(Arc<dyn Fn(IpAddr) -> Standing + Send + Sync>);

impl Standings {
    pub fn new(standing: impl Fn(IpAddr) -> Standing + Send + Sync + 'static) -> Self {
        Self(Arc::new(standing))
    }
}

impl fmt::Debug for Standings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standings(…)")
    }
}

/// The way to some places. Clones share them.
#[derive(Clone, Debug)]
pub struct Door {
    places: Arc<Mutex<Places>>,
    standings: Standings,
}

impl Door {
    #[must_use]
    pub fn new(share: Share, standings: Standings) -> Self {
        Self { places: Arc::new(Mutex::new(Places::new(share))), standings }
    }

    /// A place, for as long as the guest is kept.
    ///
    /// # Errors
    /// When this client may have none.
    pub fn enter(&self, client: IpAddr) -> Result<Guest, Refused> {
        let standing = (self.standings.0)(client);
        self.lock().enter(client, standing)?;
        Ok(Guest { door: self.clone(), client, standing })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is taken.
#[derive(Debug)]
pub struct Guest {
    door: Door,
    client: IpAddr,
    standing: Standing,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.door.lock().leave(self.client, self.standing);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const SHARE: Share = Share { total: 1024, per_client: 64 };

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn standings(is_known: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Standings {
        Standings::new(move |client| if is_known(client) { Standing::Known } else { Standing::Stranger })
    }

    /// Fills what the client can get.
    fn take_all(places: &mut Places, client: IpAddr, standing: Standing) -> (usize, Refused) {
        for taken in 0.. {
            if let Err(why) = places.enter(client, standing) {
                return (taken, why);
            }
        }
        unreachable!("there is no end of places")
    }

    /// Sixteen addresses with 64 connections each took all 1024 places, and a host could not boot.
    #[test]
    fn strangers_leave_places_to_known_hosts() {
        let mut places = Places::new(SHARE);
        let taken: Vec<_> = (1..=20).map(|number| take_all(&mut places, address(number), Standing::Stranger)).collect();
        assert_eq!(taken[..12], [(64, Refused::Client); 12]);
        assert_eq!(taken[12..], [(0, Refused::Strangers); 8]);
        for (host, why) in
            [(101, Refused::Client), (102, Refused::Client), (103, Refused::Client), (104, Refused::Full)]
        {
            assert_eq!(take_all(&mut places, address(host), Standing::Known), (64, why));
        }
        assert_eq!(places.enter(address(105), Standing::Known), Err(Refused::Full));
        places.leave(address(1), Standing::Stranger);
        places.enter(address(105), Standing::Known).unwrap();
        assert_eq!(places.enter(address(2), Standing::Stranger), Err(Refused::Full), "it was given to a host");
    }

    /// Four machines with 1500 slow connections took every place, and a host could not fetch its kernel.
    #[test]
    fn one_client_has_so_many_places_and_no_more() {
        let mut places = Places::new(SHARE);
        assert_eq!(take_all(&mut places, address(1), Standing::Stranger), (64, Refused::Client));
        places.enter(address(2), Standing::Stranger).unwrap();
        places.leave(address(1), Standing::Stranger);
        places.enter(address(1), Standing::Stranger).unwrap();
        assert_eq!(places.enter(address(1), Standing::Stranger), Err(Refused::Client));
        assert_eq!(take_all(&mut places, address(3), Standing::Known), (64, Refused::Client), "known ones too");
        assert_eq!(take_all(&mut places, [127, 0, 0, 1].into(), Standing::Owner), (1024 - 65 - 64, Refused::Full));
    }

    #[test]
    fn who_left_is_forgotten() {
        let door = Door::new(SHARE, standings(|client| client == address(9)));
        let guests: Vec<_> = (1..=9).map(|number| door.enter(address(number)).unwrap()).collect();
        {
            let places = door.lock();
            assert_eq!((places.taken, places.strangers), (9, 8));
        }
        drop(guests);
        let places = door.lock();
        assert_eq!((places.taken, places.strangers, places.clients.len()), (0, 0, 0));
    }

    /// A host that becomes known while it is connected gives back what it took.
    #[test]
    fn a_place_is_given_back_as_it_was_taken() {
        let known = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&known);
        let door = Door::new(SHARE, standings(move |_| seen.load(std::sync::atomic::Ordering::Relaxed)));
        let before = door.enter(address(1)).unwrap();
        known.store(true, std::sync::atomic::Ordering::Relaxed);
        let after = door.enter(address(1)).unwrap();
        drop(before);
        assert_eq!(door.lock().strangers, 0);
        drop(after);
        assert_eq!(door.lock().strangers, 0);
    }
}
