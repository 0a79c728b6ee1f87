//! Whether KVM can be used: only where a Debian kernel is seen to run on it. A computer may have
//! `/dev/kvm` that opens, runs firmware, and then hangs in any real kernel.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::{machine::Accel, os, progress::ProgressStep, serial::SerialLog, tools::Tools};

/// A kernel on working KVM prints its first line within a second.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// What every Linux kernel says first.
pub const KERNEL_FIRST_LINE: &str = "Linux version";
const CACHE_FILE: &str = "kvm.json";

/// A remembered answer; another boot of the computer or another kernel asks again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KvmProbeResult {
    boot_id: String,
    kernel_bytes: u64,
    works: bool,
}

/// What to run machines with.
pub async fn accel(tools: &Tools, kernel: &Path, scratch: &Path) -> anyhow::Result<Accel> {
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(Accel::Tcg);
    }
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
    let kernel_bytes = fs::metadata(kernel).with_context(|| format!("finding the kernel {}", kernel.display()))?.len();
    let cache = tools.cache.join(CACHE_FILE);
    let known = fs::read(&cache).ok().and_then(|text| serde_json::from_slice::<KvmProbeResult>(&text).ok());
    let works = match known {
        Some(answer) if answer.boot_id == boot_id && answer.kernel_bytes == kernel_bytes => answer.works,
        Some(_) | None => {
            let step = ProgressStep::begin("trying whether Debian's kernel runs on KVM");
            let works = runs_on_kvm(tools, kernel, scratch).await?;
            step.end_with(if works { "it does" } else { "it does not; machines are emulated" });
            fs::write(&cache, serde_json::to_vec(&KvmProbeResult { boot_id, kernel_bytes, works })?)
                .with_context(|| format!("writing {}", cache.display()))?;
            works
        }
    };
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

async fn runs_on_kvm(tools: &Tools, kernel: &Path, scratch: &Path) -> anyhow::Result<bool> {
    let log = scratch.join("kvm-probe.log");
    File::create(&log)?;
    let mut command = Command::new(&tools.qemu);
    command
        .args(["-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-display", "none"])
        .arg("-no-reboot")
        .arg("-serial")
        .arg(format!("file:{}", log.display()))
        .arg("-kernel")
        .arg(kernel)
        .args(["-append", "console=ttyS0 panic=-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
    let mut qemu = command.spawn().context("starting QEMU")?;
    let seen = SerialLog::new(log).wait_for(KERNEL_FIRST_LINE, 0, FIRST_LINE_TIMEOUT).await?;
    // It may have ended by itself.
    drop(qemu.kill().await);
    Ok(seen.is_some())
}
