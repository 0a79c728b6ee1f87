//! BMC calls: each runs once per ticket, one at a time for a host, and ends as an observation.

mod act;

use std::{collections::HashSet, future::Future, pin::Pin, time::Duration};

use firesteel_bmc::{
    BmcAddress, BmcSeen as Identified, BootMode, BootSet, BootVia, BootWish, Client, Credentials, Doors, Error,
    Inventory, Lines, OnceRead, Patience, PowerAction, PowerSet, PowerState, Redfish, Target, Tls,
    ipmi::{ConsoleSet, Ipmi, IpmiClient, Spoken},
    limit::Entered,
};
use firesteel_boot::{BootClient, Mac, first_stage};
use firesteel_dial::Dialer;
use firesteel_facts::{Arch, shown_url};
use firesteel_plan::host::{BmcAction, BmcCall, BmcFault, BmcFaultKind, BmcOutcome, BmcSeen, Power};
use firesteel_resources::{BareMetalHost, bare_metal_host};
use firesteel_runtime::{HostKey, key_of, timeout};
use jiff::{SignedDuration, Timestamp};

use act::{Booting, act};

use crate::{Control, console::Listening, images, logins::Account};

/// One call with all its requests; the driver bounds each request by itself.
const CALL_TIMEOUT: Duration = Duration::from_secs(100);

/// An inventory by the BMC, at most; what did not fit is left out and said.
const INVENTORY_WITHIN: Duration = Duration::from_secs(20);
/// The same with the request that was under way at the end of it.
const INVENTORY_TIMEOUT: Duration = Duration::from_secs(40);
/// How often the inventory is read again: parts are changed by people, health by itself.
const INVENTORY_EVERY: SignedDuration = SignedDuration::from_hours(6);

/// What a BMC is asked, and when it answers.
pub type BmcAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// How BMCs are reached.
pub trait BmcDriver: Send + Sync {
    /// Logs in.
    fn connect<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a Credentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>>;

    /// Whether a console may be listened to at this address; what the BMC itself says is another matter.
    fn hears(&self, _address: &BmcAddress) -> bool {
        false
    }

    /// Logs in once more, and listens to the host's serial port.
    fn listen<'a>(&'a self, _address: &'a BmcAddress, _credentials: &'a Credentials) -> BmcAnswer<'a, Listening> {
        let why = "no way to it is known".to_owned();
        Box::pin(std::future::ready(Ok(Listening::NotOffered { why })))
    }
}

/// A login at one BMC.
pub trait BmcSession: Send + Sync {
    fn identify(&self) -> BmcAnswer<'_, Identified>;
    fn power(&self) -> BmcAnswer<'_, PowerState>;
    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()>;
    /// `mode` is the host's, for protocols that have no way to leave the firmware's alone.
    fn set_boot_once(&self, target: Target, mode: BootMode) -> BmcAnswer<'_, BootSet>;
    /// The same for any override; `mode` is the host's, the wish's what the owner asked for.
    fn order_boot<'a>(&'a self, wish: BootWish<'a>, mode: BootMode) -> BmcAnswer<'a, BootSet> {
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
    fn read_once(&self) -> BmcAnswer<'_, OnceRead> {
        let why = "it is not asked".to_owned();
        Box::pin(std::future::ready(Ok(OnceRead::Untold { why })))
    }

    /// Whether the BMC had no place for a session, and takes each request by itself.
    fn lacks_session(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(false))
    }

    /// Switches power and reads it back, where that is not the caller's affair alone.
    fn change_power(&self, action: PowerAction) -> BmcAnswer<'_, PowerSet> {
        Box::pin(async move { self.set_power(action).await.map(|()| PowerSet::Untold) })
    }

    /// What the BMC tells of its machine; `None`: nothing beyond its identity.
    fn inventory(&self, _within: Duration) -> BmcAnswer<'_, Option<Inventory>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A host's serial port, heard through its BMC.
pub trait BmcConsole: Send + Sync + std::fmt::Debug {
    /// What it says next, or nothing after `patience`; `None` when it has ended. Given up half-way it loses nothing.
    fn hear(&mut self, patience: Duration) -> Pin<Box<dyn Future<Output = Option<Spoken>> + Send + '_>>;

    /// Gives it back, and its session.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Real BMCs, each by the protocol that its address names. Clones share how much each BMC was asked lately.
#[derive(Clone, Debug)]
pub struct SchemeDriver {
    dialer: Dialer,
    lines: Lines,
    /// For IPMI, whose sessions do not ask by a line.
    doors: Doors,
    leaves_consoles: bool,
}

impl SchemeDriver {
    /// Reaches BMCs by this dialer.
    #[must_use]
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, lines: Lines::default(), doors: Doors::default(), leaves_consoles: false }
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
    entered: Entered,
}

impl BmcDriver for SchemeDriver {
    fn connect<'a>(
        &'a self,
        address: &'a BmcAddress,
        credentials: &'a Credentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        Box::pin(async move {
            let session: Box<dyn BmcSession> = match address {
                BmcAddress::Redfish(address) => {
                    let line = self.lines.to(&address.place());
                    let patience = Patience::default();
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

    fn hears(&self, address: &BmcAddress) -> bool {
        // A Redfish service may name its console (`SerialConsole`: SSH, Telnet, IPMI), but not whether the login is
        // good for it, nor where it is behind a gateway.
        matches!(address, BmcAddress::Ipmi(_)) && !self.leaves_consoles
    }

    fn listen<'a>(&'a self, address: &'a BmcAddress, credentials: &'a Credentials) -> BmcAnswer<'a, Listening> {
        Box::pin(async move {
            let BmcAddress::Ipmi(address) = address else {
                return Ok(Listening::NotOffered { why: "it is not asked for by Redfish".to_owned() });
            };
            let client = Ipmi::connect(&self.dialer, address, credentials).await?;
            let set = match client.open_console().await {
                Ok(ConsoleSet::Listening) => return Ok(Listening::To(Box::new(client))),
                Ok(ConsoleSet::Taken) => Ok(Listening::Taken),
                Ok(ConsoleSet::NotOffered { why }) => Ok(Listening::NotOffered { why }),
                Err(error) => Err(error),
            };
            client.close().await;
            set
        })
    }
}

impl BmcConsole for IpmiClient {
    fn hear(&mut self, patience: Duration) -> Pin<Box<dyn Future<Output = Option<Spoken>> + Send + '_>> {
        Box::pin(IpmiClient::hear(self, patience))
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(IpmiClient::close(*self))
    }
}

impl BmcSession for Client {
    fn identify(&self) -> BmcAnswer<'_, Identified> {
        Box::pin(Client::identify(self))
    }

    fn power(&self) -> BmcAnswer<'_, PowerState> {
        Box::pin(Client::power(self))
    }

    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()> {
        Box::pin(async move { Client::set_power(self, action).await.map(drop) })
    }

    fn set_boot_once(&self, target: Target, _: BootMode) -> BmcAnswer<'_, BootSet> {
        Box::pin(Client::set_boot_once(self, target, None))
    }

    fn order_boot<'a>(&'a self, wish: BootWish<'a>, _: BootMode) -> BmcAnswer<'a, BootSet> {
        Box::pin(async move { Client::set_boot(self, &wish).await })
    }

    fn free_boot(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(Client::free_boot(self))
    }

    fn take_boot_back(&self) -> BmcAnswer<'_, Option<BootSet>> {
        Box::pin(Client::take_boot_back(self))
    }

    fn read_once(&self) -> BmcAnswer<'_, OnceRead> {
        Box::pin(Client::read_once(self))
    }

    fn lacks_session(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(Client::is_in_place_of_session(self))
    }

    fn change_power(&self, action: PowerAction) -> BmcAnswer<'_, PowerSet> {
        Box::pin(Client::change_power(self, action))
    }

    fn inventory(&self, within: Duration) -> BmcAnswer<'_, Option<Inventory>> {
        Box::pin(async move { Client::inventory(self, within).await.map(Some) })
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Client::close(*self))
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

    fn set_boot_once(&self, target: Target, mode: BootMode) -> BmcAnswer<'_, BootSet> {
        Box::pin(self.client.set_boot_once(target, mode))
    }

    fn read_once(&self) -> BmcAnswer<'_, OnceRead> {
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

/// Where a host's BMC is, and as whom it is asked.
pub(crate) struct Login {
    pub(crate) address: BmcAddress,
    pub(crate) credentials: Credentials,
    /// The Secret and its version.
    pub(crate) given: String,
    pub(crate) account: Account,
    tls: Tls,
}

/// What is known of a host's BMC.
#[derive(Debug, Default)]
pub(crate) struct PowerView {
    seen: BmcSeen,
    /// Tickets that ran or run in this process.
    tickets: HashSet<u64>,
    /// When the BMC's inventory was asked for last.
    inventory_at: Option<Timestamp>,
}

impl PowerView {
    pub(crate) fn seen(&self) -> BmcSeen {
        self.seen.clone()
    }

    /// Takes a call on, unless another one is under way or this one's ticket ran before.
    pub(crate) fn take_on(&mut self, ticket: u64) -> bool {
        let is_new = !self.seen.in_flight && self.tickets.insert(ticket);
        self.seen.in_flight |= is_new;
        is_new
    }
}

/// What a call learnt, besides that it ended well.
#[derive(Debug, Default)]
struct Learnt {
    power: Option<PowerState>,
    macs: Option<Vec<String>>,
    /// What the BMC tells of its machine.
    inventory: Option<Inventory>,
    /// Something that went well enough and is to be known.
    note: Option<String>,
    /// The BMC had no place for a session.
    no_session_free: bool,
    /// Of a boot from the network: the host was off, and was switched on for it.
    was_off: bool,
    /// Of a boot from the network: why there is no override for it.
    no_override: Option<String>,
    /// Of a boot from the network: why its override is not known to be set for one boot alone.
    once_unset: Option<String>,
    /// Of a look at an override: why the boot is not seen to have used it up.
    once_unread: Option<String>,
    /// Of an override that was to be taken back: why it is still there.
    override_left: Option<String>,
}

impl Control {
    /// Starts a call unless its ticket ran before.
    pub(crate) fn call_bmc(&self, host: &BareMetalHost, call: BmcCall) {
        let key = key_of(host);
        {
            let mut views = self.views();
            // A step of a host that was made anew meanwhile may still ask for what its old self wanted.
            let Some(view) = views.hosts.get_mut(&key).filter(|view| view.uid == host.metadata.uid) else { return };
            if !view.power.take_on(call.ticket) {
                return;
            }
        }
        let (control, host) = (self.clone(), host.clone());
        self.spawn_outward(async move {
            let work = control.carry_out(&key, &host, call.action);
            let result = match timeout(&*control.handles().runtime, CALL_TIMEOUT, work).await {
                Some(result) => result,
                None => Err(fault(BmcFaultKind::Unreachable, "the BMC did not finish within 100 s")),
            };
            control.bmc_ended(&key, &host.metadata.uid, &call, result).await;
        });
    }

    async fn bmc_ended(&self, key: &HostKey, uid: &str, call: &BmcCall, result: Result<Learnt, BmcFault>) {
        let now = self.now();
        let mut note = None;
        match &result {
            Ok(learnt) => {
                tracing::debug!(host = %key, action = ?call.action, ?learnt, "BMC call done");
                note.clone_from(&learnt.note);
            }
            Err(fault) => tracing::warn!(host = %key, action = ?call.action, error = %fault.message, "BMC call failed"),
        }
        // A host that was made anew meanwhile has tickets of its own.
        let mut is_same = false;
        if let Some(view) = self.views().hosts.get_mut(key).filter(|view| view.uid == uid) {
            is_same = true;
            let seen = &mut view.power.seen;
            seen.in_flight = false;
            if let Ok(learnt) = &result {
                if let Some(power) = learnt.power {
                    seen.power = power_of(power);
                    seen.power_at = Some(now);
                }
                if let Some(macs) = &learnt.macs {
                    seen.macs.clone_from(macs);
                }
                seen.no_session_free = learnt.no_session_free;
                if call.action == BmcAction::NetBoot {
                    seen.was_off_at_boot = learnt.was_off;
                    seen.once_unset.clone_from(&learnt.once_unset);
                    seen.no_override.clone_from(&learnt.no_override);
                }
                if call.action == BmcAction::ReadOnce {
                    seen.once_unread.clone_from(&learnt.once_unread);
                }
                if call.action == BmcAction::TakeBootBack {
                    seen.override_left.clone_from(&learnt.override_left);
                }
            }
            let outcome = result.as_ref().map(drop).map_err(Clone::clone);
            seen.last = Some(BmcOutcome { ticket: call.ticket, at: now, result: outcome });
        }
        if let Some(inventory) = result.ok().and_then(|learnt| learnt.inventory).filter(|_| is_same) {
            self.keep_bmc_record(key, &inventory, now).await;
        }
        if let Some(text) = note {
            self.note_host(key, "bmc", &text).await;
        }
        self.inner.queue.wake(key);
    }

    async fn carry_out(&self, key: &HostKey, host: &BareMetalHost, action: BmcAction) -> Result<Learnt, BmcFault> {
        let (client, via) = self.connect(key, host).await?;
        let loader = self.http_loader();
        let booting = Booting { via, mode: boot_mode(host), wanted_mode: wanted_mode(host), loader: &loader };
        let mut result = act(&*client, action, booting).await.map_err(|error| fault_of_order(action, &error));
        if let (Ok(learnt), BmcAction::Probe) = (&mut result, action)
            && self.takes_inventory(key)
        {
            learnt.inventory = self.inventory(key, &*client).await;
        }
        if let Ok(learnt) = &mut result {
            learnt.no_session_free = client.lacks_session().await;
        }
        client.close().await;
        result
    }

    /// What a host fetches that boots by HTTP: the same as its DHCP answer would say.
    fn http_loader(&self) -> String {
        let client = BootClient {
            mac: Mac([0; 6]),
            archs: vec![Arch::X64_UEFI_HTTP],
            ipxe: None,
            vendor_class: Some(firesteel_boot::first_stage::HTTP_CLIENT.to_owned()),
        };
        first_stage(&client, &self.config().endpoints).map(|stage| stage.file_or_url).unwrap_or_default()
    }

    /// Whether it is time again; a try that fails counts, so that a BMC that cannot is not held up at each look.
    fn takes_inventory(&self, key: &HostKey) -> bool {
        let now = self.now();
        let mut views = self.views();
        let Some(view) = views.hosts.get_mut(key) else { return false };
        let is_due = view.power.inventory_at.is_none_or(|at| now.duration_since(at) >= INVENTORY_EVERY);
        if is_due {
            view.power.inventory_at = Some(now);
        }
        is_due
    }

    /// What the BMC tells of its machine. That it tells nothing is no fault: the agent inspects.
    async fn inventory(&self, key: &HostKey, client: &dyn BmcSession) -> Option<Inventory> {
        match timeout(&*self.handles().runtime, INVENTORY_TIMEOUT, client.inventory(INVENTORY_WITHIN)).await {
            Some(Ok(inventory)) => inventory,
            Some(Err(error)) => {
                tracing::info!(host = %key, %error, "the BMC does not tell its inventory");
                None
            }
            None => {
                tracing::info!(host = %key, "the BMC takes too long to tell its inventory");
                None
            }
        }
    }

    /// Counts what a BMC said to a login, for the other hosts that use the same account.
    fn note_login(&self, key: &HostKey, account: Account, credentials: &str, result: Result<(), &BmcFault>) {
        let now = self.now();
        let mut views = self.views();
        match result {
            Ok(()) => views.logins.accepted(&account, credentials),
            Err(fault) if fault.kind == BmcFaultKind::Credentials => views.logins.refused(account, key, now),
            Err(_) => {}
        }
    }

    /// Where a host's BMC is, and as whom it is asked.
    pub(crate) async fn login(&self, key: &HostKey, host: &BareMetalHost) -> Result<Login, BmcFault> {
        let unsupported = |text: &str| fault(BmcFaultKind::Unsupported, text);
        let bmc = host.spec.usable_bmc().ok_or_else(|| unsupported("the host names no BMC"))?;
        let address = BmcAddress::parse(&bmc.address)
            .map_err(|error| unsupported(&format!("spec.bmc.address {}: {error}", shown_url(&bmc.address))))?;
        let secret = self.inner.secrets.get(&key.namespace, &bmc.credentials_name).await;
        let secret = secret.map_err(|status| fault(BmcFaultKind::Refused, &status.message))?;
        let version = secret.as_ref().map(|secret| secret.metadata.resource_version.clone()).unwrap_or_default();
        let given = format!("{}/{}@{version}", key.namespace, bmc.credentials_name);
        let (username, password) = secret.and_then(|secret| secret.credentials()).ok_or_else(|| {
            fault(BmcFaultKind::Refused, &format!("the Secret {} has no username and password", bmc.credentials_name))
        })?;
        let account = Account::new(&bmc.address, &username);
        let tls =
            Tls { is_verification_disabled: bmc.disable_certificate_verification, ..self.config().bmc_tls.clone() };
        Ok(Login { address, credentials: Credentials { username, password }, given, account, tls })
    }

    async fn connect(&self, key: &HostKey, host: &BareMetalHost) -> Result<(Box<dyn BmcSession>, BootVia), BmcFault> {
        let Login { address, credentials, given, account, tls } = self.login(key, host).await?;
        let trying = self.try_login(&account, &given).await?;
        let mut connected = self.config().bmc.connect(&address, &credentials, &tls).await;
        if matches!(connected, Err(Error::NoSessionFree)) && self.consoles_give_way(&address).await {
            connected = self.config().bmc.connect(&address, &credentials, &tls).await;
        }
        let connected = connected.map_err(|error| fault_of(&error));
        self.note_login(key, account, &given, connected.as_ref().map(drop));
        drop(trying);
        connected.map(|session| (session, address.boot_via()))
    }
}

/// What upstream takes where a host does not say.
fn boot_mode(host: &BareMetalHost) -> BootMode {
    match host.spec.boot_mode.unwrap_or_default() {
        bare_metal_host::BootMode::Legacy => BootMode::Legacy,
        bare_metal_host::BootMode::Uefi | bare_metal_host::BootMode::UefiSecureBoot => BootMode::Uefi,
    }
}

/// What the owner says of the mode; upstream's default is not forced upon a firmware that boots otherwise.
fn wanted_mode(host: &BareMetalHost) -> Option<BootMode> {
    host.spec.boot_mode.map(|_| boot_mode(host))
}

fn power_of(power: PowerState) -> Power {
    match power {
        PowerState::On => Power::On,
        PowerState::Off => Power::Off,
        // On its way: asked again until it arrives.
        PowerState::PoweringOn | PowerState::PoweringOff | PowerState::Unknown => Power::Unknown,
    }
}

fn fault(kind: BmcFaultKind, message: &str) -> BmcFault {
    BmcFault { kind, message: message.to_owned() }
}

/// What went wrong with an order. A soft power-off that a BMC does not offer, or refuses, is told from one that it
/// could not be asked for: only the first is a reason to cut the power.
fn fault_of_order(action: BmcAction, error: &Error) -> BmcFault {
    let fault = fault_of(error);
    let is_no = matches!(error, Error::Unsupported { .. } | Error::Refused { .. });
    let is_soft = action == (BmcAction::PowerOff { hard: false });
    let no_soft_one = is_no && is_soft && fault.kind == BmcFaultKind::Refused;
    if no_soft_one { BmcFault { kind: BmcFaultKind::Unsupported, ..fault } } else { fault }
}

/// What a BMC said is asked again, whatever it was: one that restarts, or is updated, has no systems and no methods
/// for a while.
fn fault_of(error: &Error) -> BmcFault {
    let kind = match error {
        error if error.may_count_as_login() => BmcFaultKind::Credentials,
        Error::Unreachable { .. }
        | Error::TargetRefused { .. }
        | Error::Tls { .. }
        | Error::TlsTooOld { .. }
        | Error::TlsFailed { .. }
        | Error::Timeout { .. } => BmcFaultKind::Unreachable,
        Error::Unauthorized
        | Error::UnknownUser
        | Error::WrongPassword
        | Error::UnfitLogin { .. }
        | Error::Forbidden { .. } => BmcFaultKind::Credentials,
        Error::NotFound { .. }
        | Error::SeveralSystems { .. }
        | Error::Unsupported { .. }
        | Error::Busy { .. }
        | Error::Crowded { .. }
        | Error::NoSessionFree
        | Error::NoSessionNorBasic
        | Error::Refused { .. }
        | Error::Redirected { .. }
        | Error::BadAnswer { .. } => BmcFaultKind::Refused,
    };
    BmcFault { kind, message: images::chain(error) }
}

#[cfg(test)]
mod tests;
