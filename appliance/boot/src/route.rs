//! The paths of the boot listener: made and read in one place.

use std::fmt;

use firesteel_facts::Mac;

use crate::disk_probe::{DRIVE_FIRST, DRIVES_MAX, DiskProbe};
use crate::token::TOKEN_CHARS_MAX;

/// One thing that the boot listener serves. [`fmt::Display`] writes the path that [`RoutePath::parse`] reads.
#[derive(Clone, PartialEq, Eq)]
pub enum RoutePath {
    /// `/boot.ipxe?…`: the query is read by [`crate::ScriptRequest`].
    Script,
    /// `/loader/<file>`, for UEFI HTTP Boot.
    Loader { file: String },
    /// `/boot/<token>/kernel`.
    Kernel { token: String },
    /// `/boot/<token>/initramfs`: seed and ramdisk.
    Initramfs { token: String },
    /// `/disk-probe/<probe>/<drive>`.
    DiskProbe { probe: DiskProbe, drive: u8 },
    /// `/boot/<mac>/no-disk`: a provisioned host on BIOS did not find its disk.
    NoDisk { mac: Mac },
}

/// A loader's name is a constant of `first_stage`; this only bounds what is looked up.
const FILE_BYTES_MAX: usize = 64;

impl RoutePath {
    /// Reads an absolute path (without query). `None`: not one of ours.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let (first, second, third) = (parts.next()?, parts.next(), parts.next());
        if parts.next().is_some() {
            return None;
        }
        match (first, second, third) {
            ("boot.ipxe", None, None) => Some(Self::Script),
            ("loader", Some(file), None) if is_file_name(file) => Some(Self::Loader { file: file.to_owned() }),
            ("boot", Some(token), Some("kernel")) if is_token(token) => Some(Self::Kernel { token: token.to_owned() }),
            ("boot", Some(token), Some("initramfs")) if is_token(token) => {
                Some(Self::Initramfs { token: token.to_owned() })
            }
            ("boot", Some(mac), Some("no-disk")) => Some(Self::NoDisk { mac: mac.parse().ok()? }),
            ("disk-probe", Some(probe), Some(drive)) => {
                let drive = u8::from_str_radix(drive, 16).ok()?;
                let known = (DRIVE_FIRST..DRIVE_FIRST + DRIVES_MAX).contains(&drive);
                known.then_some(Self::DiskProbe { probe: probe.parse().ok()?, drive })
            }
            _ => None,
        }
    }
}

/// Base64url and nothing else: what a sealed token looks like, and what may stand in a script.
pub(crate) fn is_token(text: &str) -> bool {
    (1..=TOKEN_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn is_file_name(text: &str) -> bool {
    (1..=FILE_BYTES_MAX).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

impl fmt::Display for RoutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script => f.write_str("/boot.ipxe"),
            Self::Loader { file } => write!(f, "/loader/{file}"),
            Self::Kernel { token } => write!(f, "/boot/{token}/kernel"),
            Self::Initramfs { token } => write!(f, "/boot/{token}/initramfs"),
            Self::DiskProbe { probe, drive } => write!(f, "/disk-probe/{probe}/{drive:02x}"),
            Self::NoDisk { mac } => write!(f, "/boot/{}/no-disk", mac.hyphenated()),
        }
    }
}

impl fmt::Debug for RoutePath {
    /// Leaves the token out: requests are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { .. } => f.write_str("/boot/…/kernel"),
            Self::Initramfs { .. } => f.write_str("/boot/…/initramfs"),
            Self::Script | Self::Loader { .. } | Self::DiskProbe { .. } | Self::NoDisk { .. } => {
                fmt::Display::fmt(self, f)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for route in [
            RoutePath::Script,
            RoutePath::Loader { file: "ipxe.efi".into() },
            RoutePath::Kernel { token: "AQ_-x".into() },
            RoutePath::Initramfs { token: "AQ_-x".into() },
            RoutePath::DiskProbe { probe: DiskProbe::gpt_disk_guid(&[1; 16]), drive: 0x87 },
            RoutePath::NoDisk { mac: Mac([1, 2, 3, 4, 5, 6]) },
        ] {
            assert_eq!(RoutePath::parse(&route.to_string()), Some(route));
        }
    }

    #[test]
    fn refuses_other_paths() {
        for path in [
            "",
            "/",
            "boot.ipxe",
            "/boot.ipxe/",
            "/loader/..",
            "/loader/.ipxe.efi",
            "/loader/a%2fb",
            "/boot//kernel",
            "/boot/to ken/kernel",
            "/boot//initramfs",
            "/boot/to ken/initramfs",
            "/boot/token/kernel/x",
            "/boot/token/no-disk",
            "/disk-probe/1-56-00/88",
            "/disk-probe/1-56-00/7f",
            "/disk-probe/1-56/80",
        ] {
            assert_eq!(RoutePath::parse(path), None, "{path}");
        }
        for name in ["kernel", "initramfs"] {
            let parsed = |characters| RoutePath::parse(&format!("/boot/{}/{name}", "a".repeat(characters)));
            assert!(parsed(TOKEN_CHARS_MAX).is_some() && parsed(TOKEN_CHARS_MAX + 1).is_none(), "{name}");
        }
        let loader = |characters| RoutePath::parse(&format!("/loader/{}", "a".repeat(characters)));
        assert!(loader(FILE_BYTES_MAX).is_some() && loader(FILE_BYTES_MAX + 1).is_none());
    }

    #[test]
    fn debug_hides_tokens() {
        assert_eq!(format!("{:?}", RoutePath::Kernel { token: "secret".into() }), "/boot/…/kernel");
    }

    proptest! {
        #[test]
        fn any_path_that_parses_round_trips(path in "/(boot|loader|disk-probe)/[ -~]{0,40}(/[ -~]{0,10})?") {
            if let Some(route) = RoutePath::parse(&path) {
                prop_assert_eq!(RoutePath::parse(&route.to_string()), Some(route));
            }
        }
    }
}
