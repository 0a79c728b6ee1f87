//! Texts and objects that a support bundle shows: whatever stands around a known secret, it does not come through.

use firesteel_redaction::{KnownSecrets, Redactor, SecretSearch};
use serde_json::{Value, json};

const PLANTED: &str = "Planted,Secret'%41;0123456789";

pub(super) fn check(input: &[u8]) {
    let mut known = KnownSecrets::new().unwrap();
    known.add_login(PLANTED);
    let mut redactor = Redactor::new(SecretSearch::new(&known.values().unwrap()).unwrap()).unwrap();
    let text = String::from_utf8_lossy(input);
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (before, after) = text.split_at(middle);
    redactor.begin_part();
    let shown = redactor.clean_lines("log", &format!("{before}{PLANTED}{after}\n{text}\n"));
    assert!(!shown.contains(PLANTED), "{shown:?}");
    let mut object = serde_json::from_str::<Value>(&text).unwrap_or_else(|_| json!({"text": text}));
    object = json!({"object": object, "note": format!("{before}{PLANTED}{after}"), PLANTED: 1});
    redactor.begin_part();
    redactor.begin_object();
    redactor.clean_value("object", "", &mut object);
    // What is left in a name makes the bundle leave the object out.
    assert!(!object.to_string().contains(PLANTED) || redactor.shows_in_value(&object), "{object}");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";
    [
        "2026-01-01T00:00:00Z INFO a host=b password=\"correct, horse\" url=https://u:p@h/x?sig=0123456789abcdef",
        r#"{"metadata":{"annotations":{"a":"{\"password\":\"x\"}"}},"spec":{"tokens":["abcdef"],"url":"http://a"}}"#,
        "userdata=I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMjIK contents=data:;base64,aHVudGVyMjI=",
        "Authorization: Bearer abcdef0123456789\nCookie: SESSION=abc; x=y\nX-Auth-Token: 0123456789abcdef",
        "password: |\n  hunter22\npasswords:\n- abc\n--password hunter22 -u a:b",
        "666f6f62617220706c616e746564 %68%75%6e \\u0068\\u0075 a\\\"b",
        key,
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
