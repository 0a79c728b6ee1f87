//! Where the fields of v1beta1 are in v1beta2.
//!
//! A part that one version has alone comes last: what is left of it goes.

use super::{FieldMapping, MappingForm, Steps, list, object, only_new, only_old, reference, same, seconds};

pub(super) const CLUSTER: Steps = &[&[object("spec", CLUSTER_SPEC), object("status", CLUSTER_STATUS)]];
pub(super) const MACHINE: Steps = &[&[object("spec", MACHINE_SPEC), object("status", MACHINE_STATUS)]];
pub(super) const MACHINE_SET: Steps = &[&[object("spec", MACHINE_SET_SPEC), object("status", MACHINE_SET_STATUS)]];

const TIMEOUTS: &[FieldMapping] = &[
    seconds("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    seconds("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    seconds("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
];

const HEALTH_CHECK: &[FieldMapping] = &[
    same("machineHealthCheck.enable", "healthCheck.enabled"),
    FieldMapping {
        old: "machineHealthCheck.unhealthyConditions",
        new: NODE_CONDITIONS,
        form: MappingForm::List(UNHEALTHY),
    },
    FieldMapping {
        old: "machineHealthCheck.unhealthyMachineConditions",
        new: MACHINE_CONDITIONS,
        form: MappingForm::List(UNHEALTHY),
    },
    seconds("machineHealthCheck.nodeStartupTimeout", "healthCheck.checks.nodeStartupTimeoutSeconds"),
    same("machineHealthCheck.maxUnhealthy", "healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    same("machineHealthCheck.unhealthyRange", "healthCheck.remediation.triggerIf.unhealthyInRange"),
    FieldMapping { old: "machineHealthCheck.remediationTemplate", new: TEMPLATE, form: MappingForm::Template },
];

const MACHINE_SPEC: Steps = &[
    &[reference("bootstrap.configRef"), reference("infrastructureRef")],
    TIMEOUTS,
    &[only_new("minReadySeconds"), only_new("deletion")],
];

const MACHINE_STATUS: Steps = &[&[
    same("bootstrapReady", "initialization.bootstrapDataSecretCreated"),
    same("infrastructureReady", "initialization.infrastructureProvisioned"),
    same("conditions", "deprecated.v1beta1.conditions"),
    same("failureReason", "deprecated.v1beta1.failureReason"),
    same("failureMessage", "deprecated.v1beta1.failureMessage"),
    same("v1beta2.conditions", "conditions"),
    FieldMapping { old: "nodeRef", new: "nodeRef", form: MappingForm::Node },
    FieldMapping { old: "phase", new: "phase", form: MappingForm::Phase },
    only_new("failureDomain"),
    only_new("initialization"),
    only_new("deprecated"),
    only_old("v1beta2"),
]];

const MACHINE_SET_SPEC: Steps = &[&[
    same("deletePolicy", "deletion.order"),
    same("machineNamingStrategy", "machineNaming"),
    object("template.spec", MACHINE_SPEC),
    same("minReadySeconds", "template.spec.minReadySeconds"),
    only_new("deletion"),
]];

const MACHINE_SET_STATUS: Steps = &[&[
    same("availableReplicas", "deprecated.v1beta1.availableReplicas"),
    same("readyReplicas", "deprecated.v1beta1.readyReplicas"),
    same("fullyLabeledReplicas", "deprecated.v1beta1.fullyLabeledReplicas"),
    same("conditions", "deprecated.v1beta1.conditions"),
    same("failureReason", "deprecated.v1beta1.failureReason"),
    same("failureMessage", "deprecated.v1beta1.failureMessage"),
    same("v1beta2.availableReplicas", "availableReplicas"),
    same("v1beta2.readyReplicas", "readyReplicas"),
    same("v1beta2.upToDateReplicas", "upToDateReplicas"),
    same("v1beta2.conditions", "conditions"),
    only_new("deprecated"),
    only_old("v1beta2"),
]];

const CLUSTER_SPEC: Steps =
    &[&[reference("infrastructureRef"), reference("controlPlaneRef"), object("topology", TOPOLOGY)]];

const CLUSTER_STATUS: Steps = &[&[
    same("controlPlaneReady", "initialization.controlPlaneInitialized"),
    same("infrastructureReady", "initialization.infrastructureProvisioned"),
    same("conditions", "deprecated.v1beta1.conditions"),
    same("failureReason", "deprecated.v1beta1.failureReason"),
    same("failureMessage", "deprecated.v1beta1.failureMessage"),
    same("v1beta2.conditions", "conditions"),
    same("v1beta2.controlPlane", "controlPlane"),
    same("v1beta2.workers", "workers"),
    FieldMapping { old: "failureDomains", new: "failureDomains", form: MappingForm::Domains },
    only_new("initialization"),
    only_new("deprecated"),
    only_old("v1beta2"),
]];

const TOPOLOGY: Steps = &[&[
    same("class", "classRef.name"),
    same("classNamespace", "classRef.namespace"),
    list("variables", VARIABLE),
    object("controlPlane", TOPOLOGY_CONTROL_PLANE),
    list("workers.machineDeployments", MACHINE_DEPLOYMENT),
    list("workers.machinePools", MACHINE_POOL),
    only_old("rolloutAfter"),
    only_new("classRef"),
]];

const VARIABLE: Steps = &[&[only_old("definitionFrom")]];

const TOPOLOGY_CONTROL_PLANE: Steps = &[
    TIMEOUTS,
    HEALTH_CHECK,
    &[
        list("variables.overrides", VARIABLE),
        only_old("machineHealthCheck"),
        only_new("healthCheck"),
        only_new("deletion"),
    ],
];

const MACHINE_DEPLOYMENT: Steps = &[
    TIMEOUTS,
    HEALTH_CHECK,
    &[
        same("strategy.type", "rollout.strategy.type"),
        same("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable"),
        same("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge"),
        same("strategy.rollingUpdate.deletePolicy", "deletion.order"),
        same("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight"),
        list("variables.overrides", VARIABLE),
        only_old("machineHealthCheck"),
        only_old("strategy"),
        only_new("rollout.strategy"),
        only_new("healthCheck"),
        only_new("deletion"),
    ],
];

const MACHINE_POOL: Steps = &[TIMEOUTS, &[list("variables.overrides", VARIABLE), only_new("deletion")]];

const NODE_CONDITIONS: &str = "healthCheck.checks.unhealthyNodeConditions";
const MACHINE_CONDITIONS: &str = "healthCheck.checks.unhealthyMachineConditions";
const TEMPLATE: &str = "healthCheck.remediation.templateRef";
const UNHEALTHY: Steps = &[&[seconds("timeout", "timeoutSeconds")]];
