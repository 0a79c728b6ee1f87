//! The host's status, with upstream's names. Written by the planner's projection alone.

use firesteel_kube_types::SecretReference;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bare_metal_host::spec::{BootMode, CustomDeploy, Image, Raid, RootDeviceHints};
use crate::condition::Condition;
use crate::hardware_data::HardwareDetails;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalHostStatus {
    pub operational_status: OperationalStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,
    pub error_message: String,
    pub error_count: u32,
    pub provisioning_fail_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,
    pub powered_on: bool,
    pub provisioning: ProvisionStatus,
    #[serde(skip_serializing_if = "CredentialsStatus::is_empty")]
    pub good_credentials: CredentialsStatus,
    #[serde(skip_serializing_if = "CredentialsStatus::is_empty")]
    pub tried_credentials: CredentialsStatus,
    #[serde(skip_serializing_if = "OperationHistory::is_empty")]
    pub operation_history: OperationHistory,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Deprecated upstream in favour of `HardwareData`; read when a moved host brings it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationalStatus {
    #[default]
    #[serde(rename = "")]
    Empty,
    #[serde(rename = "OK")]
    Ok,
    Discovered,
    Error,
    Delayed,
    Detached,
    Servicing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorType {
    #[serde(rename = "registration error")]
    Registration,
    #[serde(rename = "provisioned registration error")]
    ProvisionedRegistration,
    #[serde(rename = "inspection error")]
    Inspection,
    #[serde(rename = "preparation error")]
    Preparation,
    #[serde(rename = "provisioning error")]
    Provisioning,
    #[serde(rename = "power management error")]
    PowerManagement,
    #[serde(rename = "servicing error")]
    Servicing,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionStatus {
    pub state: ProvisioningState,
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// The hints in force when the disk was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
}

/// Upstream's state words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProvisioningState {
    #[default]
    #[serde(rename = "")]
    New,
    Unmanaged,
    Registering,
    Inspecting,
    Preparing,
    Available,
    Provisioning,
    Provisioned,
    #[serde(rename = "externally provisioned")]
    ExternallyProvisioned,
    Deprovisioning,
    #[serde(rename = "powering off before delete")]
    PoweringOff,
    Deleting,
    /// A word that is none of upstream's. The field is a plain string, which any client may write; it is stored, and
    /// says nothing here.
    #[serde(other)]
    Foreign,
}

impl ProvisioningState {
    /// Those that a host can be in.
    pub const ALL: [Self; 12] = [
        Self::New,
        Self::Unmanaged,
        Self::Registering,
        Self::Inspecting,
        Self::Preparing,
        Self::Available,
        Self::Provisioning,
        Self::Provisioned,
        Self::ExternallyProvisioned,
        Self::Deprovisioning,
        Self::PoweringOff,
        Self::Deleting,
    ];

    /// The word as it stands in the status.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "",
            Self::Unmanaged => "unmanaged",
            Self::Registering => "registering",
            Self::Inspecting => "inspecting",
            Self::Preparing => "preparing",
            Self::Available => "available",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::ExternallyProvisioned => "externally provisioned",
            Self::Deprovisioning => "deprovisioning",
            Self::PoweringOff => "powering off before delete",
            Self::Deleting => "deleting",
            Self::Foreign => "foreign",
        }
    }
}

impl std::fmt::Display for ProvisioningState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::New { "new" } else { self.word() })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,
    /// The Secret's resourceVersion.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credentials_version: String,
}

impl CredentialsStatus {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationHistory {
    pub register: OperationMetric,
    pub inspect: OperationMetric,
    pub provision: OperationMetric,
    pub deprovision: OperationMetric,
}

impl OperationHistory {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `null` where not begun or not ended, as upstream writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationMetric {
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use serde_json::json;

    use super::*;
    use crate::{admit, kinds::BARE_METAL_HOST};

    #[test]
    fn a_state_that_is_none_is_stored_as_it_is_and_says_nothing() {
        for word in ["match profile", "ready", "Provisioned"] {
            let state: ProvisioningState = serde_json::from_value(json!(word)).unwrap();
            assert_eq!(state, ProvisioningState::Foreign, "{word}");
        }
        for state in ProvisioningState::ALL {
            assert_eq!(serde_json::from_value::<ProvisioningState>(json!(state.word())).unwrap(), state);
        }
        let status = json!({"errorCount": 0, "errorMessage": "", "operationalStatus": "OK", "poweredOn": true,
            "provisioningFailCount": 0, "provisioning": {"ID": "", "state": "match profile"}});
        let mut object =
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"online": true}, "status": status});
        let old = object.clone();
        let admission = admit(&BARE_METAL_HOST, &mut object, Some(&old));
        assert_eq!(admission.causes, []);
        assert_eq!(object["status"], status);
    }
}
