//! File names as firmware sends them, made plain.
//!
//! Seen in the field: a leading `/` or `./`, backslashes (Windows deployment servers), doubled slashes,
//! trailing 0xFF bytes (ROMs that copy DHCP's option 67 together with its end mark), trailing
//! spaces, and a folder put in front. What is left is a relative path of harmless characters that never names a
//! parent; since files come from memory, it cannot reach one either.

/// Loader names are short; a path is bounded before it is looked up or logged.
pub(crate) const PATH_BYTES_MAX: usize = 128;

/// Normalises a path; gives `None` for a name that cannot be ours.
#[must_use]
pub fn normalise(raw: &[u8]) -> Option<String> {
    let trimmed = raw.iter().rposition(|byte| !matches!(byte, 0xff | b' ')).map_or(&raw[..0], |last| &raw[..=last]);
    if trimmed.is_empty() || trimmed.len() > PATH_BYTES_MAX {
        return None;
    }
    if !trimmed.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let text = std::str::from_utf8(trimmed).ok()?.replace('\\', "/");
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() || parts.contains(&"..") {
        return None;
    }
    Some(parts.join("/"))
}

/// The last part of a normalised path, for a server whose files lie in no folders.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn firmware_spellings_mean_one_file() {
        for raw in [
            &b"undionly.kpxe"[..],
            b"/undionly.kpxe",
            b"./undionly.kpxe",
            b"//undionly.kpxe",
            b"\\undionly.kpxe",
            b".\\.\\undionly.kpxe",
            b"undionly.kpxe\xff",
            b"undionly.kpxe\xff\xff",
            b"undionly.kpxe  ",
        ] {
            assert_eq!(normalise(raw).as_deref(), Some("undionly.kpxe"), "{raw:?}");
        }
        assert_eq!(normalise(b"boot\\x64/wdsnbp.com").as_deref(), Some("boot/x64/wdsnbp.com"));
        assert_eq!(base_name("boot/x64/ipxe.efi"), "ipxe.efi");
    }

    #[test]
    fn parents_and_strange_characters_are_refused() {
        for raw in [
            &b""[..],
            b"/",
            b"..",
            b"../etc/passwd",
            b"a/../b",
            b"a\\..\\b",
            b"\xff",
            b"a\xffb",
            b"a\nb",
            b"a b",
            b"\x1b[2J",
            "é".as_bytes(),
        ] {
            assert_eq!(normalise(raw), None, "{raw:?}");
        }
        assert_eq!(normalise(&[b'a'; PATH_BYTES_MAX + 1]), None);
        assert_eq!(normalise(b"..a/b..").as_deref(), Some("..a/b.."), "dots within a name are no parent");
    }

    proptest! {
        #[test]
        fn what_passes_is_relative_and_passes_again(raw in prop::collection::vec(any::<u8>(), 0..160)) {
            if let Some(path) = normalise(&raw) {
                prop_assert!(!path.starts_with('/') && !path.contains('\\'));
                prop_assert!(path.split('/').all(|part| !part.is_empty() && part != ".."));
                let again = normalise(path.as_bytes());
                prop_assert_eq!(again, Some(path));
            }
        }
    }
}
