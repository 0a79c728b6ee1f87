//! Who gets one of a bounded number of places. Pure.
//!
//! A place is a connection, or the memory for a large body. A quarter of them is kept for clients that are known: as
//! with the addresses of DHCP, a crowd of machines that are no hosts must not keep a host from booting. What makes a client
//! known is the caller's to say. One that is known has few of the quarter, however many addresses speak in its name: a
//! machine that forges the leases of some hosts takes their share, and not that of the others.
//!
//! | client | may have |
//! |---|---|
//! | stranger | [`Share::per_client`] of the three quarters that are for all |
//! | known | the same, and [`Share::per_known`] of what is kept |
//! | on this machine | whatever is free |
//!
//! When all that a client may have is taken, the connection yields that has waited for longest without a whole request
//! ([`Occupant`]), first of strangers, and of these first one that never sent any. A stranger never takes the place of a
//! client that is known.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Instant,
};

use super::connection_use::Occupant;

/// How many places there are, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// In all.
    pub total: usize,
    /// For one address, besides those that are kept.
    pub per_client: usize,
    /// For one client that is known, of those that are kept.
    pub per_known: usize,
}

impl Share {
    /// For clients alone that are known: a quarter.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.total / 4
    }

    /// For everybody.
    #[must_use]
    pub const fn common(&self) -> usize {
        self.total - self.kept()
    }
}

/// What a client is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// On this machine: people and programs of its owner, whom no limit of one client holds.
    Owner,
    /// An address of these hosts, or of these operators.
    Known(Vec<Arc<str>>),
    Stranger,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceRefusal {
    /// This client has as many as one may have.
    Client,
    /// All that are for everybody are taken.
    Common,
    /// There is none at all.
    Full,
}

impl PlaceRefusal {
    /// For counts and logs.
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

/// From which part a place is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlaceShare {
    Common,
    /// Of what is kept, for this client; for none where the owner of the machine took it.
    Kept(Option<Arc<str>>),
}

#[derive(Debug)]
struct TakenPlace {
    client: IpAddr,
    charge: PlaceShare,
    is_stranger: bool,
    occupant: Arc<Occupant>,
}

/// A place that a client got, and the connection that has to go for it.
#[derive(Debug)]
pub struct EnteredPlace {
    pub id: PlaceId,
    pub yields: Option<Arc<Occupant>>,
}

/// Places that are taken.
#[derive(Debug)]
pub struct ConnectionTable {
    share: Share,
    taken: BTreeMap<PlaceId, TakenPlace>,
    next: u64,
    /// Of those for everybody, by address.
    clients: HashMap<IpAddr, usize>,
    /// Of those that are kept, by client.
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

    /// Gives back a place; nothing where it was given to another client.
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

    /// A place that no other client has to leave.
    fn free(&self, wanted: &PlaceWish) -> Option<PlaceShare> {
        if wanted.common && self.taken.len() - self.kept < self.share.common() {
            return Some(PlaceShare::Common);
        }
        wanted.kept.clone().filter(|_| self.kept < self.share.kept()).map(PlaceShare::Kept)
    }

    /// Has the connection leave that can best be done without.
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

    /// The places are in the order in which they were taken, so that mostly one of the first is found.
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

    /// How many are taken.
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

/// What a client may have.
struct PlaceWish {
    is_stranger: bool,
    /// One for everybody.
    common: bool,
    /// One that is kept, and for whom.
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
