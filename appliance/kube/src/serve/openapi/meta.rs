//! Schemas of what all kinds have in common, and of what requests and answers carry beside objects.

use serde_json::{Map, Value, json};

use super::{described, reference};
use crate::model::schema::{boolean, integer, object, text, text_map, texts};

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
const OWNER_REFERENCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const PRECONDITIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Preconditions";
const STATUS_CAUSE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause";
const STATUS_DETAILS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

pub(super) const METADATA_DESCRIPTION: &str = "Name, labels and everything else that all kinds have.";

pub(super) fn schemas() -> Map<String, Value> {
    let core = |kind: &str| json!([{ "group": "", "version": "v1", "kind": kind }]);
    let mut delete_options = delete_options();
    delete_options["x-kubernetes-group-version-kind"] = core("DeleteOptions");
    let mut status = status();
    status["x-kubernetes-group-version-kind"] = core("Status");
    let schemas = [
        (OBJECT_META, object_meta()),
        (LIST_META, list_meta()),
        (DELETE_OPTIONS, delete_options),
        (STATUS, status),
        (FIELDS, json!({ "type": "object", "description": "A set of fields, as a tree of their names." })),
        (MANAGED_FIELDS, managed_fields()),
        (OWNER_REFERENCE, owner_reference()),
        (PATCH, json!({ "type": "object", "description": "A change, in the form that the body's media type names." })),
        (
            PRECONDITIONS,
            object(&[
                ("uid", "The UID that the object must have."),
                ("resourceVersion", "The revision that the object must have."),
            ]),
        ),
        (
            STATUS_CAUSE,
            object(&[
                ("field", "The field that was refused."),
                ("message", "The reason, for people."),
                ("reason", "The reason, as one word."),
            ]),
        ),
        (STATUS_DETAILS, status_details()),
        (TIME, json!({ "type": "string", "format": "date-time", "description": "A time, as in RFC 3339." })),
    ];
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn list_of(name: &str, description: &str) -> Value {
    json!({ "type": "array", "items": reference(name), "description": description })
}

fn object_meta() -> Value {
    let mut finalizers =
        texts("Who has to do something before the object goes. While there is one, a deleted object stays.");
    finalizers["x-kubernetes-list-type"] = json!("set");
    finalizers["x-kubernetes-patch-strategy"] = json!("merge");
    let mut owners = list_of(OWNER_REFERENCE, "The objects that this one belongs to. When all are gone, it goes too.");
    owners["x-kubernetes-list-type"] = json!("map");
    owners["x-kubernetes-list-map-keys"] = json!(["uid"]);
    owners["x-kubernetes-patch-strategy"] = json!("merge");
    owners["x-kubernetes-patch-merge-key"] = json!("uid");
    let mut managers = list_of(MANAGED_FIELDS, "Who set which fields; kept by the server.");
    managers["x-kubernetes-list-type"] = json!("atomic");
    json!({
        "type": "object", "description": METADATA_DESCRIPTION,
        "properties": {
            "annotations": text_map("Notes of tools and people; not for selectors."),
            "creationTimestamp": described(TIME, "When the object was made; set by the server."),
            "deletionGracePeriodSeconds": integer("How long the object has to end; set when it is deleted."),
            "deletionTimestamp": described(TIME, "When the object was deleted; it is there until its finalizers are gone."),
            "finalizers": finalizers,
            "generateName": text("The beginning of a name that the server makes, where no name is given."),
            "generation": integer("Counts the changes of what the object is to be."),
            "labels": text_map("Labels that selectors look at."),
            "managedFields": managers,
            "name": text("The name of the object: one of its kind in its namespace. It does not change."),
            "namespace": text("The namespace of the object. It does not change."),
            "ownerReferences": owners,
            "resourceVersion": text("The revision of the object. A write that names an old one is refused."),
            "selfLink": text("Not used any more."),
            "uid": text("The identity of the object, unlike any other's of any time."),
        },
    })
}

fn list_meta() -> Value {
    json!({
        "type": "object", "description": "The revision of a list, and how it goes on.",
        "properties": {
            "continue": text("Where the next part of the list begins."),
            "remainingItemCount": integer("How many objects come after this part."),
            "resourceVersion": text("The revision at which the list was read."),
            "selfLink": text("Not used any more."),
        },
    })
}

fn managed_fields() -> Value {
    let mut schema = object(&[
        ("apiVersion", "The API version in which the fields are named."),
        ("fieldsType", "The form of the set of fields: FieldsV1."),
        ("manager", "Who set the fields."),
        ("operation", "How: Apply or Update."),
        ("subresource", "The subresource by which they were set."),
    ]);
    schema["properties"]["fieldsV1"] = described(FIELDS, "The fields.");
    schema["properties"]["time"] = described(TIME, "When the set changed.");
    schema
}

fn owner_reference() -> Value {
    let mut schema = object(&[
        ("apiVersion", "The API version of the owner."),
        ("kind", "The kind of the owner."),
        ("name", "The name of the owner."),
        ("uid", "The UID of the owner."),
    ]);
    schema["properties"]["blockOwnerDeletion"] =
        boolean("Whether the owner waits for this object when it is deleted in the foreground.");
    schema["properties"]["controller"] = boolean("Whether the owner is the one that looks after this object.");
    schema["required"] = json!(["apiVersion", "kind", "name", "uid"]);
    schema["x-kubernetes-map-type"] = json!("atomic");
    schema
}

fn delete_options() -> Value {
    json!({
        "type": "object", "description": "How to delete.",
        "properties": {
            "apiVersion": text("Group and version."),
            "kind": text("DeleteOptions."),
            "dryRun": texts("All: everything is checked and nothing deleted."),
            "gracePeriodSeconds": integer("How long the object has to end."),
            "orphanDependents": boolean("Replaced by propagationPolicy."),
            "preconditions": described(PRECONDITIONS, "What must be so for the object to be deleted."),
            "propagationPolicy": text("What happens to objects that this one owns: Background, Foreground or Orphan."),
        },
    })
}

fn status() -> Value {
    let mut schema = object(&[
        ("apiVersion", "Group and version."),
        ("kind", "Status."),
        ("message", "What went wrong, for people."),
        ("reason", "What went wrong, as one word."),
        ("status", "Success or Failure."),
    ]);
    schema["description"] = json!("How a request ended that did not end with an object.");
    schema["properties"]["code"] = json!({ "type": "integer", "format": "int32", "description": "The HTTP status." });
    schema["properties"]["details"] = described(STATUS_DETAILS, "What the request was about.");
    schema["properties"]["metadata"] = described(LIST_META, "Empty.");
    schema
}

fn status_details() -> Value {
    let mut schema = object(&[
        ("group", "The group of the kind."),
        ("kind", "The kind, or its plural."),
        ("name", "The name of the object."),
        ("uid", "The UID of the object."),
    ]);
    schema["properties"]["causes"] = list_of(STATUS_CAUSE, "What was refused, field by field.");
    schema["properties"]["retryAfterSeconds"] =
        json!({ "type": "integer", "format": "int32", "description": "When to try again." });
    schema
}
