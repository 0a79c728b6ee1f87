//! How a host went that is not there any more, by its last state. Pure.

use anyhow::bail;
use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::{ProvisioningState, requests};
use serde::Deserialize as _;
use serde_json::Value;

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
    /// Judges the last state of a host that is gone, as the API has it, if it was seen.
    pub(super) fn of_last(object: Option<Value>) -> Self {
        object.and_then(|object| BareMetalHost::deserialize(object).ok()).map_or(Self::Unseen, |host| Self::of(&host))
    }

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

    /// Says how the host went, for who asked that its disks be cleaned.
    ///
    /// # Errors
    /// When it did not go in this way, or that was not seen.
    pub(super) fn after_deletion(self, host: &str) -> anyhow::Result<&'static str> {
        let receipts = format!("`firesteel receipt list {host}` shows what was done to its disks");
        match self {
            Self::LetGo => Ok("gone"),
            Self::Untouched => Ok("gone; nothing had been done with it, and no disk was changed"),
            Self::Forced => bail!(
                "{host} is gone, but another command forgot it by force meanwhile, and no more disks were cleaned; \
                 {receipts}"
            ),
            Self::Unseen => bail!(
                "{host} is gone, but whether its disks were cleaned was not seen: another client may have removed its \
                 finalizer; {receipts}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Released" was said of a host that another command forgot.
    #[test]
    fn only_a_host_that_the_appliance_let_go_went_as_it_was_asked_for() {
        let went = |departure: HostDeparture| departure.after_deletion("h1").map_err(|error| error.to_string());
        assert_eq!(went(HostDeparture::LetGo), Ok("gone"));
        assert!(went(HostDeparture::Untouched).is_ok_and(|text| text.contains("no disk was changed")));
        for (departure, why) in [(HostDeparture::Forced, "by force meanwhile"), (HostDeparture::Unseen, "not seen")] {
            let error = went(departure).err().unwrap_or_default();
            assert!(error.contains(why) && error.contains("receipt list h1"), "{error}");
        }
    }
}
