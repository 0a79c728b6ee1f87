//! PID 1 of a virtual machine in which the lab wipes disks: the agent's own steps on the agent's own view of the
//! machine, without an appliance. It reads what to do from `/wipe.json`, prints a line for each answer on the console,
//! and switches the machine off. The lab starts it (`qemu/src/wipe`). It uses the agent's crates and not PID 1.

mod disk_report;
mod erase;
mod make_disks;
mod quiesce;
mod time;

use std::{collections::BTreeMap, fs, io::Write as _, path::Path, thread, time::Duration};

use anyhow::Context as _;
use firesteel_host::Host;
use firesteel_linux_host::LinuxHost;
use firesteel_modules as modules;
use firesteel_os as os;
use firesteel_sysfs::Roots;
use firesteel_wire::InventoryDisk;
use nix::sys::resource::{Resource, setrlimit};
use serde::Deserialize;
use serde_json::{Value, json};

use quiesce::QuiescentDisks;

const DRIVERS_MAX: Duration = Duration::from_secs(60);
const FILES_MAX: u64 = 8192;
const PIECE_BYTES: usize = 4 << 20;

/// What the lab wants.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum GuestRequest {
    /// All at once, as a plan would.
    Erase(Vec<erase::Erase>),
    /// One disk in one way, with the time that it took.
    Time { serial: String, way: time::TimedMethod },
    /// Kernel modules by their names.
    Load(Vec<String>),
    /// Work on the disks by this computer's programs, one after the other.
    Make(Vec<make_disks::GuestAction>),
    /// What Linux shows: partitions, volumes and arrays; signatures of these disks.
    ShowLinux { probed: Vec<String> },
    /// What the guard sees; and digests of these disks.
    ShowGuard { digests: Vec<String> },
}

fn main() {
    // The kernel starts this program in place of modprobe, too.
    let arguments: Vec<_> = std::env::args_os().collect();
    if modules::modprobe_request(&arguments).is_some() {
        std::process::exit(modules::modprobe(&arguments));
    }
    let ended = run();
    if let Err(error) = &ended {
        print_answer(&json!({"error": format!("{error:#}")}));
    }
    print_answer(&json!({"end": ended.is_ok()}));
    let error = os::process::leave(true);
    print_answer(&json!({"error": format!("switching off: {error}")}));
    loop {
        thread::park();
    }
}

/// One line on the console, written at once, so that nothing comes between.
fn print_answer(answer: &Value) {
    let line = format!("\nWIPE {answer}\n");
    let mut out = std::io::stdout().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.flush()));
}

fn run() -> anyhow::Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        os::mounts::mount_kernel_filesystem(kind, Path::new(at), "").with_context(|| format!("mounting {at}"))?;
    }
    // A hundred disks, each beside all others.
    setrlimit(Resource::RLIMIT_NOFILE, FILES_MAX, FILES_MAX).context("allowing more open files")?;
    let wanted: Vec<GuestRequest> = serde_json::from_slice(&fs::read("/wipe.json")?).context("reading what to do")?;
    let report = modules::coldplug(Path::new("/"), DRIVERS_MAX);
    print_answer(&json!({"modules": report.loaded.len()}));
    let machine = machine();
    for one in wanted {
        match one {
            GuestRequest::Erase(disks) => erase::all(&QuiescentDisks::of(self::machine()), &disks)?,
            GuestRequest::Time { serial, way } => time::time(&machine, &serial, &way)?,
            GuestRequest::Load(names) => {
                modules::load_named(Path::new("/"), &names.iter().map(String::as_str).collect::<Vec<_>>());
            }
            GuestRequest::Make(acts) => make_disks::make(&devices(&machine), &acts)?,
            GuestRequest::ShowLinux { probed } => disk_report::linux(&machine, &probed)?,
            GuestRequest::ShowGuard { digests } => disk_report::guard(&QuiescentDisks::of(self::machine()), &digests)?,
        }
        print_answer(&json!({"uptime": machine.uptime().as_secs_f64()}));
    }
    Ok(())
}

fn machine() -> LinuxHost {
    LinuxHost::new(Roots::default(), String::new())
}

fn find(machine: &dyn Host, serial: &str) -> anyhow::Result<InventoryDisk> {
    let disks = machine.disks();
    let found = disks.iter().find(|seen| seen.disk.serial == serial);
    let found = found.with_context(|| {
        let known: Vec<_> = disks.iter().map(|seen| format!("{} {:?}", seen.disk.device, seen.disk.serial)).collect();
        format!("no disk has the serial number {serial}: {}", known.join(", "))
    })?;
    Ok(found.disk.clone())
}

/// Devices by their serial numbers.
fn devices(machine: &LinuxHost) -> BTreeMap<String, String> {
    machine.disks().into_iter().map(|seen| (seen.disk.serial, seen.disk.device)).collect()
}
