//! The error of the API: a `Status` object, as Kubernetes words it. Clients print the message and
//! decide on reason and code.

use firesteel_kube_types::{Cause, CauseReason};
use firesteel_store::{Damage, Exceeded};
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::kind::KindInfo;

/// Most causes that are listed of one object: longer answers are not read.
const CAUSES_MAX: usize = 256;
/// Damaged objects that one answer names, as Kubernetes does.
const DAMAGES_MAX: usize = 100;
/// Most damaged values that a message lists.
const DAMAGES_SHOWN: usize = 10;
/// What the server has and cannot read (KEP-3926).
const UNREADABLE: &str = "StorageReadError";
/// Clients of Kubernetes try ten times before they say what is wrong: that is ten seconds.
const UNAVAILABLE_RETRY_SECONDS: u32 = 1;

/// A request that failed, in the form in which the client gets it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: u16,
    /// The reason; empty where Kubernetes sends none.
    pub reason: &'static str,
    pub message: String,
    // Boxed, so that every `Result` of this crate stays small.
    details: Option<Box<Details>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
    /// Where a list whose revision is gone may go on, at the newest one.
    #[serde(skip)]
    continue_token: Option<String>,
}

impl Status {
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::with_reason(400, "BadRequest", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::with_reason(403, "Forbidden", message)
    }

    /// The caller may not do this to objects of this kind; without a group and a plural, to a path.
    pub fn forbidden_to(group: &str, plural: &str, name: &str, detail: &str) -> Self {
        let dot = if group.is_empty() { "" } else { "." };
        let name_shown = if name.is_empty() { String::new() } else { format!("{name:?} ") };
        let what = if plural.is_empty() { String::new() } else { format!("{plural}{dot}{group} {name_shown}is ") };
        Self::forbidden(format!("{what}forbidden: {detail}")).about(group, plural, name)
    }

    /// The caller did not authenticate.
    pub fn unauthorized() -> Self {
        Self::with_reason(401, "Unauthorized", "Unauthorized")
    }

    /// The caller has as many requests under way as one may have.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        let mut status = Self::with_reason(429, "TooManyRequests", "Too many requests, please try again later.");
        let details = Details { retry_after_seconds: Some(retry_after_seconds), ..Details::default() };
        status.details = Some(Box::new(details));
        status
    }

    pub fn not_found(kind: &KindInfo, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.group_resource());
        Self::with_reason(404, "NotFound", message).about(kind.group, kind.plural, name)
    }

    /// No such path.
    pub fn no_route() -> Self {
        Self::with_reason(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn already_exists(kind: &KindInfo, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.group_resource());
        Self::with_reason(409, "AlreadyExists", message).about(kind.group, kind.plural, name)
    }

    pub fn conflict(kind: &KindInfo, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {detail}", kind.group_resource());
        Self::with_reason(409, "Conflict", message).about(kind.group, kind.plural, name)
    }

    /// The object is not the one that a deletion is meant for. Names the kind, where all other conflicts name the
    /// resource.
    pub fn precondition_failed(kind: &KindInfo, name: &str, detail: &str) -> Self {
        let dot = if kind.group.is_empty() { "" } else { "." };
        let message = format!("Operation cannot be fulfilled on {}{dot}{} {name:?}: {detail}", kind.kind, kind.group);
        Self::with_reason(409, "Conflict", message).about(kind.group, kind.kind, name)
    }

    pub fn modified(kind: &KindInfo, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, detail)
    }

    /// `kind` is a Kind here, as in "BareMetalHost", not a plural. Of very many causes the first are listed.
    pub fn invalid(group: &str, kind: &str, name: &str, mut causes: Vec<Cause>) -> Self {
        causes.truncate(CAUSES_MAX);
        let mut texts: Vec<String> = Vec::with_capacity(causes.len());
        for cause in &causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let texts = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
        let dot = if group.is_empty() { "" } else { "." };
        let mut status = Self::with_reason(422, "Invalid", format!("{kind}{dot}{group} {name:?} is invalid: {texts}"));
        let details =
            Details { name: name.into(), group: group.into(), kind: kind.into(), causes, ..Details::default() };
        status.details = Some(Box::new(details));
        status
    }

    pub fn method_not_allowed() -> Self {
        Self::with_reason(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub fn not_acceptable() -> Self {
        Self::not_acceptable_of(&["application/json", "application/yaml"])
    }

    pub fn not_acceptable_of(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::with_reason(406, "NotAcceptable", message)
    }

    /// What was asked for is older than the history; clients list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::with_reason(410, "Expired", message)
    }

    pub fn too_large(bytes_max: usize) -> Self {
        Self::with_reason(413, "RequestEntityTooLarge", format!("the request body is larger than {bytes_max} bytes"))
    }

    /// What a write made of an object has more fields and items than an object may have.
    pub fn too_wide(values_max: usize) -> Self {
        let message = format!("the object would have more than {values_max} fields and items; make several of it");
        Self::with_reason(413, "RequestEntityTooLarge", message)
    }

    /// The refusal of Kubernetes' quotas.
    pub fn exceeded_quota(kind: &KindInfo, name: &str, exceeded: &[Exceeded]) -> Self {
        let quota = exceeded.first().map_or("", |first| first.quota.as_str());
        let own: Vec<&Exceeded> = exceeded.iter().filter(|other| other.quota == quota).collect();
        let list = |value: fn(&Exceeded) -> u64| {
            own.iter().map(|own| format!("{}={}", own.word, value(own))).collect::<Vec<_>>().join(",")
        };
        let message = format!(
            "{} {name:?} is forbidden: exceeded quota: {quota}, requested: {}, used: {}, limited: {}",
            kind.group_resource(),
            list(|own| own.requested),
            list(|own| own.used),
            list(|own| own.most),
        );
        Self::forbidden(message).about(kind.group, kind.plural, name)
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::with_reason(415, "UnsupportedMediaType", message)
    }

    /// A patch that cannot be applied to the object; Kubernetes says no more.
    pub fn rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut status = Self::with_reason(422, "Invalid", message);
        status.details = Some(Box::default());
        status
    }

    /// The refusal of a body that is no valid patch.
    pub fn invalid_patch(message: &str) -> Self {
        Self { message: message.into(), ..Self::rejected() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::with_reason(500, "InternalError", message)
    }

    /// What is stored cannot be read: that is no absence, and trying again does not help.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::with_reason(500, UNREADABLE, message)
    }

    /// These objects are there, and what is stored of them is damaged.
    pub fn damaged(damages: &[Damage]) -> Self {
        let mut words: Vec<String> = damages.iter().take(DAMAGES_SHOWN).map(ToString::to_string).collect();
        if damages.len() > DAMAGES_SHOWN {
            words.push(format!("{} more are damaged", damages.len() - DAMAGES_SHOWN));
        }
        let remedy = "restore a backup, or have an administrator delete what is damaged unread";
        let mut status = Self::unreadable(format!("{}; {remedy}", words.join("; ")));
        let cause = |damage: &Damage| Cause {
            reason: CauseReason::UnexpectedServerResponse,
            message: damage.cause.to_string(),
            field: damage.key.to_string(),
        };
        let mut details =
            Details { causes: damages.iter().take(DAMAGES_MAX).map(cause).collect(), ..Details::default() };
        if let Some(first) = damages.first() {
            details.group = first.key.kind.group.to_string();
            details.kind = first.key.kind.resource.to_string();
            if damages.len() == 1 {
                details.name.clone_from(&first.key.name);
            }
        }
        status.details = Some(Box::new(details));
        status
    }

    /// What the server needs is not there now, and may be soon.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let mut status = Self::with_reason(503, "ServiceUnavailable", message);
        let details = Details { retry_after_seconds: Some(UNAVAILABLE_RETRY_SECONDS), ..Details::default() };
        status.details = Some(Box::new(details));
        status
    }

    /// The store has no room for what is sent. Other than [`Status::unavailable`] it does not say when to try again:
    /// clients would do so ten times before they show why, and time alone makes no room.
    pub fn insufficient_storage(message: impl Into<String>) -> Self {
        Self::with_reason(507, "InsufficientStorage", message)
    }

    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::with_reason(504, "Timeout", message);
        let cause = Cause {
            reason: CauseReason::ResourceVersionTooLarge,
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: Some(1), ..Details::default() };
        status.details = Some(Box::new(details));
        status
    }

    pub fn with_reason(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub fn with_continue(mut self, token: String) -> Self {
        self.details.get_or_insert_default().continue_token = Some(token);
        self
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether another write changed the object first: read it again.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// It is as the rules want it, and could not be stored.
    pub fn is_unstorable(&self) -> bool {
        matches!(self.reason, "InsufficientStorage" | "ServiceUnavailable" | UNREADABLE)
    }

    /// What was asked for is there, or may be, and cannot be read.
    pub fn is_unreadable(&self) -> bool {
        self.reason == UNREADABLE
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |details| &details.causes)
    }

    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().and_then(|details| details.retry_after_seconds)
    }

    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            value["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            match &details.continue_token {
                Some(token) => value["metadata"]["continue"] = json!(token),
                None => value["details"] = json!(details),
            }
        }
        value
    }

    fn about(mut self, group: &str, plural: &str, name: &str) -> Self {
        let details = Details { name: name.into(), group: group.into(), kind: plural.into(), ..Details::default() };
        self.details = Some(Box::new(details));
        self
    }
}

/// Most letters of a message about such a body, names of its fields included.
pub(crate) const MESSAGE_CHARS_MAX: usize = 512;

/// A message as one short line: what came from outside cannot move a cursor or begin a line of a log.
pub(crate) fn one_line(message: &str) -> String {
    let shown = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    message.chars().take(MESSAGE_CHARS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_objects_are_named_up_to_a_bound() {
        let kind = firesteel_store::GroupResource::new("example.org", "toys");
        let damage = |number: usize| Damage {
            key: firesteel_store::ObjectKey::new(&kind, "default", &format!("n{number}")),
            revision: firesteel_store::Revision(7),
            cause: firesteel_store::DamageCause::Missing,
        };
        let one = Status::damaged(&[damage(1)]).to_value();
        assert_eq!((&one["code"], &one["reason"]), (&json!(500), &json!("StorageReadError")));
        assert_eq!(one["details"]["causes"][0]["field"], "toys.example.org/default/n1");
        let named = (&one["details"]["name"], &one["details"]["kind"], &one["details"]["group"]);
        assert_eq!(named, (&json!("n1"), &json!("toys"), &json!("example.org")));
        let many: Vec<Damage> = (0..500).map(damage).collect();
        let many = Status::damaged(&many);
        assert!(many.causes().len() == 100 && many.message.contains("490 more"), "{}", many.message);
        assert!(many.is_unreadable() && !many.is_not_found());
    }

    #[test]
    fn of_many_causes_the_first_are_told() {
        let causes = (0..10_000).map(|number| Cause::required(&format!("spec.f{number}"), "")).collect();
        let status = Status::invalid("example.org", "Toy", "a", causes);
        assert!(status.causes().len() <= 256 && status.message.len() < 64 << 10, "{} bytes", status.message.len());
        assert!(status.message.starts_with("Toy.example.org \"a\" is invalid: [spec.f0: Required value, spec.f1:"));
    }
}
