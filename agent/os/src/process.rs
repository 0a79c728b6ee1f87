//! PID 1's own duties: reaping, switching off, the console as standard output; and memory that leaves no copy.

use std::{fs::OpenOptions, io, path::Path};

use nix::sys::prctl;
use nix::sys::reboot::{RebootMode, reboot, set_cad_enabled};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout};

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildExit {
    Exited(i32),
    Signalled(String),
}

/// Waits for any child (PID 1 inherits every orphan) and says which one ended and how.
pub fn reap() -> io::Result<Option<(Pid, ChildExit)>> {
    match wait() {
        Ok(WaitStatus::Exited(pid, code)) => Ok(Some((pid, ChildExit::Exited(code)))),
        Ok(WaitStatus::Signaled(pid, signal, _)) => Ok(Some((pid, ChildExit::Signalled(signal.as_str().to_owned())))),
        Ok(_) | Err(nix::Error::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Has a crash leave no copy of this process's memory, in which the token and the host's user data are. A program that
/// it starts has the limit, and says the rest for itself.
pub fn keep_memory() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // The kernel asks no limit where it pipes the dump to a program (core(5)).
    Ok(prctl::set_dumpable(false)?)
}

/// Makes the console this process's standard input, output and error.
pub fn use_console(console: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(console)?;
    dup2_stdin(&file)?;
    dup2_stdout(&file)?;
    dup2_stderr(&file)?;
    Ok(())
}

/// Ctrl-Alt-Del must not cut off a write.
pub fn ignore_ctrl_alt_del() -> io::Result<()> {
    Ok(set_cad_enabled(false)?)
}

/// Writes everything out and restarts or switches off the machine. Returns only on failure.
pub fn leave(power_off: bool) -> io::Error {
    nix::unistd::sync();
    let mode = if power_off { RebootMode::RB_POWER_OFF } else { RebootMode::RB_AUTOBOOT };
    match reboot(mode) {
        Ok(never) => match never {},
        Err(error) => error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use nix::sys::resource::getrlimit;

    use super::*;

    #[test]
    fn a_crash_leaves_no_copy_of_the_memory() {
        keep_memory().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        assert!(!prctl::get_dumpable().unwrap());
    }
}
