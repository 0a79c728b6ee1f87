//! The fields of the kind.

use serde_json::Value;

use super::disruption;
use crate::shape::{CelRule, Field, Literal, Shape, matches};
use crate::{condition, selector};

pub(super) const RESOURCES: [&str; 3] = [super::MACHINE_SETS, super::CONTROL_PLANE_MACHINE_SETS, super::HOST_GROUPS];
pub(super) const GROUPS: [&str; 3] = [super::rules::MACHINE_API, super::rules::CLUSTER_API, super::rules::FIRESTEEL];
/// Upstream's.
const MANAGERS_MAX: usize = 5;
/// Skipped sets that are named one by one, so that the object stays of a size that people can read.
pub const SKIPPED_MAX: usize = 500;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// `part` is there if `mode` is this word, and not otherwise.
fn goes_with(value: &Value, mode: &str, part: &str) -> bool {
    (text(value, "mode") == mode) == value.get(part).is_some()
}

const OCP_VERSION: Shape = Shape::TEXT.chars_min(5).chars_max(10).ruled_by(&[CelRule {
    cel: r"self.matches('^[0-9]+\\.[0-9]+\\.[0-9]+$')",
    message: "ocpVersion must match the OCP semver compatible format of x.y.z",
    holds: |value, _| matches(r"^[0-9]+\.[0-9]+\.[0-9]+$", value.as_str().unwrap_or_default()),
}]);

/// Characters of a version of RHCOS, the fewest and the most (upstream).
pub const RHCOS_VERSION_CHARS: [usize; 2] = [14, 21];

const RHCOS_VERSION: Shape =
    Shape::TEXT.chars_min(RHCOS_VERSION_CHARS[0]).chars_max(RHCOS_VERSION_CHARS[1]).ruled_by(&[CelRule {
        cel: r"self.matches('^[0-9]+\\.[0-9]+\\.([0-9]{8}|[0-9]{12})-[0-9]+$')",
        message: "rhcosVersion must match format [major].[minor].[datestamp(YYYYMMDD)]-[buildnumber] or must match \
              legacy format [major].[minor].[timestamp(YYYYMMDDHHmm)]-[buildnumber]",
        holds: |value, _| matches(r"^[0-9]+\.[0-9]+\.([0-9]{8}|[0-9]{12})-[0-9]+$", value.as_str().unwrap_or_default()),
    }]);

const OCP: Field =
    Field::new("ocpVersion", OCP_VERSION).about("The release that brought the boot images, as in 4.13.0.");
const RHCOS: Field =
    Field::new("rhcosVersion", RHCOS_VERSION).about("The boot images' own release, as in 9.6.20250701-0.");

const MANUAL: Shape = Shape::object(&[
    Field::required("mode", Shape::one_of(&["OCPVersion", "RHCOSVersion"]))
        .about("Which of the two versions is stated."),
    OCP,
    RHCOS,
])
.ruled_by(&[
    CelRule {
        cel: "has(self.mode) && (self.mode =='OCPVersion') ?  has(self.ocpVersion) : !has(self.ocpVersion)",
        message: "ocpVersion is required when mode is OCPVersion, and forbidden otherwise",
        holds: |value, _| goes_with(value, "OCPVersion", "ocpVersion"),
    },
    CelRule {
        cel: "has(self.mode) && (self.mode =='RHCOSVersion') ?  has(self.rhcosVersion) : !has(self.rhcosVersion)",
        message: "rhcosVersion is required when mode is RHCOSVersion, and forbidden otherwise",
        holds: |value, _| goes_with(value, "RHCOSVersion", "rhcosVersion"),
    },
]);

const MANUAL_FIELD: Field = Field::new("manual", MANUAL).about("The version that a person states.");

const SKEW: Shape = Shape::object(&[
    MANUAL_FIELD,
    Field::required("mode", Shape::one_of(&["Manual", "None"]))
        .about("Whether the age of boot images is held against a stated version, or not at all."),
])
.ruled_by(&[CelRule {
    cel: "has(self.mode) && (self.mode =='Manual') ?  has(self.manual) : !has(self.manual)",
    message: "manual is required when mode is Manual, and forbidden otherwise",
    holds: |value, _| goes_with(value, "Manual", "manual"),
}]);

const AUTOMATIC: Shape = Shape::object(&[OCP, RHCOS]).fields_min(1).ruled_by(&[CelRule {
    cel: "has(self.ocpVersion) || has(self.rhcosVersion)",
    message: "at least one of ocpVersion or rhcosVersion is required",
    holds: |value, _| value.get("ocpVersion").is_some() || value.get("rhcosVersion").is_some(),
}]);

const SKEW_STATUS: Shape = Shape::object(&[
    Field::new("automatic", AUTOMATIC).about("The version that all sets have reached."),
    MANUAL_FIELD,
    Field::required("mode", Shape::one_of(&["Automatic", "Manual", "None"])).about("How the age is held against it."),
])
.ruled_by(&[
    CelRule {
        cel: "has(self.mode) && (self.mode == 'Automatic') ?  has(self.automatic) : !has(self.automatic)",
        message: "automatic is required when mode is Automatic, and forbidden otherwise",
        holds: |value, _| goes_with(value, "Automatic", "automatic"),
    },
    CelRule {
        cel: "has(self.mode) && (self.mode == 'Manual') ?  has(self.manual) : !has(self.manual)",
        message: "manual is required when mode is Manual, and forbidden otherwise",
        holds: |value, _| goes_with(value, "Manual", "manual"),
    },
]);

const PARTIAL: Shape = Shape::object(&[
    Field::required("machineResourceSelector", selector::SHAPE).about("The labels of the sets that are managed.")
]);

const SELECTION: Shape = Shape::object(&[
    Field::required("mode", Shape::one_of(&["All", "Partial", "None"]))
        .about("All sets of this kind, those that a selector selects, or none."),
    Field::new("partial", PARTIAL).about("With Partial: which."),
])
.ruled_by(&[CelRule {
    cel: "has(self.mode) && self.mode == 'Partial' ?  has(self.partial) : !has(self.partial)",
    message: "Partial is required when type is partial, and forbidden otherwise",
    holds: |value, _| goes_with(value, "Partial", "partial"),
}]);

const MANAGER: Shape = Shape::object(&[
    Field::required("apiGroup", Shape::one_of(&GROUPS)).about("The group of the sets."),
    Field::required("resource", Shape::one_of(&RESOURCES)).about("The kind of the sets, as in paths."),
    Field::required("selection", SELECTION).about("Which of them are managed."),
])
.ruled_by(&[CelRule {
    cel: "self.resource != 'controlplanemachinesets' || self.selection.mode == 'All' || self.selection.mode == 'None'",
    message: "Only All or None selection mode is permitted for ControlPlaneMachineSets",
    holds: |value, _| {
        text(value, "resource") != super::CONTROL_PLANE_MACHINE_SETS
            || ["All", "None"].contains(&text(&value["selection"], "mode"))
    },
}]);

const MANAGED: Shape = Shape::object(&[Field::new(
    "machineManagers",
    Shape::list(&MANAGER).keyed_by(&["resource", "apiGroup"]).items_max(MANAGERS_MAX),
)
.about("What is managed. Without a list the default holds; an empty one manages nothing.")]);

const OVERRIDES: Shape = Shape::object(&[Field::new(
    "storage",
    Shape::list(&Shape::one_of(&["Disks", "FileSystems", "Raid"])).set().items_min(1).items_max(3),
)
.about("Parts of a config's storage section that may change though nodes do not follow.")])
.fields_min(1);

const LOG_LEVEL: Shape =
    Shape::one_of(&["", "Normal", "Debug", "Trace", "TraceAll"]).with_default(Literal::Text("Normal"));

const SPEC: Shape = Shape::object(&[
    Field::new("bootImageSkewEnforcement", SKEW).about("How old boot images may be. Without it, as the sets tell."),
    Field::new("failedRevisionLimit", Shape::INT32).about("How many failed revisions upstream's installer keeps."),
    Field::new("forceRedeploymentReason", Shape::TEXT).about("A change of it makes upstream's operator deploy again."),
    Field::new("irreconcilableValidationOverrides", OVERRIDES).about("Which changes of configs nodes need not follow."),
    Field::new("logLevel", LOG_LEVEL).about("How much upstream's operands log."),
    Field::new("managedBootImages", MANAGED).about("Which sets have their boot images kept current."),
    Field::new("managementState", Shape::TEXT.matching("^(Managed|Unmanaged|Force|Removed)$"))
        .about("Whether upstream's operator looks after its component."),
    Field::new("nodeDisruptionPolicy", disruption::POLICY).about("What a change of a config does to a running node."),
    Field::new("observedConfig", Shape::object(&[]).nullable().open()).about("What upstream's operator found."),
    Field::new("operatorLogLevel", LOG_LEVEL).about("How much upstream's operator logs."),
    Field::new("succeededRevisionLimit", Shape::INT32).about("How many good revisions upstream's installer keeps."),
    Field::new("unsupportedConfigOverrides", Shape::object(&[]).nullable().open())
        .about("What overrides upstream's operator, at one's own risk."),
]);

const SKIPPED: Shape = Shape::object(&[
    Field::required("apiGroup", Shape::TEXT).about("The group of the set."),
    Field::required("message", Shape::TEXT).about("Why it is left alone, for people."),
    Field::required("name", Shape::TEXT).about("The name of the set."),
    Field::required("namespace", Shape::TEXT).about("The namespace of the set."),
    Field::required("reason", Shape::TEXT).about("Why it is left alone, as one word."),
    Field::required("resource", Shape::TEXT).about("The kind of the set, as in paths."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("bootImageMemory", Shape::object(&[]).open()).about("What the appliance remembers of its changes."),
    Field::new("bootImageSkewEnforcementStatus", SKEW_STATUS).about("How old boot images may be, as it is enforced."),
    Field::new("conditions", condition::LIST_SHAPE).about("How far the boot images are."),
    Field::new("managedBootImagesStatus", MANAGED).about("The setting in force: what is wanted, or the default."),
    Field::new("nodeDisruptionPolicyStatus", disruption::STATUS)
        .about("What changes of configs do, as upstream has it."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("skippedBootImages", Shape::list(&SKIPPED).atomic().items_max(SKIPPED_MAX))
        .about("Each set that is left alone, and why."),
]);

pub(super) const SHAPE: Shape =
    Shape::object(&[Field::required("spec", SPEC).about("What is wanted."), Field::status(STATUS, "What is so.")])
        .ruled_by(&super::rules::AUTOMATIC);
