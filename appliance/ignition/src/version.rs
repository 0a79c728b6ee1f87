//! Versions of the spec: those that are written here, and what a config or a client says.

/// A version that this crate writes. In order of age, so that `version < SpecVersion::V3_3` reads as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    V2_2,
    V3_0,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
}

impl SpecVersion {
    /// What pools are rendered in, and what a client of a newer minor gets.
    pub const NEWEST: Self = Self::V3_5;
    pub const ALL: [Self; 7] = [Self::V2_2, Self::V3_0, Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5];

    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::V2_2 => "2.2.0",
            Self::V3_0 => "3.0.0",
            Self::V3_1 => "3.1.0",
            Self::V3_2 => "3.2.0",
            Self::V3_3 => "3.3.0",
            Self::V3_4 => "3.4.0",
            Self::V3_5 => "3.5.0",
        }
    }

    /// The version of a config that says `text` exactly.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.text() == text)
    }
}

impl std::fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// A semantic version as Ignition reads one: `X.Y.Z`, then perhaps `-PRE` and `+BUILD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) pre_release: bool,
}

/// Most digits of one number of a version. A text with more digits is no version.
const DIGITS_MAX: usize = 9;

impl Semver {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, pre_release) = text.split_once('-').map_or((text, false), |(numbers, _)| (numbers, true));
        let mut parts = numbers.split('.').map(|part| {
            let fits = (1..=DIGITS_MAX).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            if fits { part.parse().ok() } else { None }
        });
        let version = Self { major: parts.next()??, minor: parts.next()??, pre_release };
        let _patch: u64 = parts.next()??;
        parts.next().is_none().then_some(version)
    }
}
