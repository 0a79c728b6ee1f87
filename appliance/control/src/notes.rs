//! The way of boots and network events into journals: channels, so that DHCP, TFTP and HTTP never wait.
//!
//! ```text
//!   note(mac, event) ─► notes  (a stranger can fill it: events beyond are lost) ─► NotePace ─► journal.network
//!   stage(host, …) ───► stages (only who holds a token)                         ────────────► journal.boot, timeline
//! ```

use std::time::Duration;

use firesteel_facts::Mac;
use firesteel_runtime::HostKey;
use jiff::Timestamp;

use crate::{NetworkEvent, boot_record::StageNote};

/// The longest sleep: the wall clock may be set while it waits.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Journals that are written at a time: those go to the disk together.
pub(crate) const WRITES_MAX: usize = 32;
/// Notes that are taken in at once, before anything is written.
pub(crate) const BATCH_MAX: usize = 256;

/// What is to be written into the journal of a host.
#[derive(Debug)]
pub(crate) enum JournalNote {
    Network { at: Timestamp, mac: Mac, event: NetworkEvent },
    Stage { key: HostKey, stage: Box<StageNote> },
}
