#![allow(clippy::unwrap_used, reason = "tests")]
use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn redactor(values: &[&str]) -> Redactor {
    let values: BTreeSet<Vec<u8>> = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    Redactor::new(SecretSearch::new(&values).unwrap()).unwrap()
}

fn places(redactor: &Redactor) -> Vec<String> {
    redactor.removals().iter().map(|(removal, count)| format!("{} {} {count}", removal.file, removal.place)).collect()
}

#[test]
fn the_value_of_a_secret_is_removed_wherever_it_stands() {
    let mut redactor = redactor(&["hunter22", "hunter22-longer"]);
    let text = "log: hunter22 and \"hunter22-longer\", but short words stay\nand hunter22";
    let clean = redactor.clean_lines("log", text);
    assert_eq!(clean, "log: (removed) and \"(removed)\", but short words stay\nand (removed)\n");
    assert_eq!(places(&redactor), ["log line 1 2", "log line 2 1"]);
    assert!(!redactor.shows(&clean) && redactor.shows(text));
}

#[test]
fn json_stays_json_and_the_list_says_where_and_not_what() {
    let mut redactor = redactor(&["hunter22", "12345678"]);
    let mut value = json!({
        "bmcPassword": "x", "pin": 12_345_678, "tokens": ["a", "b"], "credentialsName": "bmc-1",
        "a/b": "quoted \"hunter22\"", "hunter22": 1, "url": "https://u:p@h.example/i?sig=a",
        "userData": "#cloud-config\nusers: []\n", "config": {"ignition": {"version": "3.2.0"}, "x": 1},
        "inner": {"credentials": {"username": "root", "password": "p"}},
    });
    redactor.clean_value("f.json", "", &mut value);
    assert_eq!(
        value,
        json!({
            "bmcPassword": REMOVED, "pin": REMOVED, "tokens": [REMOVED, REMOVED], "credentialsName": "bmc-1",
            "a/b": "quoted \"(removed)\"", "(removed)": 1, "url": "https://(hidden)@h.example/i?(hidden)",
            "userData": REMOVED, "config": REMOVED,
            "inner": {"credentials": {"username": "root", "password": REMOVED}},
        })
    );
    let listed = places(&redactor).join("\n");
    assert!(listed.contains("f.json /a~1b 1") && listed.contains("f.json /inner/credentials/password 1"), "{listed}");
    assert!(!listed.contains("hunter22"), "{listed}");
}

#[test]
fn lines_of_json_stay_that_and_keys_of_several_lines_are_found() {
    let mut redactor = redactor(&[]);
    let text = "{\"fields\":{\"token\":\"abc\",\"message\":\"m\"}}\n-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE \
                KEY-----\nplain\n";
    let clean = redactor.clean_lines("log", text);
    assert_eq!(clean, "{\"fields\":{\"message\":\"m\",\"token\":\"(removed)\"}}\n(removed)\nplain\n");
}

#[test]
fn a_text_that_is_clean_stays_as_it_is() {
    let mut redactor = redactor(&["hunter22"]);
    let once = redactor.clean_lines("f", "redfish://admin:pa55@10.0.0.1/x?y=1 token: abcdef hunter22");
    assert_eq!(redactor.clean_lines("f", &once), once);
}

#[test]
fn the_list_is_bounded() {
    let mut redactor = redactor(&["hunter22"]);
    let text = "hunter22\n".repeat(PLACES_MAX + 10);
    redactor.clean_lines("log", &text);
    assert_eq!(redactor.removals().len(), PLACES_MAX + 1);
    assert_eq!(redactor.removals().values().sum::<u64>(), PLACES_MAX as u64 + 10);
}

/// Forms were removed first: they end at signs that a value may have in it, and left the rest of it.
#[test]
fn a_form_does_not_break_up_a_value() {
    for (value, text, expected) in [
        ("ab,Longsecret99", "bmc password=ab,Longsecret99 refused", "bmc password=(removed) refused"),
        ("ab;Longsecret99", "bmc password=ab;Longsecret99 refused", "bmc password=(removed) refused"),
        ("ab&Longsecret99", "bmc password=ab&Longsecret99 refused", "bmc password=(removed) refused"),
        ("ab'Longsecret99", "bmc password=ab'Longsecret99 refused", "bmc password=(removed) refused"),
        ("ab}Longsecret99", "bmc password=ab}Longsecret99 refused", "bmc password=(removed) refused"),
        ("pa?Secret", "at redfish://root:pa?Secret@h", "at redfish://root:(removed)"),
        ("ab\"cd\\efgh", "Authorization: Basic ab\"cd\\efgh", "Authorization: (removed)"),
        ("pass'word", "source data:,pass'word end", "source data:,(removed) end"),
    ] {
        let mut redactor = redactor(&[value]);
        assert_eq!(redactor.clean_lines("log", text), format!("{expected}\n"), "{text}");
        assert_eq!(redactor.clean_lines("log", expected), format!("{expected}\n"), "a clean text stays");
    }
    let mut url = json!("redfish://root:pa?Secret@h/x");
    redactor(&["pa?Secret"]).clean_value("f", "", &mut url);
    assert_eq!(url, "redfish://(hidden)@h/x");
}

/// In JSON, a name and its value do not stand in one text, so no pattern saw them.
#[test]
fn fields_of_json_are_known_by_their_names_and_by_names_beside_them() {
    for (mut value, expected) in [
        (
            json!({"headers": {"Cookie": "SESSION=abc", "Authorization": "Digest a", "Accept": "b"}}),
            json!({"headers": {"Cookie": REMOVED, "Authorization": REMOVED, "Accept": "b"}}),
        ),
        (json!({"auths": {"q": {"auth": "abc"}}}), json!({"auths": {"q": {"auth": REMOVED}}})),
        (
            json!([{"name": "X-Auth-Token", "value": "abc"}, {"name": "A", "value": "abc"}]),
            json!([{"name": "X-Auth-Token", "value": REMOVED}, {"name": "A", "value": "abc"}]),
        ),
        (json!({"key": "BMC_PASSWORD", "value": 12}), json!({"key": "BMC_PASSWORD", "value": REMOVED})),
        (json!({"password": {"value": "x", "kind": "y"}}), json!({"password": {"value": REMOVED, "kind": "y"}})),
        (json!({"pullSecret": {"name": "x"}}), json!({"pullSecret": {"name": "x"}})),
        (json!(["run", "--password", "abc", "b"]), json!(["run", "--password", REMOVED, "b"])),
        (json!({"note": "{\"tokens\": [\"abc\"], \"a\": 1}"}), json!({"note": "{\"a\":1,\"tokens\":[\"(removed)\"]}"})),
        (
            json!({"note": "[{\"name\": \"X-Auth-Token\", \"value\": \"abc\"}]"}),
            json!({"note": "[{\"name\":\"X-Auth-Token\",\"value\":\"(removed)\"}]"}),
        ),
        (json!({"note": "{\"a\": \"b\"}"}), json!({"note": "{\"a\": \"b\"}"})),
        (json!({"note": "password: |\n  abc\nb: 1"}), json!({"note": "password: (removed)\nb: 1"})),
        (json!({"note": "I2Nsb3VkLWNvbmZpZwp1c2VyczogW10K"}), json!({"note": REMOVED})),
        (json!({"note": "eyJwYXNzd29yZCI6IngifQ=="}), json!({"note": REMOVED})),
        (json!({"note": "MIME-Version: 1.0\nContent-Type: multipart/mixed"}), json!({"note": REMOVED})),
    ] {
        let before = value.to_string();
        redactor(&[]).clean_value("f", "", &mut value);
        assert_eq!(value, expected, "{before}");
    }
    let line = "{\"fields\":{\"name\":\"X-Auth-Token\",\"value\":\"abc\"}}";
    let clean = redactor(&[]).clean_lines("log", line);
    assert_eq!(clean, "{\"fields\":{\"name\":\"X-Auth-Token\",\"value\":\"(removed)\"}}\n");
}

#[test]
fn a_private_key_is_removed_however_it_is_split() {
    const LINE: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
    let mut items = json!(["-----BEGIN PRIVATE KEY-----", LINE, "MHc=", "-----END PRIVATE KEY-----", "MHc= and more"]);
    redactor(&[]).clean_value("f", "", &mut items);
    assert_eq!(items, json!([REMOVED, REMOVED, REMOVED, REMOVED, "MHc= and more"]));

    let lines = ["-----BEGIN PRIVATE KEY-----", LINE, "-----END PRIVATE KEY-----", "ready"]
        .map(|text| json!({"level": "info", "message": text}).to_string());
    let clean = redactor(&[]).clean_lines("log", &lines.join("\n"));
    let expected =
        [REMOVED, REMOVED, REMOVED, "ready"].map(|text| json!({"level": "info", "message": text}).to_string());
    assert_eq!(clean, format!("{}\n", expected.join("\n")));

    let cut = format!("[a] x: -----BEGIN RSA PRIVATE KEY-----\n[b] x: {LINE}\n[c] x: {LINE}\n[d] x: ready");
    let clean = redactor(&[]).clean_lines("log", &cut);
    assert_eq!(clean, "[a] x: (removed)\n[b] x: (removed)\n[c] x: (removed)\n[d] x: ready\n");
    let begun = format!("ready\nit was {LINE}\n{LINE}\n-----END RSA PRIVATE KEY-----\nnext");
    let clean = redactor(&[]).clean_lines("log", &begun);
    assert_eq!(clean, "ready\nit was (removed)\nnext\n");
}

#[test]
fn secrets_of_several_lines_are_removed_from_a_log() {
    let mut redactor = redactor(&["correct\nhorse99"]);
    let clean = redactor.clean_lines("log", "it is correct\nhorse99, and correct stays");
    assert_eq!(clean, "it is (removed), and correct stays\n");
}

/// The rendering of JSON was searched, too: a value such as `"kind": "List"` left out each file of objects.
#[test]
fn the_last_search_looks_at_what_users_wrote() {
    let redactor = redactor(&["\"kind\": \"List\"", "hunter22"]);
    assert!(!redactor.shows_in_value(&json!({"kind": "List", "a": [{"b": 1}]})));
    for value in [json!({"a": ["x hunter22"]}), json!({"hunter22": 1}), json!("hunter22")] {
        assert!(redactor.shows_in_value(&value), "{value}");
    }
}
