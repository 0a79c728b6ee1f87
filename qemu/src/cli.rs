//! The command line of the lab, and which command needs which preparation.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use firesteel_lab_image::{OsImageSystem, PackedFormat};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::all::AllBegun;
use crate::artefacts::{Artefacts, WantedImage};
use crate::attack::{self, AttackOptions};
use crate::bench_serve::{self, ServeOptions};
use crate::bmc::chassis::{self, ChassisOptions, PowerOptions};
use crate::demo::{self, DemoOptions};
use crate::lab::LabConfig;
use crate::lab_ending::{LabEnding, interrupted, unless_interrupted};
use crate::machine::Accel;
use crate::mutants::{self, MutantOptions};
use crate::progress::{print, print_status};
use crate::run_folder::RunFolder;
use crate::standing_lab::{self, UpOptions};
use crate::testing::{self, TestOptions, TestsPrepared};
use crate::tools::Tools;
use crate::{bench, console, probe, sandbox, suites};

/// Firesteel's lab: virtual machines that boot over a virtual network.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
struct LabCli {
    #[command(subcommand)]
    command: LabCommand,
    /// How machines are run; auto is kvm where a Debian kernel is seen to run on it, else tcg
    #[arg(long, global = true, value_enum, default_value = "auto")]
    accel: AccelChoice,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AccelChoice {
    Auto,
    Tcg,
    Kvm,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Take bare machines to a running operating system, and show each step
    Demo(DemoOptions),
    /// Run all tests: units, then end to end
    Test(TestOptions),
    /// Change the code that decides, one place at a time, and see whether a test notices
    Mutants(MutantOptions),
    /// The appliance on a fake clock among hosts, BMCs and networks that fail: a million steps with
    /// every fault many times, or as many as asked for
    Simulate {
        #[arg(long, value_name = "N", requires = "seed")]
        steps: Option<u64>,
        /// Where chance begins; a violation names the seed that shows it again
        #[arg(long, value_name = "N", requires = "steps")]
        seed: Option<u64>,
    },
    /// Fuzz parsers of foreign bytes, one target after the other; figures are printed for each
    Fuzz {
        /// `all`, or names of targets
        #[arg(required = true, value_name = "TARGET|all")]
        targets: Vec<String>,
        /// Minutes for each target
        #[arg(long, value_name = "N", default_value = "1")]
        minutes: String,
        /// Keep what reached something new in tests/corpus, as few and small inputs as will do
        #[arg(long)]
        keep: bool,
    },
    /// Start a lab that stays, to play with
    Up(UpOptions),
    /// End the lab that stays
    Down,
    /// Run a command inside the lab that stays, such as `exec firesteel get hosts`
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Use a machine's serial console; Ctrl-] leaves it
    Console { host: String },
    /// Move the power switch of a machine, or press its reset button: the BMC of a machine that has none is you
    Power(PowerOptions),
    /// Build the OS image and say where it is
    Image {
        /// What is in it
        #[arg(long, value_enum, default_value = "ignition")]
        system: OsImageSystem,
        /// Its forms
        #[arg(value_enum, default_values = ["raw", "gz", "xz", "zst", "qcow2"])]
        formats: Vec<PackedFormat>,
    },
    /// Build kernel and initramfs for `firesteel serve --boot-files`
    Ramdisk {
        /// Drivers of QEMU's devices, or of servers
        #[arg(value_enum, default_value = "server")]
        set: DriverSet,
        /// Folder for vmlinuz, initramfs.zst and manifest.json
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
    /// The scenario `full-wipe` by itself
    Wipe(WipeOptions),
    /// The scenario `foreign-disks` by itself
    ForeignDisks(WipeOptions),
    /// Be a hostile machine; only the lab starts this, in a network of its own
    #[command(hide = true)]
    Attack(AttackOptions),
    /// Be a machine's chassis; only ipmi_sim starts this, for the lab that started it
    #[command(hide = true)]
    Chassis(ChassisOptions),
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DriverSet {
    Lab,
    Server,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// The agent's write path against curl, zstd and dd
    Write {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Power-on to the kernel's first line, and to an /init that does nothing
    Boot,
    /// The agent's inspection of this computer beside ironic-python-agent's
    Inspect {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The agent's zeroing of each kind of disk against blkdiscard and dd, in one guest
    Wipe(WipeOptions),
    /// Many clients fetch one image over HTTP and over TLS, from the appliance and from nginx
    Serve(ServeOptions),
    /// The API with 10,000 hosts, over TLS; the store beside etcd
    Api {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct WipeOptions {
    /// The program `wipe-guest`, instead of building it
    #[arg(long, value_name = "FILE", requires = "boot_files")]
    guest: Option<PathBuf>,
    /// Folder with kernel and initramfs, instead of building them
    #[arg(long, value_name = "DIR", requires = "guest")]
    boot_files: Option<PathBuf>,
}

/// What the first life made, see [`sandbox`].
#[derive(Debug, Serialize, Deserialize)]
struct PreparedRun {
    artefacts: Artefacts,
    /// The begun run of `test --all`.
    #[serde(default)]
    begun: Option<AllBegun>,
}

/// Runs the command line.
pub fn run() -> anyhow::Result<ExitCode> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FIRESTEEL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let cli = LabCli::parse();
    if let LabCommand::Chassis(options) = &cli.command {
        return chassis::ask(options).context("asking the lab");
    }
    if let LabCommand::Attack(options) = cli.command {
        runtime()?.block_on(attack::run(options))?;
        return Ok(ExitCode::SUCCESS);
    }
    let tools = Tools::find()?;
    match &cli.command {
        LabCommand::Attack(_) | LabCommand::Chassis(_) => {}
        LabCommand::Down => runtime()?.block_on(standing_lab::down(&tools))?,
        LabCommand::Exec { command } => standing_lab::exec(&tools, command)?,
        LabCommand::Ramdisk { set, output } => {
            let set = match set {
                DriverSet::Lab => firesteel_ramdisk::ModuleSet::Lab,
                DriverSet::Server => firesteel_ramdisk::ModuleSet::Server,
            };
            crate::artefacts::make_ramdisk(&tools, set, output)?;
        }
        LabCommand::Console { host } => {
            let runtime = runtime()?;
            let ended = runtime.block_on(console::attach(&tools, host));
            // A thread may still be waiting for a key.
            runtime.shutdown_background();
            ended?;
        }
        LabCommand::Power(options) => return chassis::press(&tools, options),
        LabCommand::Image { system, formats } => {
            let image = |format: &PackedFormat| WantedImage { system: *system, ..WantedImage::from(*format) };
            let wanted: Vec<_> = formats.iter().map(image).collect();
            for image in Artefacts::make_images(&tools, &wanted)? {
                print(&format!("{:8} {}", image.format.suffix(), image.path.display()));
            }
        }
        LabCommand::Bench(Bench::Write { arguments }) => bench::program("firesteel-write-bench", arguments)?,
        LabCommand::Bench(Bench::Inspect { arguments }) => bench::program("firesteel-inspect-bench", arguments)?,
        LabCommand::Bench(Bench::Api { arguments }) => bench::program("firesteel-api-bench", arguments)?,
        LabCommand::Wipe(options) => in_one_guest(&cli, &tools, options, crate::wipe::full)?,
        LabCommand::ForeignDisks(options) => in_one_guest(&cli, &tools, options, crate::wipe::foreign_disks)?,
        LabCommand::Bench(Bench::Wipe(options)) => in_one_guest(&cli, &tools, options, crate::wipe::bench)?,
        LabCommand::Simulate { steps, seed } => suites::simulate(steps.zip(*seed))?,
        LabCommand::Fuzz { targets, minutes, keep } => suites::fuzz(targets, minutes, *keep)?,
        LabCommand::Mutants(options) => return mutants::run(options, &tools.cache),
        LabCommand::Up(_) if !standing_lab::is_keeper() => runtime()?.block_on(standing_lab::up(&tools))?,
        LabCommand::Demo(_)
        | LabCommand::Test(_)
        | LabCommand::Up(_)
        | LabCommand::Bench(Bench::Boot | Bench::Serve(_)) => {
            return in_two_lives(&cli, tools);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Work in machines that need neither network nor appliance.
fn in_one_guest(
    cli: &LabCli,
    tools: &Tools,
    options: &WipeOptions,
    work: fn(&LabConfig) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let artefacts = match (&options.guest, &options.boot_files) {
        (Some(guest), Some(boot_files)) => {
            let (boot_files, volume_files) = (boot_files.clone(), boot_files.clone());
            Artefacts { boot_files, volume_files, wipe_guest: guest.clone(), ..Artefacts::default() }
        }
        (_, _) => crate::artefacts::for_wiping(tools)?,
    };
    let run = RunFolder::create(&tools.cache)?;
    let accel = runtime()?.block_on(accel(cli, tools, &artefacts, &run))?;
    let folder = run.path().to_owned();
    let done = work(&LabConfig {
        tools: tools.clone(),
        artefacts,
        accel,
        folder,
        upgrade_ipxe: false,
        config_plain_port: None,
        is_bmc_only: false,
    });
    if done.is_err() {
        let saved = tools.cache.join("last-failure");
        run.save_logs(&saved).with_context(|| format!("saving the logs to {}", saved.display()))?;
        print_status(&format!("all logs are in {}", saved.display()));
    }
    done
}

async fn accel(cli: &LabCli, tools: &Tools, artefacts: &Artefacts, run: &RunFolder) -> anyhow::Result<Accel> {
    Ok(match cli.accel {
        AccelChoice::Tcg => Accel::Tcg,
        AccelChoice::Kvm => Accel::Kvm,
        AccelChoice::Auto => probe::accel(tools, &artefacts.boot_files.join("vmlinuz"), run.path()).await?,
    })
}

fn in_two_lives(cli: &LabCli, tools: Tools) -> anyhow::Result<ExitCode> {
    let Some((prepared, run)) = sandbox::second_life::<PreparedRun>()? else {
        let prepared = match &cli.command {
            LabCommand::Test(options) => match testing::prepare(options, &tools)? {
                TestsPrepared::Scenarios(tests) => PreparedRun { artefacts: tests.artefacts, begun: tests.begun },
                TestsPrepared::Over(code) => return Ok(code),
            },
            command => PreparedRun { artefacts: prepare(command, &tools)?, begun: None },
        };
        let run = RunFolder::create(&tools.cache)?;
        return Err(sandbox::begin_second_life(&prepared, run).into());
    };
    let runtime = runtime()?;
    let done = runtime.block_on(inside(cli, &tools, prepared, &run));
    // Whatever was still under way is dropped here, and with it machines and appliance.
    drop(runtime);
    if let Err(error) = &done {
        let saved = tools.cache.join("last-failure");
        run.save_logs(&saved).with_context(|| format!("saving the logs to {}", saved.display()))?;
        print_status(&format!("failed: {error:#}"));
        print_status(&format!("all logs are in {}", saved.display()));
        return Ok(ExitCode::FAILURE);
    }
    done
}

/// What has to be built while the computer's own network is there.
fn prepare(command: &LabCommand, tools: &Tools) -> anyhow::Result<Artefacts> {
    let mut images: Vec<WantedImage> = Vec::new();
    if let LabCommand::Demo(DemoOptions { machines, .. }) | LabCommand::Up(UpOptions { machines, .. }) = command {
        images.push(machines.image.into());
    }
    let mut artefacts = Artefacts::make(tools, &images, false)?;
    if matches!(command, LabCommand::Bench(Bench::Serve(_))) {
        artefacts.firesteel = bench::appliance()?;
    }
    Ok(artefacts)
}

async fn inside(cli: &LabCli, tools: &Tools, prepared: PreparedRun, run: &RunFolder) -> anyhow::Result<ExitCode> {
    let PreparedRun { artefacts, begun } = prepared;
    let accel = accel(cli, tools, &artefacts, run).await?;
    let config = LabConfig {
        tools: tools.clone(),
        artefacts,
        accel,
        folder: run.path().to_owned(),
        upgrade_ipxe: false,
        config_plain_port: None,
        is_bmc_only: false,
    };
    match &cli.command {
        LabCommand::Demo(options) => unless_interrupted(demo::run(config, options)).await.map(LabEnding::code),
        LabCommand::Test(options) => testing::run(options, config, begun).await,
        LabCommand::Bench(Bench::Boot) => unless_interrupted(bench::boot(config)).await.map(LabEnding::code),
        LabCommand::Bench(Bench::Serve(options)) => {
            unless_interrupted(bench_serve::serve(config, options)).await.map(LabEnding::code)
        }
        LabCommand::Up(options) => standing_lab::keep(config, options, interrupted()).await.map(|()| ExitCode::SUCCESS),
        LabCommand::Mutants(_)
        | LabCommand::Down
        | LabCommand::Exec { .. }
        | LabCommand::Console { .. }
        | LabCommand::Power(_)
        | LabCommand::Image { .. }
        | LabCommand::Ramdisk { .. }
        | LabCommand::Simulate { .. }
        | LabCommand::Fuzz { .. }
        | LabCommand::Attack(_)
        | LabCommand::Chassis(_)
        | LabCommand::Wipe(_)
        | LabCommand::ForeignDisks(_)
        | LabCommand::Bench(_) => Ok(ExitCode::SUCCESS),
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    // Children die with the thread that made them, so the threads must stay.
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")
}
