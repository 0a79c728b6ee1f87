//! What is kept of an attempt that more than one machine claims: see [`crate::host::rules::claimants`].

use firesteel_resources::host_journal::Claimant;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::model::power_cut::PowerCut;

/// An attempt that more than one machine claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimants {
    pub since: Timestamp,
    pub attempt: u64,
    /// The agent that the attempt's token is bound to.
    pub first: Claimant,
    pub others: Vec<Claimant>,
    /// When the attempt ends if it is not settled.
    pub until: Timestamp,
    /// The power-off that is to settle it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<PowerCut>,
    /// Why a person decides; absent while the BMC settles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

impl Claimants {
    /// Lists all of them, the bound one first.
    pub fn all(&self) -> impl Iterator<Item = &Claimant> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// A machine that claimed to be the host, and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intruder {
    #[serde(flatten)]
    pub machine: Claimant,
    pub named_at: Timestamp,
    /// How that is known.
    pub why: String,
}

/// How the newest claim ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedClaim {
    pub at: Timestamp,
    /// The person's word, or what stands for another end.
    pub by: String,
    /// Claims in a row that a power cut resolved.
    #[serde(default)]
    pub cuts: u32,
}
