//! `ignition.version`: which spec a config is written to.

/// Newest minor version of spec 3 whose rules are known here.
pub(super) const MINOR_MAX: u8 = 5;

/// What is wrong with `ignition.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionFault {
    #[error("is needed, such as 3.{MINOR_MAX}.0")]
    Missing,
    #[error("is no version: 3.0.0 to 3.{MINOR_MAX}.0 are read")]
    Malformed,
    #[error("is spec 2, which today's images do not read: the stub converter turns it to 3.2.0")]
    Spec2,
    #[error("is experimental or a private version: use the version without what follows it")]
    Experimental,
    #[error("is newer than 3.{MINOR_MAX}.0, the newest whose rules are known here: write it for that one")]
    Newer,
    #[error("is none of 3.0.0 to 3.{MINOR_MAX}.0")]
    Unknown,
}

/// Reads the minor number of a known version of spec 3.
///
/// The reading is Ignition's (go-semver's `NewVersion`): `03.3.0` and `3.3.0-` are 3.3.0 too.
pub(crate) fn minor(version: &str) -> Result<u8, VersionFault> {
    if version.is_empty() {
        return Err(VersionFault::Missing);
    }
    match parse(version).ok_or(VersionFault::Malformed)? {
        ([2, ..], _) => Err(VersionFault::Spec2),
        ([3, ..], false) => Err(VersionFault::Experimental),
        ([3, minor, 0], true) => {
            u8::try_from(minor).ok().filter(|minor| *minor <= MINOR_MAX).ok_or(VersionFault::Newer)
        }
        _ => Err(VersionFault::Unknown),
    }
}

/// The three numbers, and whether nothing follows them.
fn parse(version: &str) -> Option<([u64; 3], bool)> {
    let (version, metadata) = version.split_once('+').unwrap_or((version, ""));
    let (version, pre_release) = version.split_once('-').unwrap_or((version, ""));
    let mut parts = version.splitn(3, '.');
    let mut numbers = [0; 3];
    for number in &mut numbers {
        // `u64` would read a sign; there is none after what was split off.
        *number = parts.next()?.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok())?;
    }
    Some((numbers, metadata.is_empty() && pre_release.is_empty()))
}
