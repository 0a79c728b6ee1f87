//! The states of a host, one a file: `step` of each says what comes next there.

pub(crate) mod available;
pub(crate) mod deleting;
pub(crate) mod deprovisioning;
pub(crate) mod externally_provisioned;
pub(crate) mod inspecting;
pub(crate) mod new;
pub(crate) mod powering_off;
pub(crate) mod preparing;
pub(crate) mod provisioned;
pub(crate) mod provisioning;
pub(crate) mod registering;
pub(crate) mod unmanaged;
