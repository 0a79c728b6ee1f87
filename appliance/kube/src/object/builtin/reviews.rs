//! The kinds of questions about callers, which are answered and not stored.

use serde_json::{Map, Value, json};

use crate::model::{
    kind::KindInfo,
    kind_parts::ReviewKind,
    schema::{boolean, object, text, texts},
};

pub(crate) const AUTHORIZATION: &str = "authorization.k8s.io";
pub(crate) const AUTHENTICATION: &str = "authentication.k8s.io";

/// The kinds of questions, for a [`Registry`].
pub(crate) fn kinds() -> [KindInfo; 6] {
    let local = kind(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        ReviewKind::LocalSubjectAccess,
        others_schema(),
    );
    [
        kind(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", ReviewKind::Access, access_schema()),
        kind(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", ReviewKind::Rules, rules_schema()),
        kind(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", ReviewKind::SubjectAccess, others_schema()),
        KindInfo { namespaced: true, ..local },
        kind(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", ReviewKind::Subject, subject_schema()),
        kind(AUTHENTICATION, "TokenReview", "tokenreviews", ReviewKind::Token, token_schema()),
    ]
}

fn kind(
    group: &'static str,
    name: &'static str,
    plural: &'static str,
    review: ReviewKind,
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

fn access_schema() -> (&'static str, Value) {
    let status = json!({ "type": "object", "properties": {
        "allowed": boolean("Whether it is allowed."), "reason": text("The reason, for people."),
    } });
    let spec = json!({ "type": "object", "properties": attributes() });
    (
        "May I do this?",
        json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status } }),
    )
}

fn attributes() -> Value {
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
    json!({ "resourceAttributes": resource, "nonResourceAttributes": path })
}

fn others_schema() -> (&'static str, Value) {
    let (_, mut schema) = access_schema();
    let spec = &mut schema["properties"]["spec"]["properties"];
    spec["user"] = text("Who would do it.");
    spec["uid"] = text("The UID of the user.");
    spec["groups"] = texts("The groups of the user.");
    ("May somebody do this?", schema)
}

fn token_schema() -> (&'static str, Value) {
    let mut spec = object(&[("token", "The token.")]);
    spec["properties"]["audiences"] = texts("For whom it has to be.");
    let (_, mut schema) = subject_schema();
    let status = &mut schema["properties"]["status"]["properties"];
    status["user"] = status["userInfo"].take();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("userInfo");
    }
    status["authenticated"] = boolean("Whether the token is good.");
    status["audiences"] = texts("For whom it is, of those who were asked for.");
    status["error"] = text("Why it is not good.");
    schema["properties"]["spec"] = spec;
    schema["required"] = json!(["spec"]);
    ("Whose is this token?", schema)
}

fn rules_schema() -> (&'static str, Value) {
    let rule = |named: &[&str]| {
        let lists = named.iter().chain(&["verbs"]).map(|name| ((*name).to_owned(), texts("")));
        json!({ "type": "array", "items": { "type": "object", "properties": lists.collect::<Map<_, _>>() } })
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
    let mut user = object(&[("username", "The name of the caller."), ("uid", "The UID of the caller.")]);
    user["properties"]["groups"] = texts("The groups of the caller.");
    let status = json!({ "type": "object", "properties": { "userInfo": user } });
    ("Who am I?", json!({ "type": "object", "properties": { "status": status } }))
}
