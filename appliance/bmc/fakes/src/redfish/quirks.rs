//! What is odd about a service, as data: read from JSON, so that a case is a few words and no code.
//!
//! ```json
//! {"session_limit": 4, "location": "none", "redirect": {"code": 308, "methods": ["GET"]}, "gzip": true}
//! ```

use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde::Deserialize;
use serde_json::Value;

use super::resources::{error_as, respond};
use super::{FakeRequest, FakeResponse};

/// An honest service with these differences.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeQuirks {
    /// The part of an answer that names a session's place.
    pub location: SessionLocation,
    /// Places for sessions.
    pub session_limit: Option<usize>,
    /// Sessions that are open from the beginning, and stay.
    pub session_taken: usize,
    /// Basic authentication is refused.
    pub no_basic: bool,
    pub redirect: Option<Redirect>,
    /// Answers are encoded by gzip, unasked.
    pub gzip: bool,
    /// Answers are encoded so, and say so: `gzip`, `deflate`, or a word that means nothing.
    pub encoding: Option<String>,
    /// What a GET of a path answers, whatever it is.
    pub bodies: BTreeMap<String, String>,
    /// What is laid over the JSON of a path (RFC 7386): `null` takes away.
    pub merge: BTreeMap<String, Value>,
    /// Every PATCH is refused.
    pub refuse_patch: Option<FakeRefusal>,
    /// Every PATCH that switches an override off is refused.
    pub refuse_disable: Option<FakeRefusal>,
    /// What "Once" is stored as.
    pub once: Option<String>,
    /// Identifier of the system below `Systems`, if it is not `1`.
    pub system: Option<String>,
    /// What stands before `/redfish`.
    pub prefix: String,
    /// The certificate and TLS that the service has; who serves it acts on this.
    pub tls: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionLocation {
    /// The header and the body.
    #[default]
    Header,
    /// The body alone.
    None,
    /// The identifier alone.
    Id,
    /// No part: it is found in the collection.
    Nowhere,
}

/// Paths without a slash at the end are redirected to those with one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    pub code: u16,
    pub methods: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeRefusal {
    pub status: u16,
    pub id: String,
    pub message: String,
}

impl FakeRefusal {
    fn answer(&self) -> FakeResponse {
        error_as(self.status, &self.id, &self.message)
    }
}

impl FakeQuirks {
    /// The answer of a service that does not look at what is asked.
    pub(super) fn instead(&self, request: &FakeRequest) -> Option<FakeResponse> {
        let path = request.path.as_str();
        if let Some(redirect) = &self.redirect
            && redirect.methods.contains(&request.method)
            && !path.ends_with('/')
        {
            let headers = vec![("location", format!("{path}/"))];
            return Some(FakeResponse { status: redirect.code, headers, body: Bytes::new() });
        }
        match request.method.as_str() {
            "GET" => self.bodies.get(path.trim_end_matches('/')).map(|body| FakeResponse {
                status: 200,
                headers: vec![("content-type", "text/html".to_owned())],
                body: Bytes::from(body.clone()),
            }),
            "PATCH" => self.refusal(&request.body).map(FakeRefusal::answer),
            _ => None,
        }
    }

    fn refusal(&self, body: &Bytes) -> Option<&FakeRefusal> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let disables = body["Boot"]["BootSourceOverrideEnabled"] == "Disabled";
        self.refuse_patch.as_ref().or(self.refuse_disable.as_ref().filter(|_| disables))
    }

    /// The answer of an honest service, changed.
    pub(super) fn changed(&self, path: &str, mut answer: FakeResponse) -> FakeResponse {
        if let Some(patch) = self.merge.get(path.trim_end_matches('/'))
            && answer.status == 200
        {
            let mut value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            merge(&mut value, patch);
            let headers = std::mem::take(&mut answer.headers);
            answer = FakeResponse { headers, ..respond(200, Bytes::from(value.to_string())) };
        }
        let encoding = self.encoding.as_deref().or(self.gzip.then_some("gzip"));
        if let Some(encoding) = encoding.filter(|_| !answer.body.is_empty()) {
            answer.body = encoded(encoding, &answer.body);
            answer.headers.push(("content-encoding", encoding.to_owned()));
        }
        answer
    }
}

fn encoded(encoding: &str, body: &Bytes) -> Bytes {
    let done = match encoding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).and_then(|()| encoder.finish())
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).and_then(|()| encoder.finish())
        }
        _ => Ok(body.to_vec()),
    };
    done.map_or_else(|_| body.clone(), Bytes::from)
}

/// RFC 7386.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}
