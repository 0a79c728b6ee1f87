//! Watches the room of the data folder: keeps a reserve, stores later what could not be stored, and reports shortages.
//!
//! ```text
//!   every second: refill the reserve ─► try to write, if nothing could be written
//!                 ─► store halts that are held in memory ─► report changes: log, condition, event
//! ```
//!
//! `/readyz` and the metrics look for themselves.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use firesteel_kube::{
    Core, EventSubject, ObjectPart, ObjectTarget, Objects, RecordedEvent, Recorder, Status, WriteOptions,
};
use firesteel_resources::halt::USUAL_NAME;
use firesteel_resources::kinds::{HALT, PROVISIONING};
use firesteel_resources::provisioning::SINGLETON;
use firesteel_resources::{Condition, set_condition};
use firesteel_store::{DiskBytes, StorageStatus, StoreRoom};
use jiff::Timestamp;
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The file of the reserve, in the data folder.
const FILE: &str = "reserve";
/// The time between two looks.
const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// The condition of the Provisioning object.
const CONDITION: &str = "StorageFull";
/// The source of the event.
const COMPONENT: &str = "firesteel";

/// Opens the reserve of a data folder.
pub(super) fn open(data: &Path) -> Arc<StoreRoom> {
    let folder = data.to_path_buf();
    let look = move || -> std::io::Result<DiskBytes> {
        let disk = statvfs(&folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
        Ok(DiskBytes { free: bytes(disk.blocks_available()), total: bytes(disk.blocks()) })
    };
    Arc::new(StoreRoom::open(&data.join(FILE), Box::new(look)))
}

/// Starts halted if nothing can be written: the appliance then does not know whether a halt was held in memory before.
///
/// # Errors
/// When the halt cannot be made.
pub(super) async fn halt_where_nothing_is_stored(core: &Core) -> anyhow::Result<()> {
    let Err(error) = core.store().probe().await else { return Ok(()) };
    let kind = core.registry().by_kind(HALT.group, HALT.kind).cloned().context("this server has no halts")?;
    let target = ObjectTarget { kind: &kind, namespace: "", name: USUAL_NAME };
    if core.get(target).await.is_ok() {
        return Ok(());
    }
    let body = json!({
        "apiVersion": kind.api_version(), "kind": HALT.kind, "metadata": { "name": USUAL_NAME },
        "spec": {
            "by": COMPONENT,
            "reason": "the appliance started and cannot write to its data folder, so a halt may have been lost",
        },
    });
    let held = core.hold(target, body, WriteOptions::default(), &error.to_string());
    held.map(drop).map_err(anyhow::Error::from)
}

/// Starts the watch.
pub(super) fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, room: Arc<StoreRoom>) {
    let keeper = RoomKeeper::new(core, room);
    tasks.spawn(async move { keeper.run().await });
}

/// How short the room is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shortage {
    #[default]
    None,
    /// Ordinary changes are refused.
    Ordinary,
    /// No change at all can be stored.
    All,
}

impl Shortage {
    fn of(standing: &StorageStatus) -> Self {
        match (&standing.unwritable, &standing.refused) {
            (Some(_), _) => Self::All,
            (None, Some(_)) => Self::Ordinary,
            (None, None) => Self::None,
        }
    }

    /// The reason of the condition and the event.
    fn reason(self) -> &'static str {
        match self {
            Self::None => "HasRoom",
            Self::Ordinary => "NoRoom",
            Self::All => "CannotWrite",
        }
    }

    /// The message of the condition, constant as long as the shortage lasts.
    fn message(self) -> &'static str {
        match self {
            Self::None => "what is sent is stored",
            Self::Ordinary => {
                "the disk of the data folder is full: changes are refused; leases of known hosts, halts, deletions and \
                 the work on hosts go on with the reserve. Free space on it, or delete objects"
            }
            Self::All => {
                "nothing can be written to the data folder: no lease is given, no host is worked on, and halts hold in \
                 memory alone. Free space on its disk, or see the appliance's log"
            }
        }
    }
}

struct RoomKeeper {
    core: Core,
    room: Arc<StoreRoom>,
    recorder: Recorder,
    /// The shortage that was logged last.
    logged: Shortage,
    /// The shortage in condition and event; `None` if it is unknown since the start.
    published: Option<Shortage>,
}

impl RoomKeeper {
    fn new(core: &Core, room: Arc<StoreRoom>) -> Self {
        let recorder = Recorder::new(core, COMPONENT).with_reserve();
        Self { core: core.clone(), room, recorder, logged: Shortage::default(), published: None }
    }

    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            self.check_room().await?;
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }

    async fn check_room(&mut self) -> anyhow::Result<()> {
        let room = Arc::clone(&self.room);
        // This writes and flushes.
        tokio::task::spawn_blocking(move || room.refill()).await.context("could not fill the reserve on the disk")?;
        // A write that is known to fail is not tried each second.
        let is_writable = self.room.standing().unwritable.is_none() || self.core.store().probe().await.is_ok();
        if is_writable {
            self.core.store_unstored().await;
        }
        let standing = self.room.standing();
        let now = Shortage::of(&standing);
        if now != self.logged {
            log(now, &standing);
            self.logged = now;
        }
        if self.published != Some(now) && is_writable {
            match self.publish_shortage(now).await {
                Ok(()) => self.published = Some(now),
                Err(status) => tracing::debug!(error = %status, "could not report the room on the disk"),
            }
        }
        Ok(())
    }

    /// Writes the shortage to the Provisioning object, if there is one, and creates an event for it.
    async fn publish_shortage(&mut self, now: Shortage) -> Result<(), Status> {
        let objects: Objects<Value> = Objects::new(&self.core, PROVISIONING.group, PROVISIONING.kind)?;
        let objects = objects.with_reserve();
        let Some(object) = objects.get("", SINGLETON).await? else { return Ok(()) };
        let at = self.core.now();
        let mut changed = object.clone();
        if !show(&mut changed, now, at) {
            return Ok(());
        }
        let change = |object: &mut Value| {
            show(object, now, at);
        };
        objects.modify("", SINGLETON, ObjectPart::Status, change).await?;
        let regarding = EventSubject {
            api_version: PROVISIONING.api_version(),
            kind: PROVISIONING.kind.to_owned(),
            namespace: String::new(),
            name: SINGLETON.to_owned(),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        };
        let (is_warning, reason) = match now {
            Shortage::None => (false, "StorageHasRoom"),
            Shortage::Ordinary => (true, "StorageFull"),
            Shortage::All => (true, "StorageFails"),
        };
        let message = now.message().to_owned();
        let happened = RecordedEvent { regarding, is_warning, reason: reason.to_owned(), message, at };
        self.recorder.record(&happened).await.map(drop)
    }
}

fn log(now: Shortage, standing: &StorageStatus) {
    let (refused, unwritable) = (standing.refused.as_deref(), standing.unwritable.as_deref());
    match now {
        Shortage::None => tracing::info!("the disk has room again: changes are stored"),
        Shortage::Ordinary => tracing::error!(why = refused, "the disk is full: changes are refused until it has room"),
        Shortage::All => tracing::error!(why = unwritable, "could not store anything: no work on hosts goes on"),
    }
}

/// Puts the condition into the object; returns whether that changes it. Without a shortage so far there is no
/// condition.
fn show(object: &mut Value, now: Shortage, at: Timestamp) -> bool {
    let shown = object["status"]["conditions"].clone();
    let mut conditions: Vec<Condition> = serde_json::from_value(shown).unwrap_or_default();
    let before = conditions.iter().find(|condition| condition.type_ == CONDITION).cloned();
    if before.is_none() && now == Shortage::None {
        return false;
    }
    let condition = Condition::new(CONDITION, now != Shortage::None, now.reason(), now.message());
    let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
    set_condition(&mut conditions, condition, at);
    let after = conditions.iter().find(|condition| condition.type_ == CONDITION);
    if after == before.as_ref() {
        return false;
    }
    object["status"]["conditions"] = json!(conditions);
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::atomic::{AtomicU64, Ordering};

    use firesteel_store::{Durability, Store};

    use super::*;
    use crate::serve::kinds;

    const MIB: u64 = 1 << 20;

    struct Site {
        free: Arc<AtomicU64>,
        keeper: RoomKeeper,
        core: Core,
        _folder: tempfile::TempDir,
    }

    /// A disk of 48 MiB; the test sets how much of it is free.
    async fn site() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(40 * MIB));
        let looked = Arc::clone(&free);
        let look = move || Ok(DiskBytes { free: looked.load(Ordering::Relaxed), total: 48 * MIB });
        let room = Arc::new(StoreRoom::open(&folder.path().join(FILE), Box::new(look)));
        let path = folder.path().join("resources.db");
        let store = Store::open_in(&path, Durability::Nothing, None, Some(Arc::clone(&room))).unwrap();
        let core = Core::new(store, kinds::registry());
        core.ensure_namespace("default").await.unwrap();
        let networks: Objects<Value> = Objects::new(&core, "metal3.io", "Provisioning").unwrap();
        let network = json!({ "metadata": { "name": SINGLETON }, "spec": { "provisioningNetwork": "Disabled" } });
        networks.create(&network).await.unwrap();
        Site { free, keeper: RoomKeeper::new(&core, room), core, _folder: folder }
    }

    impl Site {
        async fn condition(&self) -> Value {
            let networks: Objects<Value> = Objects::new(&self.core, "metal3.io", "Provisioning").unwrap();
            let network = networks.get("", SINGLETON).await.unwrap().unwrap();
            let conditions = network["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().find(|condition| condition["type"] == CONDITION).unwrap_or_default()
        }

        async fn events(&self) -> Vec<String> {
            let events: Objects<Value> = Objects::new(&self.core, "", "Event").unwrap();
            let (events, _) = events.list(None).await.unwrap();
            let mut reasons: Vec<String> =
                events.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
            reasons.sort();
            reasons
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_told_on_itself_and_its_end_too() {
        let mut site = site().await;
        site.keeper.check_room().await.unwrap();
        assert_eq!((site.condition().await, site.events().await), (Value::Null, Vec::<String>::new()));
        site.free.store(MIB, Ordering::Relaxed);
        site.keeper.check_room().await.unwrap();
        let condition = site.condition().await;
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NoRoom")), "{condition}");
        let at = site.core.store().current();
        site.keeper.check_room().await.unwrap();
        assert_eq!(site.core.store().current(), at, "once");
        site.free.store(40 * MIB, Ordering::Relaxed);
        site.keeper.check_room().await.unwrap();
        assert_eq!(site.condition().await["status"], "False");
        assert_eq!(site.events().await, ["StorageFull", "StorageHasRoom"]);
    }

    /// An appliance that can write does not start halted, whatever halts there are.
    #[tokio::test]
    async fn who_can_write_does_not_start_halted() {
        let site = site().await;
        halt_where_nothing_is_stored(&site.core).await.unwrap();
        assert!(site.core.unstored().borrow().is_empty());
        site.free.store(0, Ordering::Relaxed);
        halt_where_nothing_is_stored(&site.core).await.unwrap();
        assert!(site.core.unstored().borrow().is_empty(), "what is kept for this is enough");
    }

    #[test]
    fn the_worst_is_told() {
        let standing = |refused: bool, unwritable: bool| StorageStatus {
            refused: refused.then(|| "full".to_owned()),
            unwritable: unwritable.then(|| "read-only".to_owned()),
            ..StorageStatus::default()
        };
        let of = |refused, unwritable| Shortage::of(&standing(refused, unwritable));
        assert_eq!([of(false, false), of(true, false)], [Shortage::None, Shortage::Ordinary]);
        assert_eq!([of(false, true), of(true, true)], [Shortage::All, Shortage::All]);
    }
}
