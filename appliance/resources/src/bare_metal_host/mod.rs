//! `BareMetalHost` (metal3.io/v1alpha1): what the owner of a server wants, and what is so.
//!
//! [`spec`] and [`status`] are upstream's fields; [`rules`] are upstream's admission rules plus
//! our own limits, and [`address`] what a BMC's address may be; [`annotations`] are the requests that
//! travel as annotations; [`unsupported_fields`] knows which accepted fields nothing acts on yet, [`image_form`] which
//! images are accepted and never written, [`insecure_bmc`] what an owner gave up for the BMC, and `os_loss` which edit
//! costs the OS.

pub mod address;
pub mod annotations;
pub mod cleaning;
pub mod image_form;
pub mod insecure_bmc;
mod os_loss;
pub mod rules;
pub(crate) mod shape;
pub mod spec;
pub mod status;
pub mod unsupported_fields;

use firesteel_kube_types::ObjectMeta;
use serde::{Deserialize, Serialize};

pub use annotations::{HostRequests, requests};
use shape::SHAPE;
pub use spec::{
    BareMetalHostSpec, BmcDetails, BootMode, ChecksumType, CleaningMode, CustomDeploy, Image, ImageFormat,
    InspectionMode, RootDeviceHints,
};
pub use status::{
    BareMetalHostStatus, CredentialsStatus, ErrorType, OperationHistory, OperationMetric, OperationalStatus,
    ProvisionStatus, ProvisioningState,
};
pub use unsupported_fields::{unacted, unacted_fields};

use crate::admit;
use crate::kind::{AGE, Kind, METAL3, RuleVerdict, V1ALPHA1, column};

/// Keeps the host's object until it was deprovisioned.
pub const FINALIZER: &str = "baremetalhost.metal3.io";

pub const KIND: Kind = Kind {
    short_names: &["bmh", "bmhost"],
    has_status: true,
    columns: &[
        column("Status", ".status.operationalStatus", "Operational status", 1),
        column("State", ".status.provisioning.state", "Provisioning status", 0),
        column("Consumer", ".spec.consumerRef.name", "Consumer using this host", 0),
        column("BMC", ".spec.bmc.address", "Address of management controller", 1),
        column("Online", ".spec.online", "Whether the host is online or not", 0),
        column("Error", ".status.errorType", "Type of the most recent error", 0),
        AGE,
    ],
    about: "A server: how to reach it, what is to be on it, and how it is.",
    rules: |new, old| {
        admit::typed(new, old, |new: &BareMetalHost, old| RuleVerdict {
            causes: rules::causes(new, old),
            unacted: unacted(new)
                .into_iter()
                .chain(insecure_bmc::warning(&new.spec))
                .chain(os_loss::warning(new, old))
                .collect(),
        })
    },
    ..Kind::new(METAL3, V1ALPHA1, "BareMetalHost", "baremetalhosts", "baremetalhost", &SHAPE)
};

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
