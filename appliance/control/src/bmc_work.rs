//! Orders to BMCs, each at most once for its ticket, and what they say.

mod act;

use std::{sync::Arc, time::Duration};

use firesteel_bmc::{BmcBootMode, BmcInventory, BootVia, Error, PowerState};
use firesteel_boot::{BootClient, HostNetwork, first_stage};
use firesteel_facts::{Arch, Mac};
use firesteel_kube::Status;
use firesteel_plan::host::{BmcAction, BmcCall, BmcFault, BmcFaultKind, BmcOutcome, HostPower};
use firesteel_plan::journal;
use firesteel_resources::{BareMetalHost, bare_metal_host};
use firesteel_runtime::{HostKey, Live, event, key_of, timeout};
use jiff::{SignedDuration, Timestamp};

use crate::bmc_logins::{BmcLogin, BmcLogins, fault};
use crate::{bmc_record::record, console::readers::ConsoleReaders, images, power::BmcSession, shared::Shared};
use act::{Booting, act};

/// One call with all its requests; the driver bounds each request by itself.
const CALL_TIMEOUT: Duration = Duration::from_secs(100);

/// An inventory by the BMC, at most; what did not fit is left out and said.
const INVENTORY_WITHIN: Duration = Duration::from_secs(20);
/// The longest wait for an inventory, with the request that was under way at the end of it.
const INVENTORY_TIMEOUT: Duration = Duration::from_secs(40);
/// An inventory that takes the place of an agent's inspection, at most: of a storage server on a slow BMC.
const INSPECTION_WITHIN: Duration = Duration::from_secs(45);
/// The longest wait for that, with the request that was under way at the end of it.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the inventory is read again: parts are changed by people, health by itself.
const INVENTORY_EVERY: SignedDuration = SignedDuration::from_hours(6);

/// What a call learnt, besides that it ended well.
#[derive(Debug, Default)]
pub(crate) struct PowerCallFindings {
    power: Option<PowerState>,
    macs: Option<Vec<String>>,
    /// UUID of the system, as far as the BMC names one.
    system_uuid: Option<String>,
    /// What the BMC tells of its machine.
    inventory: Option<BmcInventory>,
    /// Why an inspection read no inventory.
    no_inventory: Option<String>,
    /// Something that went well enough and is to be known.
    note: Option<String>,
    /// The BMC had no place for a session.
    no_session_free: bool,
    /// The host was off, and was switched on for its boot from the network.
    was_off: bool,
    /// Why there is no override for a boot from the network.
    no_override: Option<String>,
    /// Why the override of a boot from the network is not known to be set for one boot alone.
    once_unset: Option<String>,
    /// Why the boot is not seen to have used up its override.
    once_unread: Option<String>,
    /// Why an override that was to be taken back is still there.
    override_left: Option<String>,
}

/// What an inspection by the BMC's inventory came to.
enum InventoryReading {
    Read(Box<BmcInventory>),
    /// The text is for people.
    NotRead {
        why: String,
    },
}

/// Carries out what the planner wants of BMCs.
#[derive(Clone)]
pub(crate) struct BmcWork {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logins: BmcLogins,
    pub(crate) consoles: ConsoleReaders,
    pub(crate) host_network: Live<HostNetwork>,
}

impl BmcWork {
    /// Starts a call unless its ticket ran before.
    pub(crate) fn call_bmc(&self, host: &BareMetalHost, call: BmcCall) {
        let key = key_of(host);
        {
            let mut views = self.shared.views();
            // A step of a host that was deleted and made again meanwhile may still ask for what the old one wanted.
            let Some(view) = views.hosts.get_mut(&key).filter(|view| view.uid == host.metadata.uid) else { return };
            if !view.power.take_on(call.ticket) {
                return;
            }
        }
        let (bmc, host) = (self.clone(), host.clone());
        self.shared.tasks.spawn_outward(async move {
            let work = bmc.carry_out(&key, &host, call.action);
            let result = match timeout(&*bmc.shared.runtime, CALL_TIMEOUT, work).await {
                Some(result) => result,
                None => Err(fault(BmcFaultKind::Unreachable, "the BMC did not finish within 100 s")),
            };
            // The planner looks for the record as soon as the call has ended.
            let result = match result {
                Ok(learnt) if call.action == BmcAction::Inspect => {
                    bmc.keep_inspection(&key, &host.metadata.uid, learnt).await
                }
                result => result,
            };
            bmc.bmc_ended(&key, &host.metadata.uid, &call, result).await;
        });
    }

    async fn bmc_ended(&self, key: &HostKey, uid: &str, call: &BmcCall, result: Result<PowerCallFindings, BmcFault>) {
        let now = self.shared.now();
        let mut note = None;
        match &result {
            Ok(learnt) => {
                tracing::debug!(host = %key, action = ?call.action, ?learnt, "BMC call done");
                note.clone_from(&learnt.note);
            }
            Err(fault) => tracing::warn!(host = %key, action = ?call.action, error = %fault.message, "BMC call failed"),
        }
        // A host that was deleted and made again meanwhile has tickets of its own.
        let mut is_same = false;
        if let Some(view) = self.shared.views().hosts.get_mut(key).filter(|view| view.uid == uid) {
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
                if call.action == BmcAction::Inspect {
                    seen.no_inventory.clone_from(&learnt.no_inventory);
                }
                if call.action == BmcAction::Probe {
                    seen.system_uuid.clone_from(&learnt.system_uuid);
                }
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
        if let Some(inventory) = result.ok().and_then(|learnt| learnt.inventory).filter(|_| is_same)
            && let Err(status) = self.keep_bmc_record(key, &inventory, now).await
        {
            tracing::warn!(host = %key, error = %status.message, "could not store what the BMC said of its machine; it is asked again in some hours");
        }
        if let Some(text) = note {
            self.note_host(key, "bmc", &text).await;
        }
        self.shared.queue.wake(key);
    }

    async fn carry_out(
        &self,
        key: &HostKey,
        host: &BareMetalHost,
        action: BmcAction,
    ) -> Result<PowerCallFindings, BmcFault> {
        let (client, via) = self.connect(key, host).await?;
        let loader = self.http_loader();
        let booting = Booting { via, mode: boot_mode(host), wanted_mode: wanted_mode(host), loader: &loader };
        let mut result = act(&*client, action, booting).await.map_err(|error| fault_of_order(action, &error));
        if let (Ok(learnt), BmcAction::Probe) = (&mut result, action)
            && self.takes_inventory(key)
        {
            learnt.inventory = self.inventory(key, &*client).await;
        }
        if let (Ok(learnt), BmcAction::Inspect) = (&mut result, action) {
            match self.inspect(&*client).await {
                InventoryReading::Read(inventory) => learnt.inventory = Some(*inventory),
                InventoryReading::NotRead { why } => learnt.no_inventory = Some(why),
            }
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
        first_stage(&client, &self.host_network.now().endpoints).map(|stage| stage.file_or_url).unwrap_or_default()
    }

    /// Whether it is time again; a try that fails counts, so that a BMC that cannot is not held up at each look.
    fn takes_inventory(&self, key: &HostKey) -> bool {
        let now = self.shared.now();
        let mut views = self.shared.views();
        let Some(view) = views.hosts.get_mut(key) else { return false };
        let is_due = view.power.inventory_at.is_none_or(|at| now.duration_since(at) >= INVENTORY_EVERY);
        if is_due {
            view.power.inventory_at = Some(now);
        }
        is_due
    }

    /// What the BMC tells of its machine. That it tells nothing is no fault: the agent inspects.
    async fn inventory(&self, key: &HostKey, client: &dyn BmcSession) -> Option<BmcInventory> {
        match timeout(&*self.shared.runtime, INVENTORY_TIMEOUT, client.inventory(INVENTORY_WITHIN)).await {
            Some(Ok(inventory)) => inventory,
            Some(Err(error)) => {
                tracing::info!(host = %key, %error, "the BMC gives no inventory");
                None
            }
            None => {
                tracing::info!(host = %key, "the BMC takes too long to give its inventory");
                None
            }
        }
    }

    /// The BMC's inventory in place of an agent's inspection.
    async fn inspect(&self, client: &dyn BmcSession) -> InventoryReading {
        let reading = client.inventory(INSPECTION_WITHIN);
        let why = match timeout(&*self.shared.runtime, INSPECTION_TIMEOUT, reading).await {
            Some(Ok(Some(inventory))) => return InventoryReading::Read(Box::new(inventory)),
            Some(Ok(None)) => "the BMC is driven by IPMI, which has no inventory".to_owned(),
            Some(Err(error)) => format!("the BMC gives no inventory: {}", images::chain(&error)),
            None => "the BMC takes too long to give its inventory".to_owned(),
        };
        InventoryReading::NotRead { why }
    }

    /// Stores the inventory of an inspection; without that the inspection has failed.
    async fn keep_inspection(
        &self,
        key: &HostKey,
        uid: &str,
        mut learnt: PowerCallFindings,
    ) -> Result<PowerCallFindings, BmcFault> {
        let now = self.shared.now();
        let Some(inventory) = learnt.inventory.take() else { return Ok(learnt) };
        let is_same = self.shared.views().hosts.get_mut(key).filter(|view| view.uid == uid).map(|view| {
            view.power.inventory_at = Some(now);
        });
        if is_same.is_none() {
            return Ok(learnt);
        }
        let stored = self.keep_bmc_record(key, &inventory, now).await;
        let failed = |status: Status| format!("could not store what the BMC said of its machine: {}", status.message);
        stored.map(|()| learnt).map_err(|status| fault(BmcFaultKind::Refused, &failed(status)))
    }

    async fn connect(&self, key: &HostKey, host: &BareMetalHost) -> Result<(Box<dyn BmcSession>, BootVia), BmcFault> {
        let BmcLogin { address, credentials, given, account, tls } = self.logins.login(key, host).await?;
        let trying = self.logins.try_login(&account, &given).await?;
        let mut connected = self.logins.bmc.connect(&address, &credentials, &tls).await;
        if matches!(connected, Err(Error::NoSessionFree)) && self.consoles.consoles_give_way(&address).await {
            connected = self.logins.bmc.connect(&address, &credentials, &tls).await;
        }
        let connected = connected.map_err(|error| fault_of(&error));
        self.logins.note_login(key, account, &given, connected.as_ref().map(drop));
        drop(trying);
        connected.map(|session| (session, address.boot_via()))
    }

    async fn keep_bmc_record(&self, key: &HostKey, inventory: &BmcInventory, at: Timestamp) -> Result<(), Status> {
        let record = record(inventory, at);
        self.shared.journals.change(key, |status| status.bmc = Some(record.clone())).await.map(drop)
    }

    /// Adds an event to a host's timeline; a failure is logged, since nothing depends on it.
    pub(crate) async fn note_host(&self, key: &HostKey, name: &str, detail: &str) {
        let attempt = match self.shared.journals.read(key).await {
            Ok(Some(status)) => journal::attempt(&status),
            Ok(None) | Err(_) => 0,
        };
        if let Err(status) = self.shared.journals.note(key, &event(self.shared.now(), attempt, name, detail)).await {
            tracing::warn!(host = %key, error = %status.message, "could not write the timeline; the log has the event");
        }
    }
}

/// What upstream takes where a host does not say.
fn boot_mode(host: &BareMetalHost) -> BmcBootMode {
    match host.spec.boot_mode.unwrap_or_default() {
        bare_metal_host::BootMode::Legacy => BmcBootMode::Legacy,
        bare_metal_host::BootMode::Uefi | bare_metal_host::BootMode::UefiSecureBoot => BmcBootMode::Uefi,
    }
}

/// What the owner says of the mode; upstream's default is not forced upon a firmware that boots otherwise.
fn wanted_mode(host: &BareMetalHost) -> Option<BmcBootMode> {
    host.spec.boot_mode.map(|_| boot_mode(host))
}

fn power_of(power: PowerState) -> HostPower {
    match power {
        PowerState::On => HostPower::On,
        PowerState::Off => HostPower::Off,
        // On its way: asked again until it arrives.
        PowerState::PoweringOn | PowerState::PoweringOff | PowerState::Unknown => HostPower::Unknown,
    }
}

/// Says what went wrong with an order. A soft power-off that a BMC does not offer, or refuses, differs from one that it
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
