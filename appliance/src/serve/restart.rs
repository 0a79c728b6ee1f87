//! Restarts the process in place: the same program, arguments and process id, so that a supervisor does not notice.
//! Every part starts as usual, from what is on disk.

use std::ffi::OsString;
use std::{env, os::unix::process::CommandExt as _, process::Command};

/// The flag of the first start alone.
const INIT: &str = "--init";

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
    let error = command.args(for_next_start(arguments)).exec();
    anyhow::Error::new(error).context("could not restart the process to serve machines (start the appliance again)")
}

/// Leaves out what only a first start takes: there is an appliance now.
fn for_next_start(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    arguments.filter(|argument| argument != INIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_no_first_start() {
        let arguments = ["serve", "--init", "--data", "/d"].map(OsString::from);
        assert_eq!(for_next_start(arguments.into_iter()).collect::<Vec<_>>(), ["serve", "--data", "/d"]);
    }
}
