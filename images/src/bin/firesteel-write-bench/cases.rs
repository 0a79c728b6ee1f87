//! The cases, what each leaves on the disk, and the table of results.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use firesteel_facts::Guid;
use firesteel_images::http::{Download, DownloadLimits, HttpReader};
use firesteel_images::write::{AlignedBuffer, ExclusiveDisk, Unattended, WritableDisk, WriteSpec, write_image};

use crate::image::BenchImage;

const CHUNK_BYTES: usize = 4 << 20;
/// Both ends of the disk, where our writer completes the partition table.
const ENDS_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBenchCase {
    Firesteel,
    Pipeline,
    Limit,
}

const CASES: [WriteBenchCase; 3] = [WriteBenchCase::Limit, WriteBenchCase::Firesteel, WriteBenchCase::Pipeline];

#[derive(Debug)]
pub(crate) struct WriteBenchRun {
    case: WriteBenchCase,
    /// The time until all was on the medium, read-back not counted.
    write: Duration,
    readback: Option<Duration>,
    /// The time of this process (the server included) and of its children; not of the kernel's loop threads.
    cpu: Duration,
}

pub(crate) fn run(dir: &Path, image: &BenchImage, url: &str, reps: usize) -> Result<Vec<WriteBenchRun>> {
    let mut runs = Vec::new();
    for rep in 1..=reps {
        for case in CASES {
            let target = LoopDevice::new(dir, image.meta.raw_bytes)?;
            let cpu = cpu_time()?;
            let (write, readback) = match case {
                WriteBenchCase::Firesteel => firesteel(&target.device, image, url)?,
                WriteBenchCase::Pipeline => (pipeline(&target.device, url)?, None),
                WriteBenchCase::Limit => (limit(&target.device, image)?, None),
            };
            let cpu = cpu_time()?.saturating_sub(cpu);
            compare(&target.device, image, case)?;
            let readback_text = readback.map(|time| format!(", read back in {:.2} s", time.as_secs_f64()));
            eprintln!(
                "run {rep} {case:?}: written in {:.2} s{}; {:.2} s of CPU; same content",
                write.as_secs_f64(),
                readback_text.unwrap_or_default(),
                cpu.as_secs_f64()
            );
            runs.push(WriteBenchRun { case, write, readback, cpu });
        }
    }
    Ok(runs)
}

/// Prints the medians and what they are in proportion. Returns whether the write is as fast as it has to be.
#[allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the program is for")]
pub(crate) fn print(image: &BenchImage, runs: &[WriteBenchRun]) -> bool {
    let median_of = |mut times: Vec<Duration>| {
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64()
    };
    let median =
        |case: WriteBenchCase| median_of(runs.iter().filter(|run| run.case == case).map(|run| run.write).collect());
    let readback = median_of(runs.iter().filter_map(|run| run.readback).collect());
    let mib = |bytes: u64| bytes >> 20;
    let (ours, pipeline, limit) =
        (median(WriteBenchCase::Firesteel), median(WriteBenchCase::Pipeline), median(WriteBenchCase::Limit));
    println!(
        "image: {} MiB raw, {} MiB used, {} MiB as a stream; {} runs each, medians",
        mib(image.meta.raw_bytes),
        mib(image.used_bytes()),
        mib(image.meta.stream_bytes),
        runs.len() / CASES.len()
    );
    println!("{:44} {:>8} {:>8} {:>10} {:>6}", "", "seconds", "x limit", "x pipeline", "CPU s");
    let cpu = |case| {
        let times = runs.iter().filter(|run| run.case == case).map(|run| run.cpu).collect();
        format!("{:.2}", median_of(times))
    };
    let rows = [
        ("limit: used bytes, O_DIRECT, in sequence", limit, cpu(WriteBenchCase::Limit)),
        ("curl | zstd -dc | dd oflag=direct bs=4M", pipeline, cpu(WriteBenchCase::Pipeline)),
        ("firesteel: write", ours, String::new()),
        ("firesteel: read-back and completion", readback, String::new()),
        ("firesteel: both", ours + readback, cpu(WriteBenchCase::Firesteel)),
    ];
    for (name, seconds, cpu) in rows {
        println!("{name:44} {seconds:8.2} {:8.2} {:10.2} {cpu:>6}", seconds / limit, seconds / pipeline);
    }
    let is_reached = ours <= pipeline;
    let verdict = if is_reached { "at least as fast as the pipeline" } else { "SLOWER than the pipeline" };
    println!("the write is {verdict}");
    is_reached
}

fn cpu_time() -> Result<Duration> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeVal;
    let mut total = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("asking for the CPU time")?;
        let duration =
            |time: TimeVal| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs());
        total += duration(usage.user_time()) + duration(usage.system_time());
    }
    Ok(total)
}

fn firesteel(device: &Path, image: &BenchImage, url: &str) -> Result<(Duration, Option<Duration>)> {
    let disk = ExclusiveDisk::open(device)?;
    let meta = &image.meta;
    let spec = WriteSpec {
        raw_bytes: meta.raw_bytes,
        raw_sha256: meta.raw_sha256,
        stream_bytes: meta.stream_bytes,
        stream_sha256: meta.stream_sha256,
        disk_guid: Guid([3; 16]),
    };
    let client = reqwest::Client::builder().no_proxy().build().context("making an HTTP client")?;
    let download = Download::new(client, url, DownloadLimits::default(), Some(meta.stream_bytes), true)?;
    let written = write_image(HttpReader::new(download)?, &disk, &spec, &Unattended).context("writing the image")?;
    Ok((written.write, Some(written.readback)))
}

fn pipeline(device: &Path, url: &str) -> Result<Duration> {
    let line = format!(
        "set -o pipefail; curl -sS --fail {url} | zstd -dcq | \
         dd of={} bs=4M iflag=fullblock oflag=direct conv=fsync status=none",
        device.display()
    );
    let started = Instant::now();
    let status = Command::new("bash").args(["-c", &line]).status().context("running the pipeline")?;
    if !status.success() {
        bail!("the pipeline failed ({status})");
    }
    Ok(started.elapsed())
}

fn limit(device: &Path, image: &BenchImage) -> Result<Duration> {
    let raw = File::open(&image.raw_path)?;
    let disk = ExclusiveDisk::open(device)?;
    let mut buffer = AlignedBuffer::new(CHUNK_BYTES);
    let started = Instant::now();
    for range in &image.used {
        for offset in range.clone().step_by(CHUNK_BYTES) {
            let bytes = usize::try_from(range.end - offset)?.min(CHUNK_BYTES);
            raw.read_exact_at(&mut buffer[..bytes], offset)?;
            disk.write_at(offset, &buffer[..bytes])?;
        }
    }
    disk.flush()?;
    Ok(started.elapsed())
}

/// Whether the disk holds the image: all of it, or where only used bytes were written, those.
fn compare(device: &Path, image: &BenchImage, case: WriteBenchCase) -> Result<()> {
    let ends = ENDS_BYTES..image.meta.raw_bytes - ENDS_BYTES;
    let whole = 0..image.meta.raw_bytes;
    let ranges = match case {
        WriteBenchCase::Firesteel => std::slice::from_ref(&ends),
        WriteBenchCase::Pipeline => std::slice::from_ref(&whole),
        WriteBenchCase::Limit => &image.used[..],
    };
    let raw = File::open(&image.raw_path)?;
    let disk = ExclusiveDisk::open(device)?;
    let reader = disk.reader()?;
    let (mut expected, mut found) = (vec![0; CHUNK_BYTES], AlignedBuffer::new(CHUNK_BYTES));
    for range in ranges {
        for offset in range.clone().step_by(CHUNK_BYTES) {
            let bytes = usize::try_from(range.end - offset)?.min(CHUNK_BYTES);
            raw.read_exact_at(&mut expected[..bytes], offset)?;
            reader.read_at(offset, &mut found[..bytes])?;
            if expected[..bytes] != found[..bytes] {
                bail!("{case:?} left other content than the image's at about {offset}");
            }
        }
    }
    Ok(())
}

/// A fresh loop device with direct I/O over a fresh file; removed at the end.
struct LoopDevice {
    file: PathBuf,
    device: PathBuf,
}

impl LoopDevice {
    fn new(dir: &Path, bytes: u64) -> Result<Self> {
        let file = dir.join("target.raw");
        if file.exists() {
            fs::remove_file(&file).context("removing an old target")?;
        }
        let opened = File::create(&file)?;
        nix::fcntl::fallocate(&opened, nix::fcntl::FallocateFlags::empty(), 0, i64::try_from(bytes)?)
            .context("reserving space for the target disk")?;
        opened.sync_all()?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&file)
            .output()
            .context("running losetup")?;
        if !output.status.success() {
            fs::remove_file(&file).context("removing the target")?;
            bail!("making a loop device: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(Self { file, device })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        match Command::new("losetup").arg("--detach").arg(&self.device).status() {
            Ok(status) if status.success() => {}
            result => eprintln!("detaching {}: {result:?}", self.device.display()),
        }
        if let Err(error) = fs::remove_file(&self.file) {
            eprintln!("removing {}: {error}", self.file.display());
        }
    }
}
