//! The body of a PATCH: parsed once, applied to the object as it stands, as often as others are
//! faster. Pure.
//!
//! Server-side apply comes in by the same verb and is no patch: it is in [`crate::object::apply`].

mod json;
mod merge;
mod strategic;

pub(crate) use merge::merge_patch;

use serde_json::Value;

use crate::codec::json::JsonDocument;
use crate::model::kind::KindInfo;
use crate::model::status::Status;
use crate::object::apply::APPLY;

/// What a client wants changed.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7396.
    Merge(Value),
    /// RFC 6902.
    Json(json::Operations),
    /// Kubernetes' own: a merge patch that knows lists by the keys of their items.
    Strategic(Value),
}

pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Patch {
    pub fn parse(kind: &KindInfo, media_type: Option<&str>, bytes: &[u8]) -> Result<Self, Status> {
        Self::read(kind, media_type, bytes).map(|(patch, _)| patch)
    }

    /// Reads a patch, with the document of which the value is taken.
    pub(crate) fn read(
        kind: &KindInfo,
        media_type: Option<&str>,
        bytes: &[u8],
    ) -> Result<(Self, JsonDocument), Status> {
        let make: fn(Value) -> Result<Self, Status> = match media_type {
            Some(JSON) => |value| json::Operations::parse(value).map(Self::Json),
            Some(MERGE) => |value| object(value).map(Self::Merge),
            Some(STRATEGIC) if kind.strategic_merge => |value| object(value).map(Self::Strategic),
            _ => return Err(Status::unsupported_media_type(&accepted(kind))),
        };
        let read = crate::codec::json::read(bytes);
        let mut document = read.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        Ok((make(document.value.take())?, document))
    }

    /// Changes the object as clients see it.
    pub(crate) fn apply_to(&self, object: &mut Value) -> Result<(), Status> {
        match self {
            Self::Merge(patch) => merge_patch(object, patch),
            Self::Json(operations) => operations.apply_to(object)?,
            Self::Strategic(patch) => strategic::apply_to(object, patch)?,
        }
        Ok(())
    }
}

/// The types of patch that a kind takes, as Kubernetes names them in its refusal.
fn accepted(kind: &KindInfo) -> String {
    let strategic = kind.strategic_merge.then_some(STRATEGIC);
    [JSON, MERGE].into_iter().chain(strategic).chain([APPLY]).collect::<Vec<_>>().join(", ")
}

fn object(patch: Value) -> Result<Value, Status> {
    if patch.is_object() { Ok(patch) } else { Err(not_of_type(&patch, "map[string]interface {}")) }
}

/// The refusal in the words that clients know from Kubernetes.
fn not_of_type(found: &Value, wanted: &str) -> Status {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"))
}

/// Applies any bytes as each type of patch to an object. For fuzzing.
pub fn check(bytes: &[u8]) {
    let object = serde_json::json!({
        "metadata": { "finalizers": ["a", "b"], "ownerReferences": [{ "uid": "1", "name": "x" }] },
        "data": { "k": "dg==" },
    });
    check_on(&object, bytes);
}

/// Applies a patch to an object that was read within bounds.
pub fn check_on(object: &Value, bytes: &[u8]) {
    let kind = crate::object::builtin::secret();
    for media_type in [JSON, MERGE, STRATEGIC] {
        let Ok(patch) = Patch::parse(&kind, Some(media_type), bytes) else { continue };
        let mut patched = object.clone();
        if patch.apply_to(&mut patched).is_err() {
            continue;
        }
        let text = patched.to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "what was patched can be stored and read: {text}");
        if let Patch::Merge(_) = patch {
            let once = patched.clone();
            assert!(patch.apply_to(&mut patched).is_ok());
            assert_eq!(patched, once, "what is merged twice is as what is merged once");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_refusal_names_the_types_that_the_kind_takes() {
        let custom = KindInfo::namespaced("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts");
        let refused = Patch::parse(&custom, Some(STRATEGIC), b"{}").unwrap_err();
        assert_eq!(refused.code, 415);
        assert!(!refused.message.contains("strategic"), "{}", refused.message);
        let secret = crate::object::builtin::secret();
        assert!(Patch::parse(&secret, Some(STRATEGIC), b"{}").is_ok());
        assert!(Patch::parse(&secret, None, b"{}").unwrap_err().message.contains("strategic"));
        for (media_type, body) in [(MERGE, "[]"), (MERGE, "{"), (STRATEGIC, "\"x\""), (JSON, "{}")] {
            assert_eq!(Patch::parse(&secret, Some(media_type), body.as_bytes()).unwrap_err().code, 400, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_patch_panics(
            operation in "(add|remove|move|copy|replace|test)",
            path in "(/[a-z0-9~-]{0,11}){0,4}",
            from in "(/(metadata|finalizers|data|0|-)){0,3}",
            key in "(metadata|data|[$]patch|[$]retainKeys|finalizers|[$]deleteFromPrimitiveList/finalizers)",
        ) {
            check(format!(r#"[{{"op":"{operation}","path":"{path}","from":"{from}","value":{{"a":1}}}}]"#).as_bytes());
            check(format!(r#"{{"{key}":["a"],"metadata":{{"{key}":["a"]}},"data":{{"{key}":"replace"}}}}"#).as_bytes());
        }
    }
}
