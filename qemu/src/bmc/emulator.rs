//! The process of an emulator of another project, with its output in a log.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::BmcError;
use crate::os;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts an emulator and waits until it listens. It ends when the child is dropped.
pub(super) async fn start(
    what: &'static str,
    mut command: Command,
    log: &Path,
    timeout: Duration,
    listens: impl Fn() -> bool,
) -> Result<Child, BmcError> {
    let failed = BmcError::Simulator;
    let output = File::create(log).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output).kill_on_drop(true);
    os::die_with_parent(command.as_std_mut(), Signal::SIGKILL);
    let mut child = command.spawn().map_err(failed)?;
    let begun = Instant::now();
    while !listens() {
        let has_ended = child.try_wait().map_err(failed)?.is_some();
        if has_ended || begun.elapsed() > timeout {
            let log = fs::read_to_string(log).unwrap_or_default();
            return Err(BmcError::NotReady { what, log: log.trim().to_owned() });
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(child)
}
