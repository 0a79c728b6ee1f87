//! Answers as they are sent: bytes, headers, warnings.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, RETRY_AFTER, VARY, WARNING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use crate::codec::body::Body;
use crate::codec::negotiate::{self, ResponseFormat};
use crate::model::status::Status;
use crate::serve::document::{self, OpenApiDocument};

/// Warnings that are sent with one answer, and bytes of each: some clients drop answers with more
/// than some kilobytes of headers.
const WARNINGS_MAX: usize = 16;
const WARNING_BYTES_MAX: usize = 256;

/// What a record of an answer says beside its code. Answers have it as an extension, where it applies.
#[derive(Clone, Debug, Default)]
pub struct ResponseAuditNote {
    /// The reason of a refusal, as "NotFound" or "Conflict".
    pub reason: &'static str,
    /// The name of an object that was made.
    pub made: String,
    /// Whether the request was refused before anything was begun. If not, a request on many objects may have been done
    /// to some of them.
    pub is_turned_away: bool,
}

/// An answer before it is turned into bytes.
pub(crate) struct ApiResponse {
    pub(crate) code: StatusCode,
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
    /// The value as JSON, where it is there already.
    pub(crate) text: Option<Bytes>,
}

impl ApiResponse {
    pub(crate) fn ok(value: Value) -> Self {
        Self { code: StatusCode::OK, value, warnings: Vec::new(), text: None }
    }
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(crate) fn encode(answer: ApiResponse, format: ResponseFormat) -> Result<Response<Body>, Status> {
    let bytes = match format {
        ResponseFormat::Yaml => negotiate::yaml(&answer.value)?.into(),
        ResponseFormat::Json | ResponseFormat::Table | ResponseFormat::Partial | ResponseFormat::Discovery => {
            answer.text.unwrap_or_else(|| answer.value.to_string().into())
        }
    };
    let mut response = respond(answer.code, format.media_type(), Full::new(bytes).boxed_unsync());
    if answer.code == StatusCode::CREATED {
        let name =
            ["/metadata/name", "/rows/0/object/metadata/name"].iter().find_map(|path| answer.value.pointer(path));
        let made = name.and_then(Value::as_str).unwrap_or_default().to_owned();
        response.extensions_mut().insert(ResponseAuditNote { made, ..ResponseAuditNote::default() });
    }
    warn(&mut response, &answer.warnings);
    Ok(response)
}

pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings.iter().take(WARNINGS_MAX) {
        if let Ok(value) = HeaderValue::from_bytes(warning_text(warning).as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// RFC 7234: code, agent ("-"), quoted text.
fn warning_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 8);
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        if quoted.len() >= WARNING_BYTES_MAX {
            break;
        }
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    format!("299 - \"{quoted}\"")
}

/// A document that changes with the program alone: clients keep it and ask whether it is the same.
pub(crate) fn document(headers: &HeaderMap, media_type: &'static str, value: &Value) -> Result<Response<Body>, Status> {
    let bytes = Bytes::from(value.to_string());
    let hash = document::hash(&bytes);
    unchanged_or_sent(headers, media_type, &OpenApiDocument { bytes, hash })
}

pub(crate) fn unchanged_or_sent(
    headers: &HeaderMap,
    media_type: &'static str,
    document: &OpenApiDocument,
) -> Result<Response<Body>, Status> {
    let etag = format!("\"{}\"", document.hash);
    let known = header(headers, &IF_NONE_MATCH) == Some(etag.as_str());
    let (code, body) =
        if known { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, document.bytes.clone()) };
    let mut response = respond(code, media_type, Full::new(body).boxed_unsync());
    let value = HeaderValue::from_str(&etag).map_err(|error| Status::internal(error.to_string()))?;
    response.headers_mut().insert(ETAG, value);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// The answer to a request that was not begun.
pub(crate) fn turn_away(status: &Status) -> Response<Body> {
    let mut response = refuse(status);
    response.extensions_mut().insert(ResponseAuditNote {
        reason: status.reason,
        is_turned_away: true,
        ..ResponseAuditNote::default()
    });
    response
}

pub(crate) fn refuse(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(code, "application/json", whole(status.to_value().to_string().into_bytes()));
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(ResponseAuditNote { reason: status.reason, ..ResponseAuditNote::default() });
    response
}

pub(crate) fn not_served() -> Response<Body> {
    text_response(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn text_response(code: StatusCode, text: &'static str) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", whole(text.into()))
}

pub(crate) fn whole(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).boxed_unsync()
}

pub(crate) fn respond(code: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_one_header_each() {
        assert_eq!(warning_text("unknown field \"spec.foo\""), r#"299 - "unknown field \"spec.foo\"""#);
        assert_eq!(warning_text("a\r\nSet-Cookie: b\\"), r#"299 - "aSet-Cookie: b\\""#);
        assert!(warning_text(&"x".repeat(5000)).len() < 300);
    }
}
