//! Machines that nobody owns: they get the agent, are inspected, and are shown until somebody adopts
//! them. They are never written to: the only plan they ever get is `inspect`.

use std::{collections::HashMap, net::IpAddr};

use firesteel_boot::{Claims, Mac, ScriptRequest};
use firesteel_kube::{Part, Status};
use firesteel_resources::{DiscoveredHost, discovered_host::object_name};
use firesteel_wire::{Evidence, Hello, HelloReply, Plan, Refusal, RefusalReason, Report, ReportReply, Step, Verdict};
use jiff::Timestamp;

use crate::{
    Control,
    agents::{busy, refusal},
    boot::mac_with_colons,
    control::unix_milliseconds,
    map,
    views::AgentView,
};

/// Most machines that are remembered. A VLAN full of invented MACs must not fill the store.
pub const DISCOVERED_MAX: usize = 1024;

impl Control {
    /// A machine without host fetched its script.
    pub(crate) async fn discovered_boot(&self, request: &ScriptRequest) {
        let now = self.now();
        let (uuid, serial) = (request.uuid.clone().unwrap_or_default(), request.serial.clone().unwrap_or_default());
        let result = self
            .change_discovered(request.mac, |machine| {
                machine.boots = machine.boots.saturating_add(1);
                machine.last_seen = now;
                if machine.uuid.is_empty() {
                    machine.uuid = map::field(&uuid).to_ascii_lowercase();
                }
                if machine.serial.is_empty() {
                    machine.serial = map::field(&serial);
                }
            })
            .await;
        if let Err(status) = result {
            tracing::warn!(mac = %request.mac, error = %status.message, "remembering a discovered machine");
        }
    }

    /// Changes the object of a discovered machine, making it first where it is missing.
    pub(crate) async fn change_discovered(
        &self,
        mac: Mac,
        change: impl Fn(&mut firesteel_resources::discovered_host::DiscoveredHostStatus) + Send + Sync,
    ) -> Result<(), Status> {
        let name = object_name(&mac.to_string());
        let objects = &self.inner.discovered;
        if objects.get("", &name).await?.is_none() {
            let (all, _) = objects.list(None).await?;
            if all.len() >= DISCOVERED_MAX {
                tracing::warn!(%mac, "{DISCOVERED_MAX} unknown machines are remembered already: this one is not");
                return Ok(());
            }
            let mut machine = DiscoveredHost::default();
            machine.metadata.name.clone_from(&name);
            match objects.create(&machine).await {
                Ok(_) => tracing::info!(%mac, "a machine that nobody owns boots from the network"),
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
        }
        let now = self.now();
        objects
            .modify("", &name, Part::Status, |machine| {
                machine.status.boot_mac = mac_with_colons(mac);
                if machine.status.first_seen == Timestamp::default() {
                    machine.status.first_seen = now;
                }
                change(&mut machine.status);
            })
            .await
            .map(|_| ())
    }

    /// Machines that became hosts are no longer discovered.
    pub(crate) fn forget_discovered(&self, macs: &[Mac]) {
        for mac in macs {
            let (control, mac) = (self.clone(), *mac);
            self.spawn(async move {
                let name = object_name(&mac.to_string());
                // What was let go uncleaned stays named until its disk was written again.
                let result = match control.inner.discovered.get("", &name).await {
                    Ok(Some(machine)) if machine.status.uncleaned.is_none() => {
                        control.inner.discovered.delete("", &name).await
                    }
                    Ok(_) => Ok(()),
                    Err(status) => Err(status),
                };
                if let Err(status) = result {
                    tracing::warn!(%mac, error = %status.message, "forgetting a discovered machine");
                }
            });
        }
    }

    pub(crate) async fn discovery_hello(
        &self,
        claims: &Claims,
        hello: &Hello,
        remote: IpAddr,
    ) -> Result<HelloReply, Refusal> {
        let mac = mac_of(claims)?;
        let verdict = {
            let mut views = self.views();
            let owner = views.by_mac.get(&mac).cloned();
            make_room(&mut views.discovered, mac);
            let machine = views.discovered.entry(mac).or_default();
            let boot_id = map::field(&hello.boot_id);
            // A machine that starts again has a new boot id and a new token, so a second key under the
            // same boot id is somebody else.
            if machine.key.is_some_and(|known| known != hello.key) && machine.boot_id == boot_id {
                return Err(refusal(RefusalReason::SecondKey, "this token is bound to another agent"));
            }
            if machine.key != Some(hello.key) {
                machine.begin(0, hello.key, &boot_id);
                machine.set_plan(Plan { number: 1, attempt: 0, steps: vec![Step::Inspect] });
            }
            if let Some(owner) = owner {
                machine.set_abort(&format!("adopted as {owner}: starting again as this host"));
            }
            machine.verdict(0)
        };
        tracing::info!(%mac, %remote, "the agent of an unknown machine says hello");
        let identity = hello.identity.clone();
        self.change_discovered(mac, |machine| {
            machine.last_seen = self.now();
            machine.address = remote.to_string();
            machine.uuid = map::field(&identity.uuid).to_ascii_lowercase();
            machine.serial = map::field(&identity.serial);
            machine.manufacturer = map::field(&identity.manufacturer);
            machine.product = map::field(&identity.product);
            machine.macs =
                identity.macs.iter().take(firesteel_wire::limits::NICS_MAX).map(|mac| map::field(mac)).collect();
        })
        .await
        .map_err(busy)?;
        let time_ms = unix_milliseconds(self.now());
        Ok(HelloReply { host: mac_with_colons(mac), attempt: 0, time_ms, verdict })
    }

    pub(crate) async fn discovery_report(&self, claims: &Claims, report: Report) -> Result<ReportReply, Refusal> {
        let mac = mac_of(claims)?;
        let (changed, known_receipts) = {
            let mut views = self.views();
            // After a restart of the appliance the agent has to say hello again; it does so after a
            // refused report by starting anew.
            let known = views.discovered.get_mut(&mac).filter(|machine| machine.key == Some(report.key));
            let machine = known
                .ok_or_else(|| refusal(RefusalReason::OldAttempt, "this machine is not known any more: boot again"))?;
            let known = std::mem::replace(&mut machine.receipts, report.receipts.len());
            machine.last_report_at = Some(self.now());
            (std::sync::Arc::clone(&machine.changed), known)
        };
        for receipt in report.receipts.iter().skip(known_receipts) {
            if let Evidence::Inspected { inventory } = &receipt.evidence {
                let record = map::hardware_record(inventory, 0, receipt.plan, self.now());
                self.change_discovered(mac, |machine| machine.hardware = Some(record.clone())).await.map_err(busy)?;
            }
        }
        let verdict =
            || self.views().discovered.get(&mac).map_or(Verdict::Continue, |machine| machine.verdict(report.plan));
        if report.idle && !report.leaving {
            self.hold(&changed, &verdict).await;
        }
        if report.leaving {
            self.views().discovered.remove(&mac);
        }
        Ok(ReportReply {
            time_ms: unix_milliseconds(self.now()),
            log_acknowledged: report.log.iter().map(|line| line.sequence).max().unwrap_or(0),
            verdict: if report.leaving { Verdict::Continue } else { verdict() },
        })
    }
}

/// Anybody gets a token for any MAC: agents beyond the bound take the place of the one that was silent
/// for longest.
fn make_room(discovered: &mut HashMap<Mac, AgentView>, mac: Mac) {
    if discovered.len() < DISCOVERED_MAX || discovered.contains_key(&mac) {
        return;
    }
    let quietest = discovered.iter().min_by_key(|(_, machine)| machine.last_report_at).map(|(mac, _)| *mac);
    if let Some(quietest) = quietest {
        discovered.remove(&quietest);
    }
}

fn mac_of(claims: &Claims) -> Result<Mac, Refusal> {
    claims.subject.parse().map_err(|_| refusal(RefusalReason::BadToken, "the token names no MAC"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
