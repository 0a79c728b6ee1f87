//! Admission of connections and bodies to a bounded number of places ([`super::connection_table`]).

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::connection_table::{ClientClass, ConnectionTable, EnteredPlace, PlaceId, PlaceRefusal, Share};
use super::connection_use::Occupant;

/// The time between two looks for a connection that can yield by now: none announces it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The function that classifies an address now.
#[derive(Clone)]
pub struct Standings(Arc<dyn Fn(IpAddr) -> ClientClass + Send + Sync>);

impl Standings {
    pub fn new(standing: impl Fn(IpAddr) -> ClientClass + Send + Sync + 'static) -> Self {
        Self(Arc::new(standing))
    }
}

impl fmt::Debug for Standings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standings(…)")
    }
}

/// Admits clients to places. Clones share the places.
#[derive(Clone, Debug)]
pub struct ConnectionAdmission {
    places: Arc<Mutex<ConnectionTable>>,
    /// Wakes those who wait when a place was given back.
    left: Arc<Notify>,
    standings: Standings,
}

impl ConnectionAdmission {
    #[must_use]
    pub fn new(share: Share, standings: Standings) -> Self {
        Self { places: Arc::new(Mutex::new(ConnectionTable::new(share))), left: Arc::default(), standings }
    }

    /// Takes a place that its holder keeps, whatever others want.
    ///
    /// # Errors
    /// When this client may have none.
    pub fn enter(&self, client: IpAddr) -> Result<OccupiedPlace, PlaceRefusal> {
        self.enter_as(client, &(self.standings.0)(client), Occupant::idle_occupant(Instant::now()))
    }

    /// Takes a place that another client may claim later; see [`OccupiedPlace::occupant`].
    ///
    /// # Errors
    /// When this client may have none.
    pub fn enter_and_yield(&self, client: IpAddr) -> Result<OccupiedPlace, PlaceRefusal> {
        self.enter_as(client, &(self.standings.0)(client), Occupant::new(Instant::now()))
    }

    /// Takes a place that another client may claim later. If there is none at all, a known client waits for one.
    ///
    /// # Errors
    /// When this client may have none.
    pub async fn enter_or_wait(&self, client: IpAddr) -> Result<OccupiedPlace, PlaceRefusal> {
        loop {
            let left = self.left.notified();
            let standing = (self.standings.0)(client);
            match self.enter_as(client, &standing, Occupant::new(Instant::now())) {
                Err(PlaceRefusal::Full) if standing != ClientClass::Stranger => {
                    // It tries again even if no place was given back.
                    drop(tokio::time::timeout(LOOK_AGAIN, left).await);
                }
                entered => return entered,
            }
        }
    }

    fn enter_as(
        &self,
        client: IpAddr,
        standing: &ClientClass,
        occupant: Arc<Occupant>,
    ) -> Result<OccupiedPlace, PlaceRefusal> {
        let EnteredPlace { id, yields } = self.lock().enter(client, standing, &occupant)?;
        let made_room = yields.is_some();
        yields.iter().for_each(|other| other.yield_place());
        Ok(OccupiedPlace { door: self.clone(), id, occupant, made_room })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is taken.
#[derive(Debug)]
pub struct OccupiedPlace {
    door: ConnectionAdmission,
    id: PlaceId,
    occupant: Arc<Occupant>,
    made_room: bool,
}

impl OccupiedPlace {
    /// The holder of the place.
    #[must_use]
    pub fn occupant(&self) -> &Arc<Occupant> {
        &self.occupant
    }

    /// Tells whether another connection had to yield for it.
    #[must_use]
    pub fn made_room(&self) -> bool {
        self.made_room
    }
}

impl Drop for OccupiedPlace {
    fn drop(&mut self) {
        self.door.lock().leave(self.id);
        self.door.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const SHARE: Share = Share { total: 4, per_client: 4, per_known: 1 };

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn host() -> ClientClass {
        ClientClass::Known(vec!["a".into()])
    }

    #[test]
    fn who_left_is_forgotten() {
        let door = ConnectionAdmission::new(SHARE, Standings::new(|_| ClientClass::Stranger));
        let guests: Vec<_> = (1..=3).map(|number| door.enter(address(number)).unwrap()).collect();
        let taken = door.lock().taken();
        assert_eq!((taken, door.enter(address(4)).unwrap_err()), (3, PlaceRefusal::Common));
        drop(guests);
        assert_eq!(door.lock().taken(), 0);
    }

    /// A machine that becomes known while it is connected gives back what it took.
    #[test]
    fn a_place_is_given_back_as_it_was_taken() {
        let known = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&known);
        let standing = move |_| if seen.load(Ordering::Relaxed) { host() } else { ClientClass::Stranger };
        let door = ConnectionAdmission::new(SHARE, Standings::new(standing));
        let before: Vec<_> = (0..3).map(|_| door.enter(address(1)).unwrap()).collect();
        known.store(true, Ordering::Relaxed);
        let after = door.enter(address(1)).unwrap();
        drop(before);
        known.store(false, Ordering::Relaxed);
        let again: Vec<_> = (0..3).map(|_| door.enter(address(2)).unwrap()).collect();
        assert_eq!(door.enter(address(2)).unwrap_err(), PlaceRefusal::Full, "the first one has what is kept");
        drop((after, again));
        assert_eq!(door.lock().taken(), 0);
    }

    #[tokio::test]
    async fn who_yields_is_told_and_gives_nothing_back_twice() {
        let door = ConnectionAdmission::new(SHARE, Standings::new(|_| ClientClass::Stranger));
        let guests: Vec<_> = (1..=3).map(|number| door.enter_and_yield(address(number)).unwrap()).collect();
        let new = door.enter_and_yield(address(4)).unwrap();
        assert!(new.made_room() && !guests[0].made_room());
        guests[0].occupant().yielded().await;
        drop(guests);
        assert_eq!(door.lock().taken(), 1);
    }

    /// It keeps its place in the queue: it is not turned away.
    #[tokio::test]
    async fn a_known_client_waits_where_all_are_taken_and_a_stranger_does_not() {
        let standing = |client: IpAddr| if client == address(9) { host() } else { ClientClass::Stranger };
        let door = ConnectionAdmission::new(SHARE, Standings::new(standing));
        let guests: Vec<_> = (1..=3).map(|number| door.enter(address(number)).unwrap()).collect();
        let host = door.enter(address(9)).unwrap();
        assert_eq!(door.enter_or_wait(address(4)).await.unwrap_err(), PlaceRefusal::Full);
        let waiting = tokio::spawn({
            let door = door.clone();
            async move { door.enter_or_wait(address(9)).await }
        });
        tokio::task::yield_now().await;
        drop(guests);
        waiting.await.unwrap().unwrap();
        drop(host);
    }
}
