//! Machines without an owner: they get the agent, are inspected, and are shown until they are adopted. They are never
//! written to: the only plan they ever get is `inspect`.
//!
//! Each boot has a number, the time when it began, which its token carries together with the uid of the machine's
//! object. A machine without one gets it with its agent's first hello: a boot script is given to any machine, and the
//! store is not written for it; such a boot is good for one hello ([`crate::first_boots`]). The first key that says
//! hello with a number has it, in the object, before it is answered. How many machines are remembered, and how often
//! anything is written for them, is [`crate::unowned_machines`]'s to say.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use firesteel_boot::{BootTokenClaims, ScriptRequest, UnseenBoot};
use firesteel_facts::Mac;
use firesteel_kube::Status;
use firesteel_resources::discovered_host::{DiscoveredHostStatus, DiscoveryBinding, object_name};
use firesteel_wire::{
    AgentInstruction, AgentPlan, AgentReport, Evidence, Hello, HelloReply, PlanStep, PublicKey, RefusalReason,
    RefusalReply, ReportReply, SmbiosIdentity, StepReceipt,
};
use jiff::{SignedDuration, Timestamp};

use crate::boot_observations::BootObserver;
use crate::discovery_token::{DiscoverySubject, named};
use crate::first_boots::FirstBoots;
use crate::refusals::{busy, refusal};
use crate::shared::{Shared, unix_milliseconds};
use crate::unowned_machines::fitting;
use crate::unowned_objects::UnownedObjects;
use crate::views::{AgentView, ReportOrder};
use crate::{DISCOVERED_MAX, map};

/// An agent that says hello again within this time is known well enough.
const SEEN_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// One boot of a machine without an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveryBoot {
    /// MAC and the uid of the object, if there is one: what the boot's token is for.
    pub(crate) subject: String,
    pub(crate) number: u64,
}

/// The store did not say whether a machine is known. The text is for the machine's console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the appliance could not look for this machine: try again")]
pub(crate) struct NotLookedFor;

/// Outcome of comparing a hello with the machine's object.
#[derive(Debug, PartialEq, Eq)]
enum DiscoveryHello {
    New,
    Known,
    SecondKey,
    OldBoot,
    /// The boot that the token is of was not seen.
    Unseen(UnseenBoot),
}

/// Speaks with machines that have no owner.
#[derive(Clone)]
pub(crate) struct UnownedMachines {
    pub(crate) shared: Arc<Shared>,
    pub(crate) unowned: UnownedObjects,
    pub(crate) observations: BootObserver,
    pub(crate) first_boots: Arc<FirstBoots>,
}

impl UnownedMachines {
    /// A machine without host fetches its script: its next boot begins. It needs no credentials for that, so nothing is
    /// written before the agent's hello.
    pub(crate) async fn discovered_boot(&self, request: &ScriptRequest) -> Result<DiscoveryBoot, NotLookedFor> {
        let (uid, bound) = self.known_machine(request.mac).await.map_err(|status| {
            tracing::warn!(mac = %request.mac, error = %status.message, "could not look for a discovered machine; it is to ask again");
            NotLookedFor
        })?;
        // Later boots have higher numbers, also where the clock was set back.
        let next = unix_milliseconds(self.shared.now()).max(bound.saturating_add(1));
        let number = if uid.is_empty() {
            self.first_boots.give(request.mac, next, || self.shared.views().stranger_boots.fetching())
        } else {
            next
        };
        Ok(DiscoveryBoot { subject: format!("{}/{uid}", request.mac.hyphenated()), number })
    }

    /// Uid and newest boot of a machine's object, empty and 0 where it has none yet.
    async fn known_machine(&self, mac: Mac) -> Result<(String, u64), Status> {
        let machine = self.unowned.discovered.get("", &object_name(&mac.hyphenated())).await?;
        Ok(machine.map_or_else(
            || (String::new(), 0),
            |machine| (machine.metadata.uid, machine.status.agent.map_or(0, |bound| bound.boot)),
        ))
    }

    pub(crate) async fn discovery_hello(
        &self,
        claims: &BootTokenClaims,
        hello: &Hello,
        remote: IpAddr,
    ) -> Result<HelloReply, RefusalReply> {
        let named = named(claims)?;
        let (mac, now) = (named.mac, self.shared.now());
        self.check_unowned(mac)?;
        let binding = self.bind_boot(&named, claims, hello, remote).await?;
        match binding {
            DiscoveryHello::New => {
                self.shared.boot_watch.registered(mac, false, now);
                tracing::info!(%mac, %remote, "the agent of an unknown machine says hello");
            }
            DiscoveryHello::Known => {}
            DiscoveryHello::SecondKey => {
                tracing::warn!(%mac, %remote, "another key used the token of an unknown machine: sent away");
                // Nothing is destroyed on an unknown machine; its next boot has a number of its own.
                return Err(refusal(
                    RefusalReason::OldAttempt,
                    "this token is bound to another machine, which may be an intruder: boot again",
                ));
            }
            DiscoveryHello::Unseen(why) => {
                tracing::warn!(%mac, %remote, "could not take a hello: {why}");
                let text = format!("this boot was not seen: {why}; boot again from the network");
                return Err(refusal(RefusalReason::BadToken, &text));
            }
            DiscoveryHello::OldBoot => {
                return Err(refusal(RefusalReason::OldAttempt, "this machine has booted again since: boot again"));
            }
        }
        self.unowned.lock_unowned().record_contact(mac, now);
        let verdict = self.discovery_agent(mac, claims.attempt, hello.key);
        // A machine without an owner is never written to.
        let (host, time_ms) = (mac.to_string(), unix_milliseconds(now));
        Ok(HelloReply { host, attempt: 0, time_ms, verdict, hold: None })
    }

    /// Binds the boot to the key of this hello, in the machine's object.
    async fn bind_boot(
        &self,
        named: &DiscoverySubject,
        claims: &BootTokenClaims,
        hello: &Hello,
        remote: IpAddr,
    ) -> Result<DiscoveryHello, RefusalReply> {
        let (boot, now) = (claims.attempt, self.shared.now());
        let seen = self.observations.hello_counts(claims, hello);
        let change = |machine: &mut DiscoveredHostStatus| {
            let binding = bind(machine, boot, hello, &seen, now);
            let silence = now.duration_since(machine.last_seen);
            let is_news = binding == DiscoveryHello::New || silence >= SEEN_EVERY || silence.is_negative();
            if is_news && matches!(binding, DiscoveryHello::New | DiscoveryHello::Known) {
                introduce(machine, &hello.identity, remote, now);
            }
            binding
        };
        if !named.uid.is_empty() {
            return self.unowned.change_named(named, change).await;
        }
        if let Err(why) = seen.clone()
            && self.first_boots.is_given(named.mac, boot)
        {
            return Ok(DiscoveryHello::Unseen(why));
        }
        if !self.first_boots.take(named.mac, boot) {
            // It is bound already, or nothing says that it was given to this machine.
            return self.unowned.change_named(named, |machine| is_bound(machine, boot, &hello.key)).await;
        }
        let bound = match self.remember(named.mac).await {
            Ok(()) => self.unowned.change_named(named, change).await,
            Err(refusal) => Err(refusal),
        };
        if bound.is_err() {
            self.first_boots.put_back(named.mac, boot);
        }
        bound
    }

    /// Makes the object of a machine whose first boot this is.
    async fn remember(&self, mac: Mac) -> Result<(), RefusalReply> {
        self.unowned.check_pace()?;
        match self.unowned.change_discovered(mac, |_| {}).await.map_err(busy)? {
            Some(_) => Ok(()),
            None => Err(refusal(RefusalReason::Busy, "this machine was deleted meanwhile: try again")),
        }
    }

    /// An adopted machine starts again as its host.
    fn check_unowned(&self, mac: Mac) -> Result<(), RefusalReply> {
        match self.shared.views().by_mac.get(&mac) {
            Some(owner) => {
                let text = format!("this machine was adopted as {owner}: boot again");
                Err(refusal(RefusalReason::OldAttempt, &text))
            }
            None => Ok(()),
        }
    }

    /// Takes the agent of a boot into the views, unless it is there, and returns what it does next.
    fn discovery_agent(&self, mac: Mac, boot: u64, key: PublicKey) -> AgentInstruction {
        let mut views = self.shared.views();
        make_room(&mut views.discovered, mac);
        let machine = views.discovered.entry(mac).or_default();
        if (machine.attempt, machine.key) != (boot, Some(key)) {
            machine.begin(boot, key);
            machine.set_plan(AgentPlan { number: 1, attempt: 0, steps: vec![PlanStep::Inspect] });
        }
        machine.verdict(0, false)
    }

    pub(crate) async fn discovery_report(
        &self,
        claims: &BootTokenClaims,
        report: AgentReport,
    ) -> Result<ReportReply, RefusalReply> {
        let named = named(claims)?;
        let mac = named.mac;
        self.check_discovery_binding(&named, claims.attempt, &report).await?;
        self.unowned.lock_unowned().record_contact(mac, self.shared.now());
        let timeline = self.shared.core.store().lineage().timeline();
        let (before, is_adopted) = self
            .shared
            .views()
            .discovered
            .get(&mac)
            .map_or((None, false), |machine| (machine.last_report.clone(), machine.abort.is_some()));
        let spoken = map::neighbours(&report.neighbours, 0);
        // An adopted machine has no object any more that could keep them; its host is inspected again.
        for receipt in new_receipts(before.as_ref(), &report).filter(|_| !is_adopted) {
            if let Evidence::Inspected { inventory } = &receipt.evidence {
                let record = fitting(map::hardware_record(inventory, 0, receipt.plan, timeline, self.shared.now()));
                self.unowned.change_named(&named, |machine| machine.hardware = Some(record.clone())).await?;
            }
        }
        let spoke = before.is_none_or(|before| before.neighbours != report.neighbours) || !report.receipts.is_empty();
        if spoke && !spoken.is_empty() && !is_adopted {
            let hear = |machine: &mut DiscoveredHostStatus| {
                machine.hardware.iter_mut().for_each(|hardware| hardware.merge_neighbours(&spoken));
            };
            self.unowned.change_named(&named, hear).await?;
        }
        let (plan, idle, leaving) = (report.plan, report.idle, report.leaving);
        let (changed, acknowledged, stored, heard) = {
            let mut views = self.shared.views();
            let machine = views.discovered.entry(mac).or_default();
            machine.note_stored(report.receipts.iter().map(StepReceipt::place));
            let heard = machine.take_report(report, self.shared.now());
            (std::sync::Arc::clone(&machine.changed), machine.log_sequence, machine.stored.clone(), heard)
        };
        let verdict = || {
            self.shared
                .views()
                .discovered
                .get(&mac)
                .map_or(AgentInstruction::Continue, |machine| machine.verdict(plan, false))
        };
        if idle && !leaving && heard != ReportOrder::Overtaken {
            self.shared.hold(&changed, &verdict).await;
        }
        if leaving {
            self.shared.views().discovered.remove(&mac);
        }
        Ok(ReportReply {
            time_ms: unix_milliseconds(self.shared.now()),
            log_acknowledged: acknowledged,
            stored,
            verdict: if leaving { AgentInstruction::Continue } else { verdict() },
            hold: None,
        })
    }

    /// Checks that a report comes by the key that the boot's token is bound to. After a restart of the appliance the
    /// machine's object says which that is.
    async fn check_discovery_binding(
        &self,
        named: &DiscoverySubject,
        boot: u64,
        report: &AgentReport,
    ) -> Result<(), RefusalReply> {
        let is_known = |machine: &AgentView| (machine.attempt, machine.key) == (boot, Some(report.key));
        if self.shared.views().discovered.get(&named.mac).is_some_and(is_known) {
            return Ok(());
        }
        self.check_unowned(named.mac)?;
        let machine = self.unowned.discovered.get("", &object_name(&named.mac.hyphenated())).await.map_err(busy)?;
        let bound = machine.filter(|machine| named.is(machine)).and_then(|machine| machine.status.agent);
        let is_bound = bound.is_some_and(|bound| (bound.boot, bound.key) == (boot, report.key.to_string()));
        if !is_bound {
            return Err(refusal(
                RefusalReason::OldAttempt,
                "this boot of the machine is not known any more: boot again",
            ));
        }
        self.discovery_agent(named.mac, boot, report.key);
        Ok(())
    }
}

/// Binds a boot to the key of its first hello; pure. An earlier boot than the bound one is over.
fn bind(
    machine: &mut DiscoveredHostStatus,
    boot: u64,
    hello: &Hello,
    seen: &Result<(), UnseenBoot>,
    now: Timestamp,
) -> DiscoveryHello {
    let key = hello.key.to_string();
    match &machine.agent {
        Some(bound) if bound.boot == boot && bound.key == key => return DiscoveryHello::Known,
        Some(bound) if bound.boot == boot => return DiscoveryHello::SecondKey,
        Some(bound) if bound.boot > boot => return DiscoveryHello::OldBoot,
        Some(_) | None => {}
    }
    if let Err(why) = seen {
        return DiscoveryHello::Unseen(why.clone());
    }
    machine.boots = machine.boots.saturating_add(1);
    machine.agent = Some(DiscoveryBinding { boot, key, boot_id: map::field(&hello.boot_id), bound_at: now });
    DiscoveryHello::New
}

/// Whether a boot that cannot be bound any more is bound to this key.
fn is_bound(machine: &DiscoveredHostStatus, boot: u64, key: &PublicKey) -> DiscoveryHello {
    match &machine.agent {
        Some(bound) if bound.boot == boot && bound.key == key.to_string() => DiscoveryHello::Known,
        Some(bound) if bound.boot == boot => DiscoveryHello::SecondKey,
        Some(_) | None => DiscoveryHello::OldBoot,
    }
}

fn introduce(machine: &mut DiscoveredHostStatus, identity: &SmbiosIdentity, remote: IpAddr, now: Timestamp) {
    machine.last_seen = now;
    machine.address = remote.to_string();
    machine.uuid = map::field(&identity.uuid).to_ascii_lowercase();
    machine.serial = map::field(&identity.serial);
    machine.manufacturer = map::field(&identity.manufacturer);
    machine.product = map::field(&identity.product);
    machine.macs = identity.macs.iter().take(firesteel_wire::limits::NICS_MAX).map(|mac| map::field(mac)).collect();
}

fn new_receipts<'a>(before: Option<&'a AgentReport>, report: &'a AgentReport) -> impl Iterator<Item = &'a StepReceipt> {
    let place = |receipt: &StepReceipt| (receipt.plan, receipt.index);
    report.receipts.iter().filter(move |receipt| {
        !before.is_some_and(|before| before.receipts.iter().any(|old| place(old) == place(receipt)))
    })
}

/// Every client gets a token for any MAC: agents beyond the bound take the place of the one that was silent for
/// longest.
fn make_room(discovered: &mut HashMap<Mac, AgentView>, mac: Mac) {
    if discovered.len() < DISCOVERED_MAX || discovered.contains_key(&mac) {
        return;
    }
    let quietest = discovered.iter().min_by_key(|(mac, machine)| (machine.last_report_at, **mac)).map(|(mac, _)| *mac);
    if let Some(quietest) = quietest {
        discovered.remove(&quietest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery_token::mac_of;

    fn hello(key: u8) -> Hello {
        Hello {
            token: "t".into(),
            key: PublicKey([key; 32]),
            identity: SmbiosIdentity::default(),
            agent_version: String::new(),
            kernel_version: String::new(),
            uptime_ms: 1,
            boot_id: "b".into(),
            network: None,
            program: firesteel_wire::Program::default(),
        }
    }

    #[test]
    fn the_first_key_of_a_boot_has_it_and_an_earlier_boot_is_over() {
        let now = Timestamp::UNIX_EPOCH;
        let mut machine = DiscoveredHostStatus::default();
        let unseen = Err(UnseenBoot::Unsealed);
        assert_eq!(bind(&mut machine, 2, &hello(1), &unseen, now), DiscoveryHello::Unseen(UnseenBoot::Unsealed));
        assert_eq!(machine, DiscoveredHostStatus::default(), "nothing is bound");
        assert_eq!(bind(&mut machine, 2, &hello(1), &Ok(()), now), DiscoveryHello::New);
        assert_eq!(bind(&mut machine, 2, &hello(1), &Ok(()), now), DiscoveryHello::Known);
        let bound = machine.agent.clone();
        assert_eq!(bind(&mut machine, 2, &hello(2), &Ok(()), now), DiscoveryHello::SecondKey);
        assert_eq!(bind(&mut machine, 1, &hello(1), &Ok(()), now), DiscoveryHello::OldBoot);
        assert_eq!(machine.agent, bound, "neither changes anything for the first");
        assert_eq!(bind(&mut machine, 3, &hello(2), &Ok(()), now), DiscoveryHello::New);
    }

    #[test]
    fn a_token_without_the_machines_object_names_nothing() {
        let claims = |subject: &str| BootTokenClaims {
            purpose: firesteel_boot::Purpose::Discovery,
            subject: subject.into(),
            attempt: 1,
            expires_s: 1,
            boot: None,
        };
        let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
        assert_eq!(mac_of(&claims(&format!("{}/uid", mac.hyphenated()))), Some(mac));
        assert!(named(&claims(&mac.hyphenated())).is_err());
    }

    #[test]
    fn invented_machines_take_the_place_of_silent_ones_only() {
        let mac =
            |number: usize| Mac(u64::try_from(number).unwrap_or(0).to_be_bytes()[2..].try_into().unwrap_or_default());
        let mut discovered = HashMap::new();
        for number in 0..3 * DISCOVERED_MAX {
            make_room(&mut discovered, mac(number));
            let machine: &mut AgentView = discovered.entry(mac(number)).or_default();
            machine.last_report_at = (number == 5).then_some(Timestamp::UNIX_EPOCH);
        }
        assert_eq!(discovered.len(), DISCOVERED_MAX);
        assert!(discovered.contains_key(&mac(5)), "it reports");
        let before: Vec<Mac> = discovered.keys().copied().collect();
        make_room(&mut discovered, mac(5));
        assert!(before.iter().all(|mac| discovered.contains_key(mac)), "its next hello costs nobody the place");
    }
}
