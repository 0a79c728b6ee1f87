//! The one table of kinds that the appliance serves beside Kubernetes' own. [`crate::kind`] says what a kind is and how
//! one is added.

use crate::{cluster_operator, companions, host_claim, host_deploy_policy, kind::Kind};

pub use crate::access_grant::KIND as ACCESS_GRANT;
pub use crate::bare_metal_host::KIND as BARE_METAL_HOST;
pub use crate::boot_image_stream::KIND as BOOT_IMAGE_STREAM;
pub use crate::cluster_api::{CLUSTER, CLUSTER_V1BETA1, MACHINE, MACHINE_SET, MACHINE_SET_V1BETA1, MACHINE_V1BETA1};
pub use crate::discovered_host::KIND as DISCOVERED_HOST;
pub use crate::halt::KIND as HALT;
pub use crate::hardware_data::KIND as HARDWARE_DATA;
pub use crate::host_group::KIND as HOST_GROUP;
pub use crate::host_journal::KIND as HOST_JOURNAL;
pub use crate::machine_config::KIND as MACHINE_CONFIG;
pub use crate::machine_config::pool::KIND as MACHINE_CONFIG_POOL;
pub use crate::machine_configuration::KIND as MACHINE_CONFIGURATION;
pub use crate::machine_set::KIND as MACHINE_API_SET;
pub use crate::provisioning::KIND as PROVISIONING;
pub use crate::receipt::KIND as RECEIPT;

/// Every kind, in the order in which clients see them. Of one in several versions the stored one comes first.
pub const KINDS: &[&Kind] = &[
    &BARE_METAL_HOST,
    &HARDWARE_DATA,
    &companions::host_firmware_settings::KIND,
    &companions::firmware_schema::KIND,
    &companions::host_firmware_components::KIND,
    &companions::host_update_policy::KIND,
    &companions::preprovisioning_image::KIND,
    &companions::data_image::KIND,
    &companions::bmc_event_subscription::KIND,
    &companions::bare_metal_switch::KIND,
    &companions::host_network_attachment::KIND,
    &host_claim::KIND,
    &host_deploy_policy::KIND,
    &PROVISIONING,
    &cluster_operator::KIND,
    &HOST_JOURNAL,
    &DISCOVERED_HOST,
    &HALT,
    &RECEIPT,
    &ACCESS_GRANT,
    &CLUSTER,
    &CLUSTER_V1BETA1,
    &MACHINE,
    &MACHINE_V1BETA1,
    &MACHINE_SET,
    &MACHINE_SET_V1BETA1,
    &BOOT_IMAGE_STREAM,
    &HOST_GROUP,
    &MACHINE_CONFIGURATION,
    &MACHINE_CONFIG,
    &MACHINE_CONFIG_POOL,
    // After that of Cluster API, which a client that names no group means.
    &MACHINE_API_SET,
];

#[must_use]
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|entry| entry.group == group && entry.kind == kind)
}
