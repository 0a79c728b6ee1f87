//! Why no host boots into the agent.

/// Why no host begins work for which it boots into the agent. The network's controller decides it, and the planner of
/// hosts follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkHold {
    /// The provisioning network is not served now: hosts wait until it is. The text says why, for people.
    NotServed(String),
    /// The site drives hosts by their BMCs alone. That is no fault and nothing is waited for: what a BMC can do is
    /// done, and the rest says so. The text says why, and what a person does to change it.
    BmcOnly(String),
}

impl WorkHold {
    /// Returns the reason in words.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::NotServed(why) | Self::BmcOnly(why) => why,
        }
    }

    /// Returns why hosts are driven by their BMCs alone, where they are.
    #[must_use]
    pub fn bmc_only(&self) -> Option<&str> {
        match self {
            Self::BmcOnly(why) => Some(why),
            Self::NotServed(_) => None,
        }
    }
}
