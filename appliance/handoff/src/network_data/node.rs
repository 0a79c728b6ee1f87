//! A value together with its path, so that every refusal names the field.

use std::{
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

use firesteel_wire::network::{Address, mac_of};
use serde_json::{Map, Value};

/// More than any list of these formats has that a plan has room for.
const ITEMS_MAX: usize = 256;
/// RFC 1035, section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;
const DOMAIN_BYTES_MAX: usize = 253;

pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// An object whose keys are all known.
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(super) fn fail<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        if self.path.is_empty() { Err(what.to_string()) } else { Err(format!("{}: {what}", self.path)) }
    }

    /// The object; a key that is not in `known` is refused.
    pub(super) fn object(&self, known: &[&str]) -> Result<Object<'a>, String> {
        let Value::Object(map) = self.value else { return self.fail("must be an object") };
        let object = Object { map, path: self.path.clone() };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("{}: is not understood", object.path_of(key))),
            None => Ok(object),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<Node<'a>>, String> {
        match self.value {
            Value::Array(items) if items.len() <= ITEMS_MAX => {
                let path = |index| format!("{}[{index}]", self.path);
                Ok(items.iter().enumerate().map(|(index, value)| Node { value, path: path(index) }).collect())
            }
            Value::Array(_) => self.fail(format!("has more than {ITEMS_MAX} entries")),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.fail("must be a list")
            }
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().map_or_else(|| self.fail("must be a text"), Ok)
    }

    pub(super) fn flag(&self) -> Result<bool, String> {
        self.value.as_bool().map_or_else(|| self.fail("must be true or false"), Ok)
    }

    /// A name of DNS.
    pub(super) fn domain(&self) -> Result<&'a str, String> {
        let name = self.text()?;
        if is_domain(name) { Ok(name) } else { self.fail("must be a name of DNS, as in example.com") }
    }

    /// A whole number, also as text, which templates write.
    pub(super) fn number<N: FromStr + TryFrom<u64>>(&self) -> Result<N, String> {
        let found = match self.value {
            Value::Number(number) => number.as_u64().and_then(|number| N::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        found.map_or_else(|| self.fail("must be a whole number in its range"), Ok)
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        let number = self.value.as_u64().map(|number| number.to_string());
        let text = match &number {
            Some(number) => number.as_str(),
            None => self.text()?,
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(*meaning),
            None => {
                let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                self.fail(format!("must be one of {}", known.join(", ")))
            }
        }
    }

    pub(super) fn mac(&self) -> Result<String, String> {
        mac_of(self.text()?).map_or_else(|| self.fail("must be the hardware address of a NIC"), Ok)
    }

    pub(super) fn ip(&self) -> Result<IpAddr, String> {
        self.text()?.parse().or_else(|_| self.fail("must be an IP address"))
    }

    /// `192.0.2.0/24`.
    pub(super) fn network(&self) -> Result<Address, String> {
        let read = |text: &str| {
            let (ip, prefix) = text.split_once('/')?;
            Some(Address { ip: ip.parse().ok()?, prefix: prefix.parse().ok()? })
        };
        read(self.text()?).map_or_else(|| self.fail("must be a network, as in 192.0.2.0/24"), Ok)
    }

    /// Length of a prefix: a number, or a mask (`255.255.255.0`, `ffff:ffff::`).
    pub(super) fn prefix(&self) -> Result<u8, String> {
        if let Ok(prefix) = self.number::<u8>() {
            return Ok(prefix);
        }
        let bits = match self.ip()? {
            IpAddr::V4(mask) => mask_bits(u128::from(u32::from(mask)), 32),
            IpAddr::V6(mask) => mask_bits(u128::from(mask), 128),
        };
        bits.map_or_else(|| self.fail("must be the length of a prefix, or a mask"), Ok)
    }

    /// What only has a meaning for the OS, or is how it is anyway, may be said in this way alone.
    pub(super) fn only(&self, value: &Value) -> Result<(), String> {
        if self.value == value { Ok(()) } else { self.fail(format!("only {value} is understood")) }
    }
}

/// RFC 1123, section 2.1, and with the underscores that sites have. `.` and a dot at the end are the root's.
pub(super) fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-')
    };
    name.len() <= DOMAIN_BYTES_MAX && (name == "." || name.strip_suffix('.').unwrap_or(name).split('.').all(is_label))
}

/// Ones, then zeros.
fn mask_bits(mask: u128, width: u8) -> Option<u8> {
    let ones = u8::try_from(mask.count_ones()).ok()?;
    let expected = if ones == 0 { 0 } else { (u128::MAX >> (128 - u32::from(ones))) << (width - ones) };
    (mask == expected).then_some(ones)
}

impl<'a> Object<'a> {
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A field; one that is null is absent.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(Node { value, path: self.path_of(key) })
    }

    pub(super) fn need(&self, key: &str) -> Result<Node<'a>, String> {
        self.get(key).ok_or_else(|| format!("{}: is missing", self.path_of(key)))
    }

    /// The entries of a list that may be absent.
    pub(super) fn items(&self, key: &str) -> Result<Vec<Node<'a>>, String> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |node| node.list())
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, String> {
        self.get(key).map_or(Ok(false), |node| node.flag())
    }

    pub(super) fn fail<T>(&self, key: &str, what: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("{}: {what}", self.path_of(key)))
    }

    /// Name servers: read, so that a slip is told, and not needed.
    pub(super) fn name_servers(&self, key: &str) -> Result<(), String> {
        self.items(key)?.iter().try_for_each(|server| server.ip().map(drop))
    }

    /// Names of DNS, at most so many.
    pub(super) fn domains(&self, key: &str, most: usize) -> Result<(), String> {
        let domains = self.items(key)?;
        if domains.len() > most {
            return self.fail(key, format!("has more than {most} names"));
        }
        domains.iter().try_for_each(|domain| domain.domain().map(drop))
    }
}

pub(super) const DEFAULT_ROUTE_V4: Address = Address { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
pub(super) const DEFAULT_ROUTE_V6: Address = Address { ip: IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), prefix: 0 };

pub(super) fn default_route(of: IpAddr) -> Address {
    if of.is_ipv4() { DEFAULT_ROUTE_V4 } else { DEFAULT_ROUTE_V6 }
}
