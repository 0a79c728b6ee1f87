//! The store beside etcd: the same values on the same disk, in turns.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use firesteel_store::{GroupResource, ObjectKey, Op, Revision, Store};
use tokio::task::JoinSet;

use crate::etcd::{self, Client, Etcd};
use crate::figures::{Figures, Latencies, Limit, median};
use crate::hosts;

/// Writers of the two measurements.
const WRITERS: [u32; 2] = [1, 64];
/// Objects of each writer, written in turn.
const OBJECTS: u32 = 16;
/// Events of which the latency is measured.
const EVENTS: u32 = 300;
/// Flushes that are timed for the disk's own figure.
const FLUSHES: u64 = 300;

/// The figures of one system: commits a second by writers, the median and the tail of a watch.
#[derive(Debug, Default)]
struct Runs {
    commits: [Vec<f64>; WRITERS.len()],
    watch_median_ms: Vec<f64>,
    watch_tail_ms: Vec<f64>,
}

pub(crate) async fn measure(folder: &Path, rounds: u32, duration: Duration, figures: &mut Figures) -> Result<()> {
    let value = Bytes::from(hosts::hardware_data(1).to_string());
    let mut flush = flushes(folder)?;
    let (median_ms, tail_ms) = (flush.percentile_ms(50), flush.percentile_ms(99));
    figures.note(&format!("fdatasync of 4 KiB on this disk: median {median_ms:.2} ms, p99 {tail_ms:.2} ms"));
    let program = etcd::program();
    match &program {
        Some(program) => {
            figures.note(&format!("the stores' values have {} bytes; {}", value.len(), etcd::version(program)?));
        }
        None => figures.note("etcd is not here (Debian's package etcd-server): the store is measured alone"),
    }
    let (mut ours, mut theirs) = (Runs::default(), Runs::default());
    for round in 0..rounds {
        run_store(&folder.join(format!("store-{round}.db")), &value, duration, &mut ours).await?;
        if let Some(program) = &program {
            let etcd = Etcd::start(program, &folder.join(format!("etcd-{round}"))).await?;
            run_etcd(&etcd, &value, duration, &mut theirs).await.context("measuring etcd")?;
        }
    }
    let peer = |values: &[f64]| (!values.is_empty()).then(|| ("etcd", median(values.to_vec())));
    for (index, writers) in WRITERS.into_iter().enumerate() {
        let what = format!("store: commits, {writers} writer{}", if writers == 1 { "" } else { "s" });
        let (ours, theirs) = (&ours.commits[index], &theirs.commits[index]);
        figures.row(&what, median(ours.clone()), "/s", Limit::AsPeer, peer(theirs));
    }
    let (ours_ms, theirs_ms) = (median(ours.watch_median_ms), peer(&theirs.watch_median_ms));
    figures.row("store: from a write to its event, median", ours_ms, "ms", Limit::AsPeer, theirs_ms);
    let (ours_ms, theirs_ms) = (median(ours.watch_tail_ms), peer(&theirs.watch_tail_ms));
    figures.row("store: from a write to its event, p99", ours_ms, "ms", Limit::None, theirs_ms);
    Ok(())
}

/// What a flush takes, which no store that keeps its word can be faster than.
fn flushes(folder: &Path) -> Result<Latencies> {
    let path = folder.join("flushes");
    let file = OpenOptions::new().create_new(true).write(true).open(path).context("making a file to flush")?;
    let mut latencies = Latencies::default();
    for number in 0..FLUSHES {
        let begun = Instant::now();
        file.write_all_at(&[b'x'; 4096], number % 64 * 4096)?;
        file.sync_data()?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}

/// Lets so many writers write for a while; tells what each wrote.
async fn at_once<F>(writers: u32, write: impl Fn(u32) -> F) -> Result<f64>
where
    F: Future<Output = Result<u32>> + Send + 'static,
{
    let begun = Instant::now();
    let mut tasks: JoinSet<Result<u32>> = (0..writers).map(write).collect();
    let mut written = 0_u32;
    while let Some(ended) = tasks.join_next().await {
        written += ended.context("a writer")??;
    }
    Ok(f64::from(written) / begun.elapsed().as_secs_f64())
}

/// How long after the write began its event was there.
async fn heard<T, E: Into<anyhow::Error>>(
    begun: Instant,
    event: impl Future<Output = Result<T, E>>,
) -> Result<Duration> {
    event.await.map_err(Into::into)?;
    Ok(begun.elapsed())
}

fn kind() -> GroupResource {
    GroupResource::new("metal3.io", "hardwaredata")
}

async fn run_store(path: &Path, value: &Bytes, duration: Duration, runs: &mut Runs) -> Result<()> {
    let store = Store::open(path).context("opening the store")?;
    for (index, writers) in WRITERS.into_iter().enumerate() {
        let rate = at_once(writers, |writer| {
            write_to_store(store.clone(), format!("{writers}-{writer}"), value.clone(), duration)
        });
        runs.commits[index].push(rate.await?);
    }
    let key = ObjectKey::new(&kind(), "default", "watched");
    let mut at = store.commit(Op::Create { key: key.clone(), value: value.clone() }, Vec::new()).await?;
    let mut watch = store.watch(&kind(), at).await?;
    let mut latencies = Latencies::default();
    for _ in 0..EVENTS {
        let begun = Instant::now();
        let op = Op::Update { key: key.clone(), expected: at, value: value.clone() };
        let (written, heard) = tokio::join!(store.commit(op, Vec::new()), heard(begun, watch.next()));
        at = written?;
        latencies.push(heard?);
    }
    runs.watch_median_ms.push(latencies.percentile_ms(50));
    runs.watch_tail_ms.push(latencies.percentile_ms(99));
    Ok(())
}

/// Compare-and-swap, as the API does it.
async fn write_to_store(store: Store, writer: String, value: Bytes, duration: Duration) -> Result<u32> {
    let mut objects: Vec<(ObjectKey, Option<Revision>)> =
        (0..OBJECTS).map(|object| (ObjectKey::new(&kind(), "default", &format!("{writer}-{object}")), None)).collect();
    let (mut written, begun) = (0, Instant::now());
    loop {
        for (key, at) in &mut objects {
            let (key, value) = (key.clone(), value.clone());
            let op = match *at {
                None => Op::Create { key, value },
                Some(expected) => Op::Update { key, expected, value },
            };
            *at = Some(store.commit(op, Vec::new()).await?);
            written += 1;
            if begun.elapsed() >= duration {
                return Ok(written);
            }
        }
    }
}

async fn run_etcd(etcd: &Etcd, value: &Bytes, duration: Duration, runs: &mut Runs) -> Result<()> {
    for (index, writers) in WRITERS.into_iter().enumerate() {
        let mut clients = Vec::new();
        for _ in 0..writers {
            clients.push(etcd.client().await?);
        }
        let clients = Mutex::new(clients);
        let rate = at_once(writers, |writer| {
            let client = clients.lock().unwrap_or_else(PoisonError::into_inner).pop();
            write_to_etcd(client, format!("/registry/hardwaredata/{writers}-{writer}"), value.clone(), duration)
        });
        runs.commits[index].push(rate.await?);
    }
    let key = "/registry/hardwaredata/watched";
    let (mut client, mut watcher) = (etcd.client().await?, etcd.client().await?);
    let mut watch = watcher.watch(key).await?;
    let mut latencies = Latencies::default();
    for _ in 0..EVENTS {
        let begun = Instant::now();
        let (written, heard) = tokio::join!(client.put(key, value.clone()), heard(begun, watch.next()));
        written?;
        latencies.push(heard?);
    }
    runs.watch_median_ms.push(latencies.percentile_ms(50));
    runs.watch_tail_ms.push(latencies.percentile_ms(99));
    Ok(())
}

/// Puts without a comparison, which is the least that etcd can do.
async fn write_to_etcd(client: Option<Client>, writer: String, value: Bytes, duration: Duration) -> Result<u32> {
    let mut client = client.context("a writer without a connection")?;
    let (mut written, begun) = (0, Instant::now());
    while begun.elapsed() < duration {
        client.put(&format!("{writer}-{}", written % OBJECTS), value.clone()).await?;
        written += 1;
    }
    Ok(written)
}
