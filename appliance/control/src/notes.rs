//! The way of network events into timelines: a channel, so that DHCP and TFTP never wait.

use std::net::IpAddr;

use firesteel_boot::Mac;
use firesteel_resources::host_journal::TimelineEvent;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::{Control, NetworkEvent, journals};

/// A network event with the time at which it happened.
#[derive(Debug)]
pub(crate) struct Note {
    at: Timestamp,
    mac: Mac,
    event: NetworkEvent,
}

impl Control {
    /// Takes an event of the machine with this MAC into its host's timeline. Never waits; drops the
    /// event when too many are waiting.
    pub fn note(&self, mac: Mac, event: NetworkEvent) {
        if let NetworkEvent::DhcpAck { address, .. } = &event {
            self.views().addresses.learn(IpAddr::V4(*address), mac);
        }
        let is_host = self.views().by_mac.contains_key(&mac);
        if self.inner.boot_watch.note(mac, &event, is_host, self.now()) {
            self.wake_owner(mac);
        }
        self.inner.metrics.network(event.name());
        tracing::debug!(%mac, event = event.name(), detail = event.detail(), "network");
        if self.notes().try_send(Note { at: self.now(), mac, event }).is_err() {
            tracing::warn!(%mac, "too many network events are waiting: one is lost for the timeline");
        }
    }

    /// The same for a machine of which only the address is known; nothing when nobody has it.
    pub fn note_address(&self, address: IpAddr, event: NetworkEvent) {
        let mac = self.views().addresses.mac(address);
        match mac {
            Some(mac) => self.note(mac, event),
            None => {
                self.inner.metrics.network(event.name());
                tracing::debug!(%address, event = event.name(), "an event of an unknown address");
            }
        }
    }
}

/// Writes notes one after the other.
pub(crate) async fn run(control: Control, mut notes: mpsc::Receiver<Note>) -> Result<(), String> {
    while let Some(note) = notes.recv().await {
        let key = control.views().by_mac.get(&note.mac).cloned();
        let Some(key) = key else { continue };
        let result = control
            .inner
            .journals
            .change(&key, |status| {
                let event = TimelineEvent {
                    at: note.at,
                    attempt: journals::attempt(status),
                    event: note.event.name().to_owned(),
                    detail: note.event.detail(),
                    bytes: note.event.bytes(),
                };
                if note.event.repeats() { status.note_again(event) } else { status.note(event) }
            })
            .await;
        if let Err(status) = result {
            tracing::warn!(host = %key, error = %status.message, "writing the timeline");
        }
    }
    Ok(())
}
