//! What was seen of a host's boots: the stages that count as evidence, and apart from them what anyone on the network
//! can make happen in the host's name.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{HostJournalStatus, TimelineEvent};

/// Most notes of the network that are kept for a host; the one that was heard last longest ago goes first.
pub const NETWORK_NOTES_MAX: usize = 64;
/// Bounds the detail of one note: an address mismatch with its causes fits.
const NOTE_BYTES_MAX: usize = 512;
/// Notes of one kind, MAC and attempt that differ in their details; what comes beyond is counted with the last one.
const DETAILS_MAX: usize = 4;

/// The boot of the newest attempt that got a token. Each stage is written once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootRecord {
    pub attempt: u64,
    /// The address that asked for the first token.
    pub address: String,
    /// Why the asker counts as the host: [`BootRecord::BY_LEASE`] or [`BootRecord::BY_FIRST`].
    pub by: String,
    /// SHA-256 of the files that belong to the first token, hexadecimal.
    pub kernel_sha256: String,
    pub initramfs_sha256: String,
    /// Is empty where the ramdisk's manifest does not name it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent_sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_at: Option<Timestamp>,
    /// All bytes of the kernel were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<SentFileRecord>,
    /// All bytes of the initramfs were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<SentFileRecord>,
    /// A hello counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello_at: Option<Timestamp>,
}

impl BootRecord {
    /// The address was leased to the host.
    pub const BY_LEASE: &str = "lease";
    /// It asked first, where no lease of ours says which address is whose.
    pub const BY_FIRST: &str = "first-asker";
}

/// A file that was sent whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SentFileRecord {
    /// The number of the token for which it was sent.
    pub grant: u64,
    pub at: Timestamp,
}

/// A machine that is not the one that the host is known as, by what it said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefusedIdentity {
    /// Its SMBIOS UUID; empty where it said none.
    pub uuid: String,
    pub serial: String,
    /// The address and the MAC with which it spoke.
    pub address: String,
    pub mac: String,
    pub at: Timestamp,
    /// The attempt in which it spoke.
    pub attempt: u64,
}

impl RefusedIdentity {
    /// The value of the annotation that accepts this machine.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.uuid, self.serial)
    }
}

/// What was seen on the network under a MAC of the host: no evidence, for each machine can use any MAC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkNote {
    /// Such as `52:54:00:12:34:56`.
    pub mac: String,
    /// Such as `dhcp_ack`, `loader`, `address_mismatch`.
    pub event: String,
    pub attempt: u64,
    /// The detail as it was the last time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How often.
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

impl NetworkNote {
    fn is_kind_of(&self, other: &Self) -> bool {
        (&self.mac, &self.event, self.attempt) == (&other.mac, &other.event, other.attempt)
    }

    /// Takes a later one in, which stands for the same.
    fn count(&mut self, later: Self) {
        self.count = self.count.saturating_add(later.count);
        self.last_at = self.last_at.max(later.last_at);
        (self.detail, self.bytes) = (later.detail, later.bytes);
    }

    /// Adds a note to a list of at most [`NETWORK_NOTES_MAX`], or counts it with one that stands for the same.
    pub fn add_to(mut self, notes: &mut Vec<Self>) {
        if self.detail.len() > NOTE_BYTES_MAX {
            self.detail.truncate(self.detail.floor_char_boundary(NOTE_BYTES_MAX));
        }
        let kind: Vec<usize> = (0..notes.len()).filter(|place| notes[*place].is_kind_of(&self)).collect();
        let same = kind.iter().find(|place| notes[**place].detail == self.detail);
        if let Some(place) = same.or_else(|| kind.get(DETAILS_MAX - 1)) {
            notes[*place].count(self);
            return;
        }
        if notes.len() >= NETWORK_NOTES_MAX {
            let oldest = (0..notes.len()).min_by_key(|place| notes[*place].last_at);
            oldest.map(|place| notes.remove(place));
        }
        notes.push(self);
    }
}

impl HostJournalStatus {
    /// Lists the timeline with the notes of the network between its events, in the order of their times. Notes of
    /// attempts that the timeline has no event of any more are left out.
    #[must_use]
    pub fn history(&self) -> Vec<TimelineEvent> {
        let oldest = self.timeline.first().map(|event| event.attempt).unwrap_or_default();
        let notes = self.network.iter().filter(|note| note.attempt >= oldest).map(|note| {
            let again = if note.count > 1 {
                format!(" ({} times until {})", note.count, note.last_at.strftime("%H:%M:%S"))
            } else {
                String::new()
            };
            TimelineEvent {
                at: note.first_at,
                attempt: note.attempt,
                event: note.event.clone(),
                detail: format!("{}{again}", note.detail).trim_start().to_owned(),
                bytes: note.bytes,
            }
        });
        let mut all: Vec<TimelineEvent> = self.timeline.iter().cloned().chain(notes).collect();
        all.sort_by_key(|event| (event.attempt, event.at));
        all
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn note(event: &str, detail: &str, second: i64) -> NetworkNote {
        NetworkNote {
            mac: "52:54:00:00:00:01".into(),
            event: event.into(),
            attempt: 1,
            detail: detail.into(),
            count: 1,
            first_at: at(second),
            last_at: at(second),
            ..NetworkNote::default()
        }
    }

    #[test]
    fn what_comes_again_is_counted() {
        let mut notes = Vec::new();
        (0..1500).for_each(|second| note("script", "", second).add_to(&mut notes));
        note("loader", "snponly.efi", 3).add_to(&mut notes);
        assert_eq!(notes.len(), 2);
        assert_eq!((notes[0].count, notes[0].first_at, notes[0].last_at), (1500, at(0), at(1499)));
        let other = NetworkNote { attempt: 2, ..note("script", "", 1500) };
        other.add_to(&mut notes);
        assert_eq!(notes.len(), 3, "another attempt");
    }

    #[test]
    fn details_and_notes_are_bounded() {
        let mut notes = Vec::new();
        (0..100).for_each(|number| note("dhcp_ack", &format!("to {number}"), number).add_to(&mut notes));
        assert_eq!((notes.len(), notes[DETAILS_MAX - 1].count), (DETAILS_MAX, 97));
        assert_eq!(notes[DETAILS_MAX - 1].detail, "to 99");
        for number in 0..200 {
            note(&format!("event-{number}"), "", 200 + number).add_to(&mut notes);
        }
        assert_eq!((notes.len(), notes[0].event.as_str()), (NETWORK_NOTES_MAX, "event-136"));
        note("long", &"é".repeat(NOTE_BYTES_MAX), 999).add_to(&mut notes);
        assert!(notes.last().unwrap().detail.len() <= NOTE_BYTES_MAX);
    }

    #[test]
    fn the_history_has_both_in_the_order_of_time() {
        let event = |name: &str, attempt, second| TimelineEvent {
            at: at(second),
            attempt,
            event: name.into(),
            ..TimelineEvent::default()
        };
        let mut status = HostJournalStatus::default();
        status.timeline = vec![event("script", 1, 5), event("agent_hello", 1, 9), event("script", 2, 50)];
        let again = NetworkNote { count: 3, last_at: at(8), ..note("dhcp_ack", "10.0.0.9", 2) };
        status.network = vec![again, NetworkNote { attempt: 0, ..note("loader", "gone", 0) }];
        let shown: Vec<_> = status.history().iter().map(|event| format!("{} {}", event.event, event.detail)).collect();
        assert_eq!(shown, ["dhcp_ack 10.0.0.9 (3 times until 08:00:08)", "script ", "agent_hello ", "script "]);
    }
}
