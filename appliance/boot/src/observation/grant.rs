//! One token of a boot, and what was sent for it. Pure.

use std::{fmt, ops::Range};

use firesteel_facts::Sha256;

use super::BootAsker;
use super::coverage::Coverage;
use super::files::{BootFileName, BootFileSet};

/// What a boot token seals besides its claims: who asked, and which files belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootSeal {
    /// Tells the tokens of one attempt apart.
    pub grant: u64,
    pub asker: BootAsker,
    pub kernel: Sha256,
    pub initramfs: Sha256,
    pub agent: Option<Sha256>,
}

impl BootSeal {
    /// Says whether these files belong to it.
    #[must_use]
    pub fn is_of(&self, files: &BootFileSet) -> bool {
        (self.kernel, self.initramfs, self.agent) == (files.kernel.sha256, files.initramfs.sha256, files.agent)
    }
}

/// Why a hello does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnseenBoot {
    /// The token is of an appliance that did not watch boots.
    Unsealed,
    /// Not all bytes of a file were sent for this token.
    NotFetched { file: BootFileName, sent: u64, bytes: u64 },
    /// Files of the token are not the ones that are served.
    OtherFiles,
    /// The program that says hello is not the one of the ramdisk.
    OtherAgent,
}

impl fmt::Display for UnseenBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsealed => f.write_str("this token does not say which files belong to it"),
            Self::NotFetched { file, sent, bytes } => {
                write!(f, "{sent} of {bytes} bytes of the {file} were sent for this token")
            }
            Self::OtherFiles => f.write_str("the files of this boot are not served any more"),
            Self::OtherAgent => f.write_str("this program is not the agent of the ramdisk that was sent"),
        }
    }
}

/// What was sent for one token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenGrant {
    pub(super) id: u64,
    kernel: Coverage,
    initramfs: Coverage,
}

impl TokenGrant {
    pub(super) fn of(id: u64) -> Self {
        Self { id, ..Self::default() }
    }

    fn coverage(&mut self, file: BootFileName) -> &mut Coverage {
        match file {
            BootFileName::Kernel => &mut self.kernel,
            BootFileName::Initramfs => &mut self.initramfs,
        }
    }

    /// Takes in what was sent; whether a file of this length is whole by it.
    pub(super) fn sent(&mut self, file: BootFileName, range: Range<u64>, bytes: u64) -> bool {
        let coverage = self.coverage(file);
        let was_whole = coverage.is_whole(bytes);
        coverage.add(range);
        !was_whole && coverage.is_whole(bytes)
    }

    /// Finds what is missing of the files.
    pub(super) fn missing(&self, files: &BootFileSet) -> Option<UnseenBoot> {
        let both = [(BootFileName::Kernel, &self.kernel), (BootFileName::Initramfs, &self.initramfs)];
        both.into_iter().find_map(|(file, coverage)| {
            let bytes = files.file(file).bytes;
            let unseen = UnseenBoot::NotFetched { file, sent: coverage.bytes().min(bytes), bytes };
            (!coverage.is_whole(bytes)).then_some(unseen)
        })
    }
}
