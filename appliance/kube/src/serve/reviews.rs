//! Questions about callers: who am I, what may I do, what may another user do, whose is this token. They are answered
//! and not stored. The answers are the [`Authorizer`]'s, as it decides about requests. Pure.

use firesteel_kube_types::Cause;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::access::{AccessDecision, AccessRequest, AccessRule, Authorizer, Caller, OnObjects};
use crate::model::instant_subresources::Issuer;
use crate::model::kind::KindInfo;
use crate::model::kind_parts::{ReviewKind, Writers};
use crate::model::registry::Registry;
use crate::model::status::Status;
use crate::object::builtin::reviews::{AUTHENTICATION, AUTHORIZATION};
use crate::serve::{discovery, tokens};

/// Most groups of the user in a question.
const GROUPS_MAX: usize = 64;

/// Who asks, and of what server.
pub(crate) struct ReviewContext<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) authorizer: &'a dyn Authorizer,
    pub(crate) issuer: Option<&'a dyn Issuer>,
    pub(crate) caller: &'a Caller,
    /// The namespace of the path.
    pub(crate) namespace: &'a str,
    pub(crate) now: Timestamp,
}

/// The question with its answer.
pub(crate) fn answer(
    review: ReviewKind,
    kind: &KindInfo,
    asking: &ReviewContext<'_>,
    asked: &Value,
) -> Result<Value, Status> {
    let spec = &asked["spec"];
    let status = match review {
        ReviewKind::Access => access(kind, asking, asking.caller, spec)?,
        ReviewKind::Rules => rules(&asking.authorizer.rules(asking.caller, spec["namespace"].as_str().unwrap_or(""))),
        // Everybody who gets here is known.
        ReviewKind::Subject => json!({ "userInfo": asking.caller.to_value() }),
        ReviewKind::SubjectAccess => access(kind, asking, &subject(kind, spec)?, spec)?,
        ReviewKind::LocalSubjectAccess => {
            let namespace = &spec["resourceAttributes"]["namespace"];
            if *namespace != asking.namespace {
                let detail = format!("must match metadata.namespace: {}", asking.namespace);
                let cause = Cause::invalid_json("spec.resourceAttributes.namespace", namespace, &detail);
                return Err(Status::invalid(AUTHORIZATION, kind.kind, "", vec![cause]));
            }
            access(kind, asking, &subject(kind, spec)?, spec)?
        }
        ReviewKind::Token => token(kind, asking, spec)?,
    };
    let mut metadata = json!({ "creationTimestamp": null });
    if kind.namespaced {
        metadata["namespace"] = json!(asking.namespace);
    }
    let mut answer =
        json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "status": status });
    if review != ReviewKind::Subject {
        answer["spec"] = spec.clone();
    }
    Ok(answer)
}

/// The user in a question.
fn subject(kind: &KindInfo, spec: &Value) -> Result<Caller, Status> {
    let name = spec["user"].as_str().unwrap_or("");
    let groups: Vec<String> = spec["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group.as_str().map(str::to_owned))
        .take(GROUPS_MAX)
        .collect();
    if name.is_empty() && groups.is_empty() {
        let cause = Cause::invalid_json("spec.user", &json!(""), "at least one of user or group must be specified");
        return Err(Status::invalid(AUTHORIZATION, kind.kind, "", vec![cause]));
    }
    let uid = spec["uid"].as_str().unwrap_or("").to_owned();
    Ok(Caller { name: name.into(), uid, groups, ..Caller::default() })
}

fn access(kind: &KindInfo, asking: &ReviewContext<'_>, caller: &Caller, spec: &Value) -> Result<Value, Status> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or("").to_owned();
    let decision = match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let [verb, group, plural, subresource, namespace, name] =
                ["verb", "group", "resource", "subresource", "namespace", "name"].map(|field| text(resource, field));
            let asked = OnObjects {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
            };
            on_objects(asking, caller, asked)
        }
        (false, true) => {
            let (verb, path) = (text(path, "verb"), text(path, "path"));
            match verb.as_str() {
                // The server has nothing there that could be changed.
                "get" | "head" => asking.authorizer.decide(caller, AccessRequest::Path { verb: &verb, path: &path }),
                _ => AccessDecision::deny(),
            }
        }
        _ => {
            let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::invalid_json("spec.resourceAttributes", resource, message);
            return Err(Status::invalid(AUTHORIZATION, kind.kind, "", vec![cause]));
        }
    };
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    Ok(status)
}

fn on_objects(asking: &ReviewContext<'_>, caller: &Caller, asked: OnObjects<'_>) -> AccessDecision {
    let decision = asking.authorizer.decide(caller, AccessRequest::Objects(asked));
    let mut kinds = asking.registry.kinds().iter();
    let by_server_alone = kinds.any(|kind| {
        (kind.group, kind.plural) == (asked.group, asked.resource)
            && kind.writers != Writers::Everyone
            && !discovery::verbs(kind).contains(&asked.verb)
    });
    if decision.allowed && by_server_alone {
        return AccessDecision {
            reason: "these objects are written by this server alone".into(),
            ..AccessDecision::deny()
        };
    }
    decision
}

/// A rule about objects and one about paths have forms of their own.
fn rules(rules: &[AccessRule]) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if rule.paths.is_empty() {
            resources.push(json!({ "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources }));
        } else {
            paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }));
        }
    }
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}

fn token(kind: &KindInfo, asking: &ReviewContext<'_>, spec: &Value) -> Result<Value, Status> {
    let Some(token) = spec["token"].as_str().filter(|token| !token.is_empty()) else {
        let cause = Cause::required("spec.token", "");
        return Err(Status::invalid(AUTHENTICATION, kind.kind, "", vec![cause]));
    };
    let asked: Vec<&str> = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let asked = if asked.is_empty() { vec![tokens::ISSUER] } else { asked };
    let refused = |error: &str| json!({ "authenticated": false, "error": error });
    let Some(issuer) = asking.issuer else { return Ok(refused("this server has no tokens")) };
    Ok(match issuer.caller_of(token, asking.now) {
        Err(error) => refused(&error.to_string()),
        Ok((caller, audiences)) => {
            let both: Vec<&str> =
                asked.into_iter().filter(|audience| audiences.iter().any(|own| own == audience)).collect();
            if both.is_empty() {
                refused("the token is for others")
            } else {
                json!({ "authenticated": true, "user": caller.to_value(), "audiences": both })
            }
        }
    })
}
