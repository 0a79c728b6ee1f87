//! The network's events, taken into what is known of boots, and into journals.

use firesteel_facts::Mac;
use std::net::{IpAddr, Ipv4Addr};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use firesteel_boot::StalledBoot;
use firesteel_plan::journal;
use firesteel_resources::host_journal::NetworkNote;
use firesteel_runtime::{ControllerError, HostKey, timeout};
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::notes::{BATCH_MAX, JournalNote, SLEEP_MAX, WRITES_MAX};
use crate::{NetworkEvent, boot_record::StageNote, note_rate::NotePace, shared::Shared};

/// Takes in what DHCP, TFTP and HTTP saw of machines.
#[derive(Clone)]
pub struct NetworkLog {
    pub(crate) shared: Arc<Shared>,
}

impl NetworkLog {
    /// Takes an event of the machine with this MAC into what is known of its boot, and counts it.
    pub(crate) fn watch(&self, mac: Mac, event: &NetworkEvent) {
        if self.shared.boot_watch.note(mac, event, self.shared.is_host(mac), self.shared.now()) {
            self.shared.wake_owner(mac);
        }
        self.shared.metrics.network(event.name());
        tracing::debug!(%mac, event = event.name(), detail = event.detail(), "network");
    }

    /// Takes an event of the machine with this MAC into its host's journal, too. Never waits; drops the event when too
    /// many are waiting.
    pub fn note(&self, mac: Mac, event: NetworkEvent) {
        self.watch(mac, &event);
        if self.shared.notes.try_send(JournalNote::Network { at: self.shared.now(), mac, event }).is_err() {
            tracing::warn!(%mac, "too many network events are waiting: one is lost for the journal");
        }
    }

    /// A file of a boot was fetched whole in one answer. Where that was a stage of the boot, it is written as such.
    pub fn boot_file_fetched(&self, mac: Mac, event: NetworkEvent, is_stage: bool) {
        if is_stage && self.shared.is_host(mac) {
            self.watch(mac, &event);
        } else {
            self.note(mac, event);
        }
    }

    /// Takes in an event of a machine of which only the address is known; nothing when no machine has a lease of it.
    pub fn note_address(&self, address: IpAddr, event: NetworkEvent) {
        match self.leaseholder(address) {
            Some(mac) => self.note(mac, event),
            None => {
                self.shared.metrics.network(event.name());
                tracing::debug!(%address, event = event.name(), "an event of an unknown address");
            }
        }
    }

    /// Takes a stage of a host's boot into its journal. Never waits: what is lost counts as not seen after a restart.
    pub(crate) fn note_stage(&self, key: &HostKey, stage: StageNote) {
        let note = JournalNote::Stage { key: key.clone(), stage: Box::new(stage) };
        if self.shared.stages.try_send(note).is_err() {
            tracing::warn!(host = %key, "too many stages of boots are waiting: one is not written");
        }
    }

    /// Takes in a lease of our DHCP. Earlier leases of the machine and of the address are over.
    pub fn leased(&self, mac: Mac, address: Ipv4Addr, until: Timestamp) {
        self.shared.leases.lock().begin(mac, address, until, self.shared.now());
    }

    /// Takes in that a machine gave its address back, or may not use it.
    pub fn lease_ended(&self, mac: Mac, address: Ipv4Addr) {
        self.shared.leases.lock().end(mac, address);
    }

    /// Looks up the machine that has a live lease of this address.
    #[must_use]
    pub fn leaseholder(&self, address: IpAddr) -> Option<Mac> {
        self.shared.leases.lock().holder(address, self.shared.now())
    }

    /// Looks up the addresses that machines with these MACs have by a live lease.
    pub(crate) fn leased_addresses(&self, macs: &[Mac]) -> Vec<Ipv4Addr> {
        let (table, now) = (self.shared.leases.lock(), self.shared.now());
        macs.iter().filter_map(|mac| table.address(*mac, now)).collect()
    }

    /// Names the hosts that are known at an address, by their uids: mostly one or none; several behind one NAT.
    #[must_use]
    pub fn hosts_at(&self, address: IpAddr) -> Vec<Arc<str>> {
        let address = address.to_canonical();
        let holder = self.leaseholder(address);
        let views = self.shared.views();
        let leased = holder.and_then(|mac| views.by_mac.get(&mac)).and_then(|key| views.hosts.get(key));
        let mut hosts: Vec<Arc<str>> = leased.map(|view| Arc::from(view.uid.as_str())).into_iter().collect();
        for (uid, attempt) in views.agent_addresses.at(address) {
            if !hosts.contains(uid) && views.is_under_way(uid, attempt) {
                hosts.push(Arc::clone(uid));
            }
        }
        hosts
    }
}

/// What a batch of notes has written.
#[derive(Debug, Default)]
struct WrittenNotes {
    stages: Vec<StageNote>,
    network: Vec<NetworkNote>,
}

/// Writes notes, those of a host together.
pub(crate) async fn run(
    log: NetworkLog,
    mut notes: mpsc::Receiver<JournalNote>,
    mut stages: mpsc::Receiver<JournalNote>,
) -> Result<(), ControllerError> {
    let mut pace = NotePace::default();
    loop {
        let wait = pace.poll_timeout().map_or(SLEEP_MAX, |at| {
            Duration::try_from(at.duration_since(log.shared.now())).unwrap_or_default().min(SLEEP_MAX)
        });
        let next = async {
            tokio::select! {
                biased;
                stage = stages.recv() => stage,
                note = notes.recv() => note,
            }
        };
        let first = match timeout(&*log.shared.runtime, wait, next).await {
            Some(Some(note)) => Some(note),
            Some(None) => return Ok(()),
            None => None,
        };
        let more = std::iter::from_fn(|| stages.try_recv().or_else(|_| notes.try_recv()).ok());
        let due = gather(&log, &mut pace, first.into_iter().chain(more.take(BATCH_MAX)));
        let write = |(key, due): (HostKey, WrittenNotes)| {
            let log = &log;
            async move { write(log, &key, &due).await }
        };
        stream::iter(due).for_each_concurrent(WRITES_MAX, write).await;
    }
}

/// Sorts notes by their hosts, and takes what is to be written now.
fn gather(
    log: &NetworkLog,
    pace: &mut NotePace,
    notes: impl Iterator<Item = JournalNote>,
) -> BTreeMap<HostKey, WrittenNotes> {
    let now = log.shared.now();
    let mut due: BTreeMap<HostKey, WrittenNotes> = BTreeMap::new();
    let mut writes = Vec::new();
    for note in notes {
        match note {
            JournalNote::Stage { key, stage } => due.entry(key).or_default().stages.push(*stage),
            JournalNote::Network { at, mac, event } => {
                let Some(key) = log.shared.views().by_mac.get(&mac).cloned() else { continue };
                let note = NetworkNote {
                    mac: mac.to_string(),
                    event: event.name().to_owned(),
                    attempt: 0,
                    detail: event.detail(),
                    bytes: event.bytes(),
                    count: 1,
                    first_at: at,
                    last_at: at,
                };
                if pace.take(&key, note, now) {
                    writes.push(key);
                }
            }
        }
    }
    writes.extend(pace.handle_timeout(now));
    // Whatever is written of a host takes along what waits.
    writes.extend(due.keys().cloned());
    for key in writes {
        due.entry(key.clone()).or_default().network.extend(pace.pending(&key));
    }
    due
}

async fn write(log: &NetworkLog, key: &HostKey, due: &WrittenNotes) {
    let change = |status: &mut firesteel_resources::host_journal::HostJournalStatus| {
        let attempt = journal::attempt(status);
        due.stages.iter().for_each(|stage| stage.record(status));
        for note in &due.network {
            NetworkNote { attempt, ..note.clone() }.add_to(&mut status.network);
        }
    };
    if let Err(status) = log.shared.journals.change(key, change).await {
        tracing::warn!(host = %key, error = %status.message, "could not write what was seen of a boot");
    }
}

/// Says of each boot that came to a stop that it did.
pub(crate) async fn watch_boots(log: NetworkLog) -> Result<(), ControllerError> {
    let watch = log.shared.boot_watch.clone();
    loop {
        let runtime = &*log.shared.runtime;
        let due = watch.lock().poll_timeout();
        let wait = due.map_or(SLEEP_MAX, |at| {
            Duration::try_from(at.duration_since(log.shared.now())).unwrap_or_default().min(SLEEP_MAX)
        });
        if due.is_some() {
            timeout(runtime, wait, watch.changed.notified()).await;
        } else {
            watch.changed.notified().await;
        }
        let stalls = watch.lock().handle_timeout(log.shared.now());
        stalls.into_iter().for_each(|(mac, stall)| report(&log, mac, &stall));
    }
}

fn report(log: &NetworkLog, mac: Mac, stall: &StalledBoot) {
    tracing::warn!(%mac, "{stall}");
    log.note(mac, NetworkEvent::BootStalled { text: stall.to_string() });
    log.shared.wake_owner(mac);
}
