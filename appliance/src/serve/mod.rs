//! `firesteel serve`: builds every part, starts them, and ends when the first one does.
//!
//! ```text
//! settings ─► data folder ─► store, kinds ─► clock ─► Provisioning ─► keys, certificates ─► listeners ─► answers
//!
//!   machines (not with --api-only)           always
//!   DHCP ─┐
//!   TFTP ─┤──► control (queue, steps, effects) ◄──► core (objects) ◄── API
//!   HTTP ─┤                                              ▲
//!  agents ┘                                              └── upkeep
//! ```
//!
//! A first start that does not come as far as to answer leaves nothing in its data folder ([`first_start`]).
//!
//! All tasks live in one set: the first that fails, or panics, ends the process, and its supervisor starts it again;
//! every part goes on from what is on disk.
//!
//! Bad data does not end the process, since another start would not help. While the network cannot be served
//! ([`network_check`]), the API runs alone; later the process starts again with machines ([`restart`]). If the database
//! cannot be opened, an API says so ([`unopened_store`]), and if data for serving machines cannot be read, the API runs
//! alone ([`network_problem`]).

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
pub mod start_decision;
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
use futures_util::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::audit::Audit;
use crate::backup::Backups;
use crate::backup::serve::log_lineage;
use crate::http::admin_paths::FiresteelPaths;
use crate::http::operators::Operators;
use crate::metrics::Metrics;
use crate::outbound::OutboundRuntime;
use crate::privacy;
use api::ApiListener;
use data_dir::DataDir;
use first_start::FirstStart;
use machines::MachineServices;
use network_problem::NetworkProblem;
use pki::ServerNames;
use restart::RestartRequest;
use sealing::KeyFile;
use settings::Settings;
use start_decision::DATABASE;
use streams::FollowedStreams;

/// How long we listen for another DHCP server before we become one.
const LISTEN_FOR_OTHERS: Duration = Duration::from_secs(3);

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
        let serving = open_and_serve(&settings, first_start.as_ref());
        let ended = match &first_start {
            Some(first) => first.run(serving).await,
            None => serving.await,
        };
        match ended {
            Err(error) if error.is::<RestartRequest>() => {
                // Dropping the guard writes the last lines.
                drop(log);
                Err(restart::in_its_place())
            }
            Err(error) => Err(match first_start {
                Some(first) => first.fail(error),
                None => error,
            }),
            Ok(()) => Ok(()),
        }
    })
}

/// Opens the data folder, and serves what it allows.
async fn open_and_serve(settings: &Settings, first_start: Option<&FirstStart>) -> anyhow::Result<()> {
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
    let folder = ServedFolder { data: &data, room, first_start };
    serve(settings, folder, key_file, store).await
}

/// The open data folder.
struct ServedFolder<'a> {
    data: &'a DataDir,
    room: Arc<StoreRoom>,
    /// The first start in this folder, if this is one.
    first_start: Option<&'a FirstStart>,
}

/// Serves what a database that was opened allows: everything, or the API alone.
async fn serve(settings: &Settings, folder: ServedFolder<'_>, key_file: KeyFile, store: Store) -> anyhow::Result<()> {
    let ServedFolder { data, room, first_start } = folder;
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
        .with_clock(clock.clone());
    let context = ServeContext { settings, data, first_start, core, clock, own, metrics };
    let mut tasks = JoinSet::new();
    // The threads of this runtime live until the end.
    let _way_out = if settings.api_only {
        context.serve_alone(&mut tasks, None).await?
    } else {
        match context.serve_machines(&mut tasks).await {
            Ok(way_out) => way_out,
            Err(error) => {
                let Some(withheld) = network_problem::network_problem(&error) else { return Err(error) };
                tracing::error!("no machine is served: {withheld}");
                if matches!(withheld, NetworkProblem::Unservable(_)) {
                    tasks.spawn(network_check::wait(context.core.clone(), settings.clone()));
                    let core = context.core.clone();
                    tasks.spawn(network_status::write_network_status(core, settings.clone(), None));
                }
                context.serve_alone(&mut tasks, Some(withheld.to_string())).await?
            }
        }
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

    /// Serves the API, and nothing that a machine could reach. `why` says what forced that, if `--api-only` did not.
    async fn serve_alone(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        why: Option<String>,
    ) -> anyhow::Result<OutboundRuntime> {
        let Self { settings, data, core, clock, own, metrics, .. } = self;
        let names = ServerNames { addresses: Vec::new(), names: Vec::new() };
        let api = ApiListener::open(data, core, settings.api, names, settings.ca_years).await?;
        let address = api.address()?;
        let way_out = OutboundRuntime::open(&settings.outward, vec![address])?;
        let streams = FollowedStreams::open(data, settings, core, &way_out)?;
        self.end_first_start()?;
        api.spawn(tasks, core, own.clone(), Operators::default(), metrics)?;
        tasks.spawn(api_only::mark_hosts_not_ready(core.clone(), why));
        tasks.spawn(follow_clock(clock.clone()));
        // Streams are followed without machines too: images for bundles may be fetched here.
        streams.spawn(tasks);
        let kubeconfig = data.path("admin.kubeconfig");
        tracing::info!(api = %address, kubeconfig = %kubeconfig.display(), "Firesteel serves its API, and no machine");
        Ok(way_out)
    }

    /// Serves the API and machines.
    async fn serve_machines(&self, tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<OutboundRuntime> {
        let Self { settings, data, core, own, metrics, .. } = self;
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
        let machines = MachineServices::open(self, &network, &api.pki, &streams, &way_out).await?;
        let own = own.clone().with_control(machines.control().clone());
        let operators = Operators::new(Some(IpAddr::V4(network.address)));
        self.end_first_start()?;
        api.with_logs(machines.logs()).spawn(tasks, core, own, operators, metrics)?;
        streams.with_control(machines.control()).spawn(tasks);
        machines.spawn(tasks, core, metrics);
        tasks.spawn(network_status::write_network_status(core.clone(), (*settings).clone(), Some(network.clone())));
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
