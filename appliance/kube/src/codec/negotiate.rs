//! The formats of a request: what the client accepts, and what its body is. Pure.

use serde::Serialize;
use serde_json::Value;

use crate::codec::json::{self, JsonDocument};
use crate::codec::{protobuf, yaml};
use crate::model::status::{Status, one_line};

/// Alternatives read from one Accept header.
const ALTERNATIVES_MAX: usize = 32;
/// Bytes that are shown of a body that cannot be read: enough to see that it is a web page.
const START_SHOWN_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFormat {
    Json,
    Yaml,
    /// Rows and columns for people.
    Table,
    /// Metadata alone.
    Partial,
    /// All groups in one document; for discovery only.
    Discovery,
}

impl ResponseFormat {
    /// The media type of an answer.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Yaml => "application/yaml",
            Self::Json | Self::Table | Self::Partial | Self::Discovery => "application/json",
        }
    }
}

pub const DISCOVERY_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Takes the first alternative that can be served. `discovery` says whether the path is one where
/// [`ResponseFormat::Discovery`] exists; elsewhere tables and partial objects do.
pub fn accept(header: Option<&str>, discovery: bool) -> Result<ResponseFormat, Status> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else { return Ok(ResponseFormat::Json) };
    header
        .split(',')
        .take(ALTERNATIVES_MAX)
        .find_map(|alternative| one(alternative, discovery))
        .ok_or_else(Status::not_acceptable)
}

fn one(alternative: &str, discovery: bool) -> Option<ResponseFormat> {
    let mut parts = alternative.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    let (mut shown_as, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => shown_as = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (media_type.as_str(), shown_as, group, version) {
        ("application/json" | "*/*" | "application/*", "", ..) => Some(ResponseFormat::Json),
        ("application/yaml", "", ..) => Some(ResponseFormat::Yaml),
        ("application/json", "Table", "meta.k8s.io", "v1") if !discovery => Some(ResponseFormat::Table),
        ("application/json", "PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1")
            if !discovery =>
        {
            Some(ResponseFormat::Partial)
        }
        ("application/json", "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") if discovery => {
            Some(ResponseFormat::Discovery)
        }
        _ => None,
    }
}

/// OpenAPI v2 in protobuf; older clients write it with an `@`.
pub const OPENAPI_V2_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OPENAPI_V2_OLD_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Whether the OpenAPI v2 document is wanted in protobuf; otherwise it is in JSON.
pub fn accept_openapi_v2(header: Option<&str>) -> Result<bool, Status> {
    let alternatives = header.unwrap_or("*/*").split(',').take(ALTERNATIVES_MAX);
    let found = alternatives.map(|alternative| alternative.trim()).find_map(|alternative| {
        let media_type = alternative.split(';').next().unwrap_or("");
        if [OPENAPI_V2_TYPE, OPENAPI_V2_OLD_TYPE].contains(&media_type) {
            return Some(true);
        }
        matches!(media_type, "" | "application/json" | "application/*" | "*/*").then_some(false)
    });
    found.ok_or_else(|| Status::not_acceptable_of(&["application/json", OPENAPI_V2_TYPE, OPENAPI_V2_OLD_TYPE]))
}

/// A body's media type, without parameters. `None` for none.
pub fn media_type(header: Option<&str>) -> Option<String> {
    let header = header?.split(';').next()?.trim().to_ascii_lowercase();
    (!header.is_empty()).then_some(header)
}

/// The object in a request body. `kind` is what it should be, for the message.
pub fn parse_object(media_type: Option<&str>, bytes: &[u8], kind: &str) -> Result<Value, Status> {
    parse_document(media_type, bytes, kind).map(|document| document.value)
}

/// Reads a body, with the names that it has twice. YAML with duplicates is refused.
pub fn parse_document(media_type: Option<&str>, bytes: &[u8], kind: &str) -> Result<JsonDocument, Status> {
    let unrecognized = |error: String| {
        // Of a secret or a token nothing: a message is what people send to others.
        let shown = if matches!(kind, "Secret" | "TokenReview") { 0 } else { bytes.len().min(START_SHOWN_BYTES) };
        let start = String::from_utf8_lossy(&bytes[..shown]);
        Status::bad_request(one_line(&format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {error} ({start})"
        )))
    };
    match media_type {
        // kubectl sends some of its bodies without a type.
        None | Some("application/json" | "text/plain" | "application/x-www-form-urlencoded") => {
            json::read(bytes).map_err(|error| unrecognized(format!("json parse error: {error}")))
        }
        Some("application/yaml" | "application/x-yaml" | "text/yaml") => {
            yaml::read_object(bytes).map(once).map_err(|error| unrecognized(format!("yaml parse error: {error}")))
        }
        Some(protobuf::MEDIA_TYPE) => protobuf::read(bytes).map(once).map_err(|error| {
            Status::bad_request(one_line(&format!(
                "the object provided is unrecognized (must be of type {kind}): {error}"
            )))
        }),
        Some(_) => {
            let accepted = format!("application/json, application/yaml, {}", protobuf::MEDIA_TYPE);
            Err(Status::unsupported_media_type(&accepted))
        }
    }
}

fn once(value: Value) -> JsonDocument {
    JsonDocument { value, duplicates: Vec::new() }
}

/// An object as YAML.
pub fn yaml(value: &impl Serialize) -> Result<String, Status> {
    serde_saphyr::to_string(value).map_err(|error| Status::internal(format!("cannot write YAML: {error}")))
}

/// An object's metadata alone.
pub fn partial(object: &Value) -> Value {
    serde_json::json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}

/// Reads any bytes as a body and as an Accept header. For fuzzing.
pub fn check(bytes: &[u8]) {
    drop(parse_object(Some("application/yaml"), bytes, "Kind"));
    drop(parse_object(None, bytes, "Kind"));
    drop(parse_object(Some(protobuf::MEDIA_TYPE), bytes, "Kind"));
    if let Ok(text) = std::str::from_utf8(bytes) {
        drop(accept(Some(text), true));
        drop(accept(Some(text), false));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::model::status::MESSAGE_CHARS_MAX;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_first_servable_alternative_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (header, format) in [
            (Some(table), ResponseFormat::Table),
            (Some("application/json;as=Table;v=v1beta1;g=meta.k8s.io, */*"), ResponseFormat::Json),
            (Some("application/vnd.kubernetes.protobuf, application/json"), ResponseFormat::Json),
            (Some("application/yaml"), ResponseFormat::Yaml),
            (Some(""), ResponseFormat::Json),
            (None, ResponseFormat::Json),
        ] {
            assert_eq!(accept(header, false).unwrap(), format, "{header:?}");
        }
        assert_eq!(
            accept(Some(&format!("{DISCOVERY_TYPE},application/json")), true).unwrap(),
            ResponseFormat::Discovery
        );
        assert_eq!(accept(Some(&format!("{DISCOVERY_TYPE},application/json")), false).unwrap(), ResponseFormat::Json);
        assert_eq!(accept(Some("text/plain"), false).unwrap_err().code, 406);
    }

    #[test]
    fn yaml_bodies_keep_their_types() {
        let object = parse_object(Some("application/yaml"), b"a: 'yes'\nb: true\nc: 1\nd: [x, null]\n", "K").unwrap();
        assert_eq!(object, json!({"a": "yes", "b": true, "c": 1, "d": ["x", null]}));
        let text = yaml(&json!({"a": "true", "b": {"c": "1", "d": [1, "x: y"]}})).unwrap();
        assert_eq!(
            parse_object(Some("application/yaml"), text.as_bytes(), "K").unwrap(),
            json!({"a": "true", "b": {"c": "1", "d": [1, "x: y"]}}),
            "{text}"
        );
        assert_eq!(parse_object(Some("application/cbor"), b"", "K").unwrap_err().code, 415);
    }

    #[test]
    fn a_refusal_shows_little_of_the_body_and_nothing_that_moves_a_cursor() {
        let bodies = ["{\"a\": \u{1b}[2J\n", "\u{1b}[31m\r\nroot: [", "a: 1\n\u{9b}31m: [\n"].map(str::to_owned);
        let long = [format!("{{\"{}", "k".repeat(9000)), format!("{0}: 1\n{0}: 2\n", "k".repeat(9000))];
        for body in bodies.iter().chain(&long) {
            for media_type in [None, Some("application/yaml")] {
                let message = parse_object(media_type, body.as_bytes(), "K").unwrap_err().message;
                assert!(!message.chars().any(char::is_control), "{message:?}");
                assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{} characters", message.len());
                assert!(message.contains("must be of type K"), "{message}");
            }
        }
        for kind in ["Secret", "TokenReview"] {
            let message = parse_object(None, b"{\"spec\":{\"token\":\"abc\"", kind).unwrap_err().message;
            assert!(!message.contains("abc"), "{message}");
        }
        assert_eq!(one_line(&"é".repeat(9000)).chars().count(), MESSAGE_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            check(&bytes);
        }
    }
}
