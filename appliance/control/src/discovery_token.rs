//! What the token of a machine without a host names: its MAC, and the uid of its object.

use firesteel_boot::Claims;
use firesteel_facts::Mac;
use firesteel_resources::DiscoveredHost;
use firesteel_wire::{Refusal, RefusalReason};

use crate::refusals::refusal;

/// What a discovery token is for.
pub(crate) struct Named {
    pub(crate) mac: Mac,
    /// Of the machine's object; empty where it had none when the boot began.
    pub(crate) uid: String,
}

impl Named {
    /// Whether this is the object that the token is for. Of the first boot it is whichever there is: the boot's number
    /// and key tell its agents apart.
    pub(crate) fn is(&self, machine: &DiscoveredHost) -> bool {
        self.uid.is_empty() || machine.metadata.uid == self.uid
    }
}

/// The MAC that a discovery token names.
pub(crate) fn mac_of(claims: &Claims) -> Option<Mac> {
    claims.subject.split_once('/').and_then(|(mac, _)| mac.parse().ok())
}

pub(crate) fn named(claims: &Claims) -> Result<Named, Refusal> {
    let uid = claims.subject.split_once('/').map(|(_, uid)| uid.to_owned());
    mac_of(claims)
        .zip(uid)
        .map(|(mac, uid)| Named { mac, uid })
        .ok_or_else(|| refusal(RefusalReason::BadToken, "the token names no machine: boot again from the network"))
}
