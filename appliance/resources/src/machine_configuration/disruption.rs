//! What a change of a config does to a running node (`spec.nodeDisruptionPolicy`). Nothing here acts on it; the shape
//! is upstream's.

use serde_json::Value;

use crate::shape::{CelRule, Field, Shape, matches};

const ACTIONS_MAX: usize = 10;
/// Policies in the spec; the status has upstream's own beside them.
const POLICIES_MAX: usize = 50;
const STATUS_POLICIES_MAX: usize = 100;

const SERVICE_TYPES: &str = r"\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$";
const SERVICE_NAME: &str = r"^[a-zA-Z0-9:._\\-]+\..";

const UNIT_NAME: Shape = Shape::TEXT.chars_max(255).ruled_by(&[
    CelRule {
        cel: r"self.matches('\\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$')",
        message: "Invalid ${SERVICETYPE} in service name. Expected format is ${NAME}${SERVICETYPE}, where \
                  ${SERVICETYPE} must be one of \".service\", \".socket\", \".device\", \".mount\", \".automount\", \
                  \".swap\", \".target\", \".path\", \".timer\",\".snapshot\", \".slice\" or \".scope\".",
        holds: |value, _| matches(SERVICE_TYPES, value.as_str().unwrap_or_default()),
    },
    CelRule {
        cel: r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')",
        message: "Invalid ${NAME} in service name. Expected format is ${NAME}${SERVICETYPE}, where {NAME} must be \
                  atleast 1 character long and can only consist of alphabets, digits, \":\", \"-\", \"_\", \".\", \
                  and \"\\\"",
        holds: |value, _| matches(SERVICE_NAME, value.as_str().unwrap_or_default()),
    },
]);

const SERVICE: Shape = Shape::object(&[Field::required("serviceName", UNIT_NAME).about("The name of the service.")]);

const fn action_fields(types: &'static [&'static str]) -> [Field; 3] {
    [
        Field::new("reload", SERVICE).about("With Reload: which service."),
        Field::new("restart", SERVICE).about("With Restart: which service."),
        Field::required("type", Shape::one_of(types)).about("What is done to the node."),
    ]
}

const fn action(fields: &'static [Field]) -> Shape {
    Shape::object(fields).ruled_by(&[
        CelRule {
            cel: "has(self.type) && self.type == 'Reload' ? has(self.reload) : !has(self.reload)",
            message: "reload is required when type is Reload, and forbidden otherwise",
            holds: |value, _| (value["type"] == "Reload") == value.get("reload").is_some(),
        },
        CelRule {
            cel: "has(self.type) && self.type == 'Restart' ? has(self.restart) : !has(self.restart)",
            message: "restart is required when type is Restart, and forbidden otherwise",
            holds: |value, _| (value["type"] == "Restart") == value.get("restart").is_some(),
        },
    ])
}

/// An action that makes all others needless stands alone.
fn stands_alone(actions: &Value, type_: &str) -> bool {
    let actions = actions.as_array().map(Vec::as_slice).unwrap_or_default();
    actions.len() == 1 || actions.iter().all(|action| action["type"] != type_)
}

const fn actions(action: &'static Shape) -> Field {
    let list = Shape::list(action).atomic().items_max(ACTIONS_MAX).ruled_by(&[
        CelRule {
            cel: "self.exists(x, x.type=='Reboot') ? size(self) == 1 : true",
            message: "Reboot action can only be specified standalone, as it will override any other actions",
            holds: |value, _| stands_alone(value, "Reboot"),
        },
        CelRule {
            cel: "self.exists(x, x.type=='None') ? size(self) == 1 : true",
            message: "None action can only be specified standalone, as it will override any other actions",
            holds: |value, _| stands_alone(value, "None"),
        },
    ]);
    Field::required("actions", list).about("What is done to a node when this changes.")
}

const TYPES: [&str; 6] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"];
const STATUS_TYPES: [&str; 7] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None", "Special"];

const ACTION: Shape = action(&action_fields(&TYPES));
const STATUS_ACTION: Shape = action(&action_fields(&STATUS_TYPES));

const PATH: Field = Field::required("path", Shape::TEXT).about("The file.");
const UNIT: Field = Field::required("name", UNIT_NAME).about("The unit.");

const FILE_POLICY: Shape = Shape::object(&[actions(&ACTION), PATH]);
const UNIT_POLICY: Shape = Shape::object(&[actions(&ACTION), UNIT]);
const KEY_POLICY: Shape = Shape::object(&[actions(&ACTION)]);
const STATUS_FILE_POLICY: Shape = Shape::object(&[actions(&STATUS_ACTION), PATH]);
const STATUS_UNIT_POLICY: Shape = Shape::object(&[actions(&STATUS_ACTION), UNIT]);
const STATUS_KEY_POLICY: Shape = Shape::object(&[actions(&STATUS_ACTION)]);

pub(super) const POLICY: Shape = Shape::object(&[
    Field::new("files", Shape::list(&FILE_POLICY).keyed_by(&["path"]).items_max(POLICIES_MAX)).about("By file."),
    Field::new("sshkey", KEY_POLICY).about("When the keys of the user core change."),
    Field::new("units", Shape::list(&UNIT_POLICY).keyed_by(&["name"]).items_max(POLICIES_MAX)).about("By unit."),
]);

const CLUSTER_POLICIES: Shape = Shape::object(&[
    Field::new("files", Shape::list(&STATUS_FILE_POLICY).keyed_by(&["path"]).items_max(STATUS_POLICIES_MAX))
        .about("By file."),
    Field::new("sshkey", STATUS_KEY_POLICY).about("When the keys of the user core change."),
    Field::new("units", Shape::list(&STATUS_UNIT_POLICY).keyed_by(&["name"]).items_max(STATUS_POLICIES_MAX))
        .about("By unit."),
]);

pub(super) const STATUS: Shape =
    Shape::object(&[Field::new("clusterPolicies", CLUSTER_POLICIES).about("What holds, upstream's own included.")]);
