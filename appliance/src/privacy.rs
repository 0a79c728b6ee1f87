//! What the process keeps from others on its machine: its memory, and the files that it makes.

use anyhow::Context as _;
use nix::sys::{
    prctl,
    resource::{Resource, setrlimit},
    stat::{Mode, umask},
};

/// Has a crash leave no copy of the memory, in which keys, tokens and Secrets are; and lets no debugger in but root's.
///
/// # Errors
/// When the kernel refuses it.
pub fn keep_memory() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).context("could not switch core dumps off (RLIMIT_CORE)")?;
    // The kernel asks no limit where it pipes the dump to a program (core(5)).
    prctl::set_dumpable(false).context("could not switch core dumps off (PR_SET_DUMPABLE)")
}

/// Gives the permissions of others to no file that is made from now on.
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
