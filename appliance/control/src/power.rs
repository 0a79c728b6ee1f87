//! BMC calls: each runs once per ticket, one at a time for a host, and ends as an observation.

use std::{collections::HashSet, future::Future, pin::Pin, time::Duration};

use firesteel_bmc::{
    Address, BmcSeen as Identified, BootSet, Client, Credentials, Error, PowerAction, PowerState, Redfish, Target, Tls,
};
use firesteel_plan::host::{BmcAction, BmcCall, BmcFault, BmcFaultKind, BmcOutcome, BmcSeen, Power};
use firesteel_resources::BareMetalHost;

use crate::{Control, HostKey, control::key_of, images, runtime::timeout};

/// One call with all its requests; the driver bounds each request by itself.
const CALL_TIMEOUT: Duration = Duration::from_secs(100);

/// What a BMC is asked, and when it answers.
pub type BmcAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// How BMCs are reached.
pub trait BmcDriver: Send + Sync {
    /// Logs in.
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        credentials: &'a Credentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>>;
}

/// A login at one BMC.
pub trait BmcSession: Send + Sync {
    fn identify(&self) -> BmcAnswer<'_, Identified>;
    fn power(&self) -> BmcAnswer<'_, PowerState>;
    fn set_power(&self, action: PowerAction) -> BmcAnswer<'_, ()>;
    fn set_boot_once(&self, target: Target) -> BmcAnswer<'_, BootSet>;
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Real BMCs, by Redfish.
#[derive(Clone, Copy, Debug)]
pub struct RedfishDriver;

impl BmcDriver for RedfishDriver {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        credentials: &'a Credentials,
        tls: &'a Tls,
    ) -> BmcAnswer<'a, Box<dyn BmcSession>> {
        Box::pin(async move {
            let client = Redfish::connect(address, credentials, tls).await?;
            Ok(Box::new(client) as Box<dyn BmcSession>)
        })
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

    fn set_boot_once(&self, target: Target) -> BmcAnswer<'_, BootSet> {
        Box::pin(Client::set_boot_once(self, target, None))
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Client::close(*self))
    }
}

/// What is known of a host's BMC.
#[derive(Debug, Default)]
pub(crate) struct PowerView {
    seen: BmcSeen,
    /// Tickets that ran or run in this process.
    tickets: HashSet<u64>,
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
    /// Something that went well enough and is to be known.
    note: Option<String>,
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
        self.spawn(async move {
            let work = control.carry_out(&key, &host, call.action);
            let result = match timeout(&*control.config().runtime, CALL_TIMEOUT, work).await {
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
        if let Some(view) = self.views().hosts.get_mut(key).filter(|view| view.uid == uid) {
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
            }
            seen.last = Some(BmcOutcome { ticket: call.ticket, at: now, result: result.map(|_| ()) });
        }
        if let Some(text) = note {
            self.note_host(key, "bmc", &text).await;
        }
        self.inner.queue.wake(key);
    }

    async fn carry_out(&self, key: &HostKey, host: &BareMetalHost, action: BmcAction) -> Result<Learnt, BmcFault> {
        let client = self.connect(key, host).await?;
        let result = act(&*client, action).await.map_err(|error| fault_of(&error));
        client.close().await;
        result
    }

    async fn connect(&self, key: &HostKey, host: &BareMetalHost) -> Result<Box<dyn BmcSession>, BmcFault> {
        let unsupported = |text: &str| fault(BmcFaultKind::Unsupported, text);
        let bmc = host.spec.usable_bmc().ok_or_else(|| unsupported("the host names no BMC"))?;
        let address = Address::parse(&bmc.address)
            .map_err(|error| unsupported(&format!("spec.bmc.address {}: {error}", bmc.address)))?;
        let secret = self.inner.secrets.get(&key.namespace, &bmc.credentials_name).await;
        let secret = secret.map_err(|status| fault(BmcFaultKind::Refused, &status.message))?;
        let (username, password) = secret.and_then(|secret| secret.credentials()).ok_or_else(|| {
            fault(
                BmcFaultKind::Credentials,
                &format!("the Secret {} has no username and password", bmc.credentials_name),
            )
        })?;
        let tls =
            Tls { is_verification_disabled: bmc.disable_certificate_verification, ..self.config().bmc_tls.clone() };
        let credentials = Credentials { username, password };
        self.config().bmc.connect(&address, &credentials, &tls).await.map_err(|error| fault_of(&error))
    }
}

async fn act(client: &dyn BmcSession, action: BmcAction) -> Result<Learnt, Error> {
    match action {
        BmcAction::Probe => {
            let seen = client.identify().await?;
            return Ok(Learnt { power: Some(seen.power), macs: Some(macs_of(&seen)), note: None });
        }
        BmcAction::NetBoot => {
            let set = client.set_boot_once(Target::Pxe).await?;
            let power = client.power().await?;
            let reset = if power == PowerState::Off { PowerAction::On } else { PowerAction::ForceRestart };
            client.set_power(reset).await?;
            let note = match set {
                BootSet::Confirmed => None,
                BootSet::Unverified { .. } => {
                    Some(format!("booting once from the network was ordered and is unverified: {set:?}"))
                }
            };
            return Ok(Learnt { power: Some(client.power().await?), macs: None, note });
        }
        BmcAction::PowerOn => client.set_power(PowerAction::On).await?,
        BmcAction::PowerOff { hard: true } => client.set_power(PowerAction::ForceOff).await?,
        BmcAction::PowerOff { hard: false } => client.set_power(PowerAction::GracefulOff).await?,
        BmcAction::Cycle => client.set_power(PowerAction::ForceRestart).await?,
    };
    Ok(Learnt { power: Some(client.power().await?), ..Learnt::default() })
}

fn macs_of(seen: &Identified) -> Vec<String> {
    let text = |mac: &[u8; 6]| mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    seen.macs.iter().map(text).collect()
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

fn fault_of(error: &Error) -> BmcFault {
    let kind = match error {
        Error::Unreachable { .. } | Error::Tls { .. } | Error::Timeout { .. } => BmcFaultKind::Unreachable,
        Error::Unauthorized | Error::Forbidden { .. } => BmcFaultKind::Credentials,
        Error::NotFound { .. } | Error::SeveralSystems { .. } | Error::Unsupported { .. } => BmcFaultKind::Unsupported,
        Error::Busy { .. } | Error::Refused { .. } | Error::Redirected { .. } | Error::BadAnswer { .. } => {
            BmcFaultKind::Refused
        }
    };
    BmcFault { kind, message: images::chain(error) }
}
