//! Upkeep of stored objects, with or without machines: it needs no network but the API's.

use std::{sync::Arc, time::Duration};

use firesteel_kube::{Core, lifecycle, quota::usage};
use firesteel_store::{Compactor, GroupResource, Retention};
use tokio::task::JoinSet;

use super::{no_controller, sealing::KeyFile, store_check};

/// The time between two compactions.
const COMPACTED_EVERY: Duration = Duration::from_secs(10);
/// The time between two checks whether everything is sealed that must be; if it is, the check takes next to no time.
/// After failures the time doubles up to the second value.
const SEALED_EVERY: Duration = Duration::from_secs(60);
const SEALED_EVERY_MAX: Duration = Duration::from_secs(60 * 60);
/// The history of kinds that change often. Each controller renews its Lease every second or two: a client that
/// reconnects needs no longer history.
const SHORT: Retention = Retention { age_ms: 2 * 60 * 1000, revisions: 0 };

/// The time between two updates of the usage of quotas.
const USAGE_EVERY: Duration = Duration::from_secs(10);

/// Starts all upkeep tasks.
pub(super) fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core, key_file: Arc<KeyFile>) {
    let sealed = core.clone();
    tasks.spawn(async move { keep_sealed(sealed, key_file).await });
    let compacted = core.clone();
    tasks.spawn(async move { compact(compacted).await });
    tasks.spawn(store_check::run(core.clone()));
    no_controller::spawn(tasks, core);
    let counted = core.clone();
    tasks.spawn(async move { show_usage(counted).await });
    let core = core.clone();
    tasks.spawn(async move { lifecycle::run(core).await.map_err(anyhow::Error::from) });
}

/// Seals values that an earlier program left in the clear, and finishes interrupted changes of the key.
async fn keep_sealed(core: Core, key_file: Arc<KeyFile>) -> anyhow::Result<()> {
    let (mut is_unfinished, mut pause) = (false, SEALED_EVERY);
    loop {
        match key_file.seal_remaining(core.store()).await {
            Ok(resealed) => {
                if resealed.values > 0 || is_unfinished {
                    tracing::info!(
                        values = resealed.values,
                        "stored secrets are sealed now, and their old values are scrubbed from the database"
                    );
                }
                (is_unfinished, pause) = (false, SEALED_EVERY);
            }
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), again_in = ?pause, "could not seal stored secrets");
                is_unfinished = true;
            }
        }
        tokio::time::sleep(pause).await;
        if is_unfinished {
            pause = SEALED_EVERY_MAX.min(pause * 2);
        }
    }
}

/// Writes the usage of quotas as long as the process lives.
async fn show_usage(core: Core) -> anyhow::Result<()> {
    // The last failure: a disk that stays full is logged once.
    let mut failed = None;
    loop {
        tokio::time::sleep(USAGE_EVERY).await;
        match usage::show(&core).await {
            Ok(()) => failed = None,
            Err(status) if failed == Some(status.reason) => {}
            Err(status) => {
                tracing::warn!(error = %status.message, "could not write the usage of quotas; trying again in 10 s");
                failed = Some(status.reason);
            }
        }
    }
}

/// Compacts the store's history as long as the process lives.
async fn compact(core: Core) -> anyhow::Result<()> {
    let mut history = History::new(&core);
    let started = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(COMPACTED_EVERY).await;
        history.shorten(i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX)).await;
    }
}

/// The history of all kinds, and that of kinds with a shorter one.
#[derive(Debug)]
struct History {
    core: Core,
    all: Compactor,
    short: Compactor,
    short_kinds: Vec<GroupResource>,
}

impl History {
    fn new(core: &Core) -> Self {
        Self {
            all: Compactor::new(Retention::default()),
            short: Compactor::new(SHORT),
            short_kinds: core.registry().short_histories().collect(),
            core: core.clone(),
        }
    }

    /// Removes history that is too old. A failure is tried again the next time.
    async fn shorten(&mut self, now_ms: i64) {
        let store = self.core.store();
        let current = store.current();
        let through = self.short.observe(now_ms, current);
        for kind in &self.short_kinds {
            if let Err(error) = store.compact_kind(kind, through).await {
                tracing::warn!(%error, %kind, "could not compact a kind in the store; it is tried again in 10 s");
            }
        }
        if let Err(error) = store.compact(self.all.observe(now_ms, current)).await {
            tracing::warn!(%error, "could not compact the store; it is tried again in 10 s");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::collections::BTreeMap;

    use firesteel_kube::{ObjectPart, Objects};
    use firesteel_store::{Durability, Revision, Store, WatchError};
    use rusqlite::Connection;
    use serde_json::{Value, json};

    use super::*;
    use crate::serve::kinds;

    /// The rows of each kind's history, by its plural.
    fn rows(database: &Connection) -> BTreeMap<String, i64> {
        let mut counted = database.prepare("SELECT resource, count(*) FROM log GROUP BY resource").unwrap();
        counted.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn leases_and_events_have_a_short_history_of_one_place_each() {
        let short: Vec<_> = kinds::registry().short_histories().map(|kind| kind.to_string()).collect();
        assert_eq!(short, ["events", "leases.coordination.k8s.io"]);
    }

    /// Eight minutes of a Lease that is renewed each second, a host that changes twice a minute, and an
    /// Event each ten seconds, of which every other one is deleted at once.
    #[tokio::test]
    async fn renewals_of_a_lease_leave_few_rows_and_hosts_keep_their_history() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.db");
        let core = Core::new(Store::open_with(&path, Durability::Nothing).unwrap(), kinds::registry());
        core.ensure_namespace("default").await.unwrap();
        let objects = |group: &str, kind: &str| Objects::<Value>::new(&core, group, kind).unwrap();
        let named = |name: &str| json!({ "metadata": { "name": name, "namespace": "default" } });
        let leases = objects("coordination.k8s.io", "Lease");
        let hosts = objects("metal3.io", "BareMetalHost");
        let events = objects("", "Event");
        let before = core.store().current();
        leases.create(&named("leader")).await.unwrap();
        let mut host = named("host");
        host["spec"] = json!({ "online": false });
        hosts.create(&host).await.unwrap();
        let database = Connection::open(&path).unwrap();
        let mut history = History::new(&core);
        for second in 1..=480_i64 {
            let renew = |lease: &mut Value| lease["spec"]["leaseTransitions"] = json!(second);
            leases.modify("default", "leader", ObjectPart::Main, renew).await.unwrap();
            if second % 30 == 0 {
                let describe = |host: &mut Value| host["spec"]["description"] = json!(second.to_string());
                hosts.modify("default", "host", ObjectPart::Main, describe).await.unwrap();
            }
            if second % 10 == 0 {
                let name = format!("e{second}");
                let involved = json!({ "kind": "BareMetalHost", "namespace": "default", "name": "host" });
                let mut event = named(&name);
                event["involvedObject"] = involved;
                events.create(&event).await.unwrap();
                if second % 20 == 0 {
                    events.delete("default", &name).await.unwrap();
                }
                history.shorten(second * 1000).await;
                // Two minutes of renewals, and the state before them.
                let rows = rows(&database);
                assert!(rows["leases"] <= 121, "{second}: {rows:?}");
                // The objects that exist, and two minutes of the others: six times created and deleted.
                assert!(rows["events"] <= 24 + 12, "{second}: {rows:?}");
            }
        }
        assert_eq!((rows(&database)["leases"], rows(&database)["baremetalhosts"]), (121, 17));
        assert_eq!(leases.get("default", "leader").await.unwrap().unwrap()["spec"]["leaseTransitions"], 480);
        assert_eq!(events.list(None).await.unwrap().0.len(), 24);

        let [lease, host] = [("coordination.k8s.io", "leases"), ("metal3.io", "baremetalhosts")]
            .map(|(group, plural)| GroupResource::new(group, plural));
        let gone = core.store().watch(&lease, before).await.map(drop);
        assert!(matches!(gone, Err(WatchError::Compacted { oldest: Revision(oldest) }) if oldest > before.0));
        let mut watch = core.store().watch(&host, before).await.unwrap();
        for second in (0..=480).step_by(30) {
            let event = watch.next().await.unwrap();
            let told: Value = serde_json::from_slice(&event.value).unwrap();
            let said = if second == 0 { Value::Null } else { json!(second.to_string()) };
            assert_eq!(told["spec"]["description"], said);
        }
    }
}
