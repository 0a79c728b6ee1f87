#![allow(clippy::unwrap_used, reason = "tests")]
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::*;

const WORD: &str = "q7Kx9vZr2LmTw4planted";

fn values(objects: &[Value]) -> Vec<String> {
    let mut known = KnownSecrets::new().unwrap();
    objects.iter().for_each(|object| known.add_object(object));
    known.values().unwrap().iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

fn secret(value: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": STANDARD.encode(value)}})
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_secret_is_known_as_a_whole_by_its_lines_and_by_what_is_in_it() {
    assert_eq!(values(&[secret(b"hunter22\n")]), ["hunter22"]);
    assert_eq!(values(&[secret(b"short")]), Vec::<String>::new());
    let cloud = format!("#cloud-config\npassword: hunter22\nkey: {WORD}\n");
    let known = values(&[secret(cloud.as_bytes())]);
    for part in ["hunter22", WORD, "password: hunter22", "#cloud-config"] {
        assert!(known.iter().any(|value| value == part), "{part}: {known:?}");
    }
    let packed = values(&[secret(&gzip(&cloud))]);
    assert!(packed.iter().any(|value| value == "hunter22"), "{packed:?}");
    let plain = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "hunter22"}});
    assert_eq!(values(&[plain]), ["hunter22"]);
}

#[test]
fn documents_in_documents_are_read() {
    let packed = STANDARD.encode(gzip(WORD));
    for source in [
        format!("data:,{WORD}"),
        format!("data:,%71{}", &WORD[1..]),
        format!("data:text/plain;base64,{}", STANDARD.encode(WORD)),
        format!("data:;base64,{packed}"),
    ] {
        let config =
            json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"contents": {"source": source}}]}});
        let machine_config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {"config": config},
        });
        for object in [machine_config, secret(config.to_string().as_bytes())] {
            let known = values(&[object]);
            assert!(known.iter().any(|value| value == WORD), "{source}: {known:?}");
        }
    }
    let header = json!({"httpHeaders": [{"name": "Authorization", "value": "Bearer abcdefghijk"}]});
    let known = values(&[secret(header.to_string().as_bytes())]);
    assert!(known.iter().any(|value| value == "Bearer abcdefghijk"), "{known:?}");
}

#[test]
fn urls_carry_passwords_and_queries() {
    let host = json!({"spec": {"image": {"url": "https://u:p%40ssword@h/i?sig=AbC1234567&format=raw"}}});
    let known = values(&[host]);
    for part in ["p%40ssword", "p@ssword", "AbC1234567"] {
        assert!(known.iter().any(|value| value == part), "{part}: {known:?}");
    }
    assert!(!known.iter().any(|value| value == "raw"), "{known:?}");
}

#[test]
fn a_name_that_everyone_may_see_is_no_secret() {
    let host = json!({"kind": "BareMetalHost", "metadata": {"name": "rack1-07", "namespace": "default"}});
    assert_eq!(values(&[secret(b"default"), secret(b"rack1-07"), host]), Vec::<String>::new());
}

#[test]
fn long_values_are_looked_for_piece_by_piece() {
    let known = values(&[secret("x".repeat(PIECE_BYTES * 2 + 3).as_bytes())]);
    assert_eq!(known.iter().map(String::len).collect::<Vec<_>>(), [PIECE_BYTES, PIECE_BYTES + 3]);
}

fn assert_known(value: &str, expected: &[&str]) {
    let known = values(&[secret(value.as_bytes())]);
    for part in expected {
        assert!(known.iter().any(|value| value == part), "{part} of {value}: {known:?}");
    }
}

/// What stands behind a name was found in texts of several lines alone, and in no list of YAML.
#[test]
fn values_are_found_in_documents_of_each_kind() {
    for (value, expected) in [
        ("correct\nhorse99", &["correct\nhorse99", "horse99"][..]),
        ("password=hunter22", &["hunter22"]),
        ("token: abcdef12", &["abcdef12"]),
        ("users:\n- {name: core, plain_text_passwd: hunter22}\n", &["hunter22"]),
        ("{\n  // a comment\n  \"password\": \"hunter22\",\n}", &["hunter22"]),
        ("{\n  // a comment\n  \"password\": \"hun\\\"er22\",\n}", &["hun\"er22"]),
        ("password = ab,cdefgh\nb = 1", &["ab,cdefgh"]),
        ("{\"password\": 12345678}", &["12345678"]),
        ("{\"auths\":{\"q\":{\"auth\":\"cm9ib3Q6aHVudGVyMjI=\"}}}", &["robot:hunter22", "hunter22"]),
        ("[{\"name\":\"Authorization\",\"value\":\"Basic cm9ib3Q6aHVudGVyMjI=\"}]", &["hunter22"]),
        ("PW_B64=aHVudGVyMjI=\nb=1", &["hunter22"]),
        ("{\"source\":\"https://u:hunter22@h/x?sig=abc123456\"}", &["hunter22", "abc123456"]),
        ("merge https://s3cr3tTok3n@mirror/x now", &["s3cr3tTok3n"]),
        ("list: |\n  core:hunter22\n", &["hunter22"]),
    ] {
        assert_known(value, expected);
    }
    let ignition = json!({"ignition": {"config": {"merge": [{"source": "https://u:hunter22@h/x"}]}}}).to_string();
    assert_known(&STANDARD.encode(ignition), &["hunter22"]);
}

/// A line such as `"apiVersion": "v1",` became a value, and then each file of objects showed it.
#[test]
fn what_stands_in_every_file_is_no_value() {
    let object = json!({"apiVersion": "v1", "kind": "List", "metadata": {"name": "x"}, "items": []});
    let document = format!("{}\n", serde_json::to_string_pretty(&object).unwrap());
    let with_comment = format!("// a comment\n{document}");
    for text in [document.as_str(), &with_comment] {
        let known = values(&[secret(text.as_bytes())]);
        assert!(!known.iter().any(|value| value == "\"apiVersion\": \"v1\","), "{known:?}");
    }
    for mark in ["removed", "(removed)", "Hidden", "(hidden)"] {
        assert_eq!(values(&[secret(mark.as_bytes())]), Vec::<String>::new(), "{mark}");
    }
    let host = json!({"kind": "BareMetalHost", "metadata": {"name": "Rack1-07"}});
    assert_eq!(values(&[secret(b"baremetalhost"), secret(b"rack1-07"), host]), Vec::<String>::new());
    for harmless in ["52:54:00:12:34:56", "fe:54:00:12:34:56", "sha256:9f86d081"] {
        assert_eq!(values(&[secret(harmless.as_bytes())]), [harmless]);
    }
}

#[test]
fn values_are_collected_up_to_a_bound() {
    let mut many = KnownSecrets::new().unwrap();
    (0..VALUES_MAX + 10).for_each(|number| many.add_login(&format!("value-{number}")));
    assert_eq!(many.values.len(), VALUES_MAX + 1);
    assert!(many.values().unwrap_err().is::<TooManyValues>());
}
