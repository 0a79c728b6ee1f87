//! What iPXE says about its machine when it asks for the script: a strict reader of the query.
//!
//! iPXE sends an empty value for a setting that it does not have. Identity here is a claim of the
//! client: it picks a boot entry, and never proves anything. UUID and serial number come from SMBIOS, where boards
//! hold any bytes: what is no text is kept escaped, to be shown, and is no identity.

use std::fmt;

use firesteel_facts::{Mac, arch::ipxe_starts_x86};

/// Five parameters; a serial number may be long and every character of it percent-encoded.
pub const QUERY_BYTES_MAX: usize = 4096;
/// The longest decoded value. SMBIOS strings of real machines stay below 100.
pub const VALUE_BYTES_MAX: usize = 128;
/// The longest part of a value that is no text, before it is escaped.
const SHOWN_BYTES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// The platform `pcbios`.
    Bios,
    /// The platform `efi`.
    Efi,
}

/// A script request as it was asked; absent and empty values are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRequest {
    pub mac: Mac,
    pub platform: Platform,
    /// `i386`, `x86_64`, `arm64`: what iPXE was built for, not what the CPU can do.
    pub buildarch: Option<String>,
    /// SMBIOS UUID, as iPXE prints it.
    pub uuid: Option<String>,
    pub serial: Option<String>,
    /// What SMBIOS holds that is no text.
    pub odd: Vec<InvalidParameter>,
}

/// A value that is no text, or too long, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    pub name: &'static str,
    /// The bytes in ASCII: `\xff\xff`.
    pub shown: String,
}

impl fmt::Display for InvalidParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the SMBIOS {} is no text and is not used: {}", self.name, self.shown)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the query is longer than {QUERY_BYTES_MAX} bytes")]
    Long,
    #[error("parameter `{0}` is given twice")]
    Twice(&'static str),
    #[error("a parameter is not one of mac, uuid, serial, platform, buildarch")]
    Unknown,
    #[error("parameter `{0}` has no usable value")]
    Value(&'static str),
    #[error("parameter `{0}` is missing")]
    Missing(&'static str),
}

impl ScriptRequest {
    /// The build of an iPXE that cannot start our kernel.
    #[must_use]
    pub fn wrong_build(&self) -> Option<&str> {
        self.buildarch.as_deref().filter(|build| !ipxe_starts_x86(build))
    }

    /// Reads the part of the URL after `?`.
    pub fn parse(query: &str) -> Result<Self, RequestError> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(RequestError::Long);
        }
        let mut odd = Vec::new();
        let [mut mac, mut platform, mut buildarch, mut uuid, mut serial] = [const { None }; 5];
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').ok_or(RequestError::Unknown)?;
            let (slot, name) = match name {
                "mac" => (&mut mac, "mac"),
                "platform" => (&mut platform, "platform"),
                "buildarch" => (&mut buildarch, "buildarch"),
                "uuid" => (&mut uuid, "uuid"),
                "serial" => (&mut serial, "serial"),
                _ => return Err(RequestError::Unknown),
            };
            if slot.is_some() {
                return Err(RequestError::Twice(name));
            }
            *slot = Some(match (decode(value), name) {
                (Ok(text), _) => text,
                (Err(bytes), "uuid" | "serial") => {
                    odd.push(InvalidParameter { name, shown: shown(&bytes) });
                    String::new()
                }
                (Err(_), _) => return Err(RequestError::Value(name)),
            });
        }
        let filled = |value: Option<String>| value.filter(|text| !text.is_empty());
        let mac = filled(mac).ok_or(RequestError::Missing("mac"))?;
        Ok(Self {
            mac: mac.parse().map_err(|_| RequestError::Value("mac"))?,
            platform: match filled(platform).as_deref() {
                Some("pcbios") => Platform::Bios,
                Some("efi") => Platform::Efi,
                Some(_) => return Err(RequestError::Value("platform")),
                None => return Err(RequestError::Missing("platform")),
            },
            buildarch: filled(buildarch),
            uuid: filled(uuid),
            serial: filled(serial),
            odd,
        })
    }
}

/// Reads `data` as a query and, where it is one, checks the bounds of what came out, for fuzzing.
pub fn check(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else { return };
    if let Ok(request) = ScriptRequest::parse(query) {
        for value in [&request.buildarch, &request.uuid, &request.serial].into_iter().flatten() {
            assert!(!value.is_empty() && value.len() <= VALUE_BYTES_MAX);
            assert!(!value.chars().any(char::is_control));
        }
        for odd in &request.odd {
            assert!(odd.shown.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{odd:?}");
            assert!(odd.shown.len() <= 4 * SHOWN_BYTES_MAX + "...".len());
        }
    }
}

/// Percent-decoding (RFC 3986; `+` stays `+`, as iPXE writes it). The error has the bytes of what is no text: it is no
/// UTF-8, has control characters, is too long or encoded badly.
fn decode(value: &str) -> Result<String, Vec<u8>> {
    let (bytes, is_well_encoded) = percent_decoded(value);
    if !is_well_encoded || bytes.len() > VALUE_BYTES_MAX {
        return Err(bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.trim().to_owned()),
        Ok(text) => Err(text.into_bytes()),
        Err(error) => Err(error.into_bytes()),
    }
}

/// The bytes, and whether each `%` began an encoded one; one that did not stands for itself.
fn percent_decoded(value: &str) -> (Vec<u8>, bool) {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (mut bytes, mut is_well_encoded) = (Vec::with_capacity(value.len()), true);
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after.split_first_chunk::<2>().filter(|_| first == b'%');
        match pair.and_then(|([high, low], after)| Some(((digit(*high)? << 4) | digit(*low)?, after))) {
            Some((byte, after)) => {
                bytes.push(byte);
                rest = after;
            }
            None => {
                is_well_encoded &= first != b'%';
                bytes.push(first);
                rest = after;
            }
        }
    }
    (bytes, is_well_encoded)
}

fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let more = if cut.len() < bytes.len() { "..." } else { "" };
    format!("{}{more}", cut.escape_ascii())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_ipxe_sends() {
        let request = ScriptRequest::parse(
            "mac=52-54-00-01-02-03&uuid=3f0c3b1e-0000-4000-8000-525400010203&serial=SN%20%26%2f1&platform=efi&buildarch=x86_64",
        )
        .unwrap();
        assert_eq!(request.mac.hyphenated(), "52-54-00-01-02-03");
        assert_eq!(request.serial.as_deref(), Some("SN &/1"));
        assert_eq!(request.platform, Platform::Efi);
        assert_eq!(request.buildarch.as_deref(), Some("x86_64"));
    }

    #[test]
    fn an_ipxe_for_another_processor_is_a_wrong_build() {
        let wrong = |build: &str| {
            let request = ScriptRequest::parse(&format!("mac=52-54-00-01-02-03&platform=efi{build}")).unwrap();
            request.wrong_build().map(str::to_owned)
        };
        assert_eq!(wrong("&buildarch=arm64").as_deref(), Some("arm64"));
        for fit in ["", "&buildarch=", "&buildarch=i386", "&buildarch=x86_64"] {
            assert_eq!(wrong(fit), None, "{fit}");
        }
    }

    #[test]
    fn settings_that_ipxe_lacks_are_absent() {
        let request =
            ScriptRequest::parse("mac=52-54-00-01-02-03&uuid=&serial=&platform=pcbios&buildarch=i386").unwrap();
        assert_eq!((request.uuid, request.serial), (None, None));
        assert_eq!(request.platform, Platform::Bios);
    }

    #[test]
    fn what_smbios_holds_stops_no_boot_and_is_shown() {
        let long = "S".repeat(VALUE_BYTES_MAX + 1);
        let cut = format!("{}...", "S".repeat(SHOWN_BYTES_MAX));
        for (value, shown) in [
            ("%ff%ff%ff", r"\xff\xff\xff"),
            ("%01", r"\x01"),
            ("ABC%00", r"ABC\x00"),
            ("a%0ab", r"a\nb"),
            ("a%c3%28", r"a\xc3("),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            (long.as_str(), cut.as_str()),
        ] {
            for name in ["uuid", "serial"] {
                let query = format!("mac=52-54-00-01-02-03&platform=efi&{name}={value}");
                let request = ScriptRequest::parse(&query).unwrap();
                assert_eq!((&request.uuid, &request.serial), (&None, &None), "{query}");
                assert_eq!(request.odd, [InvalidParameter { name, shown: shown.to_owned() }], "{query}");
                let said = format!("the SMBIOS {name} is no text and is not used: {shown}");
                assert_eq!(request.odd[0].to_string(), said);
                check(query.as_bytes());
            }
        }
        let text = ScriptRequest::parse("mac=52-54-00-01-02-03&platform=efi&serial=Default%20string&uuid=").unwrap();
        assert_eq!((text.serial.as_deref(), text.odd.as_slice()), (Some("Default string"), &[][..]));
    }

    #[test]
    fn the_longest_value_and_the_longest_query_are_read() {
        let good = "mac=52-54-00-01-02-03&platform=efi&serial=";
        let longest = "S".repeat(VALUE_BYTES_MAX);
        let request = ScriptRequest::parse(&format!("{good}{longest}")).unwrap();
        assert_eq!((request.serial, request.odd), (Some(longest), vec![]));
        let query = format!("{good}{}", "S".repeat(QUERY_BYTES_MAX - good.len()));
        assert!(ScriptRequest::parse(&query).is_ok());
        assert_eq!(ScriptRequest::parse(&format!("{query}S")), Err(RequestError::Long));
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        let good = "mac=52-54-00-01-02-03&platform=efi";
        for (query, error) in [
            (String::new(), RequestError::Unknown),
            ("platform=efi".into(), RequestError::Missing("mac")),
            ("mac=52-54-00-01-02-03".into(), RequestError::Missing("platform")),
            (format!("{good}&mac=52-54-00-01-02-03"), RequestError::Twice("mac")),
            (format!("{good}&colour=red"), RequestError::Unknown),
            (format!("{good}&buildarch=%ff"), RequestError::Value("buildarch")),
            (format!("{good}&buildarch={}", "x".repeat(VALUE_BYTES_MAX + 1)), RequestError::Value("buildarch")),
            (format!("{good}&serial={}", "x".repeat(QUERY_BYTES_MAX)), RequestError::Long),
            ("mac=52-54-00-01-02&platform=efi".into(), RequestError::Value("mac")),
            ("mac=52-54-00-01-02-03&platform=amiga".into(), RequestError::Value("platform")),
        ] {
            assert_eq!(ScriptRequest::parse(&query), Err(error), "{query}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            check(&data);
        }

        #[test]
        fn near_queries_do_not_panic(serial in "[%0-9a-fA-F+ &=]{0,40}") {
            check(format!("mac=52-54-00-01-02-03&platform=efi&serial={serial}").as_bytes());
        }
    }
}
