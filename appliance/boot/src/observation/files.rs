//! The files that one boot fetches, by their content.

use std::fmt;

use firesteel_facts::Sha256;

use super::grant::BootSeal;

/// One file of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootFile {
    pub sha256: Sha256,
    pub bytes: u64,
}

/// What is fetched to start the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootFileName {
    Kernel,
    Initramfs,
}

impl fmt::Display for BootFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Initramfs => "initramfs",
        })
    }
}

/// All files of a boot, which belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BootFileSet {
    pub kernel: BootFile,
    /// The initramfs without the seed, which is another one for each boot.
    pub initramfs: BootFile,
    /// The agent in the initramfs, where the ramdisk's manifest names it.
    pub agent: Option<Sha256>,
}

impl BootFileSet {
    #[must_use]
    pub fn file(&self, name: BootFileName) -> &BootFile {
        match name {
            BootFileName::Kernel => &self.kernel,
            BootFileName::Initramfs => &self.initramfs,
        }
    }
}

/// Sets of files that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedBootFiles {
    /// What new tokens are for.
    pub current: BootFileSet,
    /// What was served before an upgrade, for boots that are under way.
    pub kept: Option<BootFileSet>,
}

impl ServedBootFiles {
    /// Finds the files that belong to a token.
    #[must_use]
    pub fn of(&self, seal: &BootSeal) -> Option<&BootFileSet> {
        [Some(&self.current), self.kept.as_ref()].into_iter().flatten().find(|set| seal.is_of(set))
    }
}
