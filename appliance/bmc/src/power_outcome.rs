//! What became of an order: nothing counts as done that the BMC does not show.

/// Whether a power action needed a request. That the system follows is seen by [`crate::RedfishClient::power`] later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerSent {
    /// It was so already.
    Nothing,
    Sent,
}

/// What reading the power state back has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerSet {
    /// It was so already.
    Nothing,
    Confirmed,
    /// The BMC accepted the request, and nothing that it reports shows that it was done: a restart, or a shutdown,
    /// which takes the operating system as long as it likes.
    Unconfirmed,
    /// The BMC accepted the request, but reports another state: which request, what it answered, how long ago.
    Unverified {
        seen: String,
    },
}

/// What a look at an override for one boot has shown after that boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideReading {
    /// The boot used it up.
    UsedUp,
    /// It is still there, in the BMC's own words.
    Left { seen: String },
    /// The BMC does not tell.
    Unconfirmed { why: String },
}

/// What reading the override back has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootSet {
    Confirmed,
    /// The BMC accepted the request, but the system reports another state: it may take it at the next start, or have
    /// dropped it.
    Unverified {
        seen: String,
    },
    /// The BMC has no override for this boot: the host boots by its firmware's own order.
    NotOffered {
        why: String,
    },
}
