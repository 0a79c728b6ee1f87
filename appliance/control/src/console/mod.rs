//! What the serial ports of hosts say, read through their BMCs into their logs: IPMI's Serial over LAN.
//!
//! ```text
//!   step of a host ──► is it worked on? ──► one task a host ──► session of its own ──► lines ──► mask ──► log
//!                        (when)                │    ▲               (bmc::ipmi)       (pure)    (pure)
//!                                 give way, stop    └── pause, ever longer
//! ```
//!
//! A console is read while its host has a slot (it is inspected, written or cleaned; before power-on, so that firmware
//! is heard) and while its new OS boots for the first time, at most ten minutes. Slots bound how many are read;
//! [`CONSOLES_MAX`] does whatever the slots are. It is only listened to: nothing is ever typed. Where another client
//! listens, it waits.
//!
//! It is a guest, and the host's work knows nothing of it:
//! - It logs in only with a Secret's version that the BMC took last from the power side ([`crate::logins`]). A wrong
//!   password is never tried here; one that turns out to be wrong counts as the other refused ones do.
//! - It is a session of its own, since calls of the power side last for seconds. Where the BMC has no session free for
//!   them, all consoles at this BMC are let go, and stay away for [`STAY_AWAY`].
//! - A BMC without a console is asked once in a work, and its owner reads in the log that there is none.

mod console_schedule;
mod lines;
mod mask;
pub(crate) mod readers;
mod text;

use std::{collections::HashMap, time::Duration};

use firesteel_bmc::BmcAddress;
use firesteel_resources::BareMetalHost;
use firesteel_runtime::HostKey;
use tokio::sync::watch;

pub use text::ConsoleText;

/// Consoles that are read at a time: a socket each.
const CONSOLES_MAX: usize = 128;
/// A session with its engine, the bytes that are not read yet, and the lines that these become.
const CONSOLE_BYTES: usize = 64 << 10;
/// All consoles at most.
pub const CONSOLES_BYTES_MAX: usize = CONSOLES_MAX * CONSOLE_BYTES;
/// Login and activation; the driver bounds each request by itself.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(45);
/// A line that does not go on for so long is logged as it is: a prompt, or the last words.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// Refused logins in one work: a BMC that takes others of the same user has something against consoles.
pub(crate) const REFUSED_MAX: u32 = 3;
/// The time between two looks whether the power side has logged in.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// Consoles that had to give way come back after so long.
const STAY_AWAY: Duration = Duration::from_secs(600);
/// How long the power side waits until a console is let go for its session.
pub(crate) const LET_GO: Duration = Duration::from_secs(5);

/// Orders for the reader of a console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsoleControl {
    /// The console is not wanted any more.
    pub(crate) is_over: bool,
    /// How often it had to give way.
    pub(crate) gave_way: u64,
}

/// All consoles that are read or are to be.
#[derive(Debug, Default)]
pub(crate) struct Consoles {
    readers: HashMap<HostKey, ConsoleReader>,
    /// Sessions at each BMC, also those that are about to be or to end.
    open: HashMap<String, usize>,
    /// The uptime until which each BMC is left alone.
    away: HashMap<String, Duration>,
    count: u64,
}

#[derive(Debug)]
struct ConsoleReader {
    /// Tells it from one that was there before.
    number: u64,
    target: ConsoleTarget,
    orders: watch::Sender<ConsoleControl>,
}

/// What is read, and with which Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsoleTarget {
    uid: String,
    address: String,
    credentials_name: String,
    /// The BMC's own place: several hosts may be at one.
    place: String,
}

impl ConsoleTarget {
    /// Reads what is to be heard of a host; `None` where it has no console that is understood here.
    pub(crate) fn of(host: &BareMetalHost, hears: impl Fn(&BmcAddress) -> bool) -> Option<Self> {
        let bmc = host.spec.usable_bmc()?;
        let address = BmcAddress::parse(&bmc.address).ok().filter(hears)?;
        Some(Self {
            uid: host.metadata.uid.clone(),
            address: bmc.address.clone(),
            credentials_name: bmc.credentials_name.clone(),
            place: place_of(&address),
        })
    }
}

pub(crate) fn place_of(address: &BmcAddress) -> String {
    match address {
        BmcAddress::Ipmi(address) => format!("{}:{}", address.host(), address.port()).to_ascii_lowercase(),
        BmcAddress::Redfish(address) => address.place(),
    }
}

impl Consoles {
    /// Begins to read, or goes on: `None` where it is read already, or by too many.
    pub(crate) fn begin(
        &mut self,
        key: &HostKey,
        target: ConsoleTarget,
    ) -> Option<(u64, watch::Receiver<ConsoleControl>)> {
        if self.readers.get(key).is_some_and(|reader| reader.target == target) {
            return None;
        }
        self.end(key);
        if self.readers.len() >= CONSOLES_MAX {
            tracing::debug!(host = %key, "as many consoles are read as can be");
            return None;
        }
        self.count += 1;
        let (orders, receiver) = watch::channel(ConsoleControl::default());
        self.readers.insert(key.clone(), ConsoleReader { number: self.count, target, orders });
        Some((self.count, receiver))
    }

    /// Stops to read a console that is not wanted any more.
    pub(crate) fn end(&mut self, key: &HostKey) {
        if let Some(reader) = self.readers.remove(key) {
            reader.orders.send_modify(|orders| orders.is_over = true);
        }
    }

    pub(crate) fn is_current(&self, key: &HostKey, number: u64) -> bool {
        self.readers.get(key).is_some_and(|reader| reader.number == number)
    }

    /// Returns the BMC at which a console may be opened now. It counts as open from then on, until
    /// [`Consoles::closed`].
    pub(crate) fn opens(&mut self, key: &HostKey, number: u64, now: Duration) -> Option<String> {
        let reader = self.readers.get(key).filter(|reader| reader.number == number)?;
        let place = reader.target.place.clone();
        if self.away.get(&place).is_some_and(|until| now < *until) {
            return None;
        }
        self.away.remove(&place);
        *self.open.entry(place.clone()).or_default() += 1;
        Some(place)
    }

    pub(crate) fn closed(&mut self, place: &str) {
        if let Some(count) = self.open.get_mut(place) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(place);
            }
        }
    }

    /// Lets go of all consoles at a BMC. `false`: there are none.
    pub(crate) fn give_way(&mut self, place: &str, now: Duration) -> bool {
        if !self.is_any_open(place) {
            return false;
        }
        self.away.insert(place.to_owned(), now.saturating_add(STAY_AWAY));
        for reader in self.readers.values().filter(|reader| reader.target.place == place) {
            reader.orders.send_modify(|orders| orders.gave_way += 1);
        }
        true
    }

    pub(crate) fn is_any_open(&self, place: &str) -> bool {
        self.open.contains_key(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn target(uid: &str) -> ConsoleTarget {
        ConsoleTarget {
            uid: uid.into(),
            address: "ipmi://a".into(),
            credentials_name: "s".into(),
            place: "a:623".into(),
        }
    }

    #[test]
    fn a_host_has_one_reader_and_a_namesake_another() {
        let mut consoles = Consoles::default();
        let (first, orders) = consoles.begin(&key("a"), target("1")).expect("begun");
        assert!(consoles.begin(&key("a"), target("1")).is_none(), "it is read already");
        let (second, _) = consoles.begin(&key("a"), target("2")).expect("begun");
        assert!(orders.borrow().is_over && !consoles.is_current(&key("a"), first));
        assert_eq!(consoles.opens(&key("a"), first, Duration::ZERO), None, "it is not asked for any more");
        assert_eq!(consoles.opens(&key("a"), second, Duration::ZERO).as_deref(), Some("a:623"));
        consoles.end(&key("a"));
        assert!(consoles.is_any_open("a:623"), "it is being closed");
        consoles.closed("a:623");
        assert!(!consoles.is_any_open("a:623"));
        for number in 0..CONSOLES_MAX {
            assert!(consoles.begin(&key(&number.to_string()), target("1")).is_some());
        }
        assert!(consoles.begin(&key("b"), target("1")).is_none(), "as many as can be");
    }

    #[test]
    fn consoles_give_way_to_the_hosts_work_and_come_back() {
        let mut consoles = Consoles::default();
        let second = Duration::from_secs;
        let (one, orders) = consoles.begin(&key("a"), target("1")).expect("begun");
        assert!(!consoles.give_way("a:623", second(5)), "none is open");
        assert!(consoles.opens(&key("a"), one, second(5)).is_some());
        assert!(!consoles.give_way("b:623", second(5)), "another BMC");
        assert!(consoles.give_way("a:623", second(5)) && orders.borrow().gave_way == 1);
        assert!(consoles.is_any_open("a:623"), "not yet");
        consoles.closed("a:623");
        assert!(!consoles.is_any_open("a:623") && consoles.opens(&key("a"), one, second(604)).is_none());
        assert!(consoles.opens(&key("a"), one, second(605)).is_some());
    }

    #[test]
    fn hosts_at_one_bmc_are_known_to_be() {
        let place = |text: &str| place_of(&BmcAddress::parse(text).expect("an address"));
        assert_eq!(place("ipmi://BMC.example"), place("ipmi://bmc.example:623?privilegelevel=OPERATOR"));
        assert_ne!(place("ipmi://bmc.example:6230"), place("ipmi://bmc.example"));
    }
}
