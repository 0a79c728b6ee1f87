//! Why network data cannot be used, with the path of the field. The texts stand in a host's status.

use std::fmt;

use firesteel_wire::{network::NetworkPlanError, text::clean};
use serde_json::Value;

use super::{NMSTATE_KEY, REASON_BYTES_MAX, node::ITEMS_MAX};

/// Why network data cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkDataError {
    #[error("it has both {key} and {NMSTATE_KEY}: keep one of them")]
    TwoFormats { key: &'static str },
    #[error("it has neither the key {key} nor {NMSTATE_KEY}")]
    NoKey { key: &'static str },
    /// The value of a key of the Secret is wrong.
    #[error("{key}: {error}")]
    Key { key: &'static str, error: Box<NetworkDataError> },
    #[error("it has more than {bytes_max} bytes")]
    TooLong { bytes_max: usize },
    /// Neither YAML nor JSON, in the words of its reader.
    #[error("{0}")]
    NotYaml(String),
    #[error("it must be an object with links, networks and services")]
    NotAnObject,
    /// `path` is empty where the whole document is meant.
    #[error("{}{problem}", OfPath(.path))]
    Field { path: String, problem: FieldProblem },
    /// What stands in it is no plan that can be carried out, in words that name the link.
    #[error("{0}")]
    Plan(NetworkPlanError),
    #[error("it stands for more than {bytes_max} bytes")]
    PlanTooLong { bytes_max: usize },
}

impl NetworkDataError {
    /// Returns the text as a host's status has it: on one line, and bounded.
    #[must_use]
    pub fn reason(&self) -> String {
        clean(&self.to_string(), REASON_BYTES_MAX)
    }
}

struct OfPath<'a>(&'a str);

impl fmt::Display for OfPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    #[error("is missing")]
    Missing,
    #[error("is not understood")]
    NotUnderstood,
    #[error("must be an object")]
    NotAnObject,
    #[error("must be a list")]
    NotAList,
    #[error("has more than {ITEMS_MAX} entries")]
    TooManyItems,
    #[error("must be a text")]
    NotAText,
    #[error("must be true or false")]
    NotAFlag,
    #[error("must be a name of DNS, as in example.com")]
    NotADomain,
    #[error("has more than {names_max} names")]
    TooManyDomains { names_max: usize },
    #[error("must be a whole number in its range")]
    NotANumber,
    #[error("must be one of {}", .words.join(", "))]
    NotAWord { words: Vec<String> },
    #[error("must be the hardware address of a NIC")]
    NotAMac,
    #[error("must be an IP address")]
    NotAnIp,
    #[error("must be a network, as in 192.0.2.0/24")]
    NotANetwork,
    #[error("must be the length of a prefix, or a mask")]
    NotAPrefix,
    #[error("only {value} is understood")]
    NotTheOnlyValue { value: Value },
    /// The hardware address of a VLAN is another one than that of the link that carries it.
    #[error("must be that of {carrier:?}, which carries the VLAN")]
    NotTheCarriers { carrier: String },
    /// What only one field of one format can have wrong, in words.
    #[error("{0}")]
    OfFormat(&'static str),
}

impl From<&'static str> for FieldProblem {
    fn from(text: &'static str) -> Self {
        Self::OfFormat(text)
    }
}
