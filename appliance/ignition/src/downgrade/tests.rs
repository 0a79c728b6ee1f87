#![allow(clippy::unwrap_used, reason = "tests")]
use proptest::prelude::*;
use serde_json::{Value, json};

use super::convert;
use crate::SpecVersion;
use crate::fixtures::assert_valid;
use crate::stub::spec2::{self, DuplicatePolicy, Sectors, Spec2Options};

fn new(more: Value) -> Value {
    let mut config = json!({"ignition": {"version": "3.5.0"}});
    for (name, value) in more.as_object().unwrap() {
        match (config.get_mut(name), value) {
            (Some(Value::Object(section)), Value::Object(value)) => section.extend(value.clone()),
            _ => drop(config.as_object_mut().unwrap().insert(name.clone(), value.clone())),
        }
    }
    config
}

/// For each field that a version brought: a config that has it is served from that version on, and the answer to an
/// older client names the field.
#[test]
fn what_an_older_client_cannot_read_is_named() {
    use SpecVersion::{V3_1, V3_2, V3_3, V3_4, V3_5};
    let remote = |name: &str, value: Value| json!({"source": "https://a.example/x", name: value});
    let headers = json!([{"name": "A", "value": "b"}]);
    let contents = |resource: Value| json!({"storage": {"files": [{"path": "/a", "contents": resource}]}});
    let luks = |name: &str, value: Value| json!({"storage": {"luks": [{"name": "l", "device": "/dev/a", "keyFile": {"source": "data:,k"}, name: value}]}});
    let tang = json!({"tang": [{"url": "https://t.example", "thumbprint": "x", "advertisement": "{}"}]});
    let authority =
        |resource: Value| json!({"ignition": {"security": {"tls": {"certificateAuthorities": [resource]}}}});
    let cases = [
        (json!({"ignition": {"proxy": {"noProxy": ["*"]}}}), V3_1, "ignition.proxy"),
        (
            json!({"ignition": {"config": {"merge": [remote("httpHeaders", headers.clone())]}}}),
            V3_1,
            "ignition.config.merge[0].httpHeaders",
        ),
        (
            json!({"ignition": {"config": {"replace": remote("compression", json!("gzip"))}}}),
            V3_1,
            "ignition.config.replace.compression",
        ),
        (
            authority(remote("compression", json!("gzip"))),
            V3_1,
            "ignition.security.tls.certificateAuthorities[0].compression",
        ),
        (contents(remote("httpHeaders", headers)), V3_1, "storage.files[0].contents.httpHeaders"),
        (
            contents(remote("verification", json!({"hash": format!("sha256-{}", "0".repeat(64))}))),
            V3_1,
            "storage.files[0].contents.verification.hash",
        ),
        (contents(json!({"source": "gs://bucket/x"})), V3_2, "storage.files[0].contents.source"),
        (
            contents(json!({"source": "arn:aws:s3:us-west-1:123456789012:accesspoint/test/object/some/path"})),
            V3_4,
            "storage.files[0].contents.source",
        ),
        (
            json!({"storage": {"filesystems": [{"device": "/dev/a", "format": "xfs", "path": "/a", "mountOptions": ["ro"]}]}}),
            V3_1,
            "storage.filesystems[0].mountOptions",
        ),
        (
            json!({"storage": {"filesystems": [{"device": "/dev/a", "format": "none", "wipeFilesystem": true}]}}),
            V3_3,
            "storage.filesystems[0].format",
        ),
        (
            json!({"storage": {"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "resize": true}]}]}}),
            V3_2,
            "storage.disks[0].partitions[0].resize",
        ),
        (json!({"passwd": {"users": [{"name": "a", "shouldExist": false}]}}), V3_2, "passwd.users[0].shouldExist"),
        (json!({"passwd": {"groups": [{"name": "a", "shouldExist": false}]}}), V3_2, "passwd.groups[0].shouldExist"),
        (luks("wipeVolume", json!(true)), V3_2, "storage.luks"),
        (json!({"kernelArguments": {"shouldNotExist": ["a"]}}), V3_3, "kernelArguments"),
        (luks("discard", json!(true)), V3_4, "storage.luks[0].discard"),
        (luks("openOptions", json!(["--x"])), V3_4, "storage.luks[0].openOptions"),
        (luks("clevis", tang), V3_4, "storage.luks[0].clevis.tang[0].advertisement"),
        (json!({"storage": {"files": [{"path": "/a", "mode": 0o4755}]}}), V3_4, "storage.files[0].mode"),
        (
            json!({"storage": {"luks": [{"name": "l", "device": "/dev/a", "cex": {"enabled": true}}]}}),
            V3_5,
            "storage.luks[0].cex",
        ),
    ];
    for (more, since, field) in cases {
        let config = new(more);
        for version in SpecVersion::ALL {
            match convert(config.clone(), version) {
                Ok(served) => {
                    assert!(version >= since, "{field} as {version}: {served}");
                    assert_eq!(served["ignition"]["version"], version.text());
                }
                // `storage.luks` as a whole goes before what is in it.
                Err(error) => {
                    assert!(version < since && field.starts_with(&error.field), "{field} as {version}: {error}")
                }
            }
        }
    }
}

#[test]
fn what_says_nothing_goes_without_an_error() {
    let config = new(json!({
        "ignition": {"proxy": {}, "config": {"replace": {"source": null}, "merge": []}},
        "kernelArguments": {"shouldExist": [], "shouldNotExist": null},
        "storage": {
            "luks": [],
            "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "resize": false, "label": null}]}],
            "filesystems": [{"device": "/dev/b", "format": "xfs", "mountOptions": []}],
        },
        "passwd": {"users": [{"name": "a", "shouldExist": true}]},
    }));
    let served = convert(config, SpecVersion::V3_0).unwrap();
    assert_eq!(
        served,
        json!({
            "ignition": {"version": "3.0.0"},
            "storage": {
                "disks": [{"device": "/dev/a", "partitions": [{"number": 1}]}],
                "filesystems": [{"device": "/dev/b", "format": "xfs"}],
            },
            "passwd": {"users": [{"name": "a"}]},
        })
    );
}

/// S1.20: upstream cannot serve 3.0 at all.
#[test]
fn a_3_0_client_is_served_where_nothing_needs_more() {
    let plain = new(json!({"storage": {"files": [{"path": "/a", "mode": 420, "contents": {"source": "data:,a"}}]}}));
    assert_eq!(convert(plain, SpecVersion::V3_0).unwrap()["ignition"]["version"], "3.0.0");
    let merge =
        new(json!({"ignition": {"config": {"merge": [{"source": "https://a.example/x", "compression": "gzip"}]}}}));
    let told = convert(merge, SpecVersion::V3_0).unwrap_err().to_string();
    assert_eq!(told, "ignition.config.merge[0].compression: needs a client that reads 3.1.0");
}

#[test]
fn what_older_versions_demand_is_there() {
    let custom = json!({"name": "l", "device": "/dev/a", "clevis": {"custom": {"pin": "tpm2"}}});
    let config = new(json!({"storage": {"luks": [custom]}}));
    let raid = new(json!({"storage": {"raid": [{"name": "r", "devices": ["/dev/a"]}]}}));
    let link = new(json!({"storage": {"links": [{"path": "/l"}]}}));
    for (config, field) in [
        (config, "storage.luks[0].clevis.custom.config"),
        (raid.clone(), "storage.raid[0].level"),
        (link, "storage.links[0].target"),
    ] {
        assert_eq!(convert(config.clone(), SpecVersion::V3_2).unwrap_err().field, field);
        assert!(convert(config, SpecVersion::V3_3).is_ok(), "{field}");
    }
    assert_eq!(convert(raid, SpecVersion::V2_2).unwrap_err().field, "storage.raid[0].level");
    // Before 3.1 a resource had to have a source.
    let merge = new(json!({"ignition": {"config": {"merge": [{"verification": {}}]}}}));
    assert!(convert(merge.clone(), SpecVersion::V3_1).is_ok());
    assert_eq!(convert(merge, SpecVersion::V3_0).unwrap_err().field, "ignition.config.merge[0].source");
}

#[test]
fn an_old_config_is_served_to_a_new_client_meaning_the_same() {
    let old = json!({
        "ignition": {"version": "3.1.0"},
        "storage": {"files": [{"path": "/a", "mode": 0o4755}]},
        "kernelArguments": {"shouldExist": ["ignored"]},
    });
    // A client of the config's own version or of an older one gets an error, and not less than the owner wrote.
    for version in [SpecVersion::V3_1, SpecVersion::V3_0] {
        assert_eq!(convert(old.clone(), version).unwrap_err().field, "kernelArguments");
    }
    let served = convert(old, SpecVersion::V3_4).unwrap();
    assert_eq!(
        served,
        json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/a", "mode": 0o755}]}})
    );
    for version in ["2.2.0", "3.6.0", "4.0.0", ""] {
        let config = json!({"ignition": {"version": version}});
        assert_eq!(convert(config, SpecVersion::V3_3).unwrap_err().field, "ignition.version");
    }
}

#[test]
fn a_spec_2_client_gets_the_same_in_its_words() {
    let config = new(json!({
        "ignition": {
            "config": {"merge": [{"source": "https://a.example/x"}]},
            "timeouts": {"httpTotal": 5},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,x"}]}},
        },
        "storage": {
            "disks": [{"device": "/dev/sda", "wipeTable": true, "partitions": [{"number": 1, "label": "v", "sizeMiB": 0}]}],
            "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/sdb"]}],
            "filesystems": [
                {"device": "/dev/v", "format": "xfs", "path": "/var", "label": "v"},
                {"device": "/dev/s", "format": "swap"},
            ],
            "files": [
                {"path": "/etc/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,a"}, "append": [{"source": "data:,b"}]},
                {"path": "/var/b", "user": {"id": 0}},
                {"path": "/variable", "contents": {"source": "data:,c"}},
            ],
            "directories": [{"path": "/var/d", "mode": 493}],
            "links": [{"path": "/var/l", "target": "/var/b", "hard": true}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": true, "dropins": [{"name": "1.conf", "contents": "x"}]}]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}]},
    }));
    let served = convert(config.clone(), SpecVersion::V2_2).unwrap();
    assert_eq!(
        served["ignition"],
        json!({
            "version": "2.2.0",
            "config": {"append": [{"source": "https://a.example/x"}]},
            "timeouts": {"httpTotal": 5},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,x"}]}},
        })
    );
    let storage = &served["storage"];
    assert_eq!(storage["disks"][0]["partitions"], json!([{"number": 1, "label": "v"}]));
    assert_eq!(
        storage["filesystems"],
        json!([
            {"name": "/var", "mount": {"device": "/dev/v", "format": "xfs", "label": "v"}},
            {"name": "unmounted-1", "mount": {"device": "/dev/s", "format": "swap"}},
        ])
    );
    assert_eq!(
        storage["files"],
        json!([
            {"filesystem": "root", "path": "/etc/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,a"}},
            {"filesystem": "root", "path": "/etc/a", "mode": 420, "overwrite": false, "append": true, "contents": {"source": "data:,b"}},
            {"filesystem": "/var", "path": "/b", "user": {"id": 0}, "overwrite": false, "append": true, "contents": {"source": ""}},
            {"filesystem": "root", "path": "/variable", "overwrite": false, "contents": {"source": "data:,c"}},
        ])
    );
    assert_eq!(storage["directories"], json!([{"filesystem": "/var", "path": "/d", "mode": 493}]));
    assert_eq!(storage["links"], json!([{"filesystem": "/var", "path": "/l", "target": "/b", "hard": true}]));
    assert_eq!((&served["systemd"], &served["passwd"]), (&config["systemd"], &config["passwd"]));
}

#[test]
fn what_spec_2_cannot_say_is_named() {
    let partition =
        |partition: Value| new(json!({"storage": {"disks": [{"device": "/dev/a", "partitions": [partition]}]}}));
    let cases = [
        (partition(json!({"number": 1, "sizeMiB": 5})), "storage.disks[0].partitions[0].sizeMiB"),
        (partition(json!({"number": 1, "startMiB": 5})), "storage.disks[0].partitions[0].startMiB"),
        (
            partition(json!({"number": 1, "wipePartitionEntry": true})),
            "storage.disks[0].partitions[0].wipePartitionEntry",
        ),
        (partition(json!({"number": 1, "shouldExist": false})), "storage.disks[0].partitions[0].shouldExist"),
        (
            new(json!({"storage": {"filesystems": [{"device": "/dev/a", "path": "/a"}]}})),
            "storage.filesystems[0].format",
        ),
        (
            new(json!({"storage": {
                "filesystems": [{"device": "/dev/a", "format": "xfs", "path": "/a"}],
                "links": [{"path": "/l", "target": "/a/b", "hard": true}],
            }})),
            "storage.links[0].target",
        ),
    ];
    for (config, field) in cases {
        assert_eq!(convert(config, SpecVersion::V2_2).unwrap_err().field, field);
    }
    // Ignored in spec 3, and not to come to life in spec 2.
    let unit = new(json!({"systemd": {"units": [{"name": "a.service", "enable": true}]}}));
    let served = convert(unit, SpecVersion::V2_2).unwrap();
    assert_eq!(served["systemd"]["units"], json!([{"name": "a.service"}]));
}

#[test]
fn what_an_older_client_reads_too_stays_as_it_is() {
    let merge = json!([{"source": "https://a.example/1", "verification": {"hash": format!("sha512-{:0128}", 0)}}]);
    let replace = json!({"source": "https://a.example/2"});
    for (config, wanted) in [
        (json!({"merge": merge, "replace": replace}), json!({"merge": merge, "replace": replace})),
        // Without a source nothing replaces the config.
        (json!({"merge": merge, "replace": {"compression": ""}}), json!({"merge": merge})),
    ] {
        // Only the mode of a file or directory has bits that are new.
        let config = new(json!({"ignition": {"config": config}, "x": {"mode": 0o4755}}));
        assert_eq!(
            convert(config, SpecVersion::V3_0).unwrap(),
            json!({"ignition": {"version": "3.0.0", "config": wanted}, "x": {"mode": 0o4755}})
        );
    }
}

#[test]
fn a_link_that_spec_2_reads_the_same_keeps_its_target() {
    let config = new(json!({"storage": {
        "filesystems": [
            {"device": "/dev/r", "format": "xfs", "path": "/"},
            {"device": "/dev/v", "format": "xfs", "path": "/var"},
        ],
        "links": [
            {"path": "/var/soft", "target": "/etc/x"},
            {"path": "/var/hard", "target": "beside", "hard": true},
        ],
    }}));
    assert_eq!(
        convert(config, SpecVersion::V2_2).unwrap()["storage"],
        json!({
            "filesystems": [
                {"name": "root", "mount": {"device": "/dev/r", "format": "xfs"}},
                {"name": "/var", "mount": {"device": "/dev/v", "format": "xfs"}},
            ],
            "links": [
                {"filesystem": "/var", "path": "/soft", "target": "/etc/x"},
                {"filesystem": "/var", "path": "/hard", "target": "beside", "hard": true},
            ],
        })
    );
}

fn arb_new() -> impl Strategy<Value = Value> {
    let resource = prop_oneof![
        Just(json!({"source": "data:,a"})),
        Just(json!({"source": "data:,b", "compression": "gzip"})),
        Just(json!({"source": "https://a.example/x", "httpHeaders": [{"name": "A", "value": "b"}]})),
    ];
    let file = (
        "[a-d]",
        prop::option::of(resource.clone()),
        prop::collection::vec(resource, 0..2),
        prop::option::of(0_u32..0o7777),
    );
    let file = file.prop_map(|(name, contents, append, mode)| {
        json!({"path": format!("/etc/{name}"), "contents": contents, "append": append, "mode": mode})
    });
    let files = prop::collection::btree_map("[a-d]", file, 0..4).prop_map(|map| {
        let named = |(name, mut file): (String, Value)| {
            file["path"] = json!(format!("/{name}"));
            file
        };
        map.into_iter().map(named).collect::<Vec<_>>()
    });
    let unit = prop::option::of(any::<bool>()).prop_map(|enabled| json!([{"name": "a.service", "enabled": enabled}]));
    let arguments = prop::collection::vec("[a-c]", 0..2);
    (files, unit, arguments, any::<bool>()).prop_map(|(files, units, arguments, luks)| {
        let luks =
            if luks { json!([{"name": "l", "device": "/dev/a", "keyFile": {"source": "data:,k"}}]) } else { json!([]) };
        new(json!({
            "storage": {"files": files, "luks": luks},
            "systemd": {"units": units},
            "kernelArguments": {"shouldExist": arguments},
        }))
    })
}

proptest! {
    /// What is served is valid in its version, and served again it is the same. A newer client reads no less.
    #[test]
    fn what_is_served_is_valid(config in arb_new()) {
        prop_assume!(crate::validate(config.to_string().as_bytes()).errors.is_empty());
        let mut read_before = false;
        for version in SpecVersion::ALL {
            let served = match convert(config.clone(), version) {
                Ok(served) => served,
                Err(error) => {
                    prop_assert!(!read_before, "{} as {}", error, version);
                    continue;
                }
            };
            read_before = true;
            if version == SpecVersion::V2_2 {
                let options = Spec2Options { sectors: Sectors::Unknown, duplicates: DuplicatePolicy::Refused };
                let back = spec2::convert(served, options).unwrap();
                let paths = |config: &Value| config["storage"]["files"].as_array().map_or(0, Vec::len);
                prop_assert_eq!(paths(&back), paths(&config), "{}", back);
            } else {
                assert_valid(&served);
                prop_assert_eq!(convert(served.clone(), version).unwrap(), served);
            }
        }
    }
}
