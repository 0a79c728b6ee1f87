//! Restarts the process in place: the same program, arguments and process id, so that a supervisor does not notice.
//! Every part starts as usual, from what is on disk.

use std::{env, os::unix::process::CommandExt as _, process::Command};

/// Ends a process that served no machine, and can now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provisioning network can be served now")]
pub(super) struct RestartRequest;

/// Replaces this process. Its files, sockets and locks are closed by the system.
pub(super) fn in_its_place() -> anyhow::Error {
    let mut arguments = env::args_os();
    // This is the running program, even if another file has its name by now.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).exec();
    anyhow::Error::new(error).context("could not restart the process to serve machines (start the appliance again)")
}
