//! Reads the whole store once after the start and once a day, in small steps in the background, so that damage is found
//! while there are backups to restore. Values that an older program left without checksums get them first.
//!
//! The store itself compares what is read, and remembers what is damaged; this module sets the pace.

use std::time::Duration;

use firesteel_kube::Core;
use firesteel_store::{GroupResource, ListRange, PageRead, Revision, Store, StoreReadError};

/// How many objects one step reads.
const PAGE: usize = 32;
/// The pause between two steps: other work has the database for most of the time.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause between two passes.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// The kind of the definitions of kinds, which come from the program.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// The counts of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StoreCheckReport {
    objects: usize,
    damaged_objects: usize,
    changes: usize,
    damaged_changes: usize,
}

/// Checks the store as long as the process lives.
pub(super) async fn run(core: Core) -> anyhow::Result<()> {
    loop {
        add_checksums(core.store()).await;
        let passed = pass(&core, PAUSE).await;
        if passed.damaged_objects + passed.damaged_changes > 0 {
            tracing::error!(
                ?passed,
                "stored values are damaged: GET /firesteel.dev/store names them; restore a backup"
            );
        } else {
            tracing::debug!(?passed, "all stored values are as they were written");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Adds checksums to the database of an older program.
async fn add_checksums(store: &Store) {
    let mut steps = 0_u64;
    loop {
        match store.add_missing_checksums().await {
            Ok(true) => steps += 1,
            Ok(false) => break,
            Err(error) => {
                tracing::warn!(%error, "could not add checksums to old values; it is tried again in a day");
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    if steps > 0 {
        tracing::info!(steps, "all values of an older program have checksums now");
    }
}

async fn pass(core: &Core, pause: Duration) -> StoreCheckReport {
    let store = core.store();
    let mut passed = StoreCheckReport::default();
    let kinds = store.kinds().await.unwrap_or_else(|error| {
        tracing::error!(%error, "could not read the kinds in the store; they are checked again in a day");
        Vec::new()
    });
    for kind in kinds {
        if let Err(error) = of_kind(store, &kind, pause, &mut passed).await {
            tracing::error!(%kind, %error, "could not check the objects of a kind; they are checked again in a day");
        }
    }
    if let Err(error) = changes(store, pause, &mut passed).await {
        tracing::error!(%error, "could not check the history of changes; it is checked again in a day");
    }
    let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
    if !store.damaged(&definitions, None).is_empty()
        && let Err(status) = core.publish_kinds().await
    {
        tracing::error!(error = %status.message, "could not replace a kind's damaged definition; tried again in a day");
    }
    passed
}

async fn of_kind(
    store: &Store,
    kind: &GroupResource,
    pause: Duration,
    passed: &mut StoreCheckReport,
) -> Result<(), StoreReadError> {
    let mut after = None;
    loop {
        // Each page is read as of now: a change in the meantime is checked when it is written and read.
        let range = ListRange { after: after.as_ref(), ..ListRange::all(kind) };
        let PageRead { page, damaged, last } = store.page_with_damaged(range, PAGE).await?;
        passed.objects += page.items.len() + damaged.len();
        passed.damaged_objects += damaged.len();
        if page.remaining == 0 {
            return Ok(());
        }
        after = last;
        tokio::time::sleep(pause).await;
    }
}

async fn changes(store: &Store, pause: Duration, passed: &mut StoreCheckReport) -> Result<(), StoreReadError> {
    let mut through = Revision(0);
    loop {
        let checked = store.check_changes(through).await?;
        through = checked.through;
        passed.changes += checked.changes;
        passed.damaged_changes += checked.damaged;
        if checked.is_over {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use firesteel_kube::Objects;
    use firesteel_store::Durability;
    use rusqlite::Connection;
    use serde_json::{Value, json};

    use super::*;
    use crate::serve::kinds;

    #[tokio::test]
    async fn a_pass_reads_everything_and_mends_what_comes_from_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.db");
        let core = Core::new(Store::open_with(&path, Durability::Nothing).unwrap(), kinds::registry());
        core.ensure_namespace("default").await.unwrap();
        core.publish_kinds().await.unwrap();
        let maps: Objects<Value> = Objects::new(&core, "", "ConfigMap").unwrap();
        for number in 0..100 {
            maps.create(&json!({ "metadata": { "name": format!("m{number}"), "namespace": "default" } }))
                .await
                .unwrap();
        }
        let before = pass(&core, Duration::ZERO).await;
        assert!(before.objects >= 130 && before.changes >= before.objects, "{before:?}");
        assert_eq!((before.damaged_objects, before.damaged_changes), (0, 0));

        let statement = "UPDATE log SET value = substr(value, 2) WHERE name IN ('m42', 'baremetalhosts.metal3.io')";
        Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        let found = pass(&core, Duration::ZERO).await;
        assert_eq!((found.damaged_objects, found.damaged_changes), (2, 2));
        let report = core.store().damage();
        assert_eq!(report.objects.len(), 1, "the definition is there again: {report:?}");
        assert_eq!(report.objects[0].key.name, "m42");
    }
}
