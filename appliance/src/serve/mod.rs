//! `firesteel serve`: builds every part, starts them, and ends when the first one does.
//!
//! ```text
//! settings ─► data folder ─► store, kinds ─► clock ─► keys, certificates ─► API's listener ─► answers
//!
//!   machines (not with --api-only)                                      always
//!   Provisioning ─► NetworkController ─► services: address, HTTP, TFTP, DHCP
//!                                            │
//!                          control (queue, steps, effects) ◄──► core (objects) ◄── API
//!                                                                   ▲
//!                                                                   └── upkeep
//! ```
//!
//! A first start that does not come as far as to answer leaves nothing in its data folder ([`first_start`]).
//!
//! All tasks live in one set: the first that fails, or panics, ends the process, and its supervisor starts it again;
//! every part goes on from what is on disk.
//!
//! The services of the network start and stop with the Provisioning object, and a service that fails ends nothing else
//! ([`services`]). Bad data does not end the process, since another start would not help. If the database cannot be
//! opened, an API says so ([`unopened_store`]); if the Provisioning object cannot be read, the ClusterOperator
//! `baremetal` says so.

pub mod api;
mod api_only;
pub mod build_time;
pub mod controllers;
pub mod data_dir;
pub mod data_folder;
pub mod dhcp_clients;
mod first_start;
pub mod kinds;
mod log;
pub mod machines;
pub mod memory;
mod no_controller;
pub mod pki;
mod pods;
mod provisioning_file;
pub mod recent_log;
pub mod renewal;
mod reserved;
mod room_keeper;
pub mod sealing;
mod sensor_reader;
mod service_parts;
mod services;
pub mod settings;
pub mod start_decision;
mod store_check;
mod store_upkeep;
pub mod streams;
mod unopened_store;

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use firesteel_control::receipts::file::public_pem;
use firesteel_kube::{Core, Status};
use firesteel_network::{NetworkController, NetworkControllerConfig, NetworkSettings};
use firesteel_runtime::{StoreClock, Tokio, log_doubt};
use firesteel_store::{Store, StoreRoom};
use futures_util::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::audit::Audit;
use crate::backup::Backups;
use crate::backup::serve::log_lineage;
use crate::http::admin_paths::FiresteelPaths;
use crate::http::admin_paths::process_report::ProcessReport;
use crate::http::operators::Operators;
use crate::metrics::Metrics;
use crate::outbound::OutboundRuntime;
use crate::privacy;
use api::ApiListener;
use data_dir::DataDir;
use first_start::FirstStart;
use machines::PartsInput;
use pki::ServerNames;
use recent_log::RecentLog;
use sealing::KeyFile;
use service_parts::ServiceParts;
use services::{ApplianceServices, ServeSurroundings};
use settings::Settings;
use start_decision::DATABASE;
use streams::FollowedStreams;

/// Runs the appliance until a signal, or until a part of it fails.
///
/// # Errors
/// The failure that kept a part from starting, or ended it.
pub fn run(settings: Settings) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        privacy::keep_memory()?;
        privacy::keep_files();
        let log = log::start(&settings)?;
        // Libraries that make their own TLS clients ask for the process's provider.
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider was installed already");
        }
        let first_start = FirstStart::begin(&settings)?;
        let serving = open_and_serve(&settings, first_start.as_ref(), &log.recent);
        let ended = match &first_start {
            Some(first) => first.run(serving).await,
            None => serving.await,
        };
        match ended {
            Err(error) => Err(match first_start {
                Some(first) => first.fail(error),
                None => error,
            }),
            Ok(()) => Ok(()),
        }
    })
}

/// Opens the data folder, and serves what it allows.
async fn open_and_serve(
    settings: &Settings,
    first_start: Option<&FirstStart>,
    recent_log: &RecentLog,
) -> anyhow::Result<()> {
    let data = DataDir::open(&settings.data)?;
    let room = room_keeper::open(&data.path(""));
    let data = data.with_room(Arc::clone(&room));
    let database = data.path(DATABASE);
    let (key_file, store) = match open_database(settings, &database, &room) {
        Ok(opened) => opened,
        Err(error) => match unopened_store::unopened_reason(&error, &data.path("")) {
            Some(why) if first_start.is_none() => return unopened_store::serve(settings, &data, why).await,
            Some(_) | None => return Err(error),
        },
    };
    let folder = ServedFolder { data: &data, room, first_start, recent_log };
    serve(settings, folder, key_file, store).await
}

/// The open data folder.
struct ServedFolder<'a> {
    data: &'a DataDir,
    room: Arc<StoreRoom>,
    /// The first start in this folder, if this is one.
    first_start: Option<&'a FirstStart>,
    recent_log: &'a RecentLog,
}

/// Serves what a database that was opened allows: everything, or the API alone.
async fn serve(settings: &Settings, folder: ServedFolder<'_>, key_file: KeyFile, store: Store) -> anyhow::Result<()> {
    let ServedFolder { data, room, first_start, recent_log } = folder;
    let core = open_core(store).await?;
    room_keeper::halt_where_nothing_is_stored(&core).await?;
    let clock = StoreClock::new(&core, Arc::new(Tokio::new()), build_time::built_at());
    // This comes first: the next start must know that this clock was in use.
    clock.record().await;
    let key_file = Arc::new(key_file);
    let backups = Backups::new(core.store().clone(), Arc::clone(&key_file), data.path(""));
    let receipt_key = public_pem(&data.receipt_key()?);
    let audit = Audit::open(&data.path("audit"))?;
    let metrics = Metrics::open(core.store(), &data.path(""), &audit, settings.metrics_token.as_deref())?;
    metrics.with_clock(&clock);
    let own = FiresteelPaths::new(core.store(), Arc::clone(&key_file), audit, backups, &receipt_key)
        .with_clock(clock.clone())
        .with_process(ProcessReport::new(settings, recent_log)?);
    let context = ServeContext { settings, data, first_start, core, clock, own, metrics };
    let mut tasks = JoinSet::new();
    // The threads of this runtime live until the end.
    let _way_out = if settings.api_only {
        context.serve_alone(&mut tasks).await?
    } else {
        context.serve_machines(&mut tasks).await?
    };
    store_upkeep::spawn(&mut tasks, &context.core, key_file);
    room_keeper::spawn(&mut tasks, &context.core, room);
    until_signal(tasks).await
}

/// What every part that serves is built from.
struct ServeContext<'a> {
    settings: &'a Settings,
    data: &'a DataDir,
    first_start: Option<&'a FirstStart>,
    core: Core,
    clock: StoreClock,
    own: FiresteelPaths,
    metrics: Metrics,
}

impl ServeContext<'_> {
    /// Ends a first start, once nothing is left that can fail: what a client is answered must stay.
    fn end_first_start(&self) -> anyhow::Result<()> {
        self.first_start.map_or(Ok(()), FirstStart::finish)
    }

    /// Serves the API, and nothing that a machine could reach.
    async fn serve_alone(&self, tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<OutboundRuntime> {
        let Self { settings, data, core, clock, own, metrics, .. } = self;
        let names = ServerNames { addresses: Vec::new(), names: Vec::new() };
        let api = ApiListener::open(data, core, settings.api, names, settings.ca_years).await?;
        let address = api.address()?;
        let way_out = OutboundRuntime::open(&settings.outward, vec![address])?;
        let streams = FollowedStreams::open(data, settings, core, &way_out)?;
        self.end_first_start()?;
        api.spawn(tasks, core, own.clone(), Operators::default(), metrics)?;
        tasks.spawn(api_only::mark_hosts_not_ready(core.clone()));
        let network = api_only::network_controller(core, Arc::new(way_out.runtime()), address.ip())?;
        tasks.spawn(async move { network.run().await.map_err(anyhow::Error::from) });
        tasks.spawn(follow_clock(clock.clone()));
        // Streams are followed without machines too: images for bundles may be fetched here.
        streams.spawn(tasks);
        let kubeconfig = data.path("admin.kubeconfig");
        tracing::info!(api = %address, kubeconfig = %kubeconfig.display(), "Firesteel serves its API, and no machine");
        Ok(way_out)
    }

    /// Serves the API, the controllers of hosts, and the network that the Provisioning object asks for.
    async fn serve_machines(&self, tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<OutboundRuntime> {
        let Self { settings, data, core, own, metrics, .. } = self;
        provisioning_file::store_first(core, settings).await?;
        let mut names = ServerNames { addresses: Vec::new(), names: Vec::new() };
        match settings.config_host.as_deref().map(|host| (host, service_parts::config_address(host))) {
            Some((_, Some(address))) => names.addresses.push(address),
            Some((name, None)) => names.names.push(name.to_ascii_lowercase()),
            None => {}
        }
        let api = ApiListener::open(data, core, settings.api, names, settings.ca_years).await?;
        let address = api.address()?;
        let way_out = OutboundRuntime::open(&settings.outward, vec![address])?;
        let streams = FollowedStreams::open(data, settings, core, &way_out)?;
        let operators = Operators::default();
        let input = PartsInput {
            context: self,
            pki: &api.pki,
            streams: &streams,
            way_out: &way_out,
            operators: operators.clone(),
            api: address,
        };
        let parts = Arc::new(machines::open_parts(input)?);
        let control = parts.control().clone();
        let network = self.network_controller(&parts, &way_out)?;
        self.end_first_start()?;
        let own = own.clone().with_control(control.clone());
        api.with_logs(Arc::new(control.logs())).spawn(tasks, core, own, operators, metrics)?;
        streams.with_control(&control).spawn(tasks);
        metrics.with_controllers(&parts.controllers, parts.images.store().clone());
        let controllers = parts.controllers.clone();
        tasks.spawn(async move { controllers.run().await.map_err(anyhow::Error::from) });
        tasks.spawn(async move { network.run().await.map_err(anyhow::Error::from) });
        for part in memory::PARTS {
            tracing::debug!(part = part.what, kib_max = part.bytes >> 10, "memory");
        }
        tracing::info!(
            api = %address, memory_mib_max = memory::BOUND_BYTES >> 20,
            "Firesteel serves; `firesteel get hosts` shows what it knows"
        );
        Ok(way_out)
    }

    fn network_controller(
        &self,
        parts: &Arc<ServiceParts>,
        way_out: &OutboundRuntime,
    ) -> anyhow::Result<NetworkController> {
        let Self { settings, core, .. } = self;
        Ok(NetworkController::new(NetworkControllerConfig {
            core: core.clone(),
            runtime: Arc::new(way_out.runtime()),
            services: Arc::new(ApplianceServices::new(Arc::clone(parts))),
            surroundings: Arc::new(ServeSurroundings::new(parts.control().clone())),
            settings: NetworkSettings {
                interface: settings.interface.clone(),
                api_address: settings.api.ip(),
                has_boot_files: settings.boot_files.is_some(),
            },
            is_enabled: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })?)
    }
}

/// Follows the clock in place of the control loop.
async fn follow_clock(clock: StoreClock) -> anyhow::Result<()> {
    let mut doubt = None;
    loop {
        doubt = clock.changed(doubt).await;
        log_doubt(doubt);
    }
}

fn open_database(settings: &Settings, database: &Path, room: &Arc<StoreRoom>) -> anyhow::Result<(KeyFile, Store)> {
    let key_file = KeyFile::open(&settings.secrets_key, database).context("could not open the key of the secrets")?;
    let store = key_file.open_store_in(database, settings.durability, Some(Arc::clone(room)))?;
    Ok((key_file, store))
}

async fn open_core(store: Store) -> anyhow::Result<Core> {
    log_lineage(store.lineage());
    let core = Core::new(store, kinds::registry());
    unless(core.ensure_namespace("default").await, Status::is_unreadable, "could not look for the namespace default")?;
    // They only show what is served; the next start, or the next pass, publishes them.
    unless(core.publish_kinds().await, Status::is_unstorable, "could not publish the kinds that are served")?;
    Ok(core)
}

/// Logs an error that must not keep the appliance from starting: requests for the damaged object fail with it.
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
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = tasks.join_next() => match ended {
            Some(Ok(Ok(()))) | None => anyhow::bail!("a part of the appliance ended by itself"),
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(error)) => return Err(error).context("a part of the appliance panicked"),
        },
    }
    tracing::info!("the appliance stops: at the next start every host goes on from where it is");
    Ok(())
}
