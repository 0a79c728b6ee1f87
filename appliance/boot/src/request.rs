//! What iPXE says about its machine when it asks for the script: a strict reader of the query.
//!
//! iPXE sends an empty value for a setting that it does not have. Identity here is a claim of the
//! client: it picks a boot entry, and never proves anything.

use crate::mac::Mac;

/// Five parameters; a serial number may be long and every character of it percent-encoded.
pub const QUERY_BYTES_MAX: usize = 1024;
/// Of one decoded value. SMBIOS strings of real machines stay below 100.
pub const VALUE_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `pcbios`
    Bios,
    /// `efi`
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
    /// Reads the part of the URL after `?`.
    pub fn parse(query: &str) -> Result<Self, RequestError> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(RequestError::Long);
        }
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
            *slot = Some(decode(value).ok_or(RequestError::Value(name))?);
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
        })
    }
}

/// For fuzzing: reads `data` as a query and, where it is one, checks the bounds of what came out.
pub fn check(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else { return };
    if let Ok(request) = ScriptRequest::parse(query) {
        for value in [&request.buildarch, &request.uuid, &request.serial].into_iter().flatten() {
            assert!(!value.is_empty() && value.len() <= VALUE_BYTES_MAX);
            assert!(!value.chars().any(char::is_control));
        }
    }
}

/// Percent-decoding (RFC 3986; `+` stays `+`, as iPXE writes it); no control characters, bounded.
fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len().min(VALUE_BYTES_MAX));
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let byte = if first == b'%' {
            let (pair, after) = after.split_first_chunk::<2>()?;
            rest = after;
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            (digit(pair[0])? << 4) | digit(pair[1])?
        } else {
            rest = after;
            first
        };
        if bytes.len() == VALUE_BYTES_MAX {
            return None;
        }
        bytes.push(byte);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.trim().to_owned())
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
        assert_eq!(request.mac.to_string(), "52-54-00-01-02-03");
        assert_eq!(request.serial.as_deref(), Some("SN &/1"));
        assert_eq!(request.platform, Platform::Efi);
        assert_eq!(request.buildarch.as_deref(), Some("x86_64"));
    }

    #[test]
    fn settings_that_ipxe_lacks_are_absent() {
        let request =
            ScriptRequest::parse("mac=52-54-00-01-02-03&uuid=&serial=&platform=pcbios&buildarch=i386").unwrap();
        assert_eq!((request.uuid, request.serial), (None, None));
        assert_eq!(request.platform, Platform::Bios);
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
            (format!("{good}&serial=%0a"), RequestError::Value("serial")),
            (format!("{good}&serial=%4"), RequestError::Value("serial")),
            (format!("{good}&serial=%ff"), RequestError::Value("serial")),
            (format!("{good}&serial={}", "x".repeat(VALUE_BYTES_MAX + 1)), RequestError::Value("serial")),
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
