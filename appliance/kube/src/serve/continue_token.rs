//! Where a list was left, as its client carries it, and what a list says of itself.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use firesteel_store::{Position, Revision};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::codec::negotiate::ResponseFormat;
use crate::model::status::Status;
use crate::object::selection::ListSelection;
use crate::serve::walk::ListWalk;

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// Base64 as Go reads it, which ignores the bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Where a list was left, as the client carries it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Continue {
    v: String,
    /// The revision; -1 for the newest one.
    rv: i64,
    start: String,
    /// How many objects there are after it, so that they are counted once for all pages. A client that changes this
    /// number gets it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

impl Continue {
    pub(crate) fn encode(revision: Option<Revision>, after: &Position, left: Option<u64>) -> String {
        let rv = revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(-1));
        let token = Self { v: TOKEN_VERSION.into(), rv, start: format!("{}/{}", after.namespace, after.name), left };
        BASE64.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    pub(crate) fn decode(token: &str) -> Result<(Option<Revision>, Position, Option<u64>), Status> {
        let failed = |detail: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {detail}"))
        };
        let bytes = BASE64.decode(token).map_err(|error| failed(error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| match bytes.first() {
            Some(byte) if byte.is_ascii_alphabetic() => {
                failed(format!("invalid character '{}' looking for beginning of value", char::from(*byte)))
            }
            Some(_) | None => failed(error.to_string()),
        })?;
        if token.v != TOKEN_VERSION {
            return Err(failed(format!("server does not recognize this encoded version {:?}", token.v)));
        }
        let (namespace, name) = token.start.split_once('/').ok_or_else(|| failed("no place in it".into()))?;
        let revision = u64::try_from(token.rv).ok().map(Revision);
        Ok((revision, Position { namespace: namespace.into(), name: name.into() }, token.left))
    }
}

/// Reads any text as a continue token; what can be read is the same when it is written and read again. For
/// fuzzing.
pub fn check_token(text: &str) {
    if let Ok((revision, position, left)) = Continue::decode(text) {
        let again = Continue::decode(&Continue::encode(revision, &position, left)).ok();
        assert_eq!(again, Some((revision, position, left)));
    }
}

/// What a list says of itself: its revision, and how to go on where it is not all.
pub(crate) fn metadata(selection: &ListSelection, walk: &ListWalk, left: Option<u64>) -> Value {
    let revision = walk.revision().unwrap_or_default();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let Some(after) = walk.place().filter(|_| !walk.is_over()) {
        metadata["continue"] = json!(Continue::encode(Some(revision), &after, left));
        if let Some(left) = left {
            metadata["remainingItemCount"] = json!(left);
        }
    } else if selection.kind.is_custom() && !matches!(selection.format, ResponseFormat::Table | ResponseFormat::Partial)
    {
        // A list of custom resources says that it is complete; Kubernetes' own kinds leave it out.
        metadata["continue"] = json!("");
    }
    metadata
}
