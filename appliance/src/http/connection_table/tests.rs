#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use super::*;
use crate::http::connection_use::PlaceRequest;

const SHARE: Share = Share { total: 1024, per_client: 64, per_known: 4 };
/// A table with few places.
const SMALL: Share = Share { total: 8, per_client: 8, per_known: 1 };

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

fn host(number: u8) -> ClientClass {
    ClientClass::Known(vec![Arc::from(number.to_string())])
}

/// The places, and when the next one is taken.
struct House {
    places: ConnectionTable,
    began: Instant,
    entered: u64,
}

impl House {
    fn new(share: Share) -> Self {
        Self { places: ConnectionTable::new(share), began: Instant::now(), entered: 0 }
    }

    fn occupant(&mut self) -> Arc<Occupant> {
        self.entered += 1;
        Occupant::new(self.began + Duration::from_secs(self.entered))
    }

    /// Takes a place that never yields.
    fn stay(&mut self, client: IpAddr, standing: &ClientClass) -> Result<PlaceId, PlaceRefusal> {
        let occupant = Occupant::idle_occupant(self.began);
        self.places.enter(client, standing, &occupant).map(|entered| entered.id)
    }

    /// Takes a place for a client that sends nothing.
    fn wait(&mut self, client: IpAddr, standing: &ClientClass) -> Arc<Occupant> {
        let occupant = self.occupant();
        self.places.enter(client, standing, &occupant).unwrap();
        occupant
    }

    /// Returns the connection that must yield for a client.
    fn yields(&mut self, client: IpAddr, standing: &ClientClass) -> Option<Arc<Occupant>> {
        let occupant = self.occupant();
        self.places.enter(client, standing, &occupant).unwrap().yields
    }

    /// Takes all that the client can get.
    fn take_all(&mut self, client: IpAddr, standing: &ClientClass) -> (usize, PlaceRefusal) {
        for taken in 0.. {
            if let Err(why) = self.stay(client, standing) {
                return (taken, why);
            }
        }
        unreachable!("there is no end of places")
    }
}

fn is(one: Option<&Arc<Occupant>>, other: &Arc<Occupant>) -> bool {
    one.is_some_and(|one| Arc::ptr_eq(one, other))
}

/// Sixteen addresses with 64 connections each took all 1024 places, and a host could not boot.
#[test]
fn strangers_leave_places_to_known_hosts() {
    let mut house = House::new(SHARE);
    let taken: Vec<_> = (1..=20).map(|number| house.take_all(address(number), &ClientClass::Stranger)).collect();
    assert_eq!(taken[..12], [(64, PlaceRefusal::Client); 12]);
    assert_eq!(taken[12..], [(0, PlaceRefusal::Common); 8]);
    for number in 101..=164 {
        assert_eq!(house.take_all(address(number), &host(number)).0, 4);
    }
    assert_eq!(house.stay(address(165), &host(165)), Err(PlaceRefusal::Full));
    assert_eq!(house.stay(address(165), &ClientClass::Stranger), Err(PlaceRefusal::Full));
    assert_eq!(house.places.taken(), 1024);
}

/// Four leases in the names of hosts took the reserved quarter for all of them.
#[test]
fn each_known_host_has_few_of_what_is_kept_however_many_addresses_are_its_own() {
    let mut house = House::new(SHARE);
    for number in 1..=12 {
        assert_eq!(house.take_all(address(number), &ClientClass::Stranger).0, 64);
    }
    for number in 101..=104 {
        assert_eq!(house.take_all(address(number), &host(number)), (4, PlaceRefusal::Common));
        assert_eq!(
            house.take_all(address(number + 100), &host(number)),
            (0, PlaceRefusal::Common),
            "another address of it"
        );
    }
    assert_eq!(house.take_all(address(110), &host(110)), (4, PlaceRefusal::Common), "there is room for the others");
    // Several hosts are behind one address, each with its share.
    let both = ClientClass::Known(vec![Arc::from("a"), Arc::from("b")]);
    assert_eq!(house.take_all(address(111), &both), (8, PlaceRefusal::Common));
}

/// Four machines with 1500 slow connections took every place, and a host could not fetch its kernel.
#[test]
fn one_client_has_so_many_places_and_no_more() {
    let mut house = House::new(SHARE);
    assert_eq!(house.take_all(address(1), &ClientClass::Stranger), (64, PlaceRefusal::Client));
    let first = house.stay(address(2), &ClientClass::Stranger).unwrap();
    house.places.leave(first);
    house.places.leave(first);
    assert_eq!(house.take_all(address(2), &ClientClass::Stranger), (64, PlaceRefusal::Client));
    assert_eq!(house.take_all(address(3), &host(3)), (68, PlaceRefusal::Client), "known ones too");
    let owner = house.take_all([127, 0, 0, 1].into(), &ClientClass::Owner);
    assert_eq!(owner, (1024 - 64 - 64 - 68, PlaceRefusal::Full));
}

/// Connections that were silent held their places for as long as they are waited for, and no other client got one.
#[test]
fn who_waits_for_longest_without_a_whole_request_yields() {
    let mut house = House::new(SMALL);
    let waiting: Vec<_> = (1..=6).map(|number| house.wait(address(number), &ClientClass::Stranger)).collect();
    // The first two send a request each; the second has its answer by now.
    let asked: Vec<_> = waiting[..2].iter().map(PlaceRequest::new).collect();
    asked.iter().for_each(|asked| asked.is_whole());
    let mut asked = asked.into_iter();
    let first = asked.next().unwrap();
    drop(asked);
    for next in [2, 3, 4, 5] {
        assert!(is(house.yields(address(7), &ClientClass::Stranger).as_ref(), &waiting[next]), "{next}");
    }
    let later = house.yields(address(8), &ClientClass::Stranger);
    assert!(!is(later.as_ref(), &waiting[1]), "who sent a request before stays longer");
    drop(first);
    assert_eq!(house.places.taken(), 6, "none was given twice");
}

#[test]
fn where_all_were_answered_once_the_one_that_is_silent_for_longest_yields() {
    let mut house = House::new(SMALL);
    let waiting: Vec<_> = (1..=6).map(|number| house.wait(address(number), &ClientClass::Stranger)).collect();
    for number in [3, 0, 1, 2, 4, 5] {
        PlaceRequest::new(&waiting[number]).is_whole();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is(house.yields(address(7), &ClientClass::Stranger).as_ref(), &waiting[3]));
}

#[test]
fn a_stranger_takes_no_place_of_a_known_client_and_a_known_one_takes_any() {
    let mut house = House::new(SMALL);
    // Hosts use the unreserved places first.
    let hosts: Vec<_> = (101..=106).map(|number| house.wait(address(number), &host(number))).collect();
    assert_eq!(house.stay(address(1), &ClientClass::Stranger), Err(PlaceRefusal::Common));
    let kept: Vec<_> = (107..=108).map(|number| house.wait(address(number), &host(number))).collect();
    assert!(is(house.yields(address(109), &host(109)).as_ref(), &hosts[0]), "full of hosts, the first one goes");
    assert_eq!(house.stay(address(1), &ClientClass::Stranger), Err(PlaceRefusal::Full));
    drop(kept);

    let mut house = House::new(SMALL);
    let host_waits = house.wait(address(101), &host(101));
    let strangers: Vec<_> = (1..=5).map(|number| house.wait(address(number), &ClientClass::Stranger)).collect();
    assert!(
        is(house.yields(address(6), &ClientClass::Stranger).as_ref(), &strangers[0]),
        "not the host, which is older"
    );
    (102..=103).for_each(|number| drop(house.wait(address(number), &host(number))));
    assert!(is(house.yields(address(104), &host(104)).as_ref(), &strangers[1]), "a stranger before a host");
    assert!(host_waits.waiting().is_some());
}
