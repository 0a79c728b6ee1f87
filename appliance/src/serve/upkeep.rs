//! What looks after stored objects whatever machines there are: it needs no network but the API's.

use std::time::Duration;

use firesteel_kube::{Core, life};
use firesteel_store::{Compactor, Retention, Store};
use tokio::task::JoinSet;

use super::no_controller;

/// Starts all of it.
pub(super) fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core) {
    let store = core.store().clone();
    tasks.spawn(async move { compact(store).await });
    no_controller::spawn(tasks, core);
    let core = core.clone();
    tasks.spawn(async move { life::run(core).await.map_err(|status| anyhow::anyhow!(status.message)) });
}

/// Keeps the store's history short, for as long as the process lives.
async fn compact(store: Store) -> anyhow::Result<()> {
    let mut compactor = Compactor::new(Retention::default());
    let started = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let now_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let through = compactor.observe(now_ms, store.current());
        if let Err(error) = store.compact(through).await {
            tracing::warn!(%error, "compacting the store");
        }
    }
}
