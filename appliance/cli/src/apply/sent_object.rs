//! The object that is sent for one of a file. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

/// Makes the object that is sent: the texts of a Secret's `stringData` go into `data`.
///
/// The appliance stores `data` alone. If it got `stringData`, the file would own fields that no stored Secret has, and
/// a text that is taken out of the file would stay.
pub(super) fn sent(mut object: Value) -> Value {
    if object["apiVersion"] == "v1" && object["kind"] == "Secret" {
        let are_texts = |texts: &Value| texts.as_object().is_some_and(|texts| texts.values().all(Value::is_string));
        let can_take = |data: &Value| data.is_null() || data.is_object();
        if are_texts(&object["stringData"]) && can_take(&object["data"]) {
            move_texts(&mut object);
        }
    }
    object
}

fn move_texts(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let mut data = match fields.remove("data") {
        Some(Value::Object(data)) => data,
        _ => Map::new(),
    };
    for (key, text) in texts {
        if let Some(text) = text.as_str() {
            data.insert(key, Value::String(STANDARD.encode(text)));
        }
    }
    fields.insert("data".to_owned(), Value::Object(data));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(fields: &Value) -> Value {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        for (key, value) in fields.as_object().into_iter().flatten() {
            secret[key] = value.clone();
        }
        secret
    }

    #[test]
    fn the_texts_of_a_secret_become_data() {
        let texts = secret(&json!({"stringData": {"a": "x", "b": ""}, "data": {"a": "eQ==", "c": "eg=="}}));
        assert_eq!(sent(texts), secret(&json!({"data": {"a": "eA==", "b": "", "c": "eg=="}})));
        assert_eq!(sent(secret(&json!({"stringData": {"a": "x"}}))), secret(&json!({"data": {"a": "eA=="}})));
    }

    #[test]
    fn what_the_appliance_refuses_is_sent_as_it_is() {
        for odd in [
            secret(&json!({"stringData": {"a": 1}})),
            secret(&json!({"stringData": {"a": "x"}, "data": ["a"]})),
            secret(&json!({"stringData": null})),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "stringData": {"a": "x"}}),
            json!("text"),
        ] {
            assert_eq!(sent(odd.clone()), odd);
        }
    }
}
