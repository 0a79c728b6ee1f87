//! The way of boots and network events into journals: channels, so that DHCP, TFTP and HTTP never wait.
//!
//! ```text
//!   note(mac, event) ─► notes  (a stranger can fill it: events beyond are lost) ─► NotePace ─► journal.network
//!   stage(host, …) ───► stages (only who holds a token)                         ────────────► journal.boot, timeline
//! ```

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use firesteel_boot::Mac;
use firesteel_plan::journal;
use firesteel_resources::host_journal::NetworkNote;
use firesteel_runtime::{ControllerError, HostKey, timeout};
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::{Control, NetworkEvent, boot::mac_with_colons, boot_record::StageNote, note_pace::NotePace};

/// The longest sleep: the wall clock may be set while it waits.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Journals that are written at a time: those go to the disk together.
const WRITES_MAX: usize = 32;
/// Notes that are taken in at once, before anything is written.
const BATCH_MAX: usize = 256;

/// What is to be written into the journal of a host.
#[derive(Debug)]
pub(crate) enum Note {
    Network { at: Timestamp, mac: Mac, event: NetworkEvent },
    Stage { key: HostKey, stage: Box<StageNote> },
}

impl Control {
    /// Takes an event of the machine with this MAC into what is known of its boot, and counts it.
    pub(crate) fn watch(&self, mac: Mac, event: &NetworkEvent) {
        if self.inner.boot_watch.note(mac, event, self.is_host(mac), self.now()) {
            self.wake_owner(mac);
        }
        self.inner.metrics.network(event.name());
        tracing::debug!(%mac, event = event.name(), detail = event.detail(), "network");
    }

    /// Takes an event of the machine with this MAC into its host's journal, too. Never waits; drops the event when too
    /// many are waiting.
    pub fn note(&self, mac: Mac, event: NetworkEvent) {
        self.watch(mac, &event);
        if self.notes().try_send(Note::Network { at: self.now(), mac, event }).is_err() {
            tracing::warn!(%mac, "too many network events are waiting: one is lost for the journal");
        }
    }

    /// A file of a boot was fetched whole in one answer. Where that was a stage of the boot, it is written as such.
    pub fn boot_file_fetched(&self, mac: Mac, event: NetworkEvent, is_stage: bool) {
        if is_stage && self.is_host(mac) {
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
                self.inner.metrics.network(event.name());
                tracing::debug!(%address, event = event.name(), "an event of an unknown address");
            }
        }
    }

    /// Takes a stage of a host's boot into its journal. Never waits: what is lost counts as not seen after a restart.
    pub(crate) fn note_stage(&self, key: &HostKey, stage: StageNote) {
        let note = Note::Stage { key: key.clone(), stage: Box::new(stage) };
        if self.stages().try_send(note).is_err() {
            tracing::warn!(host = %key, "too many stages of boots are waiting: one is not written");
        }
    }
}

/// What a batch of notes has written.
#[derive(Debug, Default)]
struct Due {
    stages: Vec<StageNote>,
    network: Vec<NetworkNote>,
}

/// Writes notes, those of a host together.
pub(crate) async fn run(
    control: Control,
    mut notes: mpsc::Receiver<Note>,
    mut stages: mpsc::Receiver<Note>,
) -> Result<(), ControllerError> {
    let mut pace = NotePace::default();
    loop {
        let wait = pace.poll_timeout().map_or(SLEEP_MAX, |at| {
            Duration::try_from(at.duration_since(control.now())).unwrap_or_default().min(SLEEP_MAX)
        });
        let next = async {
            tokio::select! {
                biased;
                stage = stages.recv() => stage,
                note = notes.recv() => note,
            }
        };
        let first = match timeout(&*control.handles().runtime, wait, next).await {
            Some(Some(note)) => Some(note),
            Some(None) => return Ok(()),
            None => None,
        };
        let more = std::iter::from_fn(|| stages.try_recv().or_else(|_| notes.try_recv()).ok());
        let due = gather(&control, &mut pace, first.into_iter().chain(more.take(BATCH_MAX)));
        let write = |(key, due): (HostKey, Due)| {
            let control = &control;
            async move { write(control, &key, &due).await }
        };
        stream::iter(due).for_each_concurrent(WRITES_MAX, write).await;
    }
}

/// Sorts notes by their hosts, and takes what is to be written now.
fn gather(control: &Control, pace: &mut NotePace, notes: impl Iterator<Item = Note>) -> BTreeMap<HostKey, Due> {
    let now = control.now();
    let mut due: BTreeMap<HostKey, Due> = BTreeMap::new();
    let mut writes = Vec::new();
    for note in notes {
        match note {
            Note::Stage { key, stage } => due.entry(key).or_default().stages.push(*stage),
            Note::Network { at, mac, event } => {
                let Some(key) = control.views().by_mac.get(&mac).cloned() else { continue };
                let note = NetworkNote {
                    mac: mac_with_colons(mac),
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

async fn write(control: &Control, key: &HostKey, due: &Due) {
    let change = |status: &mut firesteel_resources::host_journal::HostJournalStatus| {
        let attempt = journal::attempt(status);
        due.stages.iter().for_each(|stage| stage.record(status));
        for note in &due.network {
            NetworkNote { attempt, ..note.clone() }.add_to(&mut status.network);
        }
    };
    if let Err(status) = control.inner.journals.change(key, change).await {
        tracing::warn!(host = %key, error = %status.message, "could not write what was seen of a boot");
    }
}
