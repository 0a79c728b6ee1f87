//! Kubernetes' protobuf bodies as JSON. kubectl and every client made with client-go send Kubernetes'
//! own kinds in this form and do not fall back; answers in JSON suit them all. Pure and bounded.
//!
//! ```text
//!   "k8s\0" ─► Unknown { typeMeta { apiVersion, kind }, raw } ─► table of the kind ─► JSON
//! ```
//!
//! Each message is a constant table ([`messages`]) from field numbers to names and forms. Clients
//! write fields that are no pointers even when they are empty; these are left out, as in JSON.

mod messages;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::codec::json::READ_VALUES_MAX as VALUES_MAX;

/// Begins every body in this form.
const MAGIC: &[u8; 4] = b"k8s\0";

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin with k8s and a zero byte")]
    NoMagic,
    #[error("the body ends in the middle of a field")]
    Cut,
    #[error("a number is longer than 64 bits")]
    LongNumber,
    #[error("field {0} is of another wire type than it should be")]
    WireType(u64),
    #[error("the text of {0} is not UTF-8")]
    NotText(&'static str),
    #[error("the time of {0} is none")]
    NotTime(&'static str),
    #[error("the fields of {0} are not JSON")]
    NotFields(&'static str),
    #[error("the body is encoded as {0:?}, which is not known here")]
    Encoding(String),
    #[error("{api_version:?} {kind:?} is not read in this form; send it as JSON")]
    Kind { api_version: String, kind: String },
    #[error("the body has more than {VALUES_MAX} values")]
    TooMany,
}

/// A field of a message.
#[derive(Debug)]
struct ProtobufField {
    number: u64,
    name: &'static str,
    form: FieldForm,
    /// Whether the field is written only when set: an empty value is a value.
    is_pointer: bool,
}

#[derive(Clone, Copy, Debug)]
enum FieldForm {
    Text,
    /// Base64 in JSON.
    Bytes,
    Boolean,
    Integer,
    /// Seconds in JSON.
    Time,
    /// Microseconds in JSON.
    MicroTime,
    /// `FieldsV1`: JSON as bytes in a message of its own.
    Fields,
    /// A number as text in a message of its own.
    Quantity,
    Message(&'static [ProtobufField]),
    List(&'static FieldForm),
    /// Keys are texts.
    Map(&'static FieldForm),
}

/// A body as the JSON object that it stands for.
pub fn read(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let unknown = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let mut reader = ProtobufReader { values: 0 };
    let envelope = reader.message(messages::UNKNOWN, unknown)?;
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (api_version, kind) = (text(&envelope["typeMeta"]["apiVersion"]), text(&envelope["typeMeta"]["kind"]));
    let (encoding, media_type) = (text(&envelope["contentEncoding"]), text(&envelope["contentType"]));
    if !encoding.is_empty() {
        return Err(ProtobufError::Encoding(encoding));
    }
    if !media_type.is_empty() && media_type != MEDIA_TYPE {
        return Err(ProtobufError::Encoding(media_type));
    }
    let Some(message) = messages::of(&api_version, &kind) else {
        return Err(ProtobufError::Kind { api_version, kind });
    };
    let mut object = reader.message(message, last_bytes(unknown, 2)?.unwrap_or_default())?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

#[derive(Clone, Copy, Debug)]
enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Fixed width: no field of ours.
    Other,
}

/// The first field of some bytes, and the bytes after it.
fn next(bytes: &[u8]) -> Result<(u64, WireValue<'_>, &[u8]), ProtobufError> {
    let (tag, rest) = varint(bytes)?;
    let number = tag >> 3;
    match tag & 7 {
        0 => varint(rest).map(|(value, rest)| (number, WireValue::Number(value), rest)),
        1 => rest.split_at_checked(8).map(|(_, rest)| (number, WireValue::Other, rest)).ok_or(ProtobufError::Cut),
        2 => {
            let (length, rest) = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| ProtobufError::Cut)?;
            let (value, rest) = rest.split_at_checked(length).ok_or(ProtobufError::Cut)?;
            Ok((number, WireValue::Bytes(value), rest))
        }
        5 => rest.split_at_checked(4).map(|(_, rest)| (number, WireValue::Other, rest)).ok_or(ProtobufError::Cut),
        // Groups, which are no longer in use.
        _ => Err(ProtobufError::WireType(number)),
    }
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), ProtobufError> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate() {
        let part = u64::from(byte & 0x7f);
        if index == 9 && *byte > 1 || index > 9 {
            return Err(ProtobufError::LongNumber);
        }
        number |= part << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[index + 1..]));
        }
    }
    Err(ProtobufError::Cut)
}

struct ProtobufReader {
    values: usize,
}

impl ProtobufReader {
    /// Tables hold no cycle, so this ends however deep the bytes nest.
    fn message(&mut self, message: &[ProtobufField], bytes: &[u8]) -> Result<Value, ProtobufError> {
        let (mut object, mut rest) = (Map::new(), bytes);
        while !rest.is_empty() {
            let (number, wire, after) = next(rest)?;
            rest = after;
            self.values += 1;
            if self.values > VALUES_MAX {
                return Err(ProtobufError::TooMany);
            }
            let Some(field) = message.iter().find(|field| field.number == number) else { continue };
            match field.form {
                FieldForm::List(item) => {
                    let value = self.value(field, *item, wire)?;
                    match object.get_mut(field.name) {
                        Some(Value::Array(list)) => list.push(value),
                        _ => drop(object.insert(field.name.into(), json!([value]))),
                    }
                }
                FieldForm::Map(item) => {
                    let WireValue::Bytes(bytes) = wire else { return Err(ProtobufError::WireType(number)) };
                    let (key, value) = self.entry(field, *item, bytes)?;
                    match object.get_mut(field.name) {
                        Some(Value::Object(map)) => drop(map.insert(key, value)),
                        _ => drop(object.insert(field.name.into(), json!({ key: value }))),
                    }
                }
                form @ (FieldForm::Text
                | FieldForm::Bytes
                | FieldForm::Boolean
                | FieldForm::Integer
                | FieldForm::Time
                | FieldForm::MicroTime
                | FieldForm::Fields
                | FieldForm::Quantity
                | FieldForm::Message(_)) => {
                    let value = self.value(field, form, wire)?;
                    if value.is_null() || !field.is_pointer && is_empty(&value) {
                        object.remove(field.name);
                    } else {
                        object.insert(field.name.into(), value);
                    }
                }
            }
        }
        Ok(Value::Object(object))
    }

    /// An entry of a map; what it does not say is empty.
    fn entry(
        &mut self,
        field: &ProtobufField,
        form: FieldForm,
        bytes: &[u8],
    ) -> Result<(String, Value), ProtobufError> {
        let (mut key, mut value, mut rest) = (String::new(), json!(""), bytes);
        while !rest.is_empty() {
            let (number, wire, after) = next(rest)?;
            rest = after;
            match (number, wire) {
                (1, WireValue::Bytes(bytes)) => key = text(field, bytes)?,
                (2, wire) => value = self.value(field, form, wire)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&mut self, field: &ProtobufField, form: FieldForm, wire: WireValue<'_>) -> Result<Value, ProtobufError> {
        match (form, wire) {
            (FieldForm::Text, WireValue::Bytes(bytes)) => Ok(json!(text(field, bytes)?)),
            (FieldForm::Bytes, WireValue::Bytes(bytes)) => Ok(json!(BASE64.encode(bytes))),
            (FieldForm::Boolean, WireValue::Number(number)) => Ok(json!(number != 0)),
            // Negative ones are written as 64 bits.
            (FieldForm::Integer, WireValue::Number(number)) => Ok(json!(number.cast_signed())),
            (FieldForm::Time, WireValue::Bytes(bytes)) => time(field, "%Y-%m-%dT%H:%M:%SZ", bytes),
            (FieldForm::MicroTime, WireValue::Bytes(bytes)) => time(field, "%Y-%m-%dT%H:%M:%S%.6fZ", bytes),
            (FieldForm::Fields, WireValue::Bytes(bytes)) => {
                let fields = last_bytes(bytes, 1)?.unwrap_or(b"null");
                crate::codec::json::read(fields)
                    .map(|fields| fields.value)
                    .map_err(|_| ProtobufError::NotFields(field.name))
            }
            (FieldForm::Quantity, WireValue::Bytes(bytes)) => {
                Ok(json!(text(field, last_bytes(bytes, 1)?.unwrap_or_default())?))
            }
            (FieldForm::Message(message), WireValue::Bytes(bytes)) => self.message(message, bytes),
            _ => Err(ProtobufError::WireType(field.number)),
        }
    }
}

/// The bytes of a field; where it is there several times, those of the last.
fn last_bytes(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, ProtobufError> {
    let (mut rest, mut found) = (bytes, None);
    while !rest.is_empty() {
        let (number, wire, after) = next(rest)?;
        if let (true, WireValue::Bytes(bytes)) = (number == wanted, wire) {
            found = Some(bytes);
        }
        rest = after;
    }
    Ok(found)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn text(field: &ProtobufField, bytes: &[u8]) -> Result<String, ProtobufError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtobufError::NotText(field.name))
}

/// Seconds and nanoseconds; nothing at all is no time.
fn time(field: &ProtobufField, format: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanoseconds, mut rest) = (0_i64, 0_i64, bytes);
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    while !rest.is_empty() {
        match next(rest)? {
            (1, WireValue::Number(number), after) => (seconds, rest) = (number.cast_signed(), after),
            (2, WireValue::Number(number), after) => (nanoseconds, rest) = (number.cast_signed(), after),
            (_, _, after) => rest = after,
        }
    }
    let not_time = || ProtobufError::NotTime(field.name);
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| not_time())?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| not_time())?;
    Ok(json!(time.strftime(format).to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn number(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
        bytes
    }

    /// A field of bytes.
    fn part(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let bytes = bytes.as_ref();
        [number(field << 3 | 2), number(bytes.len() as u64), bytes.to_vec()].concat()
    }

    fn int(field: u64, value: u64) -> Vec<u8> {
        [number(field << 3), number(value)].concat()
    }

    fn body(api_version: &str, kind: &str, object: &[Vec<u8>]) -> Vec<u8> {
        let type_meta = [part(1, api_version), part(2, kind)].concat();
        let envelope = [part(1, type_meta), part(2, object.concat()), part(3, ""), part(4, "")].concat();
        [MAGIC.to_vec(), envelope].concat()
    }

    #[test]
    fn a_secret_is_read_as_clients_write_it() {
        let metadata = [
            part(1, "s"),
            part(2, ""),
            part(3, "default"),
            int(7, 0),
            part(8, ""),
            part(11, [part(1, "rack"), part(2, "r1")].concat()),
            part(11, [part(1, "empty"), part(2, "")].concat()),
            part(13, [part(1, "Toy"), part(3, "t"), part(4, "u"), part(5, "v1"), int(6, 0)].concat()),
        ];
        let secret = [
            part(1, metadata.concat()),
            part(2, [part(1, "key"), part(2, [0, 159, 146])].concat()),
            part(3, "Opaque"),
            int(5, 0),
            part(99, "of a later version"),
        ];
        assert_eq!(
            read(&body("v1", "Secret", &secret)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": false,
                "metadata": {
                    "name": "s", "namespace": "default", "labels": { "rack": "r1", "empty": "" },
                    "ownerReferences": [
                        { "kind": "Toy", "name": "t", "uid": "u", "apiVersion": "v1", "controller": false },
                    ],
                },
                "data": { "key": "AJ+S" },
            })
        );
    }

    #[test]
    fn times_are_written_as_their_kinds_have_them() {
        let at = [int(1, 1_767_225_600), int(2, 5_000_000)].concat();
        let lease = [part(2, [part(1, ""), int(2, 15), part(4, &at)].concat())];
        assert_eq!(
            read(&body("coordination.k8s.io/v1", "Lease", &lease)).unwrap()["spec"],
            json!({ "holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.005000Z" })
        );
        let event = [part(2, [part(1, "Toy")].concat()), part(5, ""), part(6, &at), part(10, ""), int(8, 3)];
        assert_eq!(
            read(&body("v1", "Event", &event)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Event", "count": 3, "involvedObject": { "kind": "Toy" },
                "firstTimestamp": "2026-01-01T00:00:00Z",
            })
        );
        let reference = part(8, [part(1, "Toy"), part(3, "t")].concat());
        let event = [part(2, &at), part(4, "c"), part(5, "i"), part(6, "Act"), part(7, "Why"), reference];
        let event = [event.concat(), part(10, "text"), part(11, "Normal"), part(14, &at), int(15, 2)].concat();
        assert_eq!(
            read(&body("events.k8s.io/v1", "Event", &[event])).unwrap(),
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": "2026-01-01T00:00:00.005000Z",
                "reportingController": "c", "reportingInstance": "i", "action": "Act", "reason": "Why",
                "regarding": { "kind": "Toy", "name": "t" }, "note": "text", "type": "Normal",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z", "deprecatedCount": 2,
            })
        );
        let options = [int(1, u64::MAX), part(5, "All")];
        assert_eq!(
            read(&body("coordination.k8s.io/v1", "DeleteOptions", &options)).unwrap(),
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": -1, "dryRun": ["All"] })
        );
    }

    #[test]
    fn quantities_are_texts() {
        let limit = |word: &str, most: &str| part(1, [part(1, word), part(2, part(1, most))].concat());
        let spec = [limit("count/secrets", "5"), limit("firesteel.dev/bytes", "1Mi"), part(2, "BestEffort")].concat();
        let quota = read(&body("v1", "ResourceQuota", &[part(1, part(1, "q")), part(2, spec)])).unwrap();
        assert_eq!(quota["spec"]["hard"], json!({ "count/secrets": "5", "firesteel.dev/bytes": "1Mi" }));
        assert_eq!(quota["spec"]["scopes"], json!(["BestEffort"]));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        let many = vec![part(14, ""); VALUES_MAX].concat();
        for (bytes, error) in [
            (b"{}".to_vec(), ProtobufError::NoMagic),
            (b"k8s\0\x0a\x05".to_vec(), ProtobufError::Cut),
            (b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec(), ProtobufError::LongNumber),
            (body("v1", "Secret", &[int(1, 1)]), ProtobufError::WireType(1)),
            (body("v1", "Secret", &[part(3, [0xff])]), ProtobufError::NotText("type")),
            (
                body("v1", "Secret", &[part(1, part(8, int(1, u64::MAX >> 1)))]),
                ProtobufError::NotTime("creationTimestamp"),
            ),
            (body("v1", "Namespace", &[part(1, many)]), ProtobufError::TooMany),
            (body("v1", "Pod", &[]), ProtobufError::Kind { api_version: "v1".into(), kind: "Pod".into() }),
            (b"k8s\0\x1a\x04gzip".to_vec(), ProtobufError::Encoding("gzip".into())),
        ] {
            assert_eq!(read(&bytes).unwrap_err(), error);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(object in prop::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
            let kinds = ["Namespace", "Secret", "Event", "ServiceAccount", "DeleteOptions"];
            drop(read(&body("v1", kinds[kind], std::slice::from_ref(&object))));
            drop(read(&[MAGIC.to_vec(), object].concat()));
        }
    }
}
