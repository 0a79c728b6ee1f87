//! `firesteel serve`: builds every part, starts them, and ends when the first one does.
//!
//! ```text
//! settings ─► data folder ─► store, kinds ─► clock ─► Provisioning ─► keys, certificates ─► listeners
//!
//!   machines (not with --api-only)           always
//!   DHCP ─┐
//!   TFTP ─┤──► control (queue, steps, effects) ◄──► core (objects) ◄── API
//!   HTTP ─┤                                              ▲
//!  agents ┘                                              └── upkeep
//! ```
//!
//! All tasks live in one set: the first that fails, or panics, ends the process, and whoever
//! supervises it starts it again; every part goes on from what is on disk.
//!
//! What is stored keeps no process from starting: a network that cannot be served ([`network_check`]) leaves the API,
//! until it can be, and the process begins again with machines ([`restart`]). Damage does not end the process either,
//! and starting it again would not help: a database that cannot be opened leaves an API that says so
//! ([`unopened_store`]), and what machines are served by and cannot be read leaves the API alone ([`network_problem`]).

pub mod api;
mod api_only;
pub mod build_time;
pub mod controllers;
pub mod data_dir;
pub mod dhcp_clients;
pub mod kinds;
mod log;
pub mod machines;
pub mod memory;
pub mod network;
mod network_check;
mod network_problem;
mod network_status;
mod no_controller;
pub mod pki;
mod pods;
pub mod renewal;
mod reserved;
mod restart;
mod room_keeper;
pub mod sealing;
pub mod settings;
mod store_check;
mod store_upkeep;
pub mod streams;
mod unopened_store;

use std::{net::IpAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use firesteel_control::receipts::file::public_pem;
use firesteel_kube::{Core, Status};
use firesteel_runtime::{StoreClock, Tokio, log_doubt};
use firesteel_store::{Store, StoreRoom};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

use crate::{
    audit::Audit,
    backup::{Backups, serve::log_lineage},
    http::{admin_paths::FiresteelPaths, operators::Operators},
    metrics::Metrics,
    outbound::OutboundRuntime,
    privacy,
};
use api::ApiListener;
use data_dir::DataDir;
use machines::MachineServices;
use network_problem::NetworkProblem;
use pki::ServerNames;
use restart::RestartRequest;
use sealing::KeyFile;
use settings::Settings;
use streams::FollowedStreams;

/// How long we listen for another DHCP server before we become one.
const LISTEN_FOR_OTHERS: Duration = Duration::from_secs(3);

/// Runs the appliance until a signal, or until a part of it fails.
///
/// # Errors
/// What kept a part from starting, or ended it.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    privacy::keep_memory()?;
    privacy::keep_files();
    let log = log::start(&settings)?;
    // Libraries that make their own TLS clients ask for the process's provider.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed already");
    }
    let data = DataDir::open(&settings.data)?;
    let room = room_keeper::open(&data.path(""));
    let data = data.with_room(Arc::clone(&room));
    let database = data.path("resources.db");
    let (key_file, store) = match open_database(&settings, &database, &room) {
        Ok(opened) => opened,
        Err(error) => match unopened_store::unopened_reason(&error, &data.path("")) {
            Some(why) => return unopened_store::serve(&settings, &data, why).await,
            None => return Err(error),
        },
    };
    match serve(&settings, &data, room, (key_file, store)).await {
        Err(error) if error.is::<RestartRequest>() => {
            // With its last lines.
            drop(log);
            Err(restart::in_its_place())
        }
        ended => ended,
    }
}

/// What a database that was opened can serve.
async fn serve(
    settings: &Settings,
    data: &DataDir,
    room: Arc<StoreRoom>,
    (key_file, store): (KeyFile, Store),
) -> anyhow::Result<()> {
    let core = open_core(store).await?;
    room_keeper::halt_where_nothing_is_stored(&core).await?;
    let clock = StoreClock::new(&core, Arc::new(Tokio::new()), build_time::built_at());
    // Before anything else: the next start is to know that this clock was in use.
    clock.record().await;
    let key_file = Arc::new(key_file);
    let backups = Backups::new(core.store().clone(), Arc::clone(&key_file), data.path(""));
    let receipt_key = public_pem(&data.receipt_key()?);
    let audit = Audit::open(&data.path("audit"))?;
    let metrics = Metrics::open(core.store(), &data.path(""), &audit, settings.metrics_token.as_deref())?;
    metrics.with_clock(&clock);
    let own = FiresteelPaths::new(core.store(), Arc::clone(&key_file), audit, backups, &receipt_key)
        .with_clock(clock.clone());
    let mut tasks = JoinSet::new();
    // Its threads live until the end.
    let _way_out = if settings.api_only {
        serve_alone(&mut tasks, settings, data, (&core, &clock), (own, metrics), None).await?
    } else {
        let parts = (own.clone(), metrics.clone());
        match serve_machines(&mut tasks, settings, data, (&core, &clock), parts).await {
            Ok(way_out) => way_out,
            Err(error) => {
                let Some(withheld) = network_problem::network_problem(&error) else { return Err(error) };
                tracing::error!("no machine is served: {withheld}");
                if matches!(withheld, NetworkProblem::Unservable(_)) {
                    tasks.spawn(network_check::wait(core.clone(), settings.clone()));
                    tasks.spawn(network_status::write_network_status(core.clone(), settings.clone(), None));
                }
                let why = Some(withheld.to_string());
                serve_alone(&mut tasks, settings, data, (&core, &clock), (own, metrics), why).await?
            }
        }
    };
    store_upkeep::spawn(&mut tasks, &core, key_file);
    room_keeper::spawn(&mut tasks, &core, room);
    until_signal(tasks).await
}

/// The API, and nothing that a machine could reach; `why`, where that was not asked for.
async fn serve_alone(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    settings: &Settings,
    data: &DataDir,
    (core, clock): (&Core, &StoreClock),
    (own, metrics): (FiresteelPaths, Metrics),
    why: Option<String>,
) -> anyhow::Result<OutboundRuntime> {
    let names = ServerNames { addresses: Vec::new(), names: Vec::new() };
    let api = ApiListener::open(data, core, settings.api, names, settings.ca_years).await?;
    let address = api.address()?;
    api.spawn(tasks, core, own, Operators::default(), &metrics)?;
    tasks.spawn(api_only::mark_hosts_not_ready(core.clone(), why));
    tasks.spawn(follow_clock(clock.clone()));
    // Without machines, too: it may be where images are got for bundles.
    let way_out = OutboundRuntime::open(&settings.outward, vec![address])?;
    FollowedStreams::open(data, settings, core, &way_out)?.spawn(tasks);
    let kubeconfig = data.path("admin.kubeconfig");
    tracing::info!(api = %address, kubeconfig = %kubeconfig.display(), "Firesteel serves its API, and no machine");
    Ok(way_out)
}

/// Everything.
async fn serve_machines(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    settings: &Settings,
    data: &DataDir,
    (core, clock): (&Core, &StoreClock),
    (own, metrics): (FiresteelPaths, Metrics),
) -> anyhow::Result<OutboundRuntime> {
    let network = network::open(core, settings).await?;
    let mut names = ServerNames { addresses: vec![IpAddr::V4(network.address)], names: Vec::new() };
    match settings.config_host.as_deref().map(|host| (host, machines::config_address(host))) {
        Some((_, Some(address))) => names.addresses.push(address),
        Some((name, None)) => names.names.push(name.to_ascii_lowercase()),
        None => {}
    }
    let api = ApiListener::open(data, core, settings.api, names, settings.ca_years).await?;
    let address = api.address()?;
    let way_out = OutboundRuntime::open(&settings.outward, machines::own_listeners(&network, settings, address))?;
    let streams = FollowedStreams::open(data, settings, core, &way_out)?;
    let machines =
        MachineServices::open(&network, settings, data, (core, clock), (&api.pki, &streams, &way_out)).await?;
    let own = own.with_control(machines.control().clone());
    let operators = Operators::new(Some(IpAddr::V4(network.address)));
    api.with_logs(machines.logs()).spawn(tasks, core, own, operators, &metrics)?;
    streams.with_control(machines.control()).spawn(tasks);
    machines.spawn(tasks, core, &metrics);
    tasks.spawn(network_status::write_network_status(core.clone(), settings.clone(), Some(network.clone())));
    for part in memory::PARTS {
        tracing::debug!(part = part.what, kib_max = part.bytes >> 10, "memory");
    }
    tracing::info!(
        address = %network.address, interface = %network.interface, api = %address,
        memory_mib_max = memory::BOUND_BYTES >> 20,
        "Firesteel serves; `firesteel get hosts` shows what it knows"
    );
    Ok(way_out)
}

/// Where no control loop does it.
async fn follow_clock(clock: StoreClock) -> anyhow::Result<()> {
    let mut doubt = None;
    loop {
        doubt = clock.changed(doubt).await;
        log_doubt(doubt);
    }
}

fn open_database(settings: &Settings, database: &Path, room: &Arc<StoreRoom>) -> anyhow::Result<(KeyFile, Store)> {
    let key_file = KeyFile::open(&settings.secrets_key, database).context("opening the key of the secrets")?;
    let store = key_file.open_store_in(database, settings.durability, Some(Arc::clone(room)))?;
    Ok((key_file, store))
}

async fn open_core(store: Store) -> anyhow::Result<Core> {
    log_lineage(store.lineage());
    let core = Core::new(store, kinds::registry());
    unless(core.ensure_namespace("default").await, Status::is_unreadable, "looking for the namespace default")?;
    // They only show what is served; the next start, or the next pass, makes up for it.
    unless(core.publish_kinds().await, Status::is_unstorable, "publishing the kinds that are served")?;
    Ok(core)
}

/// What hinders nobody does not keep the appliance from starting: whoever asks for what is damaged is told.
fn unless(done: Result<(), Status>, is_no_hindrance: fn(&Status) -> bool, what: &str) -> anyhow::Result<()> {
    match done {
        Err(status) if is_no_hindrance(&status) => {
            tracing::error!(error = %status.message, "{what}");
            Ok(())
        }
        done => done.map_err(|status| anyhow::anyhow!("{what}: {}", status.message)),
    }
}

async fn until_signal(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = tasks.join_next() => match ended {
            Some(Ok(Ok(()))) | None => anyhow::bail!("a part of the appliance ended by itself"),
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(error)) => return Err(error).context("a part of the appliance panicked"),
        },
    }
    tracing::info!("stopping: every host goes on from where it is at the next start");
    Ok(())
}
