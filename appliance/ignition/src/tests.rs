#![allow(clippy::unwrap_used, reason = "tests")]
use proptest::prelude::*;

use super::*;

const ORIGIN: &str = "https://192.0.2.1:8443/config/";

fn errors(value: &Value) -> Vec<String> {
    validate(value.to_string().as_bytes()).errors
}

#[test]
fn findings_are_few_short_and_plain_whatever_the_names_are() {
    let mut storage: serde_json::Map<String, Value> =
        (0..1000).map(|number| (format!("\u{1b}[2J{number}{}", "x".repeat(1000)), json!(1))).collect();
    let files: Vec<Value> = (0..1000).map(|number| json!({"path": format!("\n{number}")})).collect();
    storage.insert("files".to_owned(), json!(files));
    let config = json!({"ignition": {"version": "3.3.0"}, "storage": storage});
    let findings = validate(config.to_string().as_bytes());
    for list in [&findings.errors, &findings.warnings] {
        assert_eq!((list.len(), list[FINDINGS_MAX].as_str()), (FINDINGS_MAX + 1, "there are more"));
    }
    let old = validate(br#"{"ignition":{"version":"2.0.0\n"}}"#);
    for text in findings.errors.iter().chain(&findings.warnings).chain(&old.errors) {
        assert!(text.chars().count() <= FINDING_CHARS_MAX, "{} characters", text.chars().count());
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn each_fault_is_named_with_its_place() {
    let base = |more: Value| {
        let mut config = json!({"ignition": {"version": "3.3.0"}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let cases = [
        (json!({}), "ignition.version: is needed"),
        (json!({"ignition": {"version": "2.2.0"}}), "the stub converter turns it to 3.2.0"),
        (json!({"ignition": {"version": "3.9.0"}}), "newer than 3.5.0"),
        (json!({"ignition": {"version": "4.0.0"}}), "none of"),
        (base(json!({"storage": {"files": [{"mode": 420}]}})), "storage.files[0].path: is needed"),
        (base(json!({"storage": {"files": [{"path": "etc/x"}]}})), "not an absolute path"),
        (base(json!({"storage": {"files": [{"path": "/x", "mode": 4096}]}})), "storage.files[0].mode"),
        (base(json!({"storage": {"files": [{"path": "/x"}, {"path": "/x"}]}})), "twice"),
        (
            base(json!({"storage": {"files": [{"path": "/x", "contents": {"source": "ftp://a/b"}}]}})),
            "the scheme is none of",
        ),
        (base(json!({"storage": {"files": [{"path": "/x", "contents": {"source": "data:;base64,!"}}]}})), "data URL"),
        (
            base(json!({"storage": {"files": [{"path": "/x", "contents": {"verification": {"hash": "md5-1"}}}]}})),
            "sha256-",
        ),
        (base(json!({"systemd": {"units": [{"name": "x"}]}})), "no unit name"),
        (base(json!({"systemd": {"units": {}}})), "systemd.units: must be a list"),
        (base(json!({"passwd": {"users": [{"uid": "4"}]}})), "passwd.users[0].uid: must be a whole number"),
    ];
    for (config, wanted) in cases {
        let found = errors(&config);
        assert!(found.iter().any(|error| error.contains(wanted)), "{config}: {found:?} lacks {wanted:?}");
    }
    assert!(validate(b"{").errors[0].contains("not JSON"));
    assert!(validate(&vec![b' '; CONFIG_BYTES_MAX + 1]).errors[0].contains("bytes, more than"));
    assert!(!validate(&vec![b' '; CONFIG_BYTES_MAX]).errors[0].contains("bytes, more than"));
    let unknown = validate(base(json!({"storag": {}})).to_string().as_bytes());
    assert!(unknown.errors.is_empty() && unknown.warnings[0].contains("storag"), "{unknown:?}");
}

#[test]
fn a_stub_gets_its_token_where_it_points_to_us_and_nowhere_else() {
    let stub = json!({"ignition": {"version": "3.3.0", "config": {"merge": [
        {"source": "https://elsewhere.example/config/x"},
        {"source": format!("{ORIGIN}web"), "httpHeaders": [{"name": "authorization", "value": "old"}]},
    ]}}});
    let copy: Value =
        serde_json::from_slice(&with_config_token(stub.to_string().as_bytes(), &[ORIGIN], "T").unwrap()).unwrap();
    let merge = copy.pointer("/ignition/config/merge").unwrap();
    assert_eq!(merge[0], json!({"source": "https://elsewhere.example/config/x"}), "a token never goes elsewhere");
    assert_eq!(merge[1]["httpHeaders"], json!([{"name": "Authorization", "value": "Bearer T"}]));
    assert_eq!(fetched_from(stub.to_string().as_bytes(), &[ORIGIN]), ["web"]);
    let nulls = json!({"ignition": {"version": "3.3.0", "config": {"replace":
        {"source": format!("{ORIGIN}web"), "httpHeaders": null}}}});
    let copy = with_config_token(nulls.to_string().as_bytes(), &[ORIGIN], "T").unwrap();
    assert!(String::from_utf8(copy).unwrap().contains("Bearer T"), "null headers are no headers");
    let twice = format!(
        r#"{{"ignition":{{"version":"3.3.0"}},"ignition":{{"version":"3.3.0","config":{{"merge":[{{"source":"{ORIGIN}x"}}]}}}}}}"#
    );
    assert!(with_config_token(twice.as_bytes(), &[ORIGIN], "T").is_err(), "a copy would lose one of the two");
}

#[test]
fn a_config_that_fetches_nothing_from_us_stays_as_it_is_byte_for_byte() {
    let text = b"{ \"ignition\" : {\"version\":\"3.0.0\", \"config\":{\"replace\":{\"source\":\"https://192.0.2.1:8444/config/x\"}}} }\n";
    assert_eq!(with_config_token(text, &[ORIGIN], "T").unwrap(), text);
    assert_eq!(fetched_from(text, &[ORIGIN]), [""; 0]);
}

/// 3.0 would drop a header silently.
#[test]
fn a_config_that_knows_no_headers_has_its_token_in_the_url() {
    for (version, list) in [("3.0.0", "merge"), ("2.2.0", "append")] {
        for (path, expected) in
            [("x", "x?token=T"), ("x/?a=b&token=old&c#f", "x/?a=b&c&token=T#f"), ("x?tokens=1", "x?tokens=1&token=T")]
        {
            let stub = json!({"ignition": {"version": version, "config":
                {list: [{"source": format!("{ORIGIN}{path}")}, {"source": "https://elsewhere.example/config/x"}]}}});
            let copy = with_config_token(stub.to_string().as_bytes(), &[ORIGIN], "T").unwrap();
            let copy: Value = serde_json::from_slice(&copy).unwrap();
            let sources = &copy["ignition"]["config"][list];
            assert_eq!(sources[0], json!({"source": format!("{ORIGIN}{expected}")}), "{version}");
            assert_eq!(sources[1]["source"], "https://elsewhere.example/config/x", "a token never goes elsewhere");
        }
    }
}

#[test]
fn a_config_is_named_as_its_server_reads_the_path() {
    let sources: Vec<Value> = ["worker", "worker/", "a/worker", "worker?x=y", "infra#top", "", "/", "?token=x"]
        .iter()
        .map(|path| json!({"source": format!("{ORIGIN}{path}")}))
        .collect();
    let stub = json!({"ignition": {"version": "3.3.0", "config": {"merge": sources}}});
    assert_eq!(fetched_from(stub.to_string().as_bytes(), &[ORIGIN]), ["worker", "infra"]);
}

/// Ignition fetches from it all the same: without a token it would be refused, for good.
#[test]
fn a_server_is_known_in_whatever_letters_and_a_path_is_not() {
    let of = |source: &str| {
        let config = json!({"ignition": {"version": "3.3.0", "config": {"merge": [{"source": source}]}}});
        fetched_from(config.to_string().as_bytes(), &["https://api-int.example:22623/config/"])
    };
    assert_eq!(of("HTTPS://API-Int.Example:22623/config/worker"), ["worker"]);
    for other in ["https://api-int.example:22623/Config/worker", "https://api-int.example", "https://é"] {
        assert_eq!(of(other), [""; 0], "{other}");
    }
}

#[test]
fn files_are_added_and_never_replace_the_owners() {
    let file = NewFile { path: "/etc/a".into(), mode: 0o600, contents: b"secret".to_vec() };
    let plain = br#"{"ignition":{"version":"3.3.0"}}"#;
    let served = with_files(plain, std::slice::from_ref(&file)).unwrap();
    assert!(validate(&served).errors.is_empty(), "{:?}", validate(&served));
    let value: Value = serde_json::from_slice(&served).unwrap();
    assert_eq!(value["storage"]["files"][0]["mode"], 0o600);
    assert!(matches!(with_files(&served, std::slice::from_ref(&file)), Err(IgnitionError::Taken { .. })));
    assert_eq!(format!("{file:?}"), r#"NewFile { path: "/etc/a", mode: 384, .. }"#, "contents do not show");
    let nulls = br#"{"ignition":{"version":"3.3.0"},"storage":null}"#;
    assert!(with_files(nulls, std::slice::from_ref(&file)).is_ok(), "null is as if it was not there");
    let link = json!({"ignition": {"version": "3.3.0"}, "storage": {"links": [{"path": "/etc", "target": "/x"}]}});
    let refused = with_files(link.to_string().as_bytes(), std::slice::from_ref(&file));
    assert!(matches!(refused, Err(IgnitionError::Invalid(_))), "a file below a link would go elsewhere: {refused:?}");
    let taken = json!({"ignition": {"version": "3.3.0"}, "storage": {"directories": [{"path": "/etc/a"}]}});
    let refused = with_files(taken.to_string().as_bytes(), &[file]);
    assert!(matches!(refused, Err(IgnitionError::Taken { .. })), "{refused:?}");
}

#[test]
fn upstreams_stubs_get_upstreams_verdict() {
    let Some(folder) = firesteel_fixtures::path("ignition/stubs") else { return };
    let mut seen = 0;
    for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".json") && !name.ends_with(".txt") || name.starts_with("secret.") {
            continue;
        }
        let findings = validate(&std::fs::read(&path).unwrap());
        assert_eq!(findings.errors.is_empty(), name.starts_with("v3"), "{name}: {findings:?}");
        seen += 1;
    }
    assert!(seen >= 10, "{seen} stubs");
}

/// Does with the bytes what the crate does with a config.
fn check(bytes: &[u8]) {
    if validate(bytes).errors.is_empty() {
        drop(with_config_token(bytes, &[ORIGIN], "token"));
        drop(with_files(bytes, &[NewFile { path: "/etc/x".into(), mode: 0o600, contents: vec![1] }]));
    }
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), text in "\\PC*") {
        check(&bytes);
        check(text.as_bytes());
        check(format!("{{\"ignition\":{{\"version\":\"3.3.0\"}},\"storage\":{{\"files\":[{{\"path\":{text:?}}}]}}}}").as_bytes());
        let _: bool = data_url_is_valid(&format!("data:{text}"));
    }
}
