//! What a namespace may have, by one quota.

use std::collections::BTreeMap;

/// A quota as it is enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceQuota {
    /// What a refusal calls it.
    pub name: String,
    /// The most of each word.
    pub hard: BTreeMap<String, u64>,
}
