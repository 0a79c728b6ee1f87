//! What a machine that asks for its boot script gets, and what its token opens.

use firesteel_boot::{
    BootEntry, Claims, Mac, Purpose, ScriptContext, ScriptRequest, SealedToken, ipxe::wrong_build, render,
};
use firesteel_wire::{NetworkPlan, Seed};
use jiff::SignedDuration;

use crate::{
    Control, Denied, HostKey, NetworkEvent,
    control::unix_seconds,
    discovery::{self, DiscoveryBoot},
    views::NetworkView,
};

/// How long a boot token opens kernel, initramfs and hello, and the agent's reports after it. Longer than
/// the longest erase of a large disk; what bounds its harm is that the first key takes it.
pub(crate) const BOOT_TOKEN_S: u64 = 7 * 24 * 3600;

/// An agent that works reports every 2 s; after three missed reports it may have been cut off.
const WORKING_QUIET: SignedDuration = SignedDuration::from_secs(6);

/// What a boot token stands for.
#[derive(Clone, Debug)]
pub struct BootGrant {
    pub mac: Mac,
    pub seed: Seed,
}

impl Control {
    /// The script for one client. Never fails: a client that gets no script would stop without
    /// a word, so errors become a script that says them.
    pub async fn script(&self, request: &ScriptRequest) -> String {
        if let Some(buildarch) = request.wrong_build() {
            // Before anything counts as a boot: this one cannot be one.
            self.note(request.mac, NetworkEvent::WrongBuild { buildarch: shortened(buildarch) });
            return self.render(&exit(&wrong_build(&shortened(buildarch))), request, None);
        }
        if !self.knows_hosts().await {
            return self.render(&exit("the appliance is starting: try again"), request, None);
        }
        self.first_step(request.mac).await;
        let spent = self.notice_reboot(request.mac).await;
        let (entry, uid) = self.boot_entry(request.mac);
        if let (BootEntry::Agent { host, attempt }, Some(spent)) = (&entry, spent)
            && *attempt == spent
        {
            // Its agent would be taken for a second one, and switch the host off. The host goes elsewhere now, so
            // once it may go on nobody is to wait for this boot.
            if let Some(view) = self.views().host_of(&uid) {
                view.rebooted_attempt = None;
            }
            let text = format!("the number of this boot is taken, and {host} gets no other one while it is paused");
            return self.render(&exit(&text), request, None);
        }
        let discovery = match entry {
            BootEntry::Discovery => match self.discovered_boot(request).await {
                Ok(boot) => Some(boot),
                Err(reason) => return self.render(&exit(&reason), request, None),
            },
            BootEntry::Agent { .. } | BootEntry::LocalDisk { .. } | BootEntry::Exit { .. } => None,
        };
        let token = match self.boot_token(&entry, &uid, discovery) {
            Ok(token) => token,
            Err(error) => {
                tracing::error!(mac = %request.mac, %error, "sealing a boot token");
                return self.render(&exit("the appliance could not make a token; see its log"), request, None);
            }
        };
        self.render(&entry, request, token.as_ref())
    }

    fn render(&self, entry: &BootEntry, request: &ScriptRequest, token: Option<&SealedToken>) -> String {
        let config = self.config();
        let context =
            ScriptContext { endpoints: &config.endpoints, request, token, arguments: &config.kernel_arguments };
        render(entry, &context).unwrap_or_else(|error| {
            tracing::error!(mac = %request.mac, %error, "rendering a boot script");
            "#!ipxe\necho Firesteel: the boot script could not be made, see the appliance's log\nexit 1\n".to_owned()
        })
    }

    /// A host that has no boot entry yet (it was just added, or the appliance has just started) gets its
    /// first step before it is answered.
    async fn first_step(&self, mac: Mac) {
        let key = {
            let views = self.views();
            let key = views.by_mac.get(&mac).cloned();
            key.filter(|key| views.hosts.get(key).is_some_and(|view| view.boot_entry.is_none()))
        };
        let Some(key) = key else { return };
        if let Err(status) = self.step_now(&key).await {
            tracing::warn!(host = %key, error = %status.message, "stepping a host that boots");
        }
    }

    /// A host that asks for its script although an agent of the current attempt is bound has booted
    /// again: its token is taken, so the planner gives it the next attempt before it is answered.
    ///
    /// An agent that works and was heard just now did not boot: then somebody else uses its MAC, who
    /// gets a token that is taken, and changes nothing.
    ///
    /// The attempt whose token was found taken; where it still is the current one afterwards, the host is paused
    /// or the store fails.
    async fn notice_reboot(&self, mac: Mac) -> Option<u64> {
        let (key, attempt, working) = self.agent_entry(mac)?;
        if working {
            tracing::warn!(host = %key, %mac, "a boot script was asked for while the host's agent is at work");
            return None;
        }
        let bound = match self.inner.journals.read(&key).await {
            Ok(journal) => journal.and_then(|journal| journal.agent).is_some_and(|agent| agent.attempt == attempt),
            Err(status) => {
                tracing::error!(host = %key, error = %status.message, "reading a journal");
                false
            }
        };
        if !bound {
            return None;
        }
        if let Some(view) = self.views().hosts.get_mut(&key) {
            view.rebooted_attempt = Some(attempt);
        }
        if let Err(status) = self.step_now(&key).await {
            tracing::error!(host = %key, error = %status.message, "stepping a host that booted again");
        }
        Some(attempt)
    }

    /// Host and attempt of a MAC whose entry is the agent, and whether an agent is at work there.
    fn agent_entry(&self, mac: Mac) -> Option<(HostKey, u64, bool)> {
        let views = self.views();
        let key = views.by_mac.get(&mac)?;
        let view = views.hosts.get(key)?;
        let Some(BootEntry::Agent { attempt, .. }) = &view.boot_entry else { return None };
        let heard = view.agent.attempt == *attempt
            && view.agent.last_report_at.is_some_and(|at| self.now().duration_since(at) < WORKING_QUIET);
        let working = heard && view.agent.last_report.as_ref().is_some_and(|report| !report.idle && !report.leaving);
        Some((key.clone(), *attempt, working))
    }

    /// The entry for a MAC, and the uid of its host.
    fn boot_entry(&self, mac: Mac) -> (BootEntry, String) {
        let views = self.views();
        let Some(key) = views.by_mac.get(&mac) else { return (BootEntry::Discovery, String::new()) };
        match views.hosts.get(key) {
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
    ) -> Result<Option<SealedToken>, firesteel_boot::SealError> {
        let (purpose, subject, attempt) = match (entry, discovery) {
            (BootEntry::Agent { attempt, .. }, _) => (Purpose::Agent, uid.to_owned(), *attempt),
            (_, Some(boot)) => (Purpose::Discovery, boot.subject, boot.number),
            (BootEntry::Discovery | BootEntry::LocalDisk { .. } | BootEntry::Exit { .. }, None) => return Ok(None),
        };
        let expires_unix_s = unix_seconds(self.now()) + BOOT_TOKEN_S;
        let claims = Claims { purpose, subject, attempt, expires_unix_s };
        self.config().sealer.seal(&claims).map(Some)
    }

    /// Opens a boot token for kernel and initramfs.
    ///
    /// # Errors
    /// When the token is not ours, expired, or of an attempt that is over.
    pub fn open_boot(&self, token: &str) -> Result<BootGrant, Denied> {
        let claims = self
            .config()
            .sealer
            .open_boot(token, unix_seconds(self.now()))
            .map_err(|error| Denied::Token(format!("{error}: boot again from the network")))?;
        let (mac, network) = match claims.purpose {
            Purpose::Discovery => {
                let mac = discovery::mac_of(&claims);
                (mac.ok_or_else(|| Denied::Token("the token names no MAC".to_owned()))?, NetworkView::Dhcp)
            }
            Purpose::Agent => self.host_of_token(&claims)?,
            Purpose::Instance => return Err(Denied::Token("this token does not boot".to_owned())),
        };
        let network = match network {
            NetworkView::Dhcp => None,
            NetworkView::Plan(plan) => Some(NetworkPlan::clone(&plan)),
            // An agent without its way would be silent, and by another way it may be where it must not be.
            NetworkView::Unusable(text) => return Err(Denied::Invalid(text)),
        };
        let seed = Seed {
            network,
            token: token.to_owned(),
            appliance: self.config().endpoints.agent_base(),
            pin_sha256: self.config().pin_sha256.clone(),
            boot_mac: mac_with_colons(mac),
        };
        Ok(BootGrant { mac, seed })
    }

    /// Boot MAC and network of the host that an agent token names, while its attempt is the current one.
    fn host_of_token(&self, claims: &Claims) -> Result<(Mac, NetworkView), Denied> {
        let views = self.views();
        let view = views
            .by_uid
            .get(&claims.subject)
            .and_then(|key| views.hosts.get(key))
            .ok_or_else(|| Denied::Token("the token's host is gone".to_owned()))?;
        let current = matches!(&view.boot_entry, Some(BootEntry::Agent { attempt, .. }) if *attempt == claims.attempt);
        if !current {
            return Err(Denied::Token("the token's attempt is over: boot again".to_owned()));
        }
        let mac = view.macs.first().copied();
        let mac = mac.ok_or_else(|| Denied::Token("the token's host has no boot MAC".to_owned()))?;
        Ok((mac, view.network.clone()))
    }
}

/// Of a word that a client made up, what a person needs.
fn shortened(word: &str) -> String {
    word.chars().take(16).collect()
}

fn exit(reason: &str) -> BootEntry {
    BootEntry::Exit { reason: reason.to_owned() }
}

/// `52:54:00:12:34:56`, as the kernel writes it.
pub(crate) fn mac_with_colons(mac: Mac) -> String {
    mac.to_string().replace('-', ":")
}
