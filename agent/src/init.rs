//! PID 1: mounts, takes the seed, runs the worker, and stays. Small on purpose: what can fail is
//! in the worker, whose death is reported by the next one.
//!
//! ```text
//! mounts -> seed taken, file removed -> key pair -> worker --exit 10/11--> reboot, power-off
//!                                         ^            | dies: last words kept
//!                                         +------------+ at most 3 times, then reboot
//! ```

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use anyhow::Context;
use firesteel_os::process::{ChildExit, leave, reap};
use firesteel_os::{self as os};
use firesteel_steps::Exit;
use firesteel_wire::seed::SEED_PATH;

use crate::console;
use crate::worker_handover::{Handover, take_seed};

/// What the worker is started with.
pub const WORKER_ARGUMENT: &str = "worker";
/// The worker's wish to reboot or to switch off, as exit status.
pub const STATUS_REBOOT: u8 = 10;
pub const STATUS_POWER_OFF: u8 = 11;

/// A fault that comes back this often will come back always.
const DEATHS_MAX: u32 = 3;
/// What is kept of a worker's standard error: a panic's text and place, not a flood.
const LAST_WORDS_BYTES_MAX: usize = 2048;
/// Time to read the console before the host reboots for a fault.
const FAULT_PAUSE: Duration = Duration::from_secs(30);

/// What to do when the worker has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorAction {
    Leave(Exit),
    /// Starts another one after this pause; it reports these words.
    Restart(Duration, String),
    GiveUp(String),
}

/// Decides by how the worker ended and how many died before.
#[must_use]
pub fn after_worker(ended: &ChildExit, deaths_before: u32, said: &str) -> SupervisorAction {
    let how = match ended {
        ChildExit::Exited(status) if *status == i32::from(STATUS_REBOOT) => {
            return SupervisorAction::Leave(Exit::Reboot);
        }
        ChildExit::Exited(status) if *status == i32::from(STATUS_POWER_OFF) => {
            return SupervisorAction::Leave(Exit::PowerOff);
        }
        ChildExit::Exited(status) => format!("the agent's worker ended with status {status}"),
        // The kernel kills with SIGKILL where memory runs out; nothing else here does.
        ChildExit::Signalled(signal) if signal == "SIGKILL" => {
            "the agent's worker was killed (SIGKILL); most likely the host ran out of memory".to_owned()
        }
        ChildExit::Signalled(signal) => format!("the agent's worker died by {signal}"),
    };
    let said = said.trim();
    let words = if said.is_empty() { how } else { format!("{how}: {said}") };
    if deaths_before + 1 >= DEATHS_MAX {
        return SupervisorAction::GiveUp(words);
    }
    SupervisorAction::Restart(Duration::from_secs(2_u64.pow(deaths_before)), words)
}

/// The whole life of PID 1. Never returns: the kernel panics when PID 1 ends.
pub fn main() -> ! {
    std::panic::set_hook(Box::new(|panic| {
        print_line(&format!("init panicked: {panic}"));
        leave_after(FAULT_PAUSE, Exit::Reboot);
    }));
    let exit = match prepare().and_then(supervise) {
        Ok(exit) => exit,
        Err(error) => {
            print_line(&format!("{error:#}"));
            leave_after(FAULT_PAUSE, Exit::Reboot);
        }
    };
    leave_after(Duration::ZERO, exit);
}

fn print_line(text: &str) {
    console::line(os::clock::uptime(), text);
}

fn leave_after(pause: Duration, exit: Exit) -> ! {
    if !pause.is_zero() {
        print_line(&format!("{} in {} s", exit.text(), pause.as_secs()));
        thread::sleep(pause);
    }
    print_line(exit.text());
    let error = leave(exit == Exit::PowerOff);
    loop {
        print_line(&format!("the kernel does not {}: {error}", exit.text()));
        thread::sleep(Duration::from_secs(60));
    }
}

fn prepare() -> anyhow::Result<Handover> {
    // Before there is a secret in it.
    os::process::keep_memory().context("switching core dumps off")?;
    mount_all()?;
    os::process::use_console(Path::new("/dev/console")).context("opening the console")?;
    os::process::ignore_ctrl_alt_del().context("switching off Ctrl-Alt-Del")?;
    // From here on the kernel's own requests for modules come to this binary.
    fs::write("/proc/sys/kernel/modprobe", "/init").context("naming /init as modprobe")?;
    mount_optional();
    print_line(&format!("agent {}", env!("CARGO_PKG_VERSION")));
    let parameters = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let debug = parameters.split_ascii_whitespace().any(|word| word == "firesteel.debug");
    let seed = take_seed(Path::new(SEED_PATH))?;
    Handover::new(seed, debug)
}

fn mount_all() -> anyhow::Result<()> {
    for (kind, target, options) in [
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("devtmpfs", "/dev", "mode=0755"),
        ("tmpfs", "/run", "mode=0755,size=16m"),
        ("tmpfs", "/tmp", "mode=1777,size=16m"),
    ] {
        os::mounts::mount_kernel_filesystem(kind, Path::new(target), options)
            .with_context(|| format!("mounting {target}"))?;
    }
    Ok(())
}

/// Firmware variables, where the host has UEFI. A host whose firmware refuses them can still be
/// inspected and written.
fn mount_optional() {
    let variables = Path::new("/sys/firmware/efi/efivars");
    if variables.is_dir()
        && let Err(error) = os::mounts::mount_kernel_filesystem("efivarfs", variables, "")
    {
        print_line(&format!("firmware variables cannot be mounted: {error}"));
    }
}

fn supervise(mut handover: Handover) -> anyhow::Result<Exit> {
    loop {
        let (ended, said) = run_worker(&handover)?;
        match after_worker(&ended, handover.deaths, &said) {
            SupervisorAction::Leave(exit) => return Ok(exit),
            SupervisorAction::Restart(pause, words) => {
                print_line(&format!("{words}; starting it again"));
                handover.deaths += 1;
                handover.died_ms = u64::try_from(os::clock::uptime().as_millis()).unwrap_or(u64::MAX);
                handover.last_words = words;
                thread::sleep(pause);
            }
            SupervisorAction::GiveUp(words) => anyhow::bail!("{words}; it died {DEATHS_MAX} times, giving up"),
        }
    }
}

fn run_worker(handover: &Handover) -> anyhow::Result<(ChildExit, String)> {
    let mut worker = Command::new("/proc/self/exe")
        .arg(WORKER_ARGUMENT)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the worker")?;
    let said = Arc::new(Mutex::new(Vec::new()));
    let listener = worker.stderr.take().map(|stderr| {
        let said = Arc::clone(&said);
        thread::spawn(move || listen(stderr, &said))
    });
    if let Some(mut stdin) = worker.stdin.take()
        && let Err(error) = stdin.write_all(&handover.to_bytes()?)
    {
        print_line(&format!("handing over to the worker: {error}"));
    }
    // Waited for here and not through `Child`: PID 1 reaps whatever ends, in any order.
    let pid = i64::from(worker.id());
    let ended = loop {
        match reap().context("waiting for the worker")? {
            Some((ended_pid, ended)) if i64::from(ended_pid.as_raw()) == pid => break ended,
            Some(_) | None => {}
        }
    };
    if let Some(listener) = listener {
        drop(listener.join());
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((ended, String::from_utf8_lossy(&said).into_owned()))
}

/// Shows and keeps the end of what the worker says on standard error.
fn listen(mut stderr: impl Read, said: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 1024];
    while let Ok(bytes @ 1..) = stderr.read(&mut chunk) {
        drop(std::io::stdout().write_all(&chunk[..bytes]));
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&chunk[..bytes]);
        let excess = said.len().saturating_sub(LAST_WORDS_BYTES_MAX);
        said.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_followed_and_deaths_are_reported_then_end_the_boot() {
        assert_eq!(after_worker(&ChildExit::Exited(10), 0, ""), SupervisorAction::Leave(Exit::Reboot));
        assert_eq!(after_worker(&ChildExit::Exited(11), 2, ""), SupervisorAction::Leave(Exit::PowerOff));
        let SupervisorAction::Restart(pause, words) =
            after_worker(&ChildExit::Signalled("SIGABRT".into()), 0, " panicked at x\n")
        else {
            panic!("not restarted");
        };
        assert_eq!(
            (pause, words.as_str()),
            (Duration::from_secs(1), "the agent's worker died by SIGABRT: panicked at x")
        );
        assert!(matches!(
            after_worker(&ChildExit::Exited(101), 1, ""),
            SupervisorAction::Restart(pause, _) if pause.as_secs() == 2
        ));
        let last = after_worker(&ChildExit::Signalled("SIGKILL".into()), 2, "");
        assert!(matches!(last, SupervisorAction::GiveUp(words) if words.contains("out of memory")));
    }

    #[test]
    fn the_end_of_the_last_words_is_kept() {
        let said = Mutex::new(Vec::new());
        listen([&[b'a'; 5000][..], b"end"].concat().as_slice(), &said);
        let said = said.into_inner().unwrap_or_default();
        assert_eq!(said.len(), LAST_WORDS_BYTES_MAX);
        assert!(said.ends_with(b"end"));
    }
}
