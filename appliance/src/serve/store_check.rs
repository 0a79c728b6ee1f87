//! Reads everything that is stored once after the start and once a day, in small steps beside the work, so that damage
//! is found while there are backups to restore. What an older program left without checksums gets them first.
//!
//! The store itself compares what is read and remembers what is damaged; here is only the pace.

use std::time::Duration;

use firesteel_kube::Core;
use firesteel_store::{GroupResource, ListRange, PageRead, Revision, Store, StoreReadError};

/// Objects of one step.
const PAGE: usize = 32;
/// Between two steps: others have the database for most of the time.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two passes.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// Where the definitions of kinds are, which come from the program.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// What a pass found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StoreCheckReport {
    objects: usize,
    damaged_objects: usize,
    changes: usize,
    damaged_changes: usize,
}

/// For as long as the process lives.
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

/// Brings a database of an older program up to date.
async fn add_checksums(store: &Store) {
    let mut steps = 0_u64;
    loop {
        match store.add_missing_checksums().await {
            Ok(true) => steps += 1,
            Ok(false) => break,
            Err(error) => {
                tracing::warn!(%error, "giving checksums to what an older program left; tried again in a day");
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    if steps > 0 {
        tracing::info!(steps, "all that an older program left has checksums now");
    }
}

async fn pass(core: &Core, pause: Duration) -> StoreCheckReport {
    let store = core.store();
    let mut passed = StoreCheckReport::default();
    let kinds = store.kinds().await.unwrap_or_else(|error| {
        tracing::error!(%error, "the kinds of what is stored cannot be read");
        Vec::new()
    });
    for kind in kinds {
        if let Err(error) = of_kind(store, &kind, pause, &mut passed).await {
            tracing::error!(%kind, %error, "the objects of a kind cannot be compared");
        }
    }
    if let Err(error) = changes(store, pause, &mut passed).await {
        tracing::error!(%error, "changes that are kept cannot be compared");
    }
    let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
    if !store.damaged(&definitions, None).is_empty()
        && let Err(status) = core.publish_kinds().await
    {
        tracing::error!(error = %status.message, "a damaged definition of a kind cannot be made anew");
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
        // As of now each time: what changes meanwhile is compared where it is written and read.
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
