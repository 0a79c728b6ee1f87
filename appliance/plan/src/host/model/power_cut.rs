//! A cut of the power, and what is kept of it: see [`crate::host::rules::power_cut`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A cut of the power that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerCut {
    pub since: Timestamp,
    /// Cuts before this one, after which the host was on again.
    #[serde(default)]
    pub tries: u32,
    /// Boots before this one, each after a cut, in which no agent said hello.
    #[serde(default)]
    pub rounds: u32,
    /// The BMC took the order.
    #[serde(default)]
    pub is_ordered: bool,
    /// When the BMC was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// When the BMC showed that the host is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_at: Option<Timestamp>,
    /// Why that was not seen; the host is reset without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
}

impl PowerCut {
    pub(crate) fn new(since: Timestamp, rounds: u32) -> Self {
        Self { since, tries: 0, rounds, is_ordered: false, asked_at: None, off_at: None, unseen: None }
    }
}

/// What was seen of the boot of an attempt that erases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanBoot {
    pub attempt: u64,
    /// When the BMC showed that the host was off, before it was switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_at: Option<Timestamp>,
    /// Why that was not seen: the BMC accepted a reset, and that is all that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_accepted: Option<String>,
    /// Boots before this one, each after a cut, in which no agent said hello.
    #[serde(default)]
    pub rounds: u32,
    /// Whether the boot has used its override up; absent until that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<OverrideUse>,
    /// Start of the time in which the BMC fails at a look on which the proof depends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind_since: Option<Timestamp>,
}

impl CleanBoot {
    /// Says whether another request for the script is another boot that needs a cut: the first one came to nothing, and
    /// the system on the disk may be who asks now. After too many such boots the attempt goes on unverified.
    #[must_use]
    pub fn is_cut_again(&self) -> bool {
        self.reset_accepted.is_none()
    }

    /// Says what was not seen; empty where all was.
    #[must_use]
    pub fn missing_evidence(&self) -> Vec<String> {
        let unread = match &self.once {
            Some(OverrideUse::UsedUp) => None,
            Some(OverrideUse::Unread(why)) => Some(why.as_str()),
            None => Some("it was not looked at"),
        };
        let reset = self.reset_accepted.as_ref().map(|why| match self.off_at {
            None => format!("a reset was accepted, and the host was not seen off before it: {why}"),
            Some(_) => format!("the host was seen off before it, and {why}"),
        });
        let unread = unread.map(|why| format!("the override for one boot was not seen used up: {why}"));
        reset.into_iter().chain(unread).collect()
    }
}

/// What is known of an override for one boot, after that boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", content = "why", rename_all = "camelCase")]
pub enum OverrideUse {
    UsedUp,
    /// Nothing that would prove it, and why.
    Unread(String),
}
