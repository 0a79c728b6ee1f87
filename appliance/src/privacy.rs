//! Protects the process from others on its machine: its memory, and the files that it makes.

use anyhow::Context as _;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};

/// Switches core dumps off, since the memory holds keys, tokens and Secrets, and keeps all debuggers but root's out.
///
/// # Errors
/// When the kernel refuses it.
pub fn keep_memory() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("could not switch core dumps off (RLIMIT_CORE)")?;
    // The kernel ignores the limit if it pipes the dump to a program (core(5)).
    prctl::set_dumpable(false).context("could not switch core dumps off (PR_SET_DUMPABLE)")
}

/// Makes new files without permissions for other users.
pub fn keep_files() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use nix::sys::resource::getrlimit;

    use super::*;

    #[test]
    fn there_is_no_core_dump_by_either_way() {
        keep_memory().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        assert!(!prctl::get_dumpable().unwrap());
    }
}
