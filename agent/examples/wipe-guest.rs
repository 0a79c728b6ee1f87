//! PID 1 of a virtual machine in which the lab wipes disks: the agent's own steps on the agent's own view of the
//! machine, without an appliance. It reads what to do from `/wipe.json`, prints a line for each answer on the
//! console, and switches the machine off.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use firesteel_agent::{
    board::Board,
    clean::{
        attach::{self, CommandSet},
        climb::Fall,
        drive::{Begun, Commandless, Drive, Poll},
        ladder::{Abilities, Method, Offer, Policy, Reach},
        perform::{self, Watch},
    },
    gate::Gate,
    host::Host as _,
    inspect::Roots,
    machine::Machine,
    modules, os,
    steps::{self, Job},
    tls::pinned_client_config,
};
use firesteel_images::write::{Aborted, AlignedBuffer, Device, Disk as _};
use firesteel_wire::{Disk, DiskIdentity, Plan, Step};
use serde::Deserialize;
use serde_json::{Value, json};

const DRIVERS_MAX: Duration = Duration::from_secs(60);
const PIECE_BYTES: usize = 4 << 20;
const PATTERN: u8 = 0x5a;

/// What the lab wants.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    /// All at once, as a plan would.
    Erase(Vec<Erase>),
    /// One disk in one way, with the time that it took.
    Time { serial: String, way: Way },
}

#[derive(Deserialize)]
struct Erase {
    serial: String,
    #[serde(default)]
    own_names: Vec<String>,
    #[serde(default)]
    override_guards: bool,
    #[serde(default)]
    was_vacant: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// As an erasure in full goes: what the drive can do, and the ladder.
    Full,
    /// One rung alone.
    WriteZeroes,
    Overwrite,
    /// A program and its arguments; `{}` is the device.
    Program(Vec<String>),
}

fn main() {
    // The kernel starts this program in place of modprobe, too.
    let arguments: Vec<_> = std::env::args_os().collect();
    if modules::modprobe_request(&arguments).is_some() {
        std::process::exit(modules::modprobe(&arguments));
    }
    let ended = run();
    if let Err(error) = &ended {
        say(&json!({"error": format!("{error:#}")}));
    }
    say(&json!({"end": ended.is_ok()}));
    let error = os::process::leave(true);
    say(&json!({"error": format!("switching off: {error}")}));
    loop {
        thread::park();
    }
}

/// One line on the console, written at once, so that nothing comes between.
fn say(answer: &Value) {
    let line = format!("\nWIPE {answer}\n");
    let mut out = std::io::stdout().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.flush()));
}

fn run() -> anyhow::Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        os::mounts::mount_kernel_filesystem(kind, Path::new(at), "").with_context(|| format!("mounting {at}"))?;
    }
    let wanted: Vec<Wanted> = serde_json::from_slice(&fs::read("/wipe.json")?).context("reading what to do")?;
    let report = modules::coldplug(Path::new("/"), DRIVERS_MAX);
    say(&json!({"modules": report.loaded.len()}));
    let machine = Machine::new(Roots::default(), String::new());
    for one in wanted {
        match one {
            Wanted::Erase(disks) => erase(&machine, &disks)?,
            Wanted::Time { serial, way } => time(&machine, &serial, &way)?,
        }
    }
    Ok(())
}

fn find(machine: &Machine, serial: &str) -> anyhow::Result<Disk> {
    let disks = machine.disks();
    let found = disks.iter().find(|seen| seen.disk.serial == serial);
    let found = found.with_context(|| {
        let known: Vec<_> = disks.iter().map(|seen| format!("{} {:?}", seen.disk.device, seen.disk.serial)).collect();
        format!("no disk has the serial number {serial}: {}", known.join(", "))
    })?;
    Ok(found.disk.clone())
}

fn erase(machine: &Machine, disks: &[Erase]) -> anyhow::Result<()> {
    let mut steps = Vec::new();
    for wanted in disks {
        let disk = find(machine, &wanted.serial)?;
        let disk = DiskIdentity { serial: disk.serial, size_bytes: disk.size_bytes, ..DiskIdentity::default() };
        let (own_names, override_guards) = (wanted.own_names.clone(), wanted.override_guards);
        steps.push(Step::EraseDisk {
            disk,
            policy: Policy::Full,
            own_names,
            override_guards,
            was_vacant: wanted.was_vacant,
        });
    }
    let gate = Arc::new(Gate::new(os::clock::uptime));
    let board = Board::new(None);
    let plan = Plan { number: 1, attempt: 1, steps };
    board.plan_started(&plan);
    let tls = pinned_client_config(&"00".repeat(32)).context("setting up TLS")?;
    let http = reqwest::Client::builder().tls_backend_preconfigured(tls).build().context("setting up HTTP")?;
    let job =
        Job { host: machine, gate: &gate, board: &board, steps: &plan.steps, index: 0, http: &http, appliance: "" };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // In place of the appliance's replies; and the progress, for the lab to see.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                gate.renew(None);
                say(&json!({"progress": board.read().steps.iter().map(|step| json!({
                    "activity": step.activity, "done": step.done_bytes, "total": step.total_bytes,
                    "rate": step.bytes_per_second,
                })).collect::<Vec<_>>()}));
                thread::sleep(Duration::from_millis(500));
            }
        });
        let begun = Instant::now();
        steps::run_at_once(&job, &plan.steps, &|_| {}, &|index, end| {
            let serial = usize::try_from(index).ok().and_then(|index| disks.get(index)).map(|disk| &disk.serial);
            let seconds = begun.elapsed().as_secs_f64();
            say(&match end {
                Ok(finished) => json!({"erased": serial, "seconds": seconds, "evidence": finished.evidence}),
                Err(failure) => {
                    json!({"refused": serial, "why": failure.error, "changed": failure.disk_changed})
                }
            });
        });
        is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn time(machine: &Machine, serial: &str, way: &Way) -> anyhow::Result<()> {
    let disk = find(machine, serial)?;
    let path = Path::new(&disk.device);
    {
        let device = machine.open_disk(path)?;
        fill(&device)?;
    }
    let (erasing, all) = match way {
        Way::Program(words) => program(path, words)?,
        Way::Full => full(machine, &disk)?,
        Way::WriteZeroes => rung(machine, &disk, Method::WriteZeroes)?,
        Way::Overwrite => rung(machine, &disk, Method::Overwrite)?,
    };
    let device = machine.open_disk(path)?;
    let is_zero = holds_zeros(&device)?;
    let way = match &way {
        Way::Program(words) => words.first().cloned().unwrap_or_default(),
        Way::Full | Way::WriteZeroes | Way::Overwrite => format!("{way:?}"),
    };
    say(&json!({
        "timed": serial, "way": way, "seconds": erasing, "all_seconds": all, "zeros": is_zero, "bytes": disk.size_bytes,
    }));
    Ok(())
}

fn fill(device: &Device) -> anyhow::Result<()> {
    let mut piece = AlignedBuffer::new(PIECE_BYTES);
    piece.fill(PATTERN);
    pieces(device, |offset, bytes| Ok(device.write_at(offset, &piece[..bytes])?))?;
    Ok(device.flush()?)
}

fn holds_zeros(device: &Device) -> anyhow::Result<bool> {
    let reader = device.reader()?;
    let (mut piece, zeros) = (AlignedBuffer::new(PIECE_BYTES), vec![0; PIECE_BYTES]);
    let mut is_zero = true;
    pieces(device, |offset, bytes| {
        reader.read_at(offset, &mut piece[..bytes])?;
        is_zero &= piece[..bytes] == zeros[..bytes];
        Ok(())
    })?;
    Ok(is_zero)
}

fn pieces(device: &Device, mut each: impl FnMut(u64, usize) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut offset = 0;
    while offset < device.size_bytes() {
        let bytes = (PIECE_BYTES as u64).min(device.size_bytes() - offset);
        each(offset, usize::try_from(bytes)?)?;
        offset += bytes;
    }
    Ok(())
}

/// Another program, with the flush that makes it count.
fn program(device: &Path, words: &[String]) -> anyhow::Result<(f64, f64)> {
    let Some((program, arguments)) = words.split_first() else { bail!("no program") };
    let device_text = device.to_string_lossy();
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("{}", &device_text)).collect();
    let begun = Instant::now();
    let output = Command::new(program).args(&arguments).output().with_context(|| format!("running {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    let opened = fs::OpenOptions::new().write(true).open(device)?;
    opened.sync_all()?;
    // Whoever ended early would be found by what it left.
    let mut first = [0; 1];
    fs::File::open(device)?.read_exact_at(&mut first, 0)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((seconds, seconds))
}

/// A drive that offers one method alone, so that the climb takes it.
struct Only {
    method: Method,
    offers: bool,
}

impl Drive for Only {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let offer = Offer { method: self.method, reach: Reach::Disk, barred: None };
        Ok(Abilities { offers: self.offers.then_some(offer).into_iter().collect(), ..Abilities::default() })
    }

    fn erase(&self, method: Method) -> Result<Begun, Fall> {
        Err(Fall::Fell(format!("{method} is no method of the kernel")))
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        Ok(Poll::Idle)
    }

    fn settle(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Notes when the erasure itself begins and ends, apart from samples and proof.
#[derive(Default)]
struct Stopwatch {
    begun: Cell<Option<Instant>>,
    ended: Cell<Option<Instant>>,
}

impl Watch for Stopwatch {
    fn checkpoint(&self, activity: &str, _done: u64, _total: u64) -> Result<(), Aborted> {
        let cell = match activity {
            "taking samples" => return Ok(()),
            "reading back" => &self.ended,
            _ => &self.begun,
        };
        cell.set(cell.get().or_else(|| Some(Instant::now())));
        Ok(())
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }

    fn tell(&self, _activity: &str, _done: u64, _total: u64) -> Option<String> {
        None
    }
}

/// By the best that the drive offers. Says which way that was.
fn full(machine: &Machine, disk: &Disk) -> anyhow::Result<(f64, f64)> {
    let path = Path::new(&disk.device);
    let attached = attach::read(&machine.sysfs(), kernel_name(disk));
    let namespaces = match attached.commands {
        CommandSet::None => {
            let drive = Commandless { queue: attached.queue };
            return timed(machine, disk, &drive, &BTreeSet::new(), None);
        }
        CommandSet::Nvme { namespace } => BTreeSet::from([namespace]),
        CommandSet::Ata | CommandSet::Scsi => BTreeSet::new(),
    };
    let port = machine.commands(path)?.opened;
    timed(machine, disk, &*attached.drive(&*port, &namespaces), &namespaces, None)
}

fn rung(machine: &Machine, disk: &Disk, method: Method) -> anyhow::Result<(f64, f64)> {
    let queue = attach::read(&machine.sysfs(), kernel_name(disk)).queue;
    let offers = method != Method::WriteZeroes || queue.writes_zeroes;
    ensure!(offers, "{} does not offer {method}", disk.device);
    timed(machine, disk, &Only { method, offers }, &BTreeSet::new(), Some(method))
}

fn kernel_name(disk: &Disk) -> &str {
    disk.device.rsplit('/').next().unwrap_or_default()
}

/// Seconds of the erasure, and with samples and proof.
fn timed(
    machine: &Machine,
    disk: &Disk,
    drive: &dyn Drive,
    namespaces: &BTreeSet<u32>,
    method: Option<Method>,
) -> anyhow::Result<(f64, f64)> {
    let device = machine.open_disk(Path::new(&disk.device))?;
    let work = perform::Job { drive, disks: &[&device], namespaces, policy: Policy::Full, seed: [7; 32] };
    let watch = Stopwatch::default();
    let begun = Instant::now();
    let cleaned = perform::clean(&work, &watch)?;
    let all = begun.elapsed().as_secs_f64();
    ensure!(method.is_none_or(|method| cleaned.method == method.name()), "erased by {}", cleaned.method);
    say(&json!({"by": cleaned.method, "log": cleaned.drive_log}));
    let (Some(from), Some(to)) = (watch.begun.get(), watch.ended.get()) else { bail!("the erasure was not seen") };
    Ok((to.duration_since(from).as_secs_f64(), all))
}
