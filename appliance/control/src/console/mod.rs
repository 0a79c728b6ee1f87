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
//! [`CONSOLES_MAX`] does whatever the slots are. It is only listened to: nothing is ever typed. Where somebody else
//! listens, it waits.
//!
//! It is a guest, and the host's work knows nothing of it:
//! - It logs in only with a Secret's version that the BMC took last from the power side ([`crate::logins`]). A wrong
//!   password is never tried here; one that turns out to be wrong counts as the other refused ones do.
//! - It is a session of its own, since calls of the power side last for seconds. Where the BMC has no session free for
//!   them, all consoles at this BMC are let go, and stay away for [`STAY_AWAY`].
//! - A BMC without a console is asked once in a work, and its owner reads in the log that there is none.

mod lines;
mod mask;
mod text;
mod when;

use std::{collections::HashMap, time::Duration};

use firesteel_bmc::{BmcAddress, Error, ipmi::Spoken};
use firesteel_plan::{HostMemory, Seen};
use firesteel_resources::{BareMetalHost, host_journal::InstanceRecord};
use firesteel_runtime::{HostKey, key_of, timeout};
use tokio::sync::watch;

use crate::{
    Control,
    logins::Account,
    power::{BmcConsole, Login},
};

pub use text::ConsoleText;
use when::{Budget, Situation, Tries};

/// Consoles that are read at a time: a socket each.
const CONSOLES_MAX: usize = 128;
/// A session with its engine, the bytes that nobody has read yet, and the lines that these become.
const CONSOLE_BYTES: usize = 64 << 10;
/// All consoles at most.
pub const CONSOLES_BYTES_MAX: usize = CONSOLES_MAX * CONSOLE_BYTES;
/// Login and activation; the driver bounds each request by itself.
const OPEN_TIMEOUT: Duration = Duration::from_secs(45);
/// A line that does not go on for so long is told as it is: a prompt, or the last words.
const SILENCE: Duration = Duration::from_secs(5);
/// Refused logins in one work: a BMC that takes others of the same user has something against consoles.
const REFUSED_MAX: u32 = 3;
/// Between two looks whether the power side has logged in.
const LOOK: Duration = Duration::from_secs(5);
/// Consoles that had to give way come back after so long.
const STAY_AWAY: Duration = Duration::from_secs(600);
/// For a console to be let go, where somebody waits for its session.
const LET_GO: Duration = Duration::from_secs(5);

/// What became of the wish to listen to a console.
#[derive(Debug)]
pub enum Listening {
    To(Box<dyn BmcConsole>),
    /// Somebody else listens.
    Taken,
    /// There is none, and will be none by itself: why, in words.
    NotOffered {
        why: String,
    },
}

/// What the reader of a console is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// Nobody wants it any more.
    is_over: bool,
    /// How often it had to give way.
    gave_way: u64,
}

/// All consoles that are read or are to be.
#[derive(Debug, Default)]
pub(crate) struct Consoles {
    readers: HashMap<HostKey, Reader>,
    /// Sessions at each BMC, also those that are about to be or to end.
    open: HashMap<String, usize>,
    /// Until when BMCs are left alone, by uptime.
    away: HashMap<String, Duration>,
    count: u64,
}

#[derive(Debug)]
struct Reader {
    /// Tells it from one that was there before.
    number: u64,
    target: Target,
    orders: watch::Sender<Orders>,
}

/// What is read, and with which Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    uid: String,
    address: String,
    credentials_name: String,
    /// The BMC's own place: several hosts may be at one.
    place: String,
}

impl Target {
    /// `None`: nothing that has a console which is understood here.
    fn of(host: &BareMetalHost, hears: impl Fn(&BmcAddress) -> bool) -> Option<Self> {
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

fn place_of(address: &BmcAddress) -> String {
    match address {
        BmcAddress::Ipmi(address) => format!("{}:{}", address.host(), address.port()).to_ascii_lowercase(),
        BmcAddress::Redfish(address) => address.place(),
    }
}

impl Consoles {
    /// Begins to read, or goes on: `None` where it is read already, or by too many.
    fn begin(&mut self, key: &HostKey, target: Target) -> Option<(u64, watch::Receiver<Orders>)> {
        if self.readers.get(key).is_some_and(|reader| reader.target == target) {
            return None;
        }
        self.end(key);
        if self.readers.len() >= CONSOLES_MAX {
            tracing::debug!(host = %key, "as many consoles are read as can be");
            return None;
        }
        self.count += 1;
        let (orders, receiver) = watch::channel(Orders::default());
        self.readers.insert(key.clone(), Reader { number: self.count, target, orders });
        Some((self.count, receiver))
    }

    /// Nobody wants to read it any more.
    pub(crate) fn end(&mut self, key: &HostKey) {
        if let Some(reader) = self.readers.remove(key) {
            reader.orders.send_modify(|orders| orders.is_over = true);
        }
    }

    fn is_current(&self, key: &HostKey, number: u64) -> bool {
        self.readers.get(key).is_some_and(|reader| reader.number == number)
    }

    /// At which BMC a console may be opened now; it counts as open from here on, until [`Consoles::closed`].
    fn opens(&mut self, key: &HostKey, number: u64, now: Duration) -> Option<String> {
        let reader = self.readers.get(key).filter(|reader| reader.number == number)?;
        let place = reader.target.place.clone();
        if self.away.get(&place).is_some_and(|until| now < *until) {
            return None;
        }
        self.away.remove(&place);
        *self.open.entry(place.clone()).or_default() += 1;
        Some(place)
    }

    fn closed(&mut self, place: &str) {
        if let Some(count) = self.open.get_mut(place) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(place);
            }
        }
    }

    /// Lets go of all consoles at a BMC. `false`: there are none.
    fn give_way(&mut self, place: &str, now: Duration) -> bool {
        if !self.is_any_open(place) {
            return false;
        }
        self.away.insert(place.to_owned(), now.saturating_add(STAY_AWAY));
        for reader in self.readers.values().filter(|reader| reader.target.place == place) {
            reader.orders.send_modify(|orders| orders.gave_way += 1);
        }
        true
    }

    fn is_any_open(&self, place: &str) -> bool {
        self.open.contains_key(place)
    }
}

/// A session at a BMC, or one that is about to be; gone when it is dropped.
struct Open {
    control: Control,
    place: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.control.views().consoles.closed(&self.place);
    }
}

/// How a try ended.
enum Ended {
    /// Heard for so long.
    After(Duration),
    /// It is not tried again in this work.
    ForGood,
    /// The power side has not logged in with what is given, or needs the BMC for itself.
    NotYet,
}

/// One console's lines on their way into the log.
struct Told {
    key: HostKey,
    number: u64,
    text: ConsoleText,
    /// What was last said of the console itself.
    last: String,
    /// Logins that the BMC refused.
    refused: u32,
}

impl Control {
    /// Begins or ends to read a host's console, after a step that saw this and left this memory.
    pub(crate) fn mind_console(&self, seen: &Seen, memory: &HostMemory, instance: Option<&InstanceRecord>) {
        let host = &seen.host;
        let key = key_of(host);
        let is_wanted = Situation::of(memory, seen).is_wanted(instance, self.now());
        let hears = |address: &BmcAddress| self.config().bmc.hears(address);
        let target = if is_wanted { Target::of(host, hears) } else { None };
        let Some(target) = target else { return self.views().consoles.end(&key) };
        let begun = self.views().consoles.begin(&key, target);
        let Some((number, orders)) = begun else { return };
        let control = self.clone();
        self.spawn_outward(async move { control.read_console(key, number, orders).await });
    }

    /// Lets go of the consoles at a BMC that has no session left, and waits until they are closed. `false`: there were
    /// none, and nothing is gained by trying again.
    pub(crate) async fn consoles_give_way(&self, address: &BmcAddress) -> bool {
        let place = place_of(address);
        if !self.views().consoles.give_way(&place, self.handles().runtime.uptime()) {
            return false;
        }
        let closed = async {
            while self.views().consoles.is_any_open(&place) {
                self.sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(&*self.handles().runtime, LET_GO, closed).await.is_some()
    }

    async fn read_console(self, key: HostKey, number: u64, mut orders: watch::Receiver<Orders>) {
        let mut tries = Tries::default();
        let mut told = Told { key: key.clone(), number, text: ConsoleText::default(), last: String::new(), refused: 0 };
        while !orders.borrow().is_over {
            let ended = self.try_console(&mut told, &mut orders).await;
            let pause = match ended {
                Ended::After(heard_for) => tries.pause(heard_for),
                Ended::NotYet => LOOK,
                Ended::ForGood => return,
            };
            let over = async { drop(orders.wait_for(|orders| orders.is_over).await) };
            timeout(&*self.handles().runtime, pause, over).await;
        }
    }

    /// From the login to the end of the session.
    async fn try_console(&self, told: &mut Told, orders: &mut watch::Receiver<Orders>) -> Ended {
        let key = told.key.clone();
        let Ok(Some(host)) = self.inner.hosts.get(&key.namespace, &key.name).await else { return Ended::NotYet };
        // What is wrong with it the power side finds, and tells.
        let Ok(login) = self.login(&key, &host).await else { return Ended::NotYet };
        let gave_way = orders.borrow_and_update().gave_way;
        let Some(open) = self.opens(&key, told.number, &login) else { return Ended::NotYet };
        let opened = self.config().bmc.listen(&login.address, &login.credentials);
        let mut console = match timeout(&*self.handles().runtime, OPEN_TIMEOUT, opened).await {
            Some(Ok(Listening::To(console))) => console,
            Some(Ok(Listening::Taken)) => {
                self.tell_console(told, "somebody else listens to the serial console: it is tried again");
                return Ended::After(Duration::ZERO);
            }
            Some(Ok(Listening::NotOffered { why })) => {
                self.tell_console(told, &format!("the serial console cannot be read: {why}"));
                return Ended::ForGood;
            }
            Some(Err(error)) => {
                self.tell_console(told, &format!("the serial console cannot be read now: {error}"));
                return self.after(told, &login.account, &error);
            }
            None => return Ended::After(Duration::ZERO),
        };
        told.text.hide([login.credentials.password.clone()]);
        let begin = self.handles().runtime.uptime();
        self.tell_console(told, "the serial console is read");
        let wants_end = |orders: &Orders| orders.is_over || orders.gave_way != gave_way;
        tokio::select! {
            biased;
            _ = orders.wait_for(wants_end) => {}
            () = self.hear(&mut *console, told) => {}
        }
        let rest = told.text.flush();
        self.tell_lines(told, rest);
        console.close().await;
        drop(open);
        if orders.borrow().gave_way != gave_way {
            self.tell_console(
                told,
                "the serial console is let go for a while: the BMC has no session left for the host's work",
            );
            return Ended::NotYet;
        }
        Ended::After(self.handles().runtime.uptime().saturating_sub(begin))
    }

    /// The right to log in: only with what the BMC took last.
    fn opens(&self, key: &HostKey, number: u64, login: &Login) -> Option<Open> {
        let mut views = self.views();
        if !views.logins.is_good(&login.account, &login.given) {
            return None;
        }
        let place = views.consoles.opens(key, number, self.handles().runtime.uptime())?;
        Some(Open { control: self.clone(), place })
    }

    /// Until the console ends.
    async fn hear(&self, console: &mut dyn BmcConsole, told: &mut Told) {
        let runtime = &*self.handles().runtime;
        let mut budget = Budget::new(runtime.uptime());
        while let Some(Spoken { characters, is_lossy }) = console.hear(SILENCE).await {
            if is_lossy {
                let rest = told.text.flush();
                self.tell_lines(told, rest);
                told.last.clear();
                self.tell_console(told, "some of what the serial console said is missing here");
            }
            if characters.is_empty() {
                let rest = told.text.flush();
                self.tell_lines(told, rest);
            } else {
                let lines = told.text.feed(&characters);
                self.tell_lines(told, lines);
            }
            let pause = budget.take(characters.len(), runtime.uptime());
            if !pause.is_zero() {
                self.sleep(pause).await;
            }
        }
        told.last.clear();
        self.tell_console(told, "the serial console has ended");
    }

    /// Into the host's log.
    fn tell_lines(&self, told: &Told, lines: impl IntoIterator<Item = String>) {
        let lines: Vec<String> = lines.into_iter().collect();
        // A host that was made anew has a console of its own.
        if !lines.is_empty() && self.views().consoles.is_current(&told.key, told.number) {
            self.inner.logs.keep_console(&told.key, self.now(), lines);
        }
    }

    /// Of the console itself; once, however often it is so.
    fn tell_console(&self, told: &mut Told, text: &str) {
        if told.last == text {
            return;
        }
        tracing::debug!(host = %told.key, text, "console");
        text.clone_into(&mut told.last);
        self.tell_lines(told, [format!("firesteel: {text}")]);
    }

    /// A refused login counts, and is not tried again before the power side was let in.
    fn after(&self, told: &mut Told, account: &Account, error: &Error) -> Ended {
        if !error.may_count_as_login() {
            return Ended::After(Duration::ZERO);
        }
        tracing::warn!(host = %told.key, %error, "the BMC refuses the console's login");
        self.views().logins.refused_beside(account.clone(), self.now());
        told.refused += 1;
        if told.refused < REFUSED_MAX { Ended::NotYet } else { Ended::ForGood }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    fn target(uid: &str) -> Target {
        Target { uid: uid.into(), address: "ipmi://a".into(), credentials_name: "s".into(), place: "a:623".into() }
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
