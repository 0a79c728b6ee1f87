//! Looks after the room of the data folder: sets the reserve aside, has stored what could not be, and tells of it.
//!
//! ```text
//!   every second: reserve filled again ─► tried whether anything can be written, where nothing could
//!                 ─► halts held in memory stored ─► what changed told: log, condition, event
//! ```
//!
//! `/readyz` and the metrics ask for themselves.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use firesteel_kube::{
    Core, EventSubject, ObjectPart, ObjectTarget, Objects, RecordedEvent, Recorder, Status, WriteOptions,
};
use firesteel_resources::{
    Condition,
    halt::USUAL_NAME,
    kinds::{HALT, PROVISIONING},
    provisioning::SINGLETON,
    set_condition,
};
use firesteel_store::{DiskBytes, StorageStatus, StoreRoom};
use jiff::Timestamp;
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The reserve, in the data folder.
const FILE: &str = "reserve";
/// Between two looks.
const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// Of the Provisioning object.
const CONDITION: &str = "StorageFull";
/// Who says so.
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

/// An appliance that cannot write does not know whether a halt was held in memory before it: it starts halted.
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
    held.map(drop).map_err(|status| anyhow::anyhow!(status.message))
}

/// Starts to look after it.
pub(super) fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, room: Arc<StoreRoom>) {
    let keeper = RoomKeeper::new(core, room);
    tasks.spawn(async move { keeper.run().await });
}

/// What there is to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shortage {
    #[default]
    None,
    /// Ordinary changes are refused.
    Ordinary,
    /// Nothing at all is stored.
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

    /// One word.
    fn reason(self) -> &'static str {
        match self {
            Self::None => "HasRoom",
            Self::Ordinary => "NoRoom",
            Self::All => "CannotWrite",
        }
    }

    /// The same as long as it is so: it stands in a condition.
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
    /// As the log has it.
    logged: Shortage,
    /// As condition and event have it; `None`: not looked at since the start.
    told: Option<Shortage>,
}

impl RoomKeeper {
    fn new(core: &Core, room: Arc<StoreRoom>) -> Self {
        let recorder = Recorder::new(core, COMPONENT).with_reserve();
        Self { core: core.clone(), room, recorder, logged: Shortage::default(), told: None }
    }

    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            self.check_room().await?;
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }

    async fn check_room(&mut self) -> anyhow::Result<()> {
        let room = Arc::clone(&self.room);
        // It writes and flushes.
        tokio::task::spawn_blocking(move || room.refill()).await.context("filling the reserve on the disk")?;
        // What is known to fail is not tried each second.
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
        if self.told != Some(now) && is_writable {
            match self.publish_shortage(now).await {
                Ok(()) => self.told = Some(now),
                Err(status) => tracing::debug!(error = %status.message, "telling of the room on the disk"),
            }
        }
        Ok(())
    }

    /// Says it in the Provisioning object, where there is one, and by an event of it.
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
        Shortage::None => tracing::info!("there is room again: what is sent is stored"),
        Shortage::Ordinary => tracing::error!(why = refused, "changes are refused"),
        Shortage::All => tracing::error!(why = unwritable, "nothing can be stored"),
    }
}

/// Puts the condition into the object; whether that says something else than before. A folder that always had room says
/// nothing.
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

    /// A disk of 48 MiB, of which the test says how much is free.
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

    /// Of an appliance that can write, whatever halts there are.
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
