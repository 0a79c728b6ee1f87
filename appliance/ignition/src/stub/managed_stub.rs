//! Managed stubs: for one pool, at one endpoint of the config server (S1-2.3).

use std::net::IpAddr;

use serde_json::Value;

use crate::pem::StubAuthority;

/// Where the config server listens with TLS (S1-6).
pub const CONFIG_PORT: u16 = 22623;
/// Most bytes of a DNS name (RFC 1035).
const NAME_BYTES_MAX: usize = 253;
/// Most bytes of one label in it.
const LABEL_BYTES_MAX: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    #[error("the endpoint is neither an address nor a DNS name: give the host alone, without scheme and port")]
    Host,
    #[error("the pool's name must be lower case letters, digits, '-' and '.', at most {NAME_BYTES_MAX} characters")]
    Pool,
}

/// Host and port of the config server, as a URL has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// A DNS name, an IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn new(host: &str, port: u16) -> Result<Self, MakeError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bare.unwrap_or(host).parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Ok(IpAddr::V4(address)) if bare.is_none() => address.to_string(),
            Err(_) if bare.is_none() && is_dns_name(host) => host.to_ascii_lowercase(),
            Ok(IpAddr::V4(_)) | Err(_) => return Err(MakeError::Host),
        };
        Ok(Self { host, port })
    }

    /// What every config's URL at this endpoint begins with.
    #[must_use]
    pub fn configs(&self) -> String {
        format!("https://{}:{}/config/", self.host, self.port)
    }
}

/// Which spec a managed stub is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StubSpec {
    /// The version for images whose Ignition is 0.x.
    V2_2,
    V3_2,
}

/// The stub of a pool, in upstream's bytes: one line, fields in upstream's order.
///
/// # Errors
/// When the pool's name cannot stand in a URL.
pub fn managed(pool: &str, at: &Endpoint, authority: &StubAuthority, spec: StubSpec) -> Result<String, MakeError> {
    let pool_fits = !pool.is_empty()
        && pool.len() <= NAME_BYTES_MAX
        && !pool.starts_with('.')
        && pool.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
    if !pool_fits {
        return Err(MakeError::Pool);
    }
    let url = Value::from(format!("{}{pool}", at.configs()));
    let ca = Value::from(authority.source());
    Ok(match spec {
        StubSpec::V3_2 => format!(
            r#"{{"ignition":{{"version":"3.2.0","config":{{"merge":[{{"source":{url}}}]}},"security":{{"tls":{{"certificateAuthorities":[{{"source":{ca}}}]}}}}}}}}"#
        ),
        StubSpec::V2_2 => format!(
            r#"{{"ignition":{{"version":"2.2.0","config":{{"append":[{{"source":{url},"verification":{{}}}}]}},"security":{{"tls":{{"certificateAuthorities":[{{"source":{ca},"verification":{{}}}}]}}}},"timeouts":{{}}}},"networkd":{{}},"passwd":{{}},"storage":{{}},"systemd":{{}}}}"#
        ),
    })
}

fn is_dns_name(name: &str) -> bool {
    let label_fits = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits would be read as an address by some and as a name by others.
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= NAME_BYTES_MAX && name.split('.').all(label_fits) && !last.bytes().all(|byte| byte.is_ascii_digit())
}
