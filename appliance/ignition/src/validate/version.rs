//! `ignition.version`: which spec a config is written to.

/// Newest minor version of spec 3 whose rules are known here.
pub(super) const MINOR_MAX: u8 = 5;

/// The minor number of a version of spec 3 that is known, or why it is not.
///
/// Read as Ignition does (go-semver's `NewVersion`): `03.3.0` and `3.3.0-` are 3.3.0 too.
pub(crate) fn minor(version: &str) -> Result<u8, String> {
    if version.is_empty() {
        return Err(format!("is needed, such as 3.{MINOR_MAX}.0"));
    }
    let Some((numbers, is_plain)) = parse(version) else {
        return Err(format!("is no version: 3.0.0 to 3.{MINOR_MAX}.0 are read"));
    };
    match numbers {
        [2, ..] => Err("is spec 2, which today's images do not read: the stub converter turns it to 3.2.0".to_owned()),
        [3, ..] if !is_plain => {
            Err("is experimental or somebody's own: use the version without what follows it".into())
        }
        [3, minor, 0] => u8::try_from(minor).ok().filter(|minor| *minor <= MINOR_MAX).ok_or_else(|| {
            format!("is newer than 3.{MINOR_MAX}.0, the newest whose rules are known here: write it for that one")
        }),
        _ => Err(format!("is none of 3.0.0 to 3.{MINOR_MAX}.0")),
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
