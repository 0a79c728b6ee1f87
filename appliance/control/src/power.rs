//! BMC calls: each runs once per ticket, one at a time for a host, and ends as an observation.

use std::{collections::HashSet, future::Future, pin::Pin, time::Duration};

use firesteel_bmc::bmc_queue::BmcSessionGuard;
use firesteel_bmc::ipmi::{ConsoleData, ConsoleSet, Ipmi, IpmiClient};
use firesteel_bmc::sensors::{SensorLayout, SensorReading};
use firesteel_bmc::{
    BmcAddress, BmcBootMode, BmcCredentials, BmcInventory, BmcQueues, BmcSessionLocks, BmcTimeouts, BootSet, Error,
    NextBootSource, OverrideReading, PowerAction, PowerSet, PowerState, Redfish, RedfishClient,
    SystemReport as Identified, Tls, WantedBootOverride,
};
use firesteel_dial::Dialer;
use firesteel_plan::host::BmcInputs;
use jiff::Timestamp;

/// A BMC that takes longer for one request has its sensors read later. It changes nothing, so nothing is read back.
const READING_PATIENCE: BmcTimeouts =
    BmcTimeouts { request: Duration::from_secs(20), read_back: Duration::ZERO, pause: Duration::from_millis(1500) };

/// What a BMC is asked, and when it answers.
pub type BmcAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What became of the wish to listen to a console.
#[derive(Debug)]
pub enum ConsoleAttachResult {
    /// This listens.
    To(Box<dyn BmcConsole>),
    /// Another client listens.
    Taken,
    /// There is none, and will be none by itself: why, in words.
    NotOffered { why: String },
}

/// How BMCs are reached.
pub trait BmcDriver: Send + Sync {
    /// Logs in.
    fn connect<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>>;

    /// Logs in to read, and gives way to any caller that is connected with the same BMC.
    fn connect_to_read<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        self.connect(address, credentials, tls)
    }

    /// Says whether sensors can be read at this address; whether the BMC has any is another matter.
    fn has_sensors(&self, _address: &BmcAddress) -> bool {
        false
    }

    /// Whether a console may be listened to at this address; what the BMC itself says is another matter.
    fn has_console(&self, _address: &BmcAddress) -> bool {
        false
    }

    /// Logs in once more, and listens to the host's serial port.
    fn listen<'a>(
        &'a self,
        _address: &'a BmcAddress,
        _credentials: &'a BmcCredentials,
    ) -> BmcAnswer<'a, ConsoleAttachResult> {
        let why = "no way to it is known".to_owned();
        Box::pin(std::future::ready(Ok(ConsoleAttachResult::NotOffered { why })))
    }
}

/// A login at one BMC.
pub trait BmcSession: Send + Sync {
    fn identify(&self) -> BmcAnswer<'_, Identified>;
    fn power(&self) -> BmcAnswer<'_, PowerState>;
    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()>;
    /// `mode` is the host's, for protocols that have no way to leave the firmware's alone.
    fn set_boot_once(&self, target: NextBootSource, mode: BmcBootMode) -> BmcAnswer<'_, BootSet>;
    /// Sets any override; `mode` is the host's, that of the wish what the owner asked for.
    fn order_boot<'a>(&'a self, wish: WantedBootOverride<'a>, mode: BmcBootMode) -> BmcAnswer<'a, BootSet> {
        self.set_boot_once(wish.target, mode)
    }

    /// Takes back an override that outlives its boot on this BMC, where one is known to do so.
    fn free_boot(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Takes back whatever override for a boot from the network is left, once that boot is over.
    fn take_boot_back(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether the boot that an override was set for has used it up. Changes nothing.
    fn read_once(&self) -> BmcAnswer<'_, OverrideReading> {
        let why = "it is not asked".to_owned();
        Box::pin(std::future::ready(Ok(OverrideReading::Unconfirmed { why })))
    }

    /// Whether the BMC had no place for a session, and takes each request by itself.
    fn lacks_session(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(false))
    }

    /// Switches power and reads it back, where that is not the caller's affair alone.
    fn change_power(&self, action: PowerAction) -> BmcAnswer<'_, PowerSet> {
        Box::pin(async move { self.set_power(action).await.map(|()| PowerSet::Unconfirmed) })
    }

    /// What the BMC tells of its machine; `None`: nothing beyond its identity.
    fn inventory(&self, _within: Duration) -> BmcAnswer<'_, Option<BmcInventory>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Reads the sensors, and stops asking after `within`; `None`: the protocol's are not read.
    fn sensors<'a>(&'a self, _layout: &'a mut SensorLayout, _within: Duration) -> BmcAnswer<'a, Option<SensorReading>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A host's serial port, heard through its BMC.
pub trait BmcConsole: Send + Sync + std::fmt::Debug {
    /// What it says next, or nothing after `patience`; `None` when it has ended. Given up half-way it loses nothing.
    fn read_console(&mut self, patience: Duration) -> Pin<Box<dyn Future<Output = Option<ConsoleData>> + Send + '_>>;

    /// Gives it back, and its session.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Real BMCs, each by the protocol that its address names. Clones share how much each BMC was asked lately.
#[derive(Clone, Debug)]
pub struct SchemeDriver {
    dialer: Dialer,
    lines: BmcQueues,
    /// Locks for IPMI, whose sessions do not ask by a line.
    doors: BmcSessionLocks,
    leaves_consoles: bool,
}

impl SchemeDriver {
    /// Reaches BMCs by this dialer.
    #[must_use]
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, lines: BmcQueues::default(), doors: BmcSessionLocks::default(), leaves_consoles: false }
    }

    /// Listens to no console.
    #[must_use]
    pub fn without_consoles(self) -> Self {
        Self { leaves_consoles: true, ..self }
    }
}

/// A session by IPMI, the only one at its BMC.
struct IpmiSession {
    client: IpmiClient,
    /// Given back after the session has ended.
    entered: BmcSessionGuard,
}

impl BmcDriver for SchemeDriver {
    fn connect<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        Box::pin(async move {
            let session: Box<dyn BmcSession> = match address {
                BmcAddress::Redfish(address) => {
                    let line = self.lines.to(&address.place());
                    let patience = BmcTimeouts::default();
                    Box::new(Redfish::connect_on(line, &self.dialer, address, credentials, tls, patience).await?)
                }
                BmcAddress::Ipmi(ipmi) => {
                    let entered = self.doors.enter(&address.place()).await?;
                    Box::new(IpmiSession { client: Ipmi::connect(&self.dialer, ipmi, credentials).await?, entered })
                }
            };
            Ok(session)
        })
    }

    fn connect_to_read<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        let BmcAddress::Redfish(redfish) = address else { return self.connect(address, credentials, tls) };
        Box::pin(async move {
            let line = self.lines.to(&redfish.place());
            let connected =
                Redfish::connect_giving_way(line, &self.dialer, redfish, credentials, tls, READING_PATIENCE).await?;
            Ok(Box::new(connected) as Box<dyn BmcSession>)
        })
    }

    fn has_sensors(&self, address: &BmcAddress) -> bool {
        // By IPMI they are in a repository of records of their own (SDR), which is not read.
        matches!(address, BmcAddress::Redfish(_))
    }

    fn has_console(&self, address: &BmcAddress) -> bool {
        // A Redfish service may name its console (`SerialConsole`: SSH, Telnet, IPMI), but not whether the login is
        // good for it, nor where it is behind a gateway.
        matches!(address, BmcAddress::Ipmi(_)) && !self.leaves_consoles
    }

    fn listen<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a BmcCredentials,
    ) -> BmcAnswer<'a, ConsoleAttachResult> {
        Box::pin(async move {
            let BmcAddress::Ipmi(address) = address else {
                return Ok(ConsoleAttachResult::NotOffered { why: "it is not asked for by Redfish".to_owned() });
            };
            let client = Ipmi::connect(&self.dialer, address, credentials).await?;
            let set = match client.open_console().await {
                Ok(ConsoleSet::Listening) => return Ok(ConsoleAttachResult::To(Box::new(client))),
                Ok(ConsoleSet::Taken) => Ok(ConsoleAttachResult::Taken),
                Ok(ConsoleSet::NotOffered { why }) => Ok(ConsoleAttachResult::NotOffered { why }),
                Err(error) => Err(error),
            };
            client.close().await;
            set
        })
    }
}

impl BmcConsole for IpmiClient {
    fn read_console(&mut self, patience: Duration) -> Pin<Box<dyn Future<Output = Option<ConsoleData>> + Send + '_>> {
        Box::pin(IpmiClient::receive_console_data(self, patience))
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(IpmiClient::close(*self))
    }
}

impl BmcSession for RedfishClient {
    fn identify(&self) -> BmcAnswer<'_, Identified> {
        Box::pin(RedfishClient::identify(self))
    }

    fn power(&self) -> BmcAnswer<'_, PowerState> {
        Box::pin(RedfishClient::power(self))
    }

    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()> {
        Box::pin(async move { RedfishClient::set_power(self, action).await.map(drop) })
    }

    fn set_boot_once(&self, target: NextBootSource, _: BmcBootMode) -> BmcAnswer<'_, BootSet> {
        Box::pin(RedfishClient::set_boot_once(self, target, None))
    }

    fn order_boot<'a>(&'a self, wish: WantedBootOverride<'a>, _: BmcBootMode) -> BmcAnswer<'a, BootSet> {
        Box::pin(async move { RedfishClient::set_boot(self, &wish).await })
    }

    fn free_boot(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(RedfishClient::free_boot(self))
    }

    fn take_boot_back(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(RedfishClient::take_boot_back(self))
    }

    fn read_once(&self) -> BmcAnswer<'_, OverrideReading> {
        Box::pin(RedfishClient::read_once(self))
    }

    fn lacks_session(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(RedfishClient::is_in_place_of_session(self))
    }

    fn change_power(&self, action: PowerAction) -> BmcAnswer<'_, PowerSet> {
        Box::pin(RedfishClient::change_power(self, action))
    }

    fn inventory(&self, within: Duration) -> BmcAnswer<'_, Option<BmcInventory>> {
        Box::pin(async move { RedfishClient::inventory(self, within).await.map(Some) })
    }

    fn sensors<'a>(&'a self, layout: &'a mut SensorLayout, within: Duration) -> BmcAnswer<'a, Option<SensorReading>> {
        Box::pin(async move { RedfishClient::sensors(self, layout, within).await.map(Some) })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(RedfishClient::close(*self))
    }
}

impl BmcSession for IpmiSession {
    fn identify(&self) -> BmcAnswer<'_, Identified> {
        Box::pin(self.client.identify())
    }

    fn power(&self) -> BmcAnswer<'_, PowerState> {
        Box::pin(self.client.power())
    }

    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()> {
        Box::pin(async move { self.client.set_power(action).await.map(drop) })
    }

    fn set_boot_once(&self, target: NextBootSource, mode: BmcBootMode) -> BmcAnswer<'_, BootSet> {
        Box::pin(self.client.set_boot_once(target, mode))
    }

    fn read_once(&self) -> BmcAnswer<'_, OverrideReading> {
        Box::pin(self.client.read_once())
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { client, entered } = *self;
        Box::pin(async move {
            client.close().await;
            drop(entered);
        })
    }
}

/// What is known of a host's BMC.
#[derive(Debug, Default)]
pub(crate) struct PowerView {
    pub(crate) seen: BmcInputs,
    /// Tickets that ran or run in this process.
    pub(crate) tickets: HashSet<u64>,
    /// When the BMC's inventory was asked for last.
    pub(crate) inventory_at: Option<Timestamp>,
}

impl PowerView {
    /// Takes a call on, unless another one is under way or this one's ticket ran before.
    pub(crate) fn take_on(&mut self, ticket: u64) -> bool {
        let is_new = !self.seen.in_flight && self.tickets.insert(ticket);
        self.seen.in_flight |= is_new;
        is_new
    }
}
