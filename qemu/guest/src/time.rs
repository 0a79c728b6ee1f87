//! One disk erased in one way, with the time that it took.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, bail, ensure};
use firesteel_clean::disk_erasure::MethodFailure;
use firesteel_clean::drive::{Drive, DriveCommandProgress, PlainDrive, Poll};
use firesteel_clean::ladder::{Abilities, EraseReach, ErasureMethod, MethodOffer};
use firesteel_clean::watch::CleaningMonitor;
use firesteel_clean::{attached, perform};
use firesteel_host::Host as _;
use firesteel_images::write::{Aborted, AlignedBuffer, ExclusiveDisk, WritableDisk as _};
use firesteel_linux_host::LinuxHost;
use firesteel_sysfs::attach::{self, CommandSet, kernel_name};
use firesteel_wire::InventoryDisk;
use firesteel_wire::erasure::ErasurePolicy;
use serde::Deserialize;
use serde_json::json;

use crate::{PIECE_BYTES, find, print_answer};

const PATTERN: u8 = 0x5a;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TimedMethod {
    /// An erasure in full: what the drive can do, and the ladder.
    Full,
    /// One rung alone.
    WriteZeroes,
    Overwrite,
    /// A program and its arguments; `{}` is the device.
    Program(Vec<String>),
}

pub(crate) fn time(machine: &LinuxHost, serial: &str, way: &TimedMethod) -> anyhow::Result<()> {
    let disk = find(machine, serial)?;
    let path = Path::new(&disk.device);
    {
        let device = machine.open_disk(path)?;
        fill(&device)?;
    }
    let (erasing, all) = match way {
        TimedMethod::Program(words) => program(path, words)?,
        TimedMethod::Full => full(machine, &disk)?,
        TimedMethod::WriteZeroes => rung(machine, &disk, ErasureMethod::WriteZeroes)?,
        TimedMethod::Overwrite => rung(machine, &disk, ErasureMethod::Overwrite)?,
    };
    let device = machine.open_disk(path)?;
    let is_zero = holds_zeros(&device)?;
    let way = match &way {
        TimedMethod::Program(words) => words.first().cloned().unwrap_or_default(),
        TimedMethod::Full | TimedMethod::WriteZeroes | TimedMethod::Overwrite => format!("{way:?}"),
    };
    print_answer(&json!({
        "timed": serial, "way": way, "seconds": erasing, "all_seconds": all, "zeros": is_zero, "bytes": disk.size_bytes,
    }));
    Ok(())
}

fn fill(device: &ExclusiveDisk) -> anyhow::Result<()> {
    let mut piece = AlignedBuffer::new(PIECE_BYTES);
    piece.fill(PATTERN);
    pieces(device, |offset, bytes| Ok(device.write_at(offset, &piece[..bytes])?))?;
    Ok(device.flush()?)
}

fn holds_zeros(device: &ExclusiveDisk) -> anyhow::Result<bool> {
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

fn pieces(device: &ExclusiveDisk, mut each: impl FnMut(u64, usize) -> anyhow::Result<()>) -> anyhow::Result<()> {
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
    // An erasure that ended early would be found by what it left.
    let mut first = [0; 1];
    fs::File::open(device)?.read_exact_at(&mut first, 0)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((seconds, seconds))
}

/// A drive that offers one method alone, so that the climb takes it.
struct SingleMethodDrive {
    method: ErasureMethod,
    offers: bool,
}

impl Drive for SingleMethodDrive {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let offer = MethodOffer { method: self.method, reach: EraseReach::Disk, barred: None };
        Ok(Abilities { offers: self.offers.then_some(offer).into_iter().collect(), ..Abilities::default() })
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        Err(MethodFailure::Fell(format!("{method} is no method of the kernel")))
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        Ok(Poll::Idle)
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Notes when the erasure itself begins and ends, apart from samples and proof.
#[derive(Default)]
struct Stopwatch {
    begun: Cell<Option<Instant>>,
    ended: Cell<Option<Instant>>,
}

impl CleaningMonitor for Stopwatch {
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

    fn report_progress(&self, _activity: &str, _done: u64, _total: u64) -> Option<String> {
        None
    }
}

/// Erases by the best that the drive offers. Says which way that was.
fn full(machine: &LinuxHost, disk: &InventoryDisk) -> anyhow::Result<(f64, f64)> {
    let path = Path::new(&disk.device);
    let attached = attach::read(&machine.sysfs(), kernel_name(disk));
    let namespaces = match attached.commands {
        CommandSet::None => {
            let drive = PlainDrive { queue: attached.queue };
            return timed(machine, disk, &drive, &BTreeSet::new(), None);
        }
        CommandSet::Nvme { namespace } => BTreeSet::from([namespace]),
        CommandSet::Ata | CommandSet::Scsi => BTreeSet::new(),
    };
    let port = machine.commands(path)?.opened;
    timed(machine, disk, &*attached::drive(&attached, &*port, &namespaces), &namespaces, None)
}

fn rung(machine: &LinuxHost, disk: &InventoryDisk, method: ErasureMethod) -> anyhow::Result<(f64, f64)> {
    let queue = attach::read(&machine.sysfs(), kernel_name(disk)).queue;
    let offers = method != ErasureMethod::WriteZeroes || queue.writes_zeroes;
    ensure!(offers, "{} does not offer {method}", disk.device);
    timed(machine, disk, &SingleMethodDrive { method, offers }, &BTreeSet::new(), Some(method))
}

/// Seconds of the erasure, and with samples and proof.
fn timed(
    machine: &LinuxHost,
    disk: &InventoryDisk,
    drive: &dyn Drive,
    namespaces: &BTreeSet<u32>,
    method: Option<ErasureMethod>,
) -> anyhow::Result<(f64, f64)> {
    let device = machine.open_disk(Path::new(&disk.device))?;
    let work =
        perform::CleaningJob { drive, disks: &[&device], namespaces, policy: ErasurePolicy::Full, seed: [7; 32] };
    let watch = Stopwatch::default();
    let begun = Instant::now();
    let cleaned = perform::clean(&work, &watch)?;
    let all = begun.elapsed().as_secs_f64();
    ensure!(method.is_none_or(|method| cleaned.method == method.name()), "erased by {}", cleaned.method);
    print_answer(&json!({"by": cleaned.method, "log": cleaned.drive_log}));
    let (Some(from), Some(to)) = (watch.begun.get(), watch.ended.get()) else { bail!("the erasure was not seen") };
    Ok((to.duration_since(from).as_secs_f64(), all))
}
