//! The kinds of questions about callers, which are answered and not stored.

use serde_json::{Map, Value, json};

use crate::model::kind::KindInfo;
use crate::model::kind_parts::ReviewKind;
use crate::model::schema::{boolean, object, text, texts};

pub(crate) const AUTHORIZATION: &str = "authorization.k8s.io";
pub(crate) const AUTHENTICATION: &str = "authentication.k8s.io";

/// The kinds of questions, for a [`Registry`](crate::Registry).
pub(crate) fn kinds() -> [KindInfo; 6] {
    let local =
        kind(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", ReviewKind::LocalSubjectAccess);
    [
        kind(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", ReviewKind::Access),
        kind(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", ReviewKind::Rules),
        kind(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", ReviewKind::SubjectAccess),
        KindInfo { namespaced: true, ..local },
        kind(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", ReviewKind::Subject),
        kind(AUTHENTICATION, "TokenReview", "tokenreviews", ReviewKind::Token),
    ]
}

fn kind(group: &'static str, name: &'static str, plural: &'static str, review: ReviewKind) -> KindInfo {
    let (description, schema) = match review {
        ReviewKind::Access => ("May I do this?", access_schema()),
        ReviewKind::Rules => ("What may I do?", rules_schema()),
        ReviewKind::SubjectAccess | ReviewKind::LocalSubjectAccess => ("May this user do this?", others_schema()),
        ReviewKind::Subject => ("Who am I?", subject_schema()),
        ReviewKind::Token => ("Whose is this token?", token_schema()),
    };
    KindInfo {
        has_status: false,
        has_generation: false,
        description,
        schema: schema.into(),
        review: Some(review),
        ..KindInfo::cluster(group, "v1", name, plural)
    }
}

fn access_schema() -> Value {
    let status = json!({ "type": "object", "properties": {
        "allowed": boolean("Whether it is allowed."), "reason": text("The reason, for people."),
    } });
    let spec = json!({ "type": "object", "properties": attributes() });
    json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status } })
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

fn others_schema() -> Value {
    let mut schema = access_schema();
    let spec = &mut schema["properties"]["spec"]["properties"];
    spec["user"] = text("Who would do it.");
    spec["uid"] = text("The UID of the user.");
    spec["groups"] = texts("The groups of the user.");
    schema
}

fn token_schema() -> Value {
    let mut spec = object(&[("token", "The token.")]);
    spec["properties"]["audiences"] = texts("For whom it has to be.");
    let mut schema = subject_schema();
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
    schema
}

fn rules_schema() -> Value {
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
    json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status } })
}

fn subject_schema() -> Value {
    let mut user = object(&[("username", "The name of the caller."), ("uid", "The UID of the caller.")]);
    user["properties"]["groups"] = texts("The groups of the caller.");
    let status = json!({ "type": "object", "properties": { "userInfo": user } });
    json!({ "type": "object", "properties": { "status": status } })
}
