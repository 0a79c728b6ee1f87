//! Decides who gets one of a bounded number of places. Pure.
//!
//! A place is a connection, or the memory for a large body. A quarter of the places is reserved for known clients: a
//! crowd of other machines must not keep a host from booting (DHCP reserves addresses for the same reason). The caller
//! says which clients are known. Each known client may have only a few of the reserved places, whatever the number of
//! its addresses: a machine that forges the leases of some hosts takes their share, not that of the others.
//!
//! | client | may have |
//! |---|---|
//! | stranger | [`Share::per_client`] of the three quarters that are not reserved |
//! | known | the same, and [`Share::per_known`] of the reserved quarter |
//! | on this machine | any free place |
//!
//! When all that a client may have is taken, the connection yields that has waited longest without a whole request
//! ([`Occupant`]): strangers before known clients, and among them those first that have sent none yet. A stranger never
//! takes the place of a known client.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::connection_use::Occupant;

/// How many places there are, and for which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of all places.
    pub total: usize,
    /// The places of one address, besides reserved ones.
    pub per_client: usize,
    /// The reserved places of one known client.
    pub per_known: usize,
}

impl Share {
    /// The number of reserved places: a quarter.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.total / 4
    }

    /// The number of places for all clients.
    #[must_use]
    pub const fn common(&self) -> usize {
        self.total - self.kept()
    }
}

/// The class of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// The client runs on this machine: its owner's people and programs, for whom no limit per client holds.
    Owner,
    /// The address belongs to these hosts, or to these operators.
    Known(Vec<Arc<str>>),
    Stranger,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceRefusal {
    /// This client has as many as one client may have.
    Client,
    /// All places that are not reserved are taken.
    Common,
    /// No place is left.
    Full,
}

impl PlaceRefusal {
    /// The word for metrics and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Common => "common",
            Self::Full => "full",
        }
    }
}

/// Names a place that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceId(u64);

/// The part of the places that one is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlaceShare {
    Common,
    /// A reserved place, counted for this client; `None` if a client on this machine took it.
    Kept(Option<Arc<str>>),
}

#[derive(Debug)]
struct TakenPlace {
    client: IpAddr,
    charge: PlaceShare,
    is_stranger: bool,
    occupant: Arc<Occupant>,
}

/// A place that a client got, and the connection that must yield for it.
#[derive(Debug)]
pub struct EnteredPlace {
    pub id: PlaceId,
    pub yields: Option<Arc<Occupant>>,
}

/// The places that are taken.
#[derive(Debug)]
pub struct ConnectionTable {
    share: Share,
    taken: BTreeMap<PlaceId, TakenPlace>,
    next: u64,
    /// How many places each address has that are not reserved.
    clients: HashMap<IpAddr, usize>,
    /// How many reserved places each known client has.
    known: HashMap<Arc<str>, usize>,
    kept: usize,
}

impl ConnectionTable {
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, taken: BTreeMap::new(), next: 0, clients: HashMap::new(), known: HashMap::new(), kept: 0 }
    }

    /// Takes a place; [`ConnectionTable::leave`] gives it back.
    ///
    /// # Errors
    /// When this client may have none.
    pub fn enter(
        &mut self,
        client: IpAddr,
        standing: &ClientClass,
        occupant: &Arc<Occupant>,
    ) -> Result<EnteredPlace, PlaceRefusal> {
        let wanted = PlaceWish::of(self, client, standing);
        let (charge, yields) = match self.free(&wanted) {
            Some(charge) => (charge, None),
            None => self.make_room(&wanted)?,
        };
        let id = PlaceId(self.next);
        self.next += 1;
        match &charge {
            PlaceShare::Common => *self.clients.entry(client).or_default() += 1,
            PlaceShare::Kept(known) => {
                self.kept += 1;
                known.iter().for_each(|known| *self.known.entry(Arc::clone(known)).or_default() += 1);
            }
        }
        let is_stranger = *standing == ClientClass::Stranger;
        self.taken.insert(id, TakenPlace { client, charge, is_stranger, occupant: Arc::clone(occupant) });
        Ok(EnteredPlace { id, yields })
    }

    /// Gives back a place; does nothing if another client has it by now.
    pub fn leave(&mut self, id: PlaceId) {
        let Some(TakenPlace { client, charge, .. }) = self.taken.remove(&id) else { return };
        match charge {
            PlaceShare::Common => forget_one(&mut self.clients, &client),
            PlaceShare::Kept(known) => {
                self.kept -= 1;
                known.iter().for_each(|known| forget_one(&mut self.known, known));
            }
        }
    }

    /// Finds a place for which no connection must yield.
    fn free(&self, wanted: &PlaceWish) -> Option<PlaceShare> {
        if wanted.common && self.taken.len() - self.kept < self.share.common() {
            return Some(PlaceShare::Common);
        }
        wanted.kept.clone().filter(|_| self.kept < self.share.kept()).map(PlaceShare::Kept)
    }

    /// Makes the connection yield that is least useful.
    fn make_room(&mut self, wanted: &PlaceWish) -> Result<(PlaceShare, Option<Arc<Occupant>>), PlaceRefusal> {
        let Some(id) = self.evictable_place(wanted) else {
            return Err(if !wanted.common && wanted.kept.is_none() {
                PlaceRefusal::Client
            } else if self.taken.len() >= self.share.total {
                PlaceRefusal::Full
            } else {
                PlaceRefusal::Common
            });
        };
        let spared = self.taken.get(&id).map(|taken| (taken.charge.clone(), Arc::clone(&taken.occupant)));
        self.leave(id);
        let (charge, occupant) = spared.ok_or(PlaceRefusal::Full)?;
        Ok(match (charge, &wanted.kept) {
            (PlaceShare::Kept(_), Some(known)) => (PlaceShare::Kept(known.clone()), Some(occupant)),
            (PlaceShare::Kept(_) | PlaceShare::Common, _) => (PlaceShare::Common, Some(occupant)),
        })
    }

    /// Finds the connection to evict. The places are in the order in which they were taken, so it is usually one of the
    /// first.
    fn evictable_place(&self, wanted: &PlaceWish) -> Option<PlaceId> {
        let open = self.taken.iter().filter(|(_, taken)| match taken.charge {
            PlaceShare::Common => wanted.common && (taken.is_stranger || !wanted.is_stranger),
            PlaceShare::Kept(_) => wanted.kept.is_some(),
        });
        let mut best: Option<((bool, bool, Instant), PlaceId)> = None;
        for (id, taken) in open {
            let Some(waiting) = taken.occupant.waiting() else { continue };
            if taken.is_stranger && !waiting.has_asked {
                return Some(*id);
            }
            let rank = (!taken.is_stranger, waiting.has_asked, waiting.since);
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                best = Some((rank, *id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// The number of places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.len()
    }
}

fn forget_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The places that a client may have.
struct PlaceWish {
    is_stranger: bool,
    /// The client may have a place that is not reserved.
    common: bool,
    /// The client may have a reserved place, counted for this client.
    kept: Option<Option<Arc<str>>>,
}

impl PlaceWish {
    fn of(places: &ConnectionTable, client: IpAddr, standing: &ClientClass) -> Self {
        let has_room = || places.clients.get(&client).copied().unwrap_or_default() < places.share.per_client;
        let has_share =
            |known: &&Arc<str>| places.known.get(*known).copied().unwrap_or_default() < places.share.per_known;
        match standing {
            ClientClass::Owner => Self { is_stranger: false, common: true, kept: Some(None) },
            ClientClass::Known(all) => {
                let kept = all.iter().find(has_share).map(|known| Some(Arc::clone(known)));
                Self { is_stranger: false, common: has_room(), kept }
            }
            ClientClass::Stranger => Self { is_stranger: true, common: has_room(), kept: None },
        }
    }
}

#[cfg(test)]
mod tests;
