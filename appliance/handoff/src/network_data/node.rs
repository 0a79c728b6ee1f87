//! A value together with its path, so that every refusal names the field.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use firesteel_wire::network::{InterfaceAddress, mac_of};
use serde_json::{Map, Value};

use super::error::{FieldProblem, NetworkDataError};

/// More than any list of these formats has that a plan has room for.
pub(super) const ITEMS_MAX: usize = 256;
/// RFC 1035, section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;
const DOMAIN_BYTES_MAX: usize = 253;

pub(super) struct NetworkDataNode<'a> {
    value: &'a Value,
    path: String,
}

/// An object whose keys are all known.
pub(super) struct NetworkDataObject<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> NetworkDataNode<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(super) fn fail<T>(&self, problem: impl Into<FieldProblem>) -> Result<T, NetworkDataError> {
        Err(NetworkDataError::Field { path: self.path.clone(), problem: problem.into() })
    }

    /// The object; a key that is not in `known` is refused.
    pub(super) fn object(&self, known: &[&str]) -> Result<NetworkDataObject<'a>, NetworkDataError> {
        let Value::Object(map) = self.value else { return self.fail(FieldProblem::NotAnObject) };
        let object = NetworkDataObject { map, path: self.path.clone() };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => object.fail(key, FieldProblem::NotUnderstood),
            None => Ok(object),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<NetworkDataNode<'a>>, NetworkDataError> {
        match self.value {
            Value::Array(items) if items.len() <= ITEMS_MAX => {
                let path = |index| format!("{}[{index}]", self.path);
                Ok(items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| NetworkDataNode { value, path: path(index) })
                    .collect())
            }
            Value::Array(_) => self.fail(FieldProblem::TooManyItems),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.fail(FieldProblem::NotAList)
            }
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, NetworkDataError> {
        self.value.as_str().map_or_else(|| self.fail(FieldProblem::NotAText), Ok)
    }

    pub(super) fn flag(&self) -> Result<bool, NetworkDataError> {
        self.value.as_bool().map_or_else(|| self.fail(FieldProblem::NotAFlag), Ok)
    }

    /// A name of DNS.
    pub(super) fn domain(&self) -> Result<&'a str, NetworkDataError> {
        let name = self.text()?;
        if is_domain(name) { Ok(name) } else { self.fail(FieldProblem::NotADomain) }
    }

    /// A whole number, also as text, which templates write.
    pub(super) fn number<N: FromStr + TryFrom<u64>>(&self) -> Result<N, NetworkDataError> {
        let found = match self.value {
            Value::Number(number) => number.as_u64().and_then(|number| N::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        found.map_or_else(|| self.fail(FieldProblem::NotANumber), Ok)
    }

    /// Reads one of these words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, NetworkDataError> {
        let number = self.value.as_u64().map(|number| number.to_string());
        let text = match &number {
            Some(number) => number.as_str(),
            None => self.text()?,
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(*meaning),
            None => {
                let words = words.iter().map(|(word, _)| (*word).to_owned()).collect();
                self.fail(FieldProblem::NotAWord { words })
            }
        }
    }

    pub(super) fn mac(&self) -> Result<String, NetworkDataError> {
        mac_of(self.text()?).map_or_else(|| self.fail(FieldProblem::NotAMac), Ok)
    }

    pub(super) fn ip(&self) -> Result<IpAddr, NetworkDataError> {
        self.text()?.parse().or_else(|_| self.fail(FieldProblem::NotAnIp))
    }

    /// `192.0.2.0/24`.
    pub(super) fn network(&self) -> Result<InterfaceAddress, NetworkDataError> {
        let read = |text: &str| {
            let (ip, prefix) = text.split_once('/')?;
            Some(InterfaceAddress { ip: ip.parse().ok()?, prefix: prefix.parse().ok()? })
        };
        read(self.text()?).map_or_else(|| self.fail(FieldProblem::NotANetwork), Ok)
    }

    /// Length of a prefix: a number, or a mask (`255.255.255.0`, `ffff:ffff::`).
    pub(super) fn prefix(&self) -> Result<u8, NetworkDataError> {
        if let Ok(prefix) = self.number::<u8>() {
            return Ok(prefix);
        }
        let bits = match self.ip()? {
            IpAddr::V4(mask) => mask_bits(u128::from(u32::from(mask)), 32),
            IpAddr::V6(mask) => mask_bits(u128::from(mask), 128),
        };
        bits.map_or_else(|| self.fail(FieldProblem::NotAPrefix), Ok)
    }

    /// What only has a meaning for the OS, or is how it is anyway, may be said in this way alone.
    pub(super) fn only(&self, value: &Value) -> Result<(), NetworkDataError> {
        if self.value == value { Ok(()) } else { self.fail(FieldProblem::NotTheOnlyValue { value: value.clone() }) }
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

/// Counts the ones of a mask: ones, then zeros.
fn mask_bits(mask: u128, width: u8) -> Option<u8> {
    let ones = u8::try_from(mask.count_ones()).ok()?;
    let expected = if ones == 0 { 0 } else { (u128::MAX >> (128 - u32::from(ones))) << (width - ones) };
    (mask == expected).then_some(ones)
}

impl<'a> NetworkDataObject<'a> {
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A field; one that is null is absent.
    pub(super) fn get(&self, key: &str) -> Option<NetworkDataNode<'a>> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(NetworkDataNode { value, path: self.path_of(key) })
    }

    pub(super) fn need(&self, key: &str) -> Result<NetworkDataNode<'a>, NetworkDataError> {
        match self.get(key) {
            Some(node) => Ok(node),
            None => self.fail(key, FieldProblem::Missing),
        }
    }

    /// The entries of a list that may be absent.
    pub(super) fn items(&self, key: &str) -> Result<Vec<NetworkDataNode<'a>>, NetworkDataError> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |node| node.list())
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, NetworkDataError> {
        self.get(key).map_or(Ok(false), |node| node.flag())
    }

    pub(super) fn fail<T>(&self, key: &str, problem: impl Into<FieldProblem>) -> Result<T, NetworkDataError> {
        Err(NetworkDataError::Field { path: self.path_of(key), problem: problem.into() })
    }

    /// Reads name servers, so that a slip is refused; they are not needed.
    pub(super) fn name_servers(&self, key: &str) -> Result<(), NetworkDataError> {
        self.items(key)?.iter().try_for_each(|server| server.ip().map(drop))
    }

    /// Names of DNS, at most so many.
    pub(super) fn domains(&self, key: &str, most: usize) -> Result<(), NetworkDataError> {
        let domains = self.items(key)?;
        if domains.len() > most {
            return self.fail(key, FieldProblem::TooManyDomains { names_max: most });
        }
        domains.iter().try_for_each(|domain| domain.domain().map(drop))
    }
}

pub(super) const DEFAULT_ROUTE_V4: InterfaceAddress =
    InterfaceAddress { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
pub(super) const DEFAULT_ROUTE_V6: InterfaceAddress =
    InterfaceAddress { ip: IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), prefix: 0 };

pub(super) fn default_route(of: IpAddr) -> InterfaceAddress {
    if of.is_ipv4() { DEFAULT_ROUTE_V4 } else { DEFAULT_ROUTE_V6 }
}
