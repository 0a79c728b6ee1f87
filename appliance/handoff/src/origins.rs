//! Where configs of this appliance are found.

use firesteel_ignition::stub::managed_stub::Endpoint;

/// Where configs of this appliance are found.
#[derive(Clone, Debug)]
pub struct ConfigOrigins {
    /// What every URL of a config of ours begins with; that of managed stubs comes first.
    pub urls: Vec<String>,
    /// Those with TLS, by which a stub is recognised as ours.
    pub endpoints: Vec<Endpoint>,
    /// That which managed stubs name.
    pub managed: Endpoint,
    /// What URLs of configs without TLS begin with, where there is a listener for them.
    pub plain: Option<String>,
}
