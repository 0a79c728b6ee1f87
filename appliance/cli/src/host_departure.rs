//! How a host went that is not there any more, by its last state. Pure.

use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::{ProvisioningState, requests};

/// How a host went, by the last that was seen of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HostDeparture {
    /// The last of it was not seen, or its finalizer was removed by another client.
    #[default]
    Unseen,
    /// The appliance had not begun with it: nothing was done to its disks.
    Untouched,
    /// It was forgotten by force: no disk was cleaned for that.
    Forced,
    /// The appliance let it go at the end of its deletion.
    LetGo,
}

impl HostDeparture {
    /// Judges the last state of a host that is gone.
    pub(super) fn of(host: &BareMetalHost) -> Self {
        let state = host.status.as_ref().map(|status| status.provisioning.state).unwrap_or_default();
        match state {
            _ if requests(&host.metadata).release_force => Self::Forced,
            ProvisioningState::Deleting => Self::LetGo,
            ProvisioningState::New => Self::Untouched,
            _ => Self::Unseen,
        }
    }
}
