//! `lab up` and `lab down`: a lab that stays, to play with. A keeper process in the background holds
//! machines, BMCs and appliance; `down` ends it by its process id, and with it everything.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, bail};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::bmc::{BmcKind, chassis};
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, MachineOptions};
use crate::progress::{ProgressStep, print, print_status};
use crate::tools::Tools;
use crate::{appliance, artefacts, os, run_folder, sandbox};

const STATE: &str = "standing.json";
/// Tells the process that it is the keeper.
const KEEPER: &str = "FIRESTEEL_LAB_KEEPER";
/// Machines are switched off and databases closed.
const DOWN_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Args)]
pub struct UpOptions {
    #[command(flatten)]
    pub machines: MachineOptions,
    /// Number of machines
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    pub hosts: u8,
    /// How machines are switched on: through their BMC by the appliance, or, with none, by the lab at once, to be adopted
    #[arg(long, value_enum, default_value = "redfish")]
    pub bmc: BmcKind,
}

/// A machine of the lab that stays.
struct StandingMachine {
    name: String,
    mac: String,
    /// The YAML of its host, with the OS image.
    manifest: PathBuf,
}

/// What `down`, `exec` and `console` need to know.
#[derive(Debug, Serialize, Deserialize)]
struct StandingLabRecord {
    pid: u32,
    /// [`run_folder::process_name`]: the id alone may be another process by now.
    process: String,
    run: PathBuf,
}

impl StandingLabRecord {
    fn read(tools: &Tools) -> Option<Self> {
        let state: Self = serde_json::from_slice(&fs::read(tools.cache.join(STATE)).ok()?).ok()?;
        (run_folder::process_name(state.pid).as_deref() == Some(&state.process)).then_some(state)
    }
}

/// Whether this process is the keeper.
#[must_use]
pub fn is_keeper() -> bool {
    env::var_os(KEEPER).is_some()
}

/// Starts the keeper with this process's own arguments and waits until its lab is ready.
pub async fn up(tools: &Tools) -> anyhow::Result<()> {
    if let Some(state) = StandingLabRecord::read(tools) {
        bail!("a lab is up already (process {}): `lab down` ends it", state.pid);
    }
    let mut command = Command::new(sandbox::SELF);
    command.args(env::args_os().skip(1)).env(KEEPER, "1").stdin(Stdio::null());
    os::own_session(&mut command);
    let mut keeper = command.spawn().context("starting the lab's keeper")?;
    loop {
        if let Some(status) = keeper.try_wait().context("waiting for the lab's keeper")? {
            bail!("the lab did not come up ({status})");
        }
        if let Some(state) = StandingLabRecord::read(tools) {
            print_status(&format!("the lab is up (process {}); it stays until `lab down`", state.pid));
            print(&fs::read_to_string(state.run.join(HELP)).unwrap_or_default());
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The file that the keeper writes for the person who said `up`.
const HELP: &str = "help.txt";

/// The keeper's work, inside the lab's network, until it is asked to end.
pub async fn keep(config: LabConfig, options: &UpOptions, end: impl Future<Output = ()>) -> anyhow::Result<()> {
    let (tools, run) = (config.tools.clone(), config.folder.clone());
    let image = config.artefacts.image(options.machines.image)?.to_owned();
    let step = ProgressStep::begin("starting the network and the appliance");
    let mut lab = Lab::start(config).await?;
    step.end();
    let wish = DesiredHost { image: Some(lab.publish(&image)?), ..DesiredHost::default() };
    let mut machines = Vec::new();
    for number in 1..=options.hosts {
        let name = format!("host-{number}");
        lab.add_machine(HostPlan { bmc: options.bmc, ..options.machines.plan(&name) }).await?;
        let manifest = run.join(format!("{name}.yaml"));
        fs::write(&manifest, lab.manifest(&name, &wish)?).context("writing a host's YAML")?;
        let machine = lab.machine(&name)?.clone();
        let config = machine.config();
        // The switches of the others are behind their BMC.
        if options.bmc != BmcKind::Ipmi {
            chassis::listen(&config.folder.join(chassis::CHASSIS_SOCKET), machine)
                .context("listening at a machine's switches")?;
        }
        if options.bmc == BmcKind::None {
            lab.power_on(&name).await?;
        }
        machines.push(StandingMachine { mac: config.mac, name, manifest });
    }
    fs::write(run.join(HELP), help(&machines, options.bmc)).context("writing the help")?;
    let pid = std::process::id();
    let process = run_folder::process_name(pid).context("reading /proc")?;
    let state = serde_json::to_vec(&StandingLabRecord { pid, process, run: run.clone() })?;
    fs::write(tools.cache.join(STATE), state).context("writing the lab's state")?;
    // The terminal belongs to the person again.
    let log = File::create(run.join("lab.log")).context("making the lab's log")?;
    nix::unistd::dup2_stderr(&log).context("turning to the lab's log")?;
    nix::unistd::dup2_stdout(&log).context("turning to the lab's log")?;
    end.await;
    lab.stop().await;
    Ok(())
}

/// Says what can be done with the machines. Pure.
fn help(machines: &[StandingMachine], bmc: BmcKind) -> String {
    let mut help = String::from(
        "Talk to the appliance:\n  ./qemu/lab exec firesteel get hosts\n  ./qemu/lab exec kubectl get bmh\n",
    );
    if bmc == BmcKind::None {
        help.push_str("Machines, switched on, which the appliance discovers while they boot; adopt each:\n");
        for StandingMachine { name, mac, .. } in machines {
            help.push_str(&format!("  {name}: ./qemu/lab exec firesteel adopt {mac} --name {name}\n"));
        }
        help.push_str("Install them after that:\n");
    } else {
        help.push_str("Machines, switched off:\n");
    }
    for StandingMachine { name, manifest, .. } in machines {
        help.push_str(&format!("  {name}: ./qemu/lab exec firesteel apply -f {}\n", manifest.display()));
    }
    if bmc == BmcKind::None {
        help.push_str("Restart them where the appliance waits for it, for no BMC does (on and off, too):\n");
        help.push_str("  ./qemu/lab power host-1 reset\n");
    }
    help + "Their consoles:\n  ./qemu/lab console host-1\nEnd it all:\n  ./qemu/lab down\n"
}

/// Ends the lab that is up.
pub async fn down(tools: &Tools) -> anyhow::Result<()> {
    let Some(state) = StandingLabRecord::read(tools) else {
        print_status("no lab is up");
        return Ok(());
    };
    let step = ProgressStep::begin("switching everything off");
    kill(Pid::from_raw(i32::try_from(state.pid)?), Signal::SIGTERM).context("ending the lab's keeper")?;
    let begun = Instant::now();
    while StandingLabRecord::read(tools).is_some() {
        if begun.elapsed() > DOWN_TIMEOUT {
            bail!("process {} does not end", state.pid);
        }
        sleep(LOOK_EVERY).await;
    }
    fs::remove_file(tools.cache.join(STATE)).context("removing the lab's state")?;
    step.end();
    Ok(())
}

/// Replaces this process by a command inside the lab's network, with `firesteel` and `kubectl` on its path.
/// Must be called while the process has one thread. Returns only on failure.
pub fn exec(tools: &Tools, command: &[String]) -> anyhow::Result<()> {
    let state = StandingLabRecord::read(tools).context("no lab is up: start one with `lab up`")?;
    let (program, arguments) = command.split_first().context("there is no command to run")?;
    os::join_network_of(state.pid).context("joining the lab's network")?;
    let path = path_of(&[artefacts::programs(), tools.cache.join("tools/bin")])?;
    // The command is looked up on this process's own path, so it is set for both.
    let program = find(Path::new(program), &path);
    let error =
        Command::new(&program).args(arguments).env("PATH", path).envs(appliance::environment(&state.run)).exec();
    Err(error).with_context(|| format!("running {}", program.display()))
}

/// This process's path, with folders before it.
fn path_of(folders: &[PathBuf]) -> anyhow::Result<OsString> {
    let own = env::var_os("PATH").unwrap_or_default();
    env::join_paths(folders.iter().cloned().chain(env::split_paths(&own))).context("setting the path of the command")
}

fn find(program: &Path, path: &std::ffi::OsStr) -> PathBuf {
    if program.components().count() > 1 {
        return program.to_owned();
    }
    let found = env::split_paths(path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_help_names_each_machine_and_what_comes_next() {
        let machine = |number: u8| StandingMachine {
            name: format!("host-{number}"),
            mac: format!("52:54:00:77:01:0{number}"),
            manifest: PathBuf::from(format!("/run/host-{number}.yaml")),
        };
        let machines = [machine(1), machine(2)];
        let install = "  host-2: ./qemu/lab exec firesteel apply -f /run/host-2.yaml\n";
        let off = help(&machines, BmcKind::Redfish);
        assert!(off.contains("./qemu/lab exec kubectl get bmh\nMachines, switched off:\n  host-1: "), "{off}");
        assert!(off.contains(install) && off.ends_with("./qemu/lab down\n") && !off.contains("adopt"), "{off}");
        let on = help(&machines, BmcKind::None);
        let adopt =
            "  host-2: ./qemu/lab exec firesteel adopt 52:54:00:77:01:02 --name host-2\nInstall them after that:\n";
        assert!(on.contains("  ./qemu/lab power host-1 reset\n") && !off.contains("lab power"), "{on}");
        assert!(on.contains("Machines, switched on") && on.contains(adopt) && on.contains(install), "{on}");
    }

    #[test]
    fn the_programs_of_the_lab_come_first_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sh"), "").unwrap();
        let path = path_of(&[folder.path().join("none"), folder.path().to_owned()]).unwrap();
        assert_eq!(find(Path::new("sh"), &path), folder.path().join("sh"));
        assert!(find(Path::new("env"), &path).is_absolute(), "others are found where they are");
        assert_eq!(find(Path::new("./sh"), &path), Path::new("./sh"));
        assert_eq!(find(Path::new("no-such-program"), &path), Path::new("no-such-program"));
    }
}
