//! Machines that claim to be one host at the same time: two keys in one attempt, or an old key that reports after a new
//! one said hello.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::AgentBinding;

/// Most other claimants that are kept of an attempt; a further one is held as they are.
pub const CLAIMANTS_MAX: usize = 4;
/// Digits of a key that people are shown.
const SHORT_KEY: usize = 16;

/// One machine that claims to be the host, by the key of its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claimant {
    /// Ed25519 public key, hexadecimal.
    pub key: String,
    /// The attempt that its token is of.
    pub attempt: u64,
    pub boot_id: String,
    /// The MAC that it says it booted from; empty where it said none.
    pub mac: String,
    /// The address from which it was heard first.
    pub address: String,
    pub first_at: Timestamp,
    /// Its machine was compared with what the host was known as before it said hello.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_compared: bool,
}

impl Claimant {
    /// Describes an agent that a token is bound to.
    #[must_use]
    pub fn of(agent: &AgentBinding) -> Self {
        Self {
            key: agent.key.clone(),
            attempt: agent.attempt,
            boot_id: agent.boot_id.clone(),
            mac: agent.mac.clone(),
            address: agent.address.clone(),
            first_at: agent.bound_at,
            is_compared: agent.identity_compared,
        }
    }

    /// Returns the first digits of its key.
    #[must_use]
    pub fn short_key(&self) -> &str {
        self.key.get(..SHORT_KEY).unwrap_or(&self.key)
    }
}

/// Names the machine in words, without the time.
impl std::fmt::Display for Claimant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mac = if self.mac.is_empty() { "none said" } else { &self.mac };
        write!(f, "key {}, MAC {mac}, from {}", self.short_key(), self.address)
    }
}

/// An attempt that more than one machine claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRecord {
    pub attempt: u64,
    /// The agent that the attempt's token is bound to.
    pub first: Claimant,
    /// The others, in the order in which they were heard; at most [`CLAIMANTS_MAX`].
    pub others: Vec<Claimant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_shown_the_first_digits_of_a_key() {
        let mut claimant = Claimant { key: "0123456789abcdef99".into(), ..Claimant::default() };
        assert_eq!(claimant.short_key(), "0123456789abcdef");
        assert_eq!(claimant.to_string(), "key 0123456789abcdef, MAC none said, from ");
        claimant.key = "0123".into();
        assert_eq!(claimant.short_key(), "0123");
    }
}
