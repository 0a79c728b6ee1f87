//! `BareMetalHost` (metal3.io/v1alpha1): what the owner of a server wants, and what is so.
//!
//! [`spec`] and [`status`] are upstream's fields; [`rules`] are upstream's admission rules plus
//! our own limits; [`annotations`] are the requests that travel as annotations; [`unacted`] knows
//! which accepted fields nothing acts on yet.

pub mod annotations;
pub mod rules;
mod shape;
pub mod spec;
pub mod status;
pub mod unacted;

use serde::{Deserialize, Serialize};

pub use annotations::{Requests, requests};
pub(crate) use shape::SHAPE;
pub use spec::{
    BareMetalHostSpec, BmcDetails, BootMode, ChecksumType, CleaningMode, CustomDeploy, Image, ImageFormat,
    InspectionMode, RootDeviceHints,
};
pub use status::{
    BareMetalHostStatus, CredentialsStatus, ErrorType, OperationHistory, OperationMetric, OperationalStatus,
    ProvisionStatus, ProvisioningState,
};
pub use unacted::unacted_fields;

use crate::meta::ObjectMeta;

/// Keeps the host's object until it was deprovisioned.
pub const FINALIZER: &str = "baremetalhost.metal3.io";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalHost {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: BareMetalHostSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<BareMetalHostStatus>,
}
