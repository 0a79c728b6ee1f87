//! Measures the API at scale, through a real `firesteel serve --api-only` over TLS, and the store beside
//! Debian's etcd:
//!
//! ```text
//!   hosts enrolled ─► pages ─► updates at many connections ─► watchers under writes ─► memory
//!   store, etcd, store, etcd, …: commits with one writer and with many, and how soon a watch hears of them
//! ```
//!
//! Clients and server share the machine, and the two stores share the disk. Each figure is printed with its
//! limit and with a peer's figure, and one that is not within its limit makes the program fail. Needs etcd ([`qemu/lab bench api`] fetches it);
//! without it its column is left out, and it is said.

mod api;
mod appliance;
mod client;
mod etcd;
mod figures;
mod hosts;
mod machine_speed;
mod stores;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;

use appliance::Appliance;
use figures::{Figures, machine};
use machine_speed::MachineSpeed;

/// Measure the API with many hosts, and the store beside etcd
#[derive(Debug, Parser)]
struct Arguments {
    /// Hosts, each with its HardwareData
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000))]
    hosts: u32,
    /// Clients that watch all of them
    #[arg(long, default_value_t = 100)]
    watchers: u32,
    /// Connections that write
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// How long each measurement lasts
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Runs of each store, one after the other; medians are printed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// The program to measure; default: `firesteel` beside this one
    #[arg(long, value_name = "FILE")]
    firesteel: Option<PathBuf>,
    /// Where databases are put, on the disk that is to be measured; default: the cache folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only the stores, or only the API
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Api,
    Stores,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        bail!("another crypto provider is installed already");
    }
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => cache_dir()?,
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&dir).context("making a folder for databases")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let speed = MachineSpeed::measure();
    let mut figures = Figures::new(speed.slowness());
    figures.note(&format!("before: {}", machine()));
    figures.note(&speed.to_string());
    runtime.block_on(async {
        if arguments.only != Some(Part::Stores) {
            measure_api(&arguments, &folder, &mut figures).await?;
        }
        if arguments.only != Some(Part::Api) {
            let duration = Duration::from_secs(arguments.seconds);
            stores::measure(folder.path(), arguments.rounds, duration, &mut figures).await?;
        }
        anyhow::Ok(())
    })?;
    figures.note(&format!("after: {}", machine()));
    figures.print();
    let missed = figures.missed();
    ensure!(missed.is_empty(), "not within their limits: {}", missed.join("; "));
    Ok(())
}

async fn measure_api(arguments: &Arguments, folder: &tempfile::TempDir, figures: &mut Figures) -> Result<()> {
    let program = match &arguments.firesteel {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("finding this program")?.with_file_name("firesteel"),
    };
    let appliance = Appliance::start(&program, folder.path()).await?;
    let load = api::Load {
        hosts: arguments.hosts,
        watchers: arguments.watchers,
        connections: arguments.connections,
        duration: Duration::from_secs(arguments.seconds),
    };
    api::measure(&appliance, &load, figures).await.with_context(|| appliance.last_words())
}

fn cache_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("FIRESTEEL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("firesteel")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/firesteel")))
        .context("finding the cache folder: set FIRESTEEL_CACHE or HOME, or give --dir")?;
    Ok(cache.join("api-bench"))
}
