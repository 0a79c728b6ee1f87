//! What a machine that asks for its boot script gets, and what its token opens.

use std::{net::IpAddr, sync::Arc};

use firesteel_boot::ipxe::wrong_build;
use firesteel_boot::{
    AskerMismatch, BootAsker, BootEntry, BootTokenClaims, HostNetwork, KernelArguments, Platform, Purpose,
    ScriptContext, ScriptRequest, SealedToken, Sealer, ServedBootFiles, render,
};
use firesteel_facts::{Mac, WorkHold};
use firesteel_runtime::{HostKey, Live};
use firesteel_wire::{NetworkPlan, Seed};
use futures_util::future::BoxFuture;

use crate::boot_observations::BootObserver;
use crate::boot_record::BootStage;
use crate::discovery::{DiscoveryBoot, UnownedMachines};
use crate::discovery_token::mac_of;
use crate::network_log::NetworkLog;
use crate::reconciler::HostReconciler;
use crate::second_boot::BootAgain;
use crate::shared::Shared;
use crate::views::{LiveHost, NetworkView};
use crate::{AccessDenial, NetworkEvent};

/// How long a boot token opens kernel, initramfs and hello, and the agent's reports after it. Longer than
/// the longest erase of a large disk; what bounds its harm is that the first key takes it.
pub(crate) const BOOT_TOKEN_S: u64 = 7 * 24 * 3600;

/// An opened boot token: for which MAC, host and attempt it stands.
#[derive(Clone, Debug)]
pub struct BootGrant {
    pub mac: Mac,
    pub seed: Seed,
    pub claims: BootTokenClaims,
}

/// What a machine is sent that asks for its boot script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootScript {
    pub text: String,
    pub kind: ScriptKind,
}

/// What a boot script has its machine do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// Go on with its boot, as its entry says.
    Boots,
    /// Ask again: the agent of its host may still be at work, or the host was not switched on for it yet.
    Waits,
    /// Restart or give up: it may not be the machine.
    Mismatch(AskerMismatch),
    /// Give up: its iPXE cannot start the kernel.
    WrongBuild,
}

/// What a script is made of.
struct ScriptDecision {
    entry: BootEntry,
    token: Option<(SealedToken, BootTokenClaims)>,
    kind: ScriptKind,
}

impl ScriptDecision {
    fn exit(reason: &str) -> Self {
        Self { entry: exit(reason), token: None, kind: ScriptKind::Boots }
    }
}

/// Decides what a machine gets that boots from the network.
#[derive(Clone)]
pub struct BootDecisions {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: NetworkLog,
    pub(crate) observations: BootObserver,
    pub(crate) reconciler: HostReconciler,
    pub(crate) machines: UnownedMachines,
    pub(crate) boot_files: ServedBootFiles,
    pub(crate) host_network: Live<HostNetwork>,
    pub(crate) pin_sha256: Arc<str>,
    pub(crate) kernel_arguments: Arc<KernelArguments>,
    pub(crate) sealer: Arc<Sealer>,
}

impl BootDecisions {
    /// Makes the script for one client, who asks from this address. Never fails: a client that gets no script would
    /// stop without a word, so errors become a script that says them.
    pub fn script<'a>(&'a self, request: &'a ScriptRequest, from: IpAddr) -> BoxFuture<'a, BootScript> {
        Box::pin(async move {
            let ScriptDecision { entry, token, kind } = self.decide_script(request, from).await;
            let text = self.render(&entry, request, token.as_ref().map(|(token, _)| token));
            if kind == ScriptKind::Boots {
                self.note_script(request, token.map(|(_, claims)| claims).as_ref(), text.len() as u64);
            }
            BootScript { text, kind }
        })
    }

    /// The first token of a host's attempt is a stage of its boot; everything else, anyone can make happen.
    fn note_script(&self, request: &ScriptRequest, claims: Option<&BootTokenClaims>, bytes: u64) {
        let odd = request.odd.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let has_words = !odd.is_empty();
        let event = NetworkEvent::Script { bytes, is_uefi: request.platform == Platform::Efi, odd };
        let first =
            claims.filter(|claims| claims.purpose == Purpose::Agent && self.observations.is_first_grant(claims));
        if let Some(claims) = first {
            self.observations.note_boot_stage(claims, BootStage::Script, bytes);
        }
        if first.is_some() && !has_words {
            self.network.watch(request.mac, &event);
        } else {
            self.network.note(request.mac, event);
        }
    }

    async fn decide_script(&self, request: &ScriptRequest, from: IpAddr) -> ScriptDecision {
        let mac = request.mac;
        if let Some(buildarch) = request.wrong_build() {
            // Before anything counts as a boot: this one cannot be one.
            self.network.note(mac, NetworkEvent::WrongBuild { buildarch: shortened(buildarch) });
            let exit = ScriptDecision::exit(&wrong_build(&shortened(buildarch)));
            return ScriptDecision { kind: ScriptKind::WrongBuild, ..exit };
        }
        if !self.shared.knows_hosts().await {
            return ScriptDecision::exit("the appliance is starting: try again");
        }
        let key = self.shared.views().by_mac.get(&mac).cloned();
        self.first_step(key).await;
        let asked = self.asked(mac, from);
        let spent = match self.boot_again(mac, &asked).await {
            BootAgain::Mismatch(mismatch) => return self.mismatched(mac, mismatch),
            BootAgain::Live { host, why } => return self.waiting(mac, host, why),
            BootAgain::Spent(attempt) => Some(attempt),
            BootAgain::First => None,
        };
        let (entry, uid) = self.boot_entry(mac);
        if let BootEntry::Wait { host, why } = entry {
            return self.waiting(mac, host, why);
        }
        if let Some(why) = self.boots_no_agent(&entry) {
            return ScriptDecision::exit(&why);
        }
        let asker = match self.admit(mac, &entry, &asked) {
            Ok(asker) => asker,
            Err(mismatch) => return self.mismatched(mac, mismatch),
        };
        if let (BootEntry::Agent { host, attempt }, Some(spent)) = (&entry, spent)
            && *attempt == spent
        {
            // Its agent would be taken for a second one. The host goes elsewhere now, and no step may wait for this
            // boot.
            if let Some(view) = self.shared.views().host_of(&uid) {
                view.rebooted_attempt = None;
            }
            let text = format!("the number of this boot is taken, and no other boot of {host} is due now");
            return ScriptDecision::exit(&text);
        }
        let mut discovery = None;
        if entry == BootEntry::Discovery {
            match self.machines.discovered_boot(request).await {
                Ok(boot) => discovery = Some(boot),
                Err(error) => return ScriptDecision::exit(&error.to_string()),
            }
        }
        match self.boot_token(&entry, &uid, discovery, asker) {
            Ok(token) => ScriptDecision { entry, token, kind: ScriptKind::Boots },
            Err(error) => {
                tracing::error!(%mac, %error, "could not seal a boot token");
                ScriptDecision::exit("the appliance could not make a token; see its log")
            }
        }
    }

    /// Says why a machine that would boot the agent does not, where hosts are driven by their BMCs alone.
    fn boots_no_agent(&self, entry: &BootEntry) -> Option<String> {
        let is_agent = matches!(entry, BootEntry::Agent { .. } | BootEntry::Discovery);
        let network = self.host_network.now();
        network.work_hold.as_ref().and_then(WorkHold::bmc_only).filter(|_| is_agent).map(str::to_owned)
    }

    /// The machine asks again in a while.
    fn waiting(&self, mac: Mac, host: String, why: String) -> ScriptDecision {
        self.network.note(mac, NetworkEvent::ScriptWaits { why: why.clone() });
        ScriptDecision { entry: BootEntry::Wait { host, why }, token: None, kind: ScriptKind::Waits }
    }

    /// A host that was to run the agent restarts; any other machine goes on to its next boot option.
    fn mismatched(&self, mac: Mac, mismatch: AskerMismatch) -> ScriptDecision {
        let reason = mismatch.to_string();
        let entry = if let BootEntry::Agent { host, .. } = self.boot_entry(mac).0 {
            BootEntry::Mismatch { host, reason }
        } else {
            exit(&reason)
        };
        ScriptDecision { entry, token: None, kind: ScriptKind::Mismatch(mismatch) }
    }

    fn render(&self, entry: &BootEntry, request: &ScriptRequest, token: Option<&SealedToken>) -> String {
        let endpoints = &self.host_network.now().endpoints;
        let context = ScriptContext { endpoints, request, token, arguments: &self.kernel_arguments };
        render(entry, &context).unwrap_or_else(|error| {
            tracing::error!(mac = %request.mac, %error, "could not render a boot script; the machine gets one that says so");
            "#!ipxe\necho Firesteel: the boot script could not be made, see the appliance's log\nexit 1\n".to_owned()
        })
    }

    /// A host that has no boot entry yet (it was just added, or the appliance has just started) gets its
    /// first step before it is answered.
    async fn first_step(&self, key: Option<HostKey>) {
        let is_new = |key: &HostKey| self.shared.views().hosts.get(key).is_some_and(|view| view.boot_entry.is_none());
        let Some(key) = key.filter(is_new) else { return };
        if let Err(status) = self.reconciler.step_now(&key).await {
            tracing::warn!(host = %key, error = %status.message, "could not step a host that boots; it gets the script of its last step");
        }
    }

    /// The entry for a MAC, and the uid of its host.
    fn boot_entry(&self, mac: Mac) -> (BootEntry, String) {
        let views = self.shared.views();
        let Some(key) = views.by_mac.get(&mac) else {
            let entry = views.unreadable_host().map_or(BootEntry::Discovery, |why| exit(&why));
            return (entry, String::new());
        };
        match views.hosts.get(key) {
            // It goes on to its disk: nothing is given, and nothing done.
            Some(LiveHost { damage: Some(why), .. }) => (exit(why), String::new()),
            Some(view) => match view.boot_entry.clone() {
                Some(entry) => (entry, view.uid.clone()),
                None => (exit("this host was just added: try again"), String::new()),
            },
            None => (exit("this host was just removed: try again"), String::new()),
        }
    }

    fn boot_token(
        &self,
        entry: &BootEntry,
        uid: &str,
        discovery: Option<DiscoveryBoot>,
        asker: Option<BootAsker>,
    ) -> Result<Option<(SealedToken, BootTokenClaims)>, firesteel_boot::TokenSealError> {
        let (purpose, subject, attempt) = match (entry, discovery) {
            (BootEntry::Agent { attempt, .. }, _) => (Purpose::Agent, uid.to_owned(), *attempt),
            (_, Some(boot)) => (Purpose::Discovery, boot.subject, boot.number),
            (_, None) => return Ok(None),
        };
        let expires_s = self.shared.clock.age_s().saturating_add(BOOT_TOKEN_S);
        let mut claims = BootTokenClaims { purpose, subject, attempt, expires_s, boot: None };
        claims.boot = asker.map(|asker| self.observations.seal_boot(&claims, asker));
        Ok(Some((self.sealer.seal(&claims)?, claims)))
    }

    /// Opens a boot token for kernel and initramfs. A loader may ask while the appliance starts.
    ///
    /// # Errors
    /// When the token is not ours, expired, or of an attempt that is over.
    pub fn open_boot<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<BootGrant, AccessDenial>> {
        Box::pin(async move {
            let claims = self
                .sealer
                .open_boot(token, self.shared.clock.age_s())
                .map_err(|error| AccessDenial::Token(format!("{error}: boot again from the network")))?;
            if !self.shared.knows_hosts().await {
                return Err(AccessDenial::Internal("the appliance is starting: try again".to_owned()));
            }
            let key = self.shared.views().by_uid.get(&claims.subject).cloned();
            self.first_step(key).await;
            let (mac, network) = match claims.purpose {
                Purpose::Discovery => {
                    let mac = mac_of(&claims);
                    (mac.ok_or_else(|| AccessDenial::Token("the token names no MAC".to_owned()))?, NetworkView::Dhcp)
                }
                Purpose::Agent => self.host_of_token(&claims)?,
                Purpose::Instance => return Err(AccessDenial::Token("this token does not boot".to_owned())),
            };
            if claims.boot.is_none_or(|seal| self.boot_files.of(&seal).is_none()) {
                return Err(AccessDenial::Token(
                    "the files of this boot are not served any more: boot again".to_owned(),
                ));
            }
            let network = match network {
                NetworkView::Dhcp => None,
                NetworkView::Plan(plan) => Some(NetworkPlan::clone(&plan)),
                // An agent without its way would be silent, and by another way it may be where it must not be.
                NetworkView::Unusable(text) => return Err(AccessDenial::Invalid(text)),
            };
            let seed = Seed {
                network,
                token: token.to_owned(),
                appliance: self.host_network.now().endpoints.agent_base(),
                pin_sha256: self.pin_sha256.to_string(),
                boot_mac: mac.to_string(),
            };
            Ok(BootGrant { mac, seed, claims })
        })
    }

    /// Boot MAC and network of the host that an agent token names, while its attempt is the current one.
    fn host_of_token(&self, claims: &BootTokenClaims) -> Result<(Mac, NetworkView), AccessDenial> {
        let views = self.shared.views();
        let view = views.by_uid.get(&claims.subject).and_then(|key| views.hosts.get(key));
        let view = view.ok_or_else(|| match views.unreadable_host() {
            Some(why) => AccessDenial::Internal(why),
            None => AccessDenial::Token("the token's host is gone".to_owned()),
        })?;
        if let Some(why) = &view.damage {
            return Err(AccessDenial::Internal(why.clone()));
        }
        let current = matches!(&view.boot_entry, Some(BootEntry::Agent { attempt, .. }) if *attempt == claims.attempt);
        if !current {
            return Err(AccessDenial::Token("the token's attempt is over: boot again".to_owned()));
        }
        let mac = view.macs.first().copied();
        let mac = mac.ok_or_else(|| AccessDenial::Token("the token's host has no boot MAC".to_owned()))?;
        Ok((mac, view.network.clone()))
    }
}

/// Cuts a word that a client made up to what a person needs.
fn shortened(word: &str) -> String {
    word.chars().take(16).collect()
}

fn exit(reason: &str) -> BootEntry {
    BootEntry::Exit { reason: reason.to_owned() }
}
