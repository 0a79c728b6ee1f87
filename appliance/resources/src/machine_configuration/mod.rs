//! `MachineConfiguration` (operator.openshift.io/v1): how the boot images of machines are kept current. Cluster scoped;
//! there is one, `cluster`. Shape and rules are upstream's (S1-2.1), with these additions:
//!
//! - A manager's `apiGroup` may be `cluster.x-k8s.io` too, which upstream reserves, and its `resource` may be
//!   `hostgroups` (group `firesteel.dev`): groups of hosts for those who use no machines. Sets of `cluster.x-k8s.io` are
//!   named as skipped and not changed, until the kinds of their templates are served.
//! - Upstream refuses the kind's `managedBootImages` where the platform is none of four clouds. Here is bare metal, and
//!   nothing is refused for it.
//! - `status.skippedBootImages` names each set that is left alone, with the reason.
//! - `status.bootImageMemory` is what the appliance counts and remembers.
//!
//! `spec.managedBootImages` has three meanings: without a list the default holds ([`MachineManager::defaults`]); an
//! empty list gives up everything; a list is as written. [`ManagedBootImages::effective`] tells which, and is what the
//! status shows.

mod disruption;
mod rules;
mod shape;

use firesteel_kube_types::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use shape::{RHCOS_VERSION_CHARS, SKIPPED_MAX};

use crate::admit::typed;
use crate::condition::Condition;
use crate::kind::{AGE, Kind, KindScope, column};
use crate::selector::Selector;
use crate::zero::is_zero;

/// The name of the one object.
pub const SINGLETON: &str = "cluster";

pub const MACHINE_SETS: &str = "machinesets";
pub const CONTROL_PLANE_MACHINE_SETS: &str = "controlplanemachinesets";
pub const HOST_GROUPS: &str = "hostgroups";

/// The kinds of sets that there are here, with their groups.
pub const MANAGED: [(&str, &str); 3] =
    [(HOST_GROUPS, rules::FIRESTEEL), (MACHINE_SETS, rules::MACHINE_API), (MACHINE_SETS, rules::CLUSTER_API)];

pub const KIND: Kind = Kind {
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column(
            "Progressing",
            r#".status.conditions[?(@.type=="BootImageUpdateProgressing")].status"#,
            "Whether references of boot images are being changed",
            0,
        ),
        column(
            "Degraded",
            r#".status.conditions[?(@.type=="BootImageUpdateDegraded")].status"#,
            "Whether a set could not be brought to the current boot image",
            0,
        ),
        column("Skew", ".status.bootImageSkewEnforcementStatus.mode", "How old boot images may be is enforced so", 0),
        AGE,
    ],
    about: "Which sets of machines and groups of hosts have their boot images kept current, and how old these may be.",
    rules: |new, old| typed(new, old, |typed, was| rules::judge(new, typed, was)),
    ..Kind::new(
        "operator.openshift.io",
        "v1",
        "MachineConfiguration",
        "machineconfigurations",
        "machineconfiguration",
        &shape::SHAPE,
    )
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfiguration {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: MachineConfigurationSpec,
    pub status: MachineConfigurationStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigurationSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_boot_images: Option<ManagedBootImages>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement: Option<SkewEnforcement>,
    /// What nothing here acts on.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigurationStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// The setting in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_boot_images_status: Option<ManagedBootImages>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement_status: Option<SkewEnforcement>,
    /// Each set that is left alone, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_boot_images: Vec<SkippedBootImage>,
    /// What the appliance remembers of what it changed; its shape belongs to the policy.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub boot_image_memory: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedBootImages {
    /// Is absent, empty and filled are three different things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_managers: Option<Vec<MachineManager>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineManager {
    pub resource: String,
    pub api_group: String,
    pub selection: SetSelection,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetSelection {
    pub mode: SelectionMode,
    /// The selector, with [`SelectionMode::Partial`] alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialSelection>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectionMode {
    All,
    Partial,
    #[default]
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartialSelection {
    pub machine_resource_selector: Selector,
}

/// Enforcement in the spec, and in the status, which alone knows [`SkewMode::Automatic`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkewEnforcement {
    pub mode: SkewMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<BootImageVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automatic: Option<BootImageVersion>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkewMode {
    Automatic,
    Manual,
    #[default]
    None,
}

/// A version of boot images as a person or the appliance states it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootImageVersion {
    /// Which version a manual one states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<VersionMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocp_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rhcos_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionMode {
    #[serde(rename = "OCPVersion")]
    Ocp,
    #[serde(rename = "RHCOSVersion")]
    Rhcos,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkippedBootImage {
    pub resource: String,
    pub api_group: String,
    pub namespace: String,
    pub name: String,
    /// The reason as one word.
    pub reason: String,
    pub message: String,
}

impl MachineManager {
    fn new(resource: &str, api_group: &str, mode: SelectionMode) -> Self {
        let selection = SetSelection { mode, partial: None };
        Self { resource: resource.to_owned(), api_group: api_group.to_owned(), selection }
    }

    /// The default policies: all sets are kept current, as upstream has it on platforms that support it. No set loses
    /// an image of its own by that: one whose image is not from the catalogue is left alone.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let all = |(resource, group)| Self::new(resource, group, SelectionMode::All);
        MANAGED.map(all).into()
    }

    #[must_use]
    pub fn is_of(&self, resource: &str, api_group: &str) -> bool {
        self.resource == resource && self.api_group == api_group
    }
}

impl ManagedBootImages {
    /// The setting in force, with an entry for each kind of set that there is: those that a list does not have are
    /// not managed.
    #[must_use]
    pub fn effective(wanted: Option<&Self>) -> Self {
        let defaults = MachineManager::defaults();
        let Some(written) = wanted.and_then(|wanted| wanted.machine_managers.as_ref()) else {
            return Self { machine_managers: Some(defaults) };
        };
        let missing = defaults
            .into_iter()
            .filter(|default| written.iter().all(|manager| !manager.is_of(&default.resource, &default.api_group)));
        let missing = missing.map(|default| Self::none(&default));
        Self { machine_managers: Some(written.iter().cloned().chain(missing).collect()) }
    }

    fn none(manager: &MachineManager) -> MachineManager {
        MachineManager::new(&manager.resource, &manager.api_group, SelectionMode::None)
    }

    /// What is selected of a kind of set.
    #[must_use]
    pub fn selection(&self, resource: &str, api_group: &str) -> Option<&SetSelection> {
        let managers = self.machine_managers.iter().flatten();
        managers.into_iter().find(|manager| manager.is_of(resource, api_group)).map(|manager| &manager.selection)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admit;

    #[test]
    fn who_asks_for_sets_that_cannot_be_brought_along_is_told() {
        let warned = |resource: &str, group: &str| {
            let manager = json!({"resource": resource, "apiGroup": group, "selection": {"mode": "All"}});
            let spec = json!({"managedBootImages": {"machineManagers": [manager]}});
            let admission = admit(&KIND, &mut json!({"metadata": {"name": SINGLETON}, "spec": spec}), None);
            assert!(admission.causes.is_empty(), "{admission:?}");
            let path = "spec.managedBootImages.machineManagers[0] is accepted but not acted on";
            admission.warnings.iter().filter(|line| line.starts_with(path)).count()
        };
        assert_eq!(MANAGED.map(|(resource, group)| warned(resource, group)), [0, 0, 1]);
        assert_eq!(warned(CONTROL_PLANE_MACHINE_SETS, "machine.openshift.io"), 1);
    }

    #[test]
    fn nothing_an_empty_list_and_entries_are_three_things() {
        let modes = |wanted: Option<&ManagedBootImages>| {
            let effective = ManagedBootImages::effective(wanted);
            let of = |resource, group| effective.selection(resource, group).map(|selection| selection.mode);
            [
                of(HOST_GROUPS, "firesteel.dev"),
                of(MACHINE_SETS, "machine.openshift.io"),
                of(MACHINE_SETS, "cluster.x-k8s.io"),
            ]
            .map(Option::unwrap_or_default)
        };
        use SelectionMode::{All, None as Nothing};
        assert_eq!(modes(None), [All; 3]);
        assert_eq!(modes(Some(&ManagedBootImages::default())), [All; 3], "no list says nothing");
        let list = |managers: Vec<MachineManager>| ManagedBootImages { machine_managers: Some(managers) };
        assert_eq!(modes(Some(&list(Vec::new()))), [Nothing; 3]);
        let sets = MachineManager::new(MACHINE_SETS, "machine.openshift.io", All);
        assert_eq!(modes(Some(&list(vec![sets]))), [Nothing, All, Nothing], "as written");
    }
}
