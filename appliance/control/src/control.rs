//! What the listeners call, and the loops behind it.

use firesteel_facts::Mac;
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use firesteel_boot::{BootFileName, BootTokenClaims, ScriptRequest};
use firesteel_kube::Status;
use firesteel_plan::host::progress_outlook::HostOutlook;
use firesteel_runtime::{ControllerError, Loop};
use firesteel_wire::{AgentReport, Hello, HelloReply, RefusalReply, ReportReply};
use jiff::Timestamp;
use prometheus_client::registry::Registry;

use crate::{
    AccessDenial, BootGrant, BootScript, NetworkEvent,
    boot_watch::UnknownHost,
    clock_doubt,
    logs::HostLogs,
    network_log,
    parts::{ControlConfig, Parts},
    survey::{Fleet, FleetSurvey},
};

/// Hosts that are stepped at the same time: a step waits for the disk (fsync), not for the CPU.
const STEPPERS: usize = 4;

/// Is what the listeners call. Clones share all of it.
#[derive(Clone, Debug)]
pub struct Control {
    parts: Arc<Parts>,
}

impl Control {
    /// # Errors
    /// When the registry lacks a kind that control needs.
    pub fn new(config: &ControlConfig) -> Result<Self, Status> {
        Ok(Self { parts: Arc::new(Parts::new(config)?) })
    }

    /// Runs until the first part fails or panics; everything that control does runs below this.
    ///
    /// # Errors
    /// When the store fails, or a task panicked.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let taken = ControllerError::Running;
        let parts = &self.parts;
        let notes_end = lock(&parts.notes_end).take();
        let notes_end = notes_end.ok_or(taken("control is running already: its notes are taken"))?;
        let stages_end = lock(&parts.stages_end).take();
        let stages_end = stages_end.ok_or(taken("control is running already: its stages are taken"))?;
        let events = parts.shared.events().clone();
        let mut loops: Vec<Loop> = vec![
            Box::pin(parts.reconciler.clone().follow_hosts()),
            Box::pin(parts.reconciler.clone().follow_secrets()),
            Box::pin(parts.halts.clone().follow_halts()),
            Box::pin(parts.reconciler.clone().follow_damage()),
            Box::pin(parts.reconciler.clone().follow_index()),
            Box::pin(network_log::run(parts.network.clone(), notes_end, stages_end)),
            Box::pin(async move { events.run().await }),
            Box::pin(network_log::watch_boots(parts.network.clone())),
            Box::pin(clock_doubt::run(Arc::clone(&parts.shared))),
        ];
        for _ in 0..STEPPERS {
            let reconciler = parts.reconciler.clone();
            loops.push(Box::pin(async move { reconciler.step_forever().await }));
        }
        parts.shared.tasks.run(&*parts.shared.handles.runtime, loops).await
    }

    /// Makes the script for one client, who asks from this address. Never fails: a client that gets no script would
    /// stop without a word, so errors become a script that says them.
    pub async fn script(&self, request: &ScriptRequest, from: IpAddr) -> BootScript {
        self.parts.boots.script(request, from).await
    }

    /// Opens a boot token for kernel and initramfs. A loader may ask while the appliance starts.
    ///
    /// # Errors
    /// When the token is not ours, expired, or of an attempt that is over.
    pub async fn open_boot(&self, token: &str) -> Result<BootGrant, AccessDenial> {
        self.parts.boots.open_boot(token).await
    }

    /// Answers the first message of a boot.
    ///
    /// # Errors
    /// A refusal with its reason; see [`firesteel_wire::RefusalReason`].
    pub async fn hello(&self, hello: Hello, remote: IpAddr) -> Result<HelloReply, RefusalReply> {
        self.parts.agents.hello(hello, remote).await
    }

    /// Takes a report and says what is next; holds the answer to an idle agent.
    ///
    /// # Errors
    /// A refusal with its reason; see [`firesteel_wire::RefusalReason`].
    pub async fn report(&self, report: AgentReport, remote: IpAddr) -> Result<ReportReply, RefusalReply> {
        self.parts.agents.report(report, remote).await
    }

    /// The new OS says that it runs.
    ///
    /// # Errors
    /// When the nonce is not the one of the config that the host's newest installation fetched.
    pub async fn running(&self, uid: &str, nonce: &str, remote: IpAddr) -> Result<(), AccessDenial> {
        self.parts.instances.running(uid, nonce, remote).await
    }

    /// The first boot of a new OS failed; `log` is the tail of what it said. A token whose deadline is over is good
    /// enough for this: it may be why the boot failed.
    ///
    /// # Errors
    /// When the token is of no installation that is on a disk and does not run.
    pub async fn first_boot_failed(&self, token: &str, log: &[u8], remote: IpAddr) -> Result<(), AccessDenial> {
        self.parts.instances.first_boot_failed(token, log, remote).await
    }

    /// Takes in that bytes of a boot file were handed to the connection of who has this token. Returns whether the file
    /// is whole by it, for the first time.
    pub fn boot_bytes_sent(&self, claims: &BootTokenClaims, file: BootFileName, range: Range<u64>) -> bool {
        self.parts.observations.boot_bytes_sent(claims, file, range)
    }

    /// Takes an event of the machine with this MAC into its host's journal, too. Never waits; drops the event when too
    /// many are waiting.
    pub fn note(&self, mac: Mac, event: NetworkEvent) {
        self.parts.network.note(mac, event);
    }

    /// A file of a boot was fetched whole in one answer. Where that was a stage of the boot, it is written as such.
    pub fn boot_file_fetched(&self, mac: Mac, event: NetworkEvent, is_stage: bool) {
        self.parts.network.boot_file_fetched(mac, event, is_stage);
    }

    /// Takes in an event of a machine of which only the address is known; nothing when no machine has a lease of it.
    pub fn note_address(&self, address: IpAddr, event: NetworkEvent) {
        self.parts.network.note_address(address, event);
    }

    /// Takes in a lease of our DHCP. Earlier leases of the machine and of the address are over.
    pub fn leased(&self, mac: Mac, address: Ipv4Addr, until: Timestamp) {
        self.parts.network.leased(mac, address, until);
    }

    /// Takes in that a machine gave its address back, or may not use it.
    pub fn lease_ended(&self, mac: Mac, address: Ipv4Addr) {
        self.parts.network.lease_ended(mac, address);
    }

    /// Looks up the machine that has a live lease of this address.
    #[must_use]
    pub fn leaseholder(&self, address: IpAddr) -> Option<Mac> {
        self.parts.network.leaseholder(address)
    }

    /// Names the hosts that are known at an address, by their uids: mostly one or none; several behind one NAT.
    #[must_use]
    pub fn hosts_at(&self, address: IpAddr) -> Vec<Arc<str>> {
        self.parts.network.hosts_at(address)
    }

    /// Images are gone from the store, by their raw digests: who wants one has it fetched again.
    pub fn images_removed(&self, raw_sha256: &[String]) {
        self.parts.images.images_removed(raw_sha256);
    }

    /// Says whether a host has this MAC.
    #[must_use]
    pub fn is_host(&self, mac: Mac) -> bool {
        self.parts.shared.is_host(mac)
    }

    /// What the agents of the hosts say, their kernels and their consoles.
    #[must_use]
    pub fn logs(&self) -> HostLogs {
        self.parts.shared.logs.clone()
    }

    /// Lists the machines that are no hosts and boot from the network, with how far each came.
    #[must_use]
    pub fn unknown_hosts(&self) -> Vec<UnknownHost> {
        let owned: BTreeSet<Mac> = self.parts.shared.views().by_mac.keys().copied().collect();
        self.parts.shared.boot_watch.unknown(self.parts.shared.now(), |mac| owned.contains(mac))
    }

    /// Whether the fleet gets where it is to be. A host that no step has looked at since the start progresses.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        let now = self.parts.shared.now();
        let views = self.parts.shared.views();
        Fleet::of(views.hosts.iter().map(|(key, view)| {
            let prospect = view.standing.as_ref().map(|standing| standing.prospect);
            let outlook = prospect.map(|prospect| prospect.at(view.agent.progress_at, now));
            (key.clone(), outlook.unwrap_or(HostOutlook::Progressing))
        }))
    }

    /// Names what is counted of hosts.
    pub fn register_metrics(&self, to: &mut Registry) {
        self.parts.shared.metrics.register(to);
    }

    /// How the hosts are now.
    #[must_use]
    pub fn survey(&self) -> FleetSurvey {
        FleetSurvey {
            queued: self.parts.shared.handles.queue.len(),
            ..FleetSurvey::of(&self.parts.shared.views(), self.parts.shared.now())
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
