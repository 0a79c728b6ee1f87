//! The processor architectures that images are published for.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Letters of a word that is none which its error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// The four architectures of stream metadata (S1-2.2), by their names there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    Aarch64,
    Ppc64le,
    S390x,
    #[serde(rename = "x86_64")]
    X86_64,
}

impl Architecture {
    pub const ALL: [Self; 4] = [Self::Aarch64, Self::Ppc64le, Self::S390x, Self::X86_64];

    /// Reads the name of stream metadata, or the one that Kubernetes has (`amd64`, `arm64`), as labels and annotations
    /// give it.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "aarch64" | "arm64" => Some(Self::Aarch64),
            "ppc64le" => Some(Self::Ppc64le),
            "s390x" => Some(Self::S390x),
            "x86_64" | "amd64" => Some(Self::X86_64),
            _ => None,
        }
    }

    /// Names it as stream metadata does.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
            Self::X86_64 => "x86_64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The word is the name of no architecture that there are images for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is none of the architectures x86_64 (amd64), aarch64 (arm64), ppc64le and s390x")]
pub struct UnknownArchitecture(String);

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(text: &str) -> Result<Self, UnknownArchitecture> {
        Self::read(text).ok_or_else(|| {
            // Nothing in it moves a cursor or begins a line.
            let mut start: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
            if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
                start.push('…');
            }
            UnknownArchitecture(start)
        })
    }
}
