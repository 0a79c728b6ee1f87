//! The API's figures: hosts come, are listed, change, and are watched while they change.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::Barrier, task::JoinSet};

use crate::appliance::Appliance;
use crate::client::{Connection, Endpoint};
use crate::figures::{Figures, Latencies, Limit};
use crate::hosts;

const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
const HARDWARE: &str = "/apis/metal3.io/v1alpha1/namespaces/default/hardwaredata";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Writes a second beside the watchers, from so many connections.
const WATCHED_WRITES: u32 = 200;
const WATCHED_WRITERS: u32 = 4;
/// Hosts, and connections, of the comparison with Ironic.
const IRONIC_HOSTS: u32 = 1_000;
const IRONIC_CONNECTIONS: u32 = 8;
/// Ironic 39, one process with SQLite, 1,000 nodes of the type fake-hardware, 8 connections, on a machine
/// like this one (two cores). Not run here: about one core of Python for minutes.
const IRONIC_ENROL: f64 = 29.5;
const IRONIC_GET_MS: f64 = 21.5;
const IRONIC_GETS: f64 = 107.0;
const IRONIC_LIST_100_MS: f64 = 66.0;
const IRONIC_LIST_1000_MS: f64 = 818.0;
const IRONIC_MEMORY_MIB: f64 = 265.0;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) hosts: u32,
    pub(crate) watchers: u32,
    pub(crate) connections: u32,
    pub(crate) duration: Duration,
}

pub(crate) async fn measure(appliance: &Appliance, load: &Load, figures: &mut Figures) -> Result<()> {
    let endpoint = &appliance.endpoint;
    let (idle, _) = appliance.memory_mib()?;
    figures.row("memory of an empty appliance", idle, "MiB", Limit::None, None);
    beside_ironic(appliance, figures).await?;
    enrol_the_rest(endpoint, load, figures).await?;
    memory(appliance, "memory with all hosts", Limit::None, figures)?;
    pages(endpoint, load, figures).await?;
    updates(appliance, load, figures).await?;
    memory(appliance, "memory after the updates", Limit::None, figures)?;
    watched(appliance, load, figures).await?;
    memory(appliance, "memory after the watches", Limit::None, figures)?;
    whole_list(appliance, load, figures).await?;
    memory(appliance, "memory after the run", Limit::AtMost(300.0), figures)?;
    let (_, most) = appliance.memory_mib()?;
    figures.row("most memory during the run", most, "MiB", Limit::None, None);
    Ok(())
}

fn memory(appliance: &Appliance, what: &str, limit: Limit, figures: &mut Figures) -> Result<()> {
    let (now, _) = appliance.memory_mib()?;
    figures.row(what, now, "MiB", limit, None);
    Ok(())
}

/// Runs `work` on so many connections, each with its number; what they made, and how long all took.
async fn on_connections<T, F>(
    endpoint: &Endpoint,
    count: u32,
    work: impl Fn(u32, Connection) -> F,
) -> Result<(Vec<T>, Duration)>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(endpoint.connect().await?);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, connection) in (0..).zip(connections) {
        tasks.spawn(work(number, connection));
    }
    let mut made = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        made.push(ended.context("a client")??);
    }
    Ok((made, begun.elapsed()))
}

fn rate(count: impl Into<f64>, elapsed: Duration) -> f64 {
    count.into() / elapsed.as_secs_f64()
}

/// The steps that Ironic's figures are of, with as many hosts and connections.
async fn beside_ironic(appliance: &Appliance, figures: &mut Figures) -> Result<()> {
    let endpoint = &appliance.endpoint;
    let before = appliance.processor_seconds()?;
    let (_, elapsed) = on_connections(endpoint, IRONIC_CONNECTIONS, async |first, mut connection| {
        for number in (first..IRONIC_HOSTS).step_by(IRONIC_CONNECTIONS as usize) {
            connection.ask(Method::POST, SECRETS, hosts::secret(number).to_string().into()).await?;
            connection.ask(Method::POST, HOSTS, hosts::host(number).to_string().into()).await?;
        }
        Ok(())
    })
    .await?;
    let per_host_ms = (appliance.processor_seconds()? - before) * 1e3 / f64::from(IRONIC_HOSTS);
    let enrolled = rate(IRONIC_HOSTS, elapsed);
    let ironic = |figure| Some(("Ironic", figure));
    figures.row(
        "hosts enrolled, 8 connections (host and its Secret)",
        enrolled,
        "/s",
        Limit::None,
        ironic(IRONIC_ENROL),
    );
    figures.row("processor time of one enrolment", per_host_ms, "ms", Limit::None, ironic(47.0));
    let mut connection = endpoint.connect().await?;
    for (what, path, repeats, peer) in [
        ("GET of one host, median", format!("{HOSTS}/{}", hosts::name(7)), 200, IRONIC_GET_MS),
        ("list of 100, median", format!("{HOSTS}?limit=100"), 50, IRONIC_LIST_100_MS),
        ("list of 1000 with all fields, median", format!("{HOSTS}?limit=1000"), 20, IRONIC_LIST_1000_MS),
    ] {
        let mut latencies = Latencies::default();
        for _ in 0..repeats {
            let begun = Instant::now();
            connection.get(&path).await?;
            latencies.push(begun.elapsed());
        }
        figures.row(what, latencies.percentile_ms(50), "ms", Limit::None, ironic(peer));
    }
    let (_, elapsed) = on_connections(endpoint, IRONIC_CONNECTIONS, async |first, mut connection| {
        for number in (first..4 * IRONIC_HOSTS).step_by(IRONIC_CONNECTIONS as usize) {
            connection.get(&format!("{HOSTS}/{}", hosts::name(number % IRONIC_HOSTS))).await?;
        }
        Ok(())
    })
    .await?;
    figures.row("GETs, 8 connections", rate(4 * IRONIC_HOSTS, elapsed), "/s", Limit::None, ironic(IRONIC_GETS));
    let (memory, _) = appliance.memory_mib()?;
    figures.row("memory with 1,000 hosts", memory, "MiB", Limit::None, ironic(IRONIC_MEMORY_MIB));
    Ok(())
}

/// All hosts with their status, and their HardwareData.
async fn enrol_the_rest(endpoint: &Endpoint, load: &Load, figures: &mut Figures) -> Result<()> {
    let (all, count) = (load.hosts, load.connections);
    let enrol = |first, connection| enrol(connection, (first..all).step_by(count as usize));
    let (sizes, elapsed) = on_connections(endpoint, count, enrol).await?;
    let least = sizes.into_iter().min().unwrap_or_default();
    ensure!(least >= hosts::BYTES_MIN, "an object has {least} bytes only");
    figures.note(&format!("{all} hosts with HardwareData; the smallest of these objects has {least} bytes of JSON"));
    let what = format!("hosts made, with status and HardwareData, {count} connections");
    figures.row(&what, rate(all, elapsed), "/s", Limit::None, None);
    Ok(())
}

/// Makes what is missing of some hosts; tells the size of the smallest object.
async fn enrol(mut connection: Connection, numbers: impl Iterator<Item = u32>) -> Result<usize> {
    let mut least = usize::MAX;
    for number in numbers {
        let path = format!("{HOSTS}/{}", hosts::name(number));
        if number >= IRONIC_HOSTS {
            connection.ask(Method::POST, HOSTS, hosts::host(number).to_string().into()).await?;
        }
        let host = set_status(&mut connection, &path, hosts::status(number)).await?;
        let data = hosts::hardware_data(number).to_string();
        let data = connection.ask(Method::POST, HARDWARE, data.into()).await?;
        least = least.min(host.len()).min(data.len());
    }
    Ok(least)
}

/// Read, change, write; and again where the appliance itself wrote in between.
async fn set_status(connection: &mut Connection, path: &str, status: Value) -> Result<Bytes> {
    loop {
        let read = connection.get(path).await?;
        let mut host: Value = serde_json::from_slice(&read).context("reading a host")?;
        host["status"] = status.clone();
        let (code, body) = connection.open(Method::PUT, &format!("{path}/status"), host.to_string().into()).await?;
        let answer = body.collect().await.context("reading the answer")?.to_bytes();
        if code != StatusCode::CONFLICT {
            ensure!(code.is_success(), "writing the status of {path}: {code}: {}", String::from_utf8_lossy(&answer));
            return Ok(answer);
        }
    }
}

/// The token of the next page, and the list's revision: the last of a list, after its items.
fn list_metadata(list: &[u8]) -> Result<(Option<String>, String)> {
    let tail = &list[list.len().saturating_sub(1024)..];
    let field = |name: &str| -> Option<String> {
        let name = format!("\"{name}\":\"");
        let start = tail.windows(name.len()).rposition(|window| window == name.as_bytes())? + name.len();
        let length = tail[start..].iter().position(|byte| *byte == b'"')?;
        Some(String::from_utf8_lossy(&tail[start..start + length]).into_owned())
    };
    Ok((
        field("continue").filter(|token| !token.is_empty()),
        field("resourceVersion").context("a list without a revision")?,
    ))
}

/// Pages of 500 through all hosts, several times.
async fn pages(endpoint: &Endpoint, load: &Load, figures: &mut Figures) -> Result<()> {
    let mut connection = endpoint.connect().await?;
    let (mut latencies, mut bytes, begun) = (Latencies::default(), 0, Instant::now());
    while begun.elapsed() < load.duration {
        let mut token: Option<String> = None;
        loop {
            let path = match &token {
                Some(token) => format!("{HOSTS}?limit=500&continue={token}"),
                None => format!("{HOSTS}?limit=500"),
            };
            let asked = Instant::now();
            let page = connection.get(&path).await?;
            // The last page may be a short one.
            token = list_metadata(&page)?.0;
            if token.is_some() {
                latencies.push(asked.elapsed());
                bytes = page.len();
            } else {
                break;
            }
        }
    }
    figures.note(&format!("{} pages of 500 hosts, the last with {bytes} bytes", latencies.count()));
    let (median, tail) = (latencies.percentile_ms(50), latencies.percentile_ms(99));
    figures.row("page of 500 hosts without gzip, median", median, "ms", Limit::TimeAtMost(10.0), None);
    figures.row("page of 500 hosts without gzip, p99", tail, "ms", Limit::None, None);
    Ok(())
}

/// A whole list of everything, without a limit.
async fn whole_list(appliance: &Appliance, load: &Load, figures: &mut Figures) -> Result<()> {
    let mut connection = appliance.endpoint.connect().await?;
    let begun = Instant::now();
    let (status, mut body) = connection.open(Method::GET, HOSTS, Bytes::new()).await?;
    ensure!(status.is_success(), "listing everything: {status}");
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.context("reading the list")?.data_ref().map_or(0, Bytes::len);
    }
    figures.note(&format!("the list of {} hosts without a limit has {bytes} bytes", load.hosts));
    figures.row("list of all hosts without a limit", begun.elapsed().as_secs_f64() * 1e3, "ms", Limit::None, None);
    Ok(())
}

/// A host that one writer changes again and again, as controllers do: what it got last, with another status.
struct Changing {
    path: String,
    body: Bytes,
}

impl Changing {
    async fn read(connection: &mut Connection, number: u32) -> Result<Self> {
        let path = format!("{HOSTS}/{}", hosts::name(number));
        let body = connection.get(&path).await?;
        Ok(Self { path: format!("{path}/status"), body })
    }

    /// Tells the revision.
    async fn change(&mut self, connection: &mut Connection, moment: u64) -> Result<u64> {
        const FIELD: &[u8] = b"\"lastUpdated\":\"";
        let at = self.body.windows(FIELD.len()).position(|window| window == FIELD).context("no lastUpdated")?;
        let (at, moment) = (at + FIELD.len(), hosts::moment(moment));
        let mut body = self.body.to_vec();
        body[at..at + moment.len()].copy_from_slice(moment.as_bytes());
        self.body = connection.ask(Method::PUT, &self.path, body.into()).await?;
        revision(&self.body)
    }
}

/// The revision of an object, or of the one in a line of a watch.
fn revision(object: &[u8]) -> Result<u64> {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let at = object.windows(FIELD.len()).position(|window| window == FIELD).context("no resourceVersion")?;
    let digits = object[at + FIELD.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// As many updates as go, each connection with hosts of its own.
async fn updates(appliance: &Appliance, load: &Load, figures: &mut Figures) -> Result<()> {
    let (hosts, count, duration) = (load.hosts, load.connections, load.duration);
    let moment = Arc::new(AtomicU64::new(1_000_000));
    let before = appliance.processor_seconds()?;
    let (done, elapsed) = on_connections(&appliance.endpoint, count, |number, mut connection| {
        let moment = Arc::clone(&moment);
        async move {
            let (mut latencies, begun) = (Latencies::default(), Instant::now());
            // Hosts in turn: no two of them are the same, and none is in anybody's cache for long.
            for host in (number..hosts).step_by(count as usize).cycle() {
                if begun.elapsed() >= duration {
                    break;
                }
                let mut host = Changing::read(&mut connection, host).await?;
                for _ in 0..16 {
                    let asked = Instant::now();
                    host.change(&mut connection, moment.fetch_add(1, Ordering::Relaxed)).await?;
                    latencies.push(asked.elapsed());
                }
            }
            Ok(latencies)
        }
    })
    .await?;
    let mut latencies = Latencies::default();
    done.into_iter().for_each(|one| latencies.append(one));
    let updates = f64::from(u32::try_from(latencies.count()).unwrap_or(u32::MAX));
    let what = format!("updates of hosts through HTTPS, {count} connections");
    figures.row(&what, rate(updates, elapsed), "/s", Limit::RateAtLeast(1_000.0), None);
    let (median, tail) = (latencies.percentile_ms(50), latencies.percentile_ms(99));
    figures.row("such an update, median", median, "ms", Limit::None, None);
    figures.row("such an update, p99", tail, "ms", Limit::None, None);
    let each_ms = (appliance.processor_seconds()? - before) * 1e3 / updates;
    figures.row("processor time of one update", each_ms, "ms", Limit::None, None);
    Ok(())
}

/// When a watcher got which revision.
type Seen = Vec<(u64, Instant)>;

/// Many watch all hosts while some hundred a second change.
async fn watched(appliance: &Appliance, load: &Load, figures: &mut Figures) -> Result<()> {
    let endpoint = &appliance.endpoint;
    let mut connection = endpoint.connect().await?;
    let from = list_metadata(&connection.get(&format!("{HOSTS}?limit=1")).await?)?.1;
    let path = format!("{HOSTS}?watch=1&resourceVersion={from}");
    let (ready, over) = (Arc::new(Barrier::new(load.watchers as usize + 1)), Arc::new(AtomicBool::new(false)));
    let mut watchers = JoinSet::new();
    for _ in 0..load.watchers {
        let mut connection = endpoint.connect().await?;
        let (path, ready, over) = (path.clone(), Arc::clone(&ready), Arc::clone(&over));
        watchers.spawn(async move {
            let (status, body) = connection.open(Method::GET, &path, Bytes::new()).await?;
            ensure!(status.is_success(), "watching: {status}");
            ready.wait().await;
            watch(body, &over).await
        });
    }
    ready.wait().await;
    let sent = write_steadily(endpoint, load).await?;
    // What is on its way arrives in that time, or is late beyond any limit.
    tokio::time::sleep(Duration::from_secs(1)).await;
    over.store(true, Ordering::Relaxed);
    let mut end = endpoint.connect().await?;
    Changing::read(&mut end, 0).await?.change(&mut end, 77_000_000).await?;
    let mut latencies = Latencies::default();
    while let Some(seen) = watchers.join_next().await {
        let seen: HashMap<u64, Instant> = seen.context("a watcher")??.into_iter().collect();
        for (revision, sent) in &sent {
            let Some(got) = seen.get(revision) else { bail!("a watcher was not told of revision {revision}") };
            latencies.push(got.duration_since(*sent));
        }
    }
    let what = format!("event of a write, {} watchers, {WATCHED_WRITES} writes/s", load.watchers);
    let (median, tail) = (latencies.percentile_ms(50), latencies.percentile_ms(99));
    figures.row(&format!("{what}, median"), median, "ms", Limit::None, None);
    figures.row(&format!("{what}, p99"), tail, "ms", Limit::TimeAtMost(50.0), None);
    let count = f64::from(u32::try_from(sent.len()).unwrap_or(u32::MAX));
    figures.row("writes beside them", rate(count, load.duration), "/s", Limit::None, None);
    Ok(())
}

/// Notes when each event was there whole. Ends with the first one after it is over.
async fn watch(mut body: Incoming, over: &AtomicBool) -> Result<Seen> {
    let (mut seen, mut line) = (Seen::new(), Vec::new());
    loop {
        let frame = body.frame().await.context("a watch ended by itself")?.context("reading a watch")?;
        let Ok(mut data) = frame.into_data() else { continue };
        let now = Instant::now();
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&data.split_to(end + 1));
            seen.push((revision(&line)?, now));
            line.clear();
        }
        line.extend_from_slice(&data);
        if over.load(Ordering::Relaxed) && line.is_empty() {
            return Ok(seen);
        }
    }
}

/// Writes at a rate; tells for each revision when its request was sent.
async fn write_steadily(endpoint: &Endpoint, load: &Load) -> Result<Seen> {
    let (sent, duration) = (Arc::new(Mutex::new(Seen::new())), load.duration);
    let pause = Duration::from_secs(1) * WATCHED_WRITERS / WATCHED_WRITES;
    on_connections(endpoint, WATCHED_WRITERS, |number, mut connection| {
        let sent = Arc::clone(&sent);
        async move {
            let mut host = Changing::read(&mut connection, number).await?;
            let begun = Instant::now();
            // A late write makes the next ones come faster, and the rate stays what it is said to be.
            let mut ticks = tokio::time::interval(pause);
            for moment in 0.. {
                ticks.tick().await;
                if begun.elapsed() >= duration {
                    return Ok(());
                }
                let asked = Instant::now();
                let revision = host.change(&mut connection, u64::from(number) * 1_000_000 + moment).await?;
                sent.lock().unwrap_or_else(PoisonError::into_inner).push((revision, asked));
            }
            Ok(())
        }
    })
    .await?;
    Ok(std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner)))
}
