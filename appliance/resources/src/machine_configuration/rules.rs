//! What the fields alone cannot say.

use firesteel_kube_types::Cause;
use serde_json::{Value, json};

use super::{CONTROL_PLANE_MACHINE_SETS, HOST_GROUPS, MachineConfiguration, SINGLETON};
use crate::{kind::RuleVerdict, shape::CelRule};

pub(super) const MACHINE_API: &str = "machine.openshift.io";
pub(super) const CLUSTER_API: &str = "cluster.x-k8s.io";
pub(super) const FIRESTEEL: &str = crate::kind::FIRESTEEL;

/// What is accepted, because upstream's schema has it, and has no effect here.
const UNACTED: [(&str, &str); 7] = [
    ("nodeDisruptionPolicy", "running nodes are not changed by the appliance"),
    ("irreconcilableValidationOverrides", "running nodes are not changed by the appliance"),
    ("forceRedeploymentReason", "there is no operand to deploy again"),
    ("failedRevisionLimit", "there are no revisions of operands"),
    ("succeededRevisionLimit", "there are no revisions of operands"),
    ("observedConfig", "it is upstream's operator's own"),
    ("unsupportedConfigOverrides", "there is no operand to override"),
];
/// Those that have a default, and the values that ask for nothing.
const UNACTED_WORDS: [(&str, &[&str], &str); 3] = [
    ("logLevel", &["", "Normal"], "logging is set by the appliance's own flags"),
    ("operatorLogLevel", &["", "Normal"], "logging is set by the appliance's own flags"),
    ("managementState", &["", "Managed"], "boot images are given up by managedBootImages alone"),
];

pub(super) fn judge(object: &Value, new: &MachineConfiguration, old: Option<&MachineConfiguration>) -> RuleVerdict {
    let mut causes = Vec::new();
    if old.is_none() && new.metadata.name != SINGLETON {
        let why = format!("there is one object of this kind and its name is {SINGLETON:?}");
        causes.push(Cause::invalid("metadata.name", &new.metadata.name, &why));
    }
    let mut unacted = unacted(&object["spec"]);
    let managers = new.spec.managed_boot_images.iter().flat_map(|managed| managed.machine_managers.iter().flatten());
    for (index, manager) in managers.enumerate() {
        let path = format!("spec.managedBootImages.machineManagers[{index}]");
        let groups: &[&str] = match manager.resource.as_str() {
            HOST_GROUPS => &[FIRESTEEL],
            CONTROL_PLANE_MACHINE_SETS => &[MACHINE_API],
            _ => &[MACHINE_API, CLUSTER_API],
        };
        if !groups.contains(&manager.api_group.as_str()) {
            causes.push(Cause::not_supported(&format!("{path}.apiGroup"), &manager.api_group, groups));
        }
        if let Some(partial) = &manager.selection.partial
            && let Err(why) = partial.machine_resource_selector.check()
        {
            let field = format!("{path}.selection.partial.machineResourceSelector");
            causes.push(Cause::invalid_value(&field, &json!({}), &why.to_string()));
        }
        if manager.resource == CONTROL_PLANE_MACHINE_SETS {
            unacted.push(format!("{path} is accepted but not acted on: there are no control plane machine sets here"));
        }
        if (manager.resource.as_str(), manager.api_group.as_str()) == (super::MACHINE_SETS, CLUSTER_API) {
            unacted.push(format!(
                "{path} is accepted but not acted on: sets of {CLUSTER_API} name their images in templates, whose kinds \
                 are not served here; status.skippedBootImages names each set"
            ));
        }
    }
    RuleVerdict { causes, unacted }
}

fn unacted(spec: &Value) -> Vec<String> {
    let is_set = |name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    let fields = UNACTED.iter().filter(|(name, _)| is_set(name)).map(|(name, why)| (*name, *why));
    let words = UNACTED_WORDS
        .iter()
        .filter(|(name, idle, _)| spec[*name].as_str().is_some_and(|word| !idle.contains(&word)))
        .map(|(name, _, why)| (*name, *why));
    fields.chain(words).map(|(name, why)| format!("spec.{name} is accepted but not acted on: {why}")).collect()
}

fn is_automatic(object: &Value) -> bool {
    object["status"]["bootImageSkewEnforcementStatus"]["mode"] == "Automatic"
}

fn managers<'a>(object: &'a Value, part: &str, name: &str) -> Option<&'a Vec<Value>> {
    object[part][name]["machineManagers"].as_array()
}

fn is_of_machine_api(manager: &Value) -> bool {
    manager["resource"] == super::MACHINE_SETS && manager["apiGroup"] == MACHINE_API
}

/// Whoever gives up the management of boot images says first how their age is to be known.
pub(super) const AUTOMATIC: [CelRule; 4] = [
    CelRule {
        cel: "self.?status.bootImageSkewEnforcementStatus.mode.orValue(\"\") == 'Automatic' ? \
              self.?spec.managedBootImages.hasValue() || self.?status.managedBootImagesStatus.hasValue() : true",
        message: "when skew enforcement is in Automatic mode, a boot image configuration is required",
        holds: |object, _| {
            let is_there = |part: &str, name: &str| object[part].get(name).is_some();
            !is_automatic(object)
                || is_there("spec", "managedBootImages")
                || is_there("status", "managedBootImagesStatus")
        },
    },
    CelRule {
        cel: "self.?status.bootImageSkewEnforcementStatus.mode.orValue(\"\") == 'Automatic' ? \
              !(self.?spec.managedBootImages.machineManagers.hasValue()) || \
              size(self.spec.managedBootImages.machineManagers) > 0 : true",
        message: "when skew enforcement is in Automatic mode, managedBootImages.machineManagers must not be an empty \
                  list",
        holds: |object, _| {
            !is_automatic(object)
                || managers(object, "spec", "managedBootImages").is_none_or(|managers| !managers.is_empty())
        },
    },
    CelRule {
        cel: "self.?status.bootImageSkewEnforcementStatus.mode.orValue(\"\") == 'Automatic' ? \
              !(self.?spec.managedBootImages.machineManagers.hasValue()) || \
              !self.spec.managedBootImages.machineManagers.exists(m, m.resource == 'machinesets' && m.apiGroup == \
              'machine.openshift.io') || self.spec.managedBootImages.machineManagers.exists(m, m.resource == \
              'machinesets' && m.apiGroup == 'machine.openshift.io' && m.selection.mode == 'All') : true",
        message: "when skew enforcement is in Automatic mode, any MachineAPI MachineSet MachineManager must use \
                  selection mode 'All'",
        holds: |object, _| {
            let ours = |managers: &Vec<Value>| {
                let mut own = managers.iter().filter(|manager| is_of_machine_api(manager)).peekable();
                own.peek().is_none() || own.any(|manager| manager["selection"]["mode"] == "All")
            };
            !is_automatic(object) || managers(object, "spec", "managedBootImages").is_none_or(ours)
        },
    },
    CelRule {
        cel: "self.?status.bootImageSkewEnforcementStatus.mode.orValue(\"\") == 'Automatic' ? \
              !(self.?status.managedBootImagesStatus.machineManagers.hasValue()) || \
              self.status.managedBootImagesStatus.machineManagers.exists(m, m.selection.mode == 'All' && m.resource \
              == 'machinesets' && m.apiGroup == 'machine.openshift.io'): true",
        message: "when skew enforcement is in Automatic mode, managedBootImagesStatus must contain a MachineManager \
                  opting in all MachineAPI MachineSets",
        holds: |object, _| {
            let all = |managers: &Vec<Value>| {
                managers.iter().any(|manager| is_of_machine_api(manager) && manager["selection"]["mode"] == "All")
            };
            !is_automatic(object) || managers(object, "status", "managedBootImagesStatus").is_none_or(all)
        },
    },
];
