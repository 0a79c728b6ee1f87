//! An OpenAPI v2 document in protobuf, as the `gnostic` library defines it and kubectl up to 1.26
//! insists on. Written are the parts that kubectl reads; numbers are those of gnostic's OpenAPIv2.proto.

use serde_json::{Map, Value};

pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = GnosticMessage::default();
    message.text(1, &document["swagger"]);
    message.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    message.message(8, |paths| {
        for (name, item) in entries(&document["paths"]) {
            paths.named(2, name, |value| path_item(value, item));
        }
    });
    message.message(9, |definitions| {
        for (name, definition) in entries(&document["definitions"]) {
            definitions.named(1, name, |value| schema(value, definition));
        }
    });
    message.0
}

/// A message in the making.
#[derive(Default)]
struct GnosticMessage(Vec<u8>);

impl GnosticMessage {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or(0));
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        const LENGTH_DELIMITED: u64 = 2;
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Nothing for what is no text, and for an empty one.
    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, values: &Value) {
        values.as_array().into_iter().flatten().for_each(|value| self.text(field, value));
    }

    fn boolean(&mut self, field: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// An entry of a map: its name and its value.
    fn named(&mut self, field: u64, name: &str, write: impl FnOnce(&mut Self)) {
        self.message(field, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.message(2, write);
        });
    }

    /// Fields whose names begin with `x-`; their values as YAML, which JSON is.
    fn extensions(&mut self, field: u64, value: &Value) {
        for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
            self.named(field, name, |any| any.bytes(2, value.to_string().as_bytes()));
        }
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn schema(message: &mut GnosticMessage, value: &Value) {
    message.text(1, &value["$ref"]);
    message.text(2, &value["format"]);
    message.text(4, &value["description"]);
    message.texts(19, &value["required"]);
    if value["additionalProperties"].is_object() {
        message.message(21, |item| item.message(1, |inner| schema(inner, &value["additionalProperties"])));
    }
    if value["type"].is_string() {
        message.message(22, |type_| type_.text(1, &value["type"]));
    }
    if value["items"].is_object() {
        message.message(23, |items| items.message(1, |inner| schema(inner, &value["items"])));
    }
    if value["properties"].is_object() {
        message.message(25, |properties| {
            for (name, property) in entries(&value["properties"]) {
                properties.named(1, name, |inner| schema(inner, property));
            }
        });
    }
    message.extensions(31, value);
}

fn path_item(message: &mut GnosticMessage, value: &Value) {
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if value[method].is_object() {
            message.message(field, |inner| operation(inner, &value[method]));
        }
    }
    parameters(message, 9, &value["parameters"]);
}

fn operation(message: &mut GnosticMessage, value: &Value) {
    message.text(5, &value["operationId"]);
    message.texts(6, &value["produces"]);
    message.texts(7, &value["consumes"]);
    parameters(message, 8, &value["parameters"]);
    message.message(9, |responses| {
        for (code, response) in entries(&value["responses"]) {
            responses.named(1, code, |value| {
                value.message(1, |inner| {
                    inner.text(1, &response["description"]);
                    inner.message(2, |item| item.message(1, |answer| schema(answer, &response["schema"])));
                });
            });
        }
    });
    message.extensions(13, value);
}

fn parameters(message: &mut GnosticMessage, field: u64, values: &Value) {
    for parameter in values.as_array().into_iter().flatten() {
        message.message(field, |item| {
            item.message(1, |either| match parameter["in"].as_str() {
                Some("body") => either.message(1, |body| {
                    body.text(2, &parameter["name"]);
                    body.text(3, &parameter["in"]);
                    body.message(5, |inner| schema(inner, &parameter["schema"]));
                }),
                // In the query 3, in the path 4; their fields have the same numbers but for the type.
                place => either.message(2, |other| {
                    let (place, type_) = if place == Some("path") { (4, 5) } else { (3, 6) };
                    other.message(place, |inner| {
                        inner.boolean(1, &parameter["required"]);
                        inner.text(2, &parameter["in"]);
                        inner.text(3, &parameter["description"]);
                        inner.text(4, &parameter["name"]);
                        inner.text(type_, &parameter["type"]);
                    });
                }),
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_as_gnostic_defines_them() {
        let mut message = GnosticMessage::default();
        schema(
            &mut message,
            &json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#/definitions/b" } }, "x-c": ["d"] }),
        );
        let mut expected = vec![0x9a, 0x01, 1, b'a']; // required = 19
        expected.extend([0xb2, 0x01, 8, 0x0a, 6]); // type = 22
        expected.extend(b"object");
        expected.extend([0xca, 0x01, 24, 0x0a, 22, 0x0a, 1, b'a', 0x12, 17, 0x0a, 15]); // properties = 25
        expected.extend(b"#/definitions/b");
        expected.extend([0xfa, 0x01, 14, 0x0a, 3]); // vendor_extension = 31
        expected.extend(b"x-c");
        expected.extend([0x12, 7, 0x12, 5]);
        expected.extend(br#"["d"]"#);
        assert_eq!(message.0, expected);
        let long = json!("x".repeat(300));
        let mut message = GnosticMessage::default();
        message.text(1, &long);
        assert_eq!((message.0.len(), &message.0[..3]), (303, &[0x0a, 0xac, 0x02][..]));
    }
}
