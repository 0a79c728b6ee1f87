//! The parts of the code that decide, each of which is changed and judged by itself.

use std::fmt;

use clap::ValueEnum as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum MutantPart {
    /// What hosts, disks, evidence and groups need next
    Plan,
    /// Leases and answers
    Dhcp,
    /// Boot entries, scripts and tokens
    Boot,
    /// The disk writer
    Write,
    /// Ignition's rules and conversions
    Ignition,
}

impl MutantPart {
    /// The package whose tests must notice a change.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Plan => "firesteel-plan",
            Self::Dhcp => "firesteel-dhcp",
            Self::Boot => "firesteel-boot",
            Self::Write => "firesteel-images",
            Self::Ignition => "firesteel-ignition",
        }
    }

    /// Features that the package is built with: no program is linked for each mutant that no test needs.
    pub(super) fn features(self) -> &'static [&'static str] {
        match self {
            Self::Write => &["--no-default-features", "--features", "import,write"],
            Self::Plan | Self::Dhcp | Self::Boot | Self::Ignition => &[],
        }
    }

    /// Whether a file is one of those that are changed.
    pub(super) fn owns(self, file: &str) -> bool {
        self.files().split_once("**").is_some_and(|(folder, _)| file.starts_with(folder))
    }

    /// The files that are changed.
    pub(super) fn files(self) -> &'static str {
        match self {
            Self::Plan => "appliance/plan/src/**/*.rs",
            Self::Dhcp => "appliance/dhcp/src/**/*.rs",
            Self::Boot => "appliance/boot/src/**/*.rs",
            Self::Write => "images/src/write/**/*.rs",
            Self::Ignition => "appliance/ignition/src/**/*.rs",
        }
    }
}

impl fmt::Display for MutantPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artefacts::repository;

    #[test]
    fn each_part_has_files_of_its_own() {
        for part in MutantPart::value_variants() {
            let (folder, _) = part.files().split_once("**").unwrap_or_default();
            assert!(repository().join(folder).is_dir(), "{folder}");
            let owners = MutantPart::value_variants().iter().filter(|other| other.owns(&format!("{folder}a/b.rs")));
            assert_eq!(owners.count(), 1, "{part}");
        }
        assert!(!MutantPart::Write.owns("images/src/import/mod.rs"));
    }
}
