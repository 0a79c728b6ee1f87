//! A host's place in the API.

use std::fmt;

use firesteel_resources::BareMetalHost;

/// A host's place in the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the place of this host.
#[must_use]
pub fn key_of(host: &BareMetalHost) -> HostKey {
    HostKey { namespace: host.metadata.namespace.clone(), name: host.metadata.name.clone() }
}
