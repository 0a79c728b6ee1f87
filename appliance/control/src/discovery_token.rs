//! What the token of a machine without a host names: its MAC, and the uid of its object.

use firesteel_boot::BootTokenClaims;
use firesteel_facts::Mac;
use firesteel_resources::DiscoveredHost;
use firesteel_wire::{RefusalReason, RefusalReply};

use crate::refusals::refusal;

/// What a discovery token is for.
pub(crate) struct DiscoverySubject {
    pub(crate) mac: Mac,
    /// The UID of the machine's object; empty where it had none when the boot began.
    pub(crate) uid: String,
}

impl DiscoverySubject {
    /// Whether this is the object that the token is for. Of the first boot it is whichever there is: the boot's number
    /// and key tell its agents apart.
    pub(crate) fn is(&self, machine: &DiscoveredHost) -> bool {
        self.uid.is_empty() || machine.metadata.uid == self.uid
    }
}

/// The MAC that a discovery token names.
pub(crate) fn mac_of(claims: &BootTokenClaims) -> Option<Mac> {
    claims.subject.split_once('/').and_then(|(mac, _)| mac.parse().ok())
}

pub(crate) fn named(claims: &BootTokenClaims) -> Result<DiscoverySubject, RefusalReply> {
    let uid = claims.subject.split_once('/').map(|(_, uid)| uid.to_owned());
    mac_of(claims)
        .zip(uid)
        .map(|(mac, uid)| DiscoverySubject { mac, uid })
        .ok_or_else(|| refusal(RefusalReason::BadToken, "the token names no machine: boot again from the network"))
}
