//! `MachineSet` of the Machine API (machine.openshift.io/v1beta1): a number of machines made from one template. The
//! appliance makes no machines of it; it keeps the boot image that the template names, and the stub that it leads to,
//! current (see [`crate::machine_configuration`]). Cluster API has a kind of the same name in another group.
//!
//! On metal3 a template names its image in `providerSpec.value.image` (`url` and `checksum`) and its stub's Secret in
//! `providerSpec.value.userData` (metal3's provider for the Machine API, BareMetalMachineProviderSpec).
//!
//! `authoritativeAPI` of spec and status is of upstream's newer feature set: a set that was moved to Cluster API is
//! that API's to change.

use firesteel_kube_types::ScaleSubresource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kind::{AGE, Kind, KindColumn, RuleVerdict, column};
use crate::shape::{Field, Literal, Shape};
use crate::{condition, selector};

/// Path to metal3's part of a template.
const PROVIDER: &str = "/spec/template/spec/providerSpec/value";

pub const KIND: Kind = Kind {
    has_status: true,
    columns: &[
        number("Desired", ".spec.replicas", "Machines that there are to be"),
        number("Current", ".status.replicas", "Machines that there are"),
        number("Ready", ".status.readyReplicas", "Machines that are ready"),
        column("Available", ".status.availableReplicas", "Machines that are available", 0),
        AGE,
    ],
    about: "A number of machines that are made from one template.",
    rules: |new, _| RuleVerdict { causes: Vec::new(), unacted: unacted(new) },
    scale: Some(ScaleSubresource {
        spec_replicas: ".spec.replicas",
        status_replicas: ".status.replicas",
        label_selector: ".status.labelSelector",
    }),
    ..Kind::new("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", "machineset", &SHAPE)
};

/// A set was moved to Cluster API, or is being moved there.
#[must_use]
pub fn is_migrated(set: &Value) -> bool {
    let of = |part: &str| set[part]["authoritativeAPI"].as_str().unwrap_or_default();
    [of("spec"), of("status")].iter().any(|api| ["ClusterAPI", "Migrating"].contains(api))
}

/// The image that a template names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateImage {
    pub url: String,
    pub checksum: String,
}

#[must_use]
pub fn image(set: &Value) -> Option<TemplateImage> {
    let image = &set.pointer(PROVIDER)?["image"];
    let text = |name: &str| image[name].as_str().unwrap_or_default().to_owned();
    (!text("url").is_empty()).then(|| TemplateImage { url: text("url"), checksum: text("checksum") })
}

/// The Secret with the template's stub, in the set's own namespace.
#[must_use]
pub fn user_data(set: &Value) -> Option<&str> {
    set.pointer(PROVIDER)?["userData"]["name"].as_str().filter(|name| !name.is_empty())
}

/// Makes the template name another image; false where it has no place for one.
pub fn set_image(set: &mut Value, image: &TemplateImage) -> bool {
    let Some(Value::Object(provider)) = set.pointer_mut(PROVIDER) else { return false };
    let held = provider.entry("image").or_insert_with(|| json!({}));
    let Some(held) = held.as_object_mut() else { return false };
    // What else it says stays.
    held.insert("url".to_owned(), json!(image.url));
    held.insert("checksum".to_owned(), json!(image.checksum));
    true
}

/// What of a set is about the machines that are made of it.
const OF_MACHINES: [&str; 9] = [
    "spec.replicas",
    "spec.selector",
    "spec.deletePolicy",
    "spec.minReadySeconds",
    "spec.template.metadata",
    "spec.template.spec.lifecycleHooks",
    "spec.template.spec.metadata",
    "spec.template.spec.providerID",
    "spec.template.spec.taints",
];

fn unacted(new: &Value) -> Vec<String> {
    let is_set =
        |path: &str| new.pointer(&format!("/{}", path.replace('.', "/"))).is_some_and(|value| !value.is_null());
    let of_machines: Vec<&str> = OF_MACHINES.iter().copied().filter(|path| is_set(path)).collect();
    // The number of machines has a default, so that there is always something to tell.
    let mut lines = vec![format!(
        "{} {} accepted but not acted on: the appliance makes no machines of sets; it keeps the boot image and the \
         stub of the template current",
        if of_machines.is_empty() { "spec.replicas".to_owned() } else { of_machines.join(", ") },
        if of_machines.len() > 1 { "are" } else { "is" },
    )];
    if new.pointer(PROVIDER).is_some_and(Value::is_object) && image(new).is_none() {
        lines.push(
            "spec.template.spec.providerSpec.value names no image.url: there is no boot image to keep current"
                .to_owned(),
        );
    }
    lines
}

const fn number(name: &'static str, json_path: &'static str, description: &'static str) -> KindColumn {
    KindColumn { type_: "integer", ..column(name, json_path, description, 0) }
}

const TEXT: Shape = Shape::TEXT;

const OWNER: Shape = Shape::object(&[
    Field::required("apiVersion", TEXT).about("The API version of the owner."),
    Field::new("blockOwnerDeletion", Shape::BOOLEAN).about("Whether the owner waits for this to go."),
    Field::new("controller", Shape::BOOLEAN).about("Whether the owner controls it."),
    Field::required("kind", TEXT).about("The kind of the owner."),
    Field::required("name", TEXT).about("The name of the owner."),
    Field::required("uid", TEXT).about("The UID of the owner."),
])
.atomic();

const METADATA: Shape = Shape::object(&[
    Field::new("annotations", Shape::map(&TEXT)).about("Notes of tools and people."),
    Field::new("generateName", TEXT).about("What generated names begin with."),
    Field::new("labels", Shape::map(&TEXT)).about("Labels that selectors look at."),
    Field::new("name", TEXT).about("The name."),
    Field::new("namespace", TEXT).about("The namespace."),
    Field::new("ownerReferences", Shape::list(&OWNER).keyed_by(&["uid"])).about("The objects that it goes with."),
]);

const HOOK: Shape = Shape::object(&[
    Field::required("name", TEXT.chars_min(3).chars_max(256).matching(condition::TYPE_PATTERN))
        .about("The name of the hook."),
    Field::required("owner", TEXT.chars_min(3).chars_max(512)).about("Who looks after the hook."),
]);
const HOOKS: Shape = Shape::list(&HOOK).keyed_by(&["name"]);

const LIFECYCLE: Shape = Shape::object(&[
    Field::new("preDrain", HOOKS).about("What must be done before the node is emptied."),
    Field::new("preTerminate", HOOKS).about("What must be done before the machine ends."),
]);

const TAINT: Shape = Shape::object(&[
    Field::required("effect", TEXT).about("What the taint does to pods that do not tolerate it."),
    Field::required("key", TEXT).about("The key."),
    Field::new("timeAdded", Shape::TIME).about("When the taint was added."),
    Field::new("value", TEXT).about("The value."),
]);

const AUTHORITY: Shape = Shape::one_of(&["MachineAPI", "ClusterAPI"]);

const MACHINE: Shape = Shape::object(&[
    Field::new("lifecycleHooks", LIFECYCLE).about("What must be done before steps of a machine's end."),
    Field::new("metadata", METADATA).about("Labels and annotations of the node."),
    Field::new("providerID", TEXT).about("Its name at its infrastructure."),
    Field::new(
        "providerSpec",
        Shape::object(&[Field::new("value", Shape::object(&[]).open()).about("As the provider defines it.")]),
    )
    .about("What the provider makes the machine of; on metal3 it names image and userData."),
    Field::new("taints", Shape::list(&TAINT).atomic()).about("What keeps pods off the node."),
]);

const TEMPLATE: Shape = Shape::object(&[
    Field::new("metadata", METADATA).about("Labels and annotations of the machines."),
    Field::spec(MACHINE, "What is wanted of a machine."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("authoritativeAPI", AUTHORITY).about("Which API's object is to be the one that counts."),
    Field::new("deletePolicy", Shape::one_of(&["Random", "Newest", "Oldest"])).about("Which machines go first."),
    Field::new("minReadySeconds", Shape::INT32).about("How long a machine is ready before it is available."),
    Field::new("replicas", Shape::INT32.with_default(Literal::Integer(1))).about("How many machines there are to be."),
    Field::new("selector", selector::SHAPE).about("Which machines are counted."),
    Field::new("template", TEMPLATE).about("What machines are made from."),
]);

const CONDITION: Shape = Shape::object(&[
    Field::required("lastTransitionTime", Shape::TIME).about("When the status changed last."),
    Field::new("message", TEXT).about("The reason, for people."),
    Field::new("reason", TEXT).about("The reason, as one word."),
    Field::new("severity", TEXT).about("How bad it is that the condition is false."),
    Field::required("status", TEXT).about("Whether it is so: True, False or Unknown."),
    Field::required("type", TEXT).about("What this is about."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("authoritativeAPI", Shape::one_of(&["MachineAPI", "ClusterAPI", "Migrating"]))
        .about("Which API's object counts."),
    Field::new("availableReplicas", Shape::INT32).about("Machines that are available."),
    Field::new("conditions", Shape::list(&CONDITION).keyed_by(&["type"])).about("What is true of the set now."),
    Field::new("errorMessage", TEXT).about("Why it cannot go on, for people."),
    Field::new("errorReason", TEXT).about("Why it cannot go on, as one word."),
    Field::new("fullyLabeledReplicas", Shape::INT32).about("Machines that have all labels of the template."),
    Field::new("labelSelector", TEXT.chars_min(1).chars_max(4096)).about("Which machines are counted, as text."),
    Field::new("observedGeneration", Shape::INT64).about("The generation of the object that this was found of."),
    Field::new("readyReplicas", Shape::INT32).about("Machines that are ready."),
    Field::new("replicas", Shape::INT32).about("Machines that there are."),
]);

const SHAPE: Shape = Shape::object(&[Field::spec(SPEC, "What is wanted."), Field::status(STATUS, "What is so.")]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_its_image_and_keeps_what_else_it_says() {
        let mut set = json!({"spec": {"template": {"spec": {"providerSpec": {"value": {
            "hostSelector": {}, "image": {"url": "http://a/b.raw", "checksum": "x", "diskFormat": "raw"},
            "userData": {"name": "worker-user-data"}}}}}}});
        assert_eq!(image(&set).map(|image| image.url).as_deref(), Some("http://a/b.raw"));
        assert_eq!(user_data(&set), Some("worker-user-data"));
        let new = TemplateImage { url: "http://a/c.raw".into(), checksum: "y".into() };
        assert!(set_image(&mut set, &new));
        assert_eq!(image(&set).as_ref(), Some(&new));
        assert_eq!(set.pointer(&format!("{PROVIDER}/image/diskFormat")), Some(&json!("raw")));
        let mut bare = json!({"spec": {"template": {"spec": {}}}});
        assert!(!set_image(&mut bare, &new) && image(&bare).is_none() && user_data(&bare).is_none());
    }

    #[test]
    fn a_set_that_was_moved_is_known() {
        assert!(!is_migrated(&json!({"spec": {"authoritativeAPI": "MachineAPI"}})));
        assert!(is_migrated(&json!({"spec": {"authoritativeAPI": "ClusterAPI"}})));
        assert!(is_migrated(&json!({"status": {"authoritativeAPI": "Migrating"}})));
    }
}
