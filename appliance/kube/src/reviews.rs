//! Questions of callers about themselves: who am I, what may I do. They are answered and not stored.
//! The answers say what [`crate::api`] would do: one that may do everything may do what a kind has
//! verbs for. Pure.

use serde_json::{Value, json};

use crate::api::Caller;
use crate::discovery;
use crate::kind::{KindInfo, Registry, Writers};
use crate::schema::{boolean, object, text};
use crate::status::{Cause, Status};

/// A question that is asked by creating an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// May I do this?
    Access,
    /// What may I do?
    Rules,
    /// Who am I?
    Subject,
}

/// The kinds of questions, for a [`Registry`].
pub(crate) fn kinds() -> [KindInfo; 3] {
    let authorization = "authorization.k8s.io";
    [
        kind(authorization, "SelfSubjectAccessReview", "selfsubjectaccessreviews", Review::Access, access_schema()),
        kind(authorization, "SelfSubjectRulesReview", "selfsubjectrulesreviews", Review::Rules, rules_schema()),
        kind("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", Review::Subject, subject_schema()),
    ]
}

fn kind(
    group: &'static str,
    name: &'static str,
    plural: &'static str,
    review: Review,
    (description, schema): (&'static str, Value),
) -> KindInfo {
    KindInfo {
        has_status: false,
        has_generation: false,
        description,
        schema: schema.into(),
        review: Some(review),
        ..KindInfo::cluster(group, "v1", name, plural)
    }
}

/// The question with its answer.
pub(crate) fn answer(
    review: Review,
    registry: &Registry,
    kind: &KindInfo,
    caller: &Caller,
    asked: &Value,
) -> Result<Value, Status> {
    for (field, expected) in [("kind", kind.kind.to_owned()), ("apiVersion", kind.api_version())] {
        if !asked[field].is_null() && asked[field] != json!(expected) {
            let found = &asked[field];
            return Err(Status::bad_request(format!("the {field} of the body is {found}; expected {expected:?}")));
        }
    }
    let status = match review {
        Review::Access => access(registry, caller, &asked["spec"])?,
        Review::Rules => rules(registry, caller),
        // Everybody who gets here is known.
        Review::Subject => json!({ "userInfo": { "username": caller.name, "groups": ["system:authenticated"] } }),
    };
    let mut answer = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "creationTimestamp": null }, "status": status,
    });
    if review != Review::Subject {
        answer["spec"] = asked["spec"].clone();
    }
    Ok(answer)
}

fn access(registry: &Registry, caller: &Caller, spec: &Value) -> Result<Value, Status> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or("").to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let (allowed, reason) = match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let (group, plural) = (text(resource, "group"), text(resource, "resource"));
            on_objects(registry, caller, &text(resource, "verb"), &group, &plural)
        }
        // Versions, health and discovery are for everybody, and can be read only.
        (false, true) => (matches!(text(path, "verb").as_str(), "get" | "head"), ""),
        _ => {
            let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::invalid("spec.resourceAttributes", resource, message);
            return Err(Status::invalid("authorization.k8s.io", "SelfSubjectAccessReview", "", vec![cause]));
        }
    };
    let mut status = json!({ "allowed": allowed });
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    Ok(status)
}

fn on_objects(registry: &Registry, caller: &Caller, verb: &str, group: &str, plural: &str) -> (bool, &'static str) {
    let kinds: Vec<_> = registry.kinds().iter().filter(|kind| kind.group == group && kind.plural == plural).collect();
    if kinds.iter().any(|kind| kind.review.is_some()) {
        return (verb == "create", "");
    }
    if !caller.may_access_objects() {
        return (false, "this user may not access objects");
    }
    let is_read = matches!(verb, "get" | "list" | "watch");
    if !is_read && kinds.iter().any(|kind| kind.writers == Writers::Controllers) {
        return (false, "these objects are written by this server alone");
    }
    (true, "")
}

/// The verbs of every kind, as discovery has them.
fn rules(registry: &Registry, caller: &Caller) -> Value {
    let visible = |kind: &&KindInfo| kind.review.is_some() || caller.may_access_objects();
    let mut found: Vec<Value> = Vec::new();
    for kind in registry.kinds().iter().map(AsRef::as_ref).filter(visible) {
        found.push(json!({
            "verbs": discovery::verbs(kind), "apiGroups": [kind.group], "resources": [kind.plural],
        }));
        if kind.has_status {
            let status = format!("{}/status", kind.plural);
            found.push(json!({
                "verbs": discovery::status_verbs(kind), "apiGroups": [kind.group], "resources": [status],
            }));
        }
    }
    json!({
        "resourceRules": found,
        "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["*"] }],
        "incomplete": false,
    })
}

fn access_schema() -> (&'static str, Value) {
    let resource = object(&[
        ("group", "The group of the kind."),
        ("name", "The name of the object."),
        ("namespace", "The namespace of the object."),
        ("resource", "The plural of the kind."),
        ("subresource", "The part of the object."),
        ("verb", "What is to be done, such as get or create."),
        ("version", "The version of the kind."),
    ]);
    let path = object(&[("path", "The path of the URL."), ("verb", "What is to be done, such as get.")]);
    let status = json!({ "type": "object", "properties": {
        "allowed": boolean("Whether it is allowed."), "reason": text("The reason, for people."),
    } });
    let spec =
        json!({ "type": "object", "properties": { "resourceAttributes": resource, "nonResourceAttributes": path } });
    (
        "May I do this?",
        json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status } }),
    )
}

fn rules_schema() -> (&'static str, Value) {
    let rule = |named: &[&str]| {
        let lists = named.iter().chain(&["verbs"]).map(|name| ((*name).to_owned(), crate::schema::texts("")));
        json!({ "type": "array", "items": { "type": "object", "properties": lists.collect::<serde_json::Map<_, _>>() } })
    };
    let status = json!({ "type": "object", "properties": {
        "resourceRules": rule(&["apiGroups", "resources"]),
        "nonResourceRules": rule(&["nonResourceURLs"]),
        "incomplete": boolean("Whether there may be more."),
    } });
    let spec = object(&[("namespace", "The namespace that is asked about.")]);
    (
        "What may I do?",
        json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status } }),
    )
}

fn subject_schema() -> (&'static str, Value) {
    let mut user = object(&[("username", "The name of the caller.")]);
    user["properties"]["groups"] = crate::schema::texts("The groups of the caller.");
    let status = json!({ "type": "object", "properties": { "userInfo": user } });
    ("Who am I?", json!({ "type": "object", "properties": { "status": status } }))
}
