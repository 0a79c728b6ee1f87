#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests; one says what it compared")]
use std::{collections::BTreeMap, time::Instant};

use serde_json::json;

use super::schema::{CONFIG, FieldType, IgnitionField};
use super::version::MINOR_MAX;
use super::*;

/// The config's other parts, at a version.
fn found(minor: u8, more: &Value) -> ConfigFindings {
    let mut config = json!({"ignition": {"version": format!("3.{minor}.0")}});
    for (name, value) in more.as_object().unwrap() {
        match (&mut config[name], value) {
            (Value::Object(old), Value::Object(new)) => old.extend(new.clone()),
            (place, value) => *place = value.clone(),
        }
    }
    bytes(config.to_string().as_bytes())
}

/// Each case is refused (`true`) or warned of from one version on and before another, and not at others.
fn assert_cases(cases: &[(Value, bool, std::ops::Range<u8>, &str)]) {
    for (config, is_error, versions, wanted) in cases {
        for minor in 0..=MINOR_MAX {
            let findings = found(minor, config);
            let list = if *is_error { &findings.errors } else { &findings.warnings };
            let is_found = list.iter().any(|text| text.contains(wanted));
            assert_eq!(is_found, versions.contains(&minor), "3.{minor} {config}: {findings:?}, {wanted:?}");
        }
    }
}

/// What Debian 12's Ignition does not know: 3.4 and 3.5, and what newer releases say of older configs.
#[test]
fn rules_of_newer_ignition() {
    let luks = |more: Value| {
        let mut volume = json!({"name": "x", "device": "/dev/x"});
        volume.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"storage": {"luks": [volume]}})
    };
    let tang = |advertisement: &str| json!([{"url": "http://a", "thumbprint": "x", "advertisement": advertisement}]);
    let file = |source: &str| json!({"storage": {"files": [{"path": "/x", "contents": {"source": source}}]}});
    let conflict = |list: &str, path: &str| {
        json!({
            "storage": {list: [{"path": path, "target": "/y"}]},
            "systemd": {"units": [{"name": "x.service", "contents": "[Unit]",
                "dropins": [{"name": "y.conf", "contents": "[Unit]"}, {"name": "empty.conf"}]}]},
        })
    };
    assert_cases(&[
        (luks(json!({"clevis": {"tang": tang("{")}})), true, 4..6, "luks[0].clevis.tang[0].advertisement: is not JSON"),
        (luks(json!({"clevis": {"tang": tang(r#"{"a":[1]}"#)}})), true, 9..9, ""),
        (luks(json!({"openOptions": ["a", "a"]})), true, 4..6, "luks[0].openOptions[1]: is in the config twice"),
        (luks(json!({"openOptions": ["a"]})), false, 2..4, "openOptions: is ignored, spec 3."),
        (luks(json!({"discard": true})), false, 2..4, "discard: is ignored, spec 3."),
        (luks(json!({"discard": "yes"})), true, 4..6, "discard: must be true or false"),
        (luks(json!({"cex": {"enabled": true}})), false, 2..5, "cex: is ignored, spec 3."),
        (
            luks(json!({"cex": {"enabled": true}, "clevis": {"tpm2": true}})),
            true,
            5..6,
            "luks[0].cex: goes without clevis",
        ),
        (luks(json!({"cex": {"enabled": true}, "clevis": {"threshold": 1}})), true, 5..6, "goes without clevis"),
        (luks(json!({"cex": {"enabled": true}, "keyFile": {"source": "data:,x"}})), true, 5..6, "goes without keyFile"),
        (luks(json!({"cex": {"enabled": false}, "clevis": {"tpm2": true}})), true, 9..9, ""),
        (file("arn:aws:s3:::bucket/key"), true, 0..4, "files[0].contents.source: the scheme is none of"),
        (file("arn:aws:s3:::bucket"), true, 4..6, "is not the ARN of an S3 object"),
        (
            conflict("files", "/etc/systemd/system/x.service"),
            true,
            4..6,
            "storage.files[0].path: is that of a systemd unit",
        ),
        (conflict("files", "/etc/systemd/system/x.service"), false, 0..4, "2.15 and newer refuse it"),
        (conflict("directories", "/etc/systemd/system/x.service.d/y.conf"), true, 4..6, "storage.directories[0].path"),
        (conflict("links", "/etc/systemd/system/x.service.d/y.conf"), true, 4..6, "storage.links[0].path"),
        (conflict("files", "/etc/systemd/system/x.service.d/empty.conf"), true, 9..9, ""),
    ]);
}

/// Where Ignition warns, and where only we do because the config would do nothing, or fail late.
#[test]
fn warnings_name_what_does_nothing() {
    let unit = |name: &str, contents: &str| json!({"name": name, "enabled": true, "contents": contents});
    let disk = |more: Value| {
        let mut disk = json!({"device": "/dev/a"});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"storage": {"disks": [disk], "filesystems": [{"device": "/dev/a", "format": "xfs"}]}})
    };
    let hash = |digits: &str| json!({"storage": {"files": [{"path": "/x", "contents": {"source": "data:,", "verification": {"hash": digits}}}]}});
    assert_cases(&[
        (
            json!({"storage": {"files": [{"path": "/x", "mode": 0o4755}]}}),
            false,
            0..6,
            "storage.files[0].mode: has setuid",
        ),
        (json!({"storage": {"directories": [{"path": "/x", "mode": 0o1777}]}}), false, 0..6, "directories[0].mode"),
        (
            json!({"systemd": {"units": [unit("x.service", "[Unit]")]}}),
            false,
            0..6,
            "units[0].contents: has no [Install]",
        ),
        (json!({"systemd": {"units": [unit("x.service", "[Install]\nA=b")]}}), false, 9..9, ""),
        (
            json!({"systemd": {"units": [{"name": "x@.service", "contents": "[Unit]"}, {"name": "x@y.service", "enabled": true}]}}),
            false,
            0..6,
            "units[1].enabled: does nothing",
        ),
        (json!({"systemd": {"units": [{"name": "a/x.service"}]}}), false, 0..6, "no name that systemd looks for"),
        (
            disk(json!({"partitions": [{"number": 1}]})),
            false,
            0..6,
            "filesystems[0].device: is a disk that gets partitions",
        ),
        (disk(json!({"wipeTable": true})), false, 0..6, "filesystems[0].device: is a disk whose table is wiped"),
        (
            json!({"storage": {"links": [{"path": "/x", "target": "/y", "hard": true, "user": {"id": 1}}]}}),
            false,
            0..6,
            "links[0].user: is ignored",
        ),
        (
            json!({"ignition": {"proxy": {"httpsProxy": "http://a"}}}),
            false,
            1..6,
            "ignition.proxy.httpsProxy: is plain HTTP",
        ),
        (
            json!({"storage": {"files": [{"path": "/x", "contents": {"source": "http:a"}}]}}),
            false,
            0..6,
            "names no host",
        ),
        (hash(&format!("sha512-{}", "g".repeat(128))), false, 0..6, "verification.hash: the digest is not hexadecimal"),
        (json!({"passwd": {"users": [{"uid": 4}]}}), false, 0..6, "passwd.users[0].name: is needed"),
        (json!({"kernelArguments": {"shouldExist": ["a"]}}), false, 0..3, "kernelArguments: is ignored, spec 3."),
        (json!({"storag": {"files": 3}}), false, 0..6, "storag: is ignored, spec 3."),
        (
            json!({"storage": {"disks": [{"device": "/a", "partitions": [{"number": -1}]}]}}),
            false,
            0..6,
            "number: is below 0",
        ),
    ]);
}

/// What does its work has no warning, each just beside what is warned of.
#[test]
fn what_works_is_not_warned_of() {
    let file = |more: Value| {
        let mut file = json!({"path": "/x"});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"storage": {"files": [file]}})
    };
    let whole_disk = |wipes_table: bool, wipes_filesystem: bool| {
        json!({"storage": {
            "disks": [{"device": "/dev/a", "wipeTable": wipes_table}],
            "filesystems": [{"device": "/dev/a", "format": "xfs", "wipeFilesystem": wipes_filesystem}],
        }})
    };
    let units = json!({"systemd": {"units": [
        {"name": "x@.service", "enabled": true, "contents": "[Unit]"},
        {"name": "@.service", "contents": "[Unit]"},
        {"name": "@y.service", "enabled": true},
    ]}});
    let zero = json!({"storage": {"disks": [{"device": "/a", "partitions": [{"number": 0, "label": "x"}]}]}});
    let mut cases = vec![
        (json!({"ignition": {"proxy": {"httpProxy": "http://a"}}}), "is plain HTTP"),
        (file(json!({"mode": 0o777})), "mode"),
        (whole_disk(false, false), "is a disk whose table is wiped"),
        (whole_disk(true, true), "is a disk whose table is wiped"),
        (units, "its template has no [Install] section"),
        (zero, "is below 0"),
    ];
    for source in ["https://a/b", "s3://a/b", "data:,x"] {
        cases.push((file(json!({"contents": {"source": source}})), "names no host"));
    }
    let cases: Vec<_> = cases.into_iter().map(|(config, text)| (config, false, 9..9, text)).collect();
    assert_cases(&cases);
}

/// What an error names as allowed is what its version allows.
#[test]
fn errors_say_what_their_version_allows() {
    let contents = |more: Value| json!({"storage": {"files": [{"path": "/x", "contents": more}]}});
    let scheme = contents(json!({"source": "x:y"}));
    let hash = contents(json!({"source": "data:,", "verification": {"hash": "md5-0"}}));
    let format = json!({"storage": {"filesystems": [{"device": "/a", "format": "ext3"}]}});
    let many: Vec<Value> = (1..=disks::PARTITIONS_MAX).map(|number| json!({"number": number})).collect();
    assert_cases(&[
        (scheme.clone(), true, 0..2, "contents.source: the scheme is none of http, https, tftp, s3, data"),
        (scheme.clone(), true, 2..4, "contents.source: the scheme is none of http, https, tftp, s3, gs, data"),
        (scheme, true, 4..6, "contents.source: the scheme is none of http, https, tftp, s3, gs, arn, data"),
        (hash.clone(), true, 0..1, "verification.hash: must be sha512- and 128 hexadecimal digits"),
        (hash, true, 1..6, "verification.hash: must be sha256- and 64 hexadecimal digits, or sha512- and 128"),
        (format.clone(), true, 0..6, "filesystems[0].format: is none of ext4, btrfs, xfs, vfat, swap"),
        (format, true, 3..6, "filesystems[0].format: is none of ext4, btrfs, xfs, vfat, swap, none"),
        (json!({"storage": {"raid": [{"name": "r", "devices": ["/a"]}]}}), true, 0..6, "raid[0].level: is needed"),
        (json!({"storage": {"disks": [{"device": "/a", "partitions": many}]}}), true, 9..9, ""),
        // Nothing has a path that begins with that of the root and a slash.
        (json!({"storage": {"links": [{"path": "/", "target": "x"}], "files": [{"path": "/a"}]}}), true, 9..9, ""),
    ]);
}

#[test]
fn versions_that_are_not_read_say_what_to_do() {
    for (version, wanted) in [
        ("", "is needed"),
        ("3", "is no version"),
        ("3.0", "is no version"),
        ("v3.0.0", "is no version"),
        ("2.2.0", "the stub converter turns it to 3.2.0"),
        ("1.0.0", "none of 3.0.0 to 3.5.0"),
        ("3.3.1", "none of 3.0.0 to 3.5.0"),
        ("4.0.0", "none of 3.0.0 to 3.5.0"),
        ("3.6.0", "newer than 3.5.0"),
        ("3.300.0", "newer than 3.5.0"),
        ("3.6.0-experimental", "experimental"),
        ("3.3.0+x", "experimental"),
        ("3.3.99999999999999999999", "is no version"),
    ] {
        let findings = bytes(json!({"ignition": {"version": version}}).to_string().as_bytes());
        assert!(findings.errors[0].starts_with("ignition.version: "), "{findings:?}");
        assert!(findings.errors[0].contains(wanted), "{version:?}: {findings:?}");
    }
    for version in ["3.0.0", "3.5.0", "03.3.00", "3.3.0-", "3.3.0+", "3.3.0-+"] {
        assert_eq!(bytes(json!({"ignition": {"version": version}}).to_string().as_bytes()), ConfigFindings::default());
    }
}

/// Stricter than Ignition, each for the reason that the module gives.
#[test]
fn what_others_would_read_otherwise_is_refused() {
    let deep = format!(r#"{{"ignition":{{"version":"3.3.0"}},"x":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let partitions: Vec<Value> = (1..=disks::PARTITIONS_MAX + 1).map(|number| json!({"number": number})).collect();
    let partitions =
        json!({"ignition": {"version": "3.3.0"}, "storage": {"disks": [{"device": "/a", "partitions": partitions}]}});
    for (config, wanted) in [
        (r#"{"ignition":{"version":"3.3.0"},"storage":{},"storage":{}}"#, "storage stands twice in one object"),
        (r#"{"ignition":{"version":"3.3.0"},"Storage":{}}"#, "Storage: is spelled storage in the spec"),
        ("{\"ignition\":{\"version\":\"3.3.0\"},\"pa\u{17f}\u{17f}wd\":{}}", "is spelled passwd"),
        (r#"{"ignition":{"version":"3.3.0","config":{"Merge":[]}}}"#, "ignition.config.Merge: is spelled merge"),
        (r#"{"ignition":{"version":"3.3.0"},"x":"\ud800"}"#, "not JSON"),
        (r#"{"ignition":{"version":"3.3.0"},"passwd":{"groups":[{"gid":-0}]}}"#, "gid: must be a whole number"),
        (deep.as_str(), "not JSON: recursion limit"),
        (&partitions.to_string(), "storage.disks[0].partitions: are more than 2048"),
    ] {
        let findings = bytes(config.as_bytes());
        assert!(findings.errors.iter().any(|text| text.contains(wanted)), "{wanted}: {findings:?}");
    }
}

/// A config of the greatest size takes moments, whatever it is made of.
#[test]
fn large_configs_take_moments() {
    let much = |entry: &dyn Fn(usize) -> Value| (0..30_000).map(entry).collect::<Vec<_>>();
    let path = "/x".repeat(200_000);
    for more in [
        json!({"storage": {
            "links": (0..8_000).map(|at| json!({"path": format!("/l{at}"), "target": "x", "hard": true})).collect::<Vec<_>>(),
            "directories": (0..8_000).map(|at| json!({"path": format!("/d{at}")})).collect::<Vec<_>>(),
            "files": much(&|at| json!({"path": format!("/{at}")})),
        }}),
        json!({"storage": {"links": [{"path": path.clone(), "target": "x"}], "files": [{"path": format!("{path}/x/y")}]}}),
        json!({"storage": {"disks": (0..10).map(|disk| json!({"device": format!("/d{disk}"), "partitions":
            (1..2000).map(|at| json!({"number": at, "startMiB": at, "sizeMiB": 1})).collect::<Vec<_>>()})).collect::<Vec<_>>()}}),
        json!({"systemd": {"units": [{"name": "x.service", "contents": "[Unit]\nA=b\\\n".repeat(100_000)}]}}),
        json!({"kernelArguments": {"shouldExist": much(&|at| json!(format!("a{at}")))}}),
    ] {
        let start = Instant::now();
        let findings = found(3, &more);
        assert!(!findings.errors.iter().any(|text| text.contains("bytes, more than")), "{findings:?}");
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}

/// Place of a field, its type, and whether the schema requires it.
type Fields = BTreeMap<String, (String, bool)>;

fn ours(kind: &FieldType, minor: u8, place: &str, fields: &mut Fields) -> String {
    match kind {
        FieldType::Text => "string".to_owned(),
        FieldType::Flag => "boolean".to_owned(),
        FieldType::Whole => "integer".to_owned(),
        FieldType::List(kind) => format!("array of {}", ours(kind, minor, &format!("{place}[]"), fields)),
        FieldType::Object(list) => {
            for field in list.iter().filter(|field: &&IgnitionField| field.is_known(minor)) {
                let place = format!("{place}.{}", field.name);
                let kind = ours(field.kind, minor, &place, fields);
                fields.insert(place, (kind, field.is_required(minor)));
            }
            "object".to_owned()
        }
    }
}

fn upstreams(root: &Value, schema: &Value, place: &str, fields: &mut Fields) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return upstreams(root, root.pointer(&reference[1..]).unwrap(), place, fields);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        assert_eq!(upstreams(root, part, place, fields), "object");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).filter(|kind| *kind != "null").collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec!["object"],
    };
    assert_eq!(kinds.len(), 1, "{place}: {schema}");
    if kinds[0] == "array" {
        return format!("array of {}", upstreams(root, &schema["items"], &format!("{place}[]"), fields));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        let kind = upstreams(root, field, &place, fields);
        let required = schema["required"].as_array().into_iter().flatten().any(|required| required == name.as_str());
        fields.insert(place, (kind, required));
    }
    kinds[0].to_owned()
}

#[test]
fn every_field_of_every_schema_is_known_in_its_versions_and_no_other() {
    let Some(folder) = firesteel_fixtures::path("ignition/schema") else { return };
    let mut counts = Vec::new();
    for minor in 0..=MINOR_MAX {
        let schema: Value =
            serde_json::from_slice(&std::fs::read(folder.join(format!("v3_{minor}.json"))).unwrap()).unwrap();
        let (mut known, mut wanted) = (Fields::new(), Fields::new());
        ours(&CONFIG, minor, "", &mut known);
        upstreams(&schema, &schema, "", &mut wanted);
        assert_eq!(known, wanted, "3.{minor}");
        counts.push(known.len());
    }
    println!("fields by version: {counts:?}");
    assert!(counts.is_sorted() && counts[0] > 100, "{counts:?}");
}
