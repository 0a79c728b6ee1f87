use proptest::prelude::*;
use serde_json::{Value, json};

use super::STRICT;
use crate::fixtures::assert_valid;
use crate::stub::spec2::{ConvertError, DuplicatePolicy, Sectors, Spec2Options, convert};

pub(super) fn old(version: &str, more: Value) -> Value {
    let mut config = json!({"ignition": {"version": version}});
    for (name, value) in more.as_object().unwrap() {
        match (config.get_mut(name), value) {
            (Some(Value::Object(section)), Value::Object(value)) => section.extend(value.clone()),
            _ => drop(config.as_object_mut().unwrap().insert(name.clone(), value.clone())),
        }
    }
    config
}

pub(super) fn converted(config: Value) -> Value {
    let new = convert(config.clone(), STRICT).unwrap_or_else(|error| panic!("{error}: {config}"));
    assert_eq!(new["ignition"]["version"], "3.2.0");
    let findings = crate::validate(new.to_string().as_bytes());
    assert!(findings.errors.is_empty(), "{findings:?}");
    new
}

pub(super) fn refused(config: Value) -> String {
    match convert(config, STRICT) {
        Err(error) => error.to_string(),
        Ok(new) => panic!("{new}"),
    }
}

/// S1.14: a config that uses every section.
#[test]
fn every_section_is_kept() {
    let header = json!([{"name": "A", "value": "b"}]);
    let hash = json!({"hash": format!("sha512-{}", "0".repeat(128))});
    let remote = json!({"source": "https://a.example/x", "httpHeaders": header, "verification": hash});
    let config = old(
        "2.4.0",
        json!({
            "ignition": {
                "config": {"append": [remote], "replace": remote},
                "timeouts": {"httpResponseHeaders": 5, "httpTotal": 0},
                "security": {"tls": {"certificateAuthorities": [remote, null]}},
                "proxy": {"httpProxy": "http://p", "httpsProxy": "", "noProxy": ["*.example"]},
            },
            "storage": {
                "disks": [{"device": "/dev/sda", "wipeTable": true, "partitions": [
                    {"label": "a", "number": 1, "sizeMiB": 100, "startMiB": 1, "typeGuid": "", "guid": "8A7A6E26-5E8F-4CCA-A654-46215D4696AC",
                     "wipePartitionEntry": true, "shouldExist": true},
                ]}],
                "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/sdb", "/dev/sdc"], "spares": 1, "options": ["--verbose"]}],
                "filesystems": [
                    {"name": "root", "path": "/sysroot"},
                    {"name": "data", "mount": {"device": "/dev/md/r", "format": "ext4", "wipeFilesystem": true, "label": "DATA", "uuid": null, "options": ["-m", "0"]}},
                    {"mount": {"device": "/dev/sdd", "format": "swap", "create": {"force": true, "options": ["-L", "s"]}}},
                ],
                "files": [
                    {"filesystem": "root", "path": "/etc/a", "mode": 384, "user": {"id": 1}, "group": {"name": "g"},
                     "contents": {"source": "data:,a", "compression": "gzip", "verification": hash}},
                    {"filesystem": "data", "path": "/b", "contents": {}},
                    {"filesystem": "root", "path": "/etc/log", "append": true, "mode": 420, "contents": {"source": "data:,1"}},
                    {"filesystem": "root", "path": "/etc/log", "append": true, "contents": {"source": "data:,2"}},
                ],
                "directories": [{"filesystem": "data", "path": "/d", "mode": 493, "overwrite": true}],
                "links": [
                    {"filesystem": "root", "path": "/etc/l", "target": "../x", "user": {"name": "u"}},
                    {"filesystem": "data", "path": "/h", "target": "/b", "hard": true},
                ],
            },
            "systemd": {"units": [
                {"name": "srv-data.mount", "enable": true, "contents": "[Mount]\nWhat=/dev/disk/by-label/DATA\nWhere=/srv/data\n[Install]\nWantedBy=multi-user.target"},
                {"name": "a.service", "enabled": false, "enable": true, "mask": true},
                {"name": "b.service", "enable": false, "dropins": [{"name": "1.conf", "contents": "[Service]\n"}]},
            ]},
            "networkd": {"units": [
                {"name": "1.network", "contents": "[Match]\n", "dropins": [{"name": "2.conf", "contents": "[Network]\n"}]},
                {"name": "empty.link"},
            ]},
            "passwd": {
                "users": [
                    {"name": "a", "passwordHash": "x", "sshAuthorizedKeys": ["k"], "create": {"uid": 1000, "groups": ["wheel"], "noCreateHome": true, "shell": "/bin/sh"}},
                    {"name": "b", "homeDir": "/b", "system": true},
                ],
                "groups": [{"name": "g", "gid": 5, "passwordHash": "", "system": true}],
            },
        }),
    );
    let new = converted(config);
    assert_eq!(new["ignition"]["config"], json!({"merge": [remote], "replace": remote}));
    assert_eq!(new["ignition"]["timeouts"], json!({"httpResponseHeaders": 5, "httpTotal": 0}));
    assert_eq!(new["ignition"]["security"]["tls"]["certificateAuthorities"], json!([remote]));
    assert_eq!(new["ignition"]["proxy"], json!({"httpProxy": "http://p", "noProxy": ["*.example"]}));
    let storage = &new["storage"];
    assert_eq!(
        storage["disks"][0]["partitions"][0],
        json!({
            "label": "a", "number": 1, "sizeMiB": 100, "startMiB": 1, "guid": "8A7A6E26-5E8F-4CCA-A654-46215D4696AC",
            "wipePartitionEntry": true, "shouldExist": true,
        })
    );
    assert_eq!(storage["raid"][0]["options"], json!(["--verbose"]));
    assert_eq!(
        storage["filesystems"],
        json!([
            {"device": "/dev/md/r", "format": "ext4", "wipeFilesystem": true, "label": "DATA", "options": ["-m", "0"], "path": "/srv/data"},
            {"device": "/dev/sdd", "format": "swap", "wipeFilesystem": true, "options": ["-L", "s"]},
        ])
    );
    let networkd = |path: &str, text: &str| {
        json!({
            "path": path, "mode": 420, "overwrite": true, "contents": {"source": crate::data_url::encode(text.as_bytes())},
        })
    };
    assert_eq!(
        storage["files"],
        json!([
            {"path": "/etc/a", "mode": 384, "user": {"id": 1}, "group": {"name": "g"}, "overwrite": true,
             "contents": {"source": "data:,a", "compression": "gzip", "verification": hash}},
            {"path": "/srv/data/b", "overwrite": true, "contents": {"source": ""}},
            {"path": "/etc/log", "mode": 420, "overwrite": false, "append": [{"source": "data:,1"}, {"source": "data:,2"}]},
            networkd("/etc/systemd/network/1.network", "[Match]\n"),
            networkd("/etc/systemd/network/1.network.d/2.conf", "[Network]\n"),
        ])
    );
    assert_eq!(storage["directories"], json!([{"path": "/srv/data/d", "mode": 493, "overwrite": true}]));
    assert_eq!(
        storage["links"],
        json!([
            {"path": "/etc/l", "target": "../x", "user": {"name": "u"}},
            {"path": "/srv/data/h", "target": "/srv/data/b", "hard": true},
        ])
    );
    let units = &new["systemd"]["units"];
    assert_eq!(
        (&units[0]["enabled"], &units[1]["enabled"], units[2].get("enabled")),
        (&json!(true), &json!(false), None)
    );
    assert_eq!((&units[1]["mask"], &units[2]["dropins"][0]["name"]), (&json!(true), &json!("1.conf")));
    assert_eq!(
        new["passwd"],
        json!({
            "users": [
                {"name": "a", "passwordHash": "x", "sshAuthorizedKeys": ["k"], "uid": 1000, "groups": ["wheel"], "noCreateHome": true, "shell": "/bin/sh"},
                {"name": "b", "homeDir": "/b", "system": true},
            ],
            "groups": [{"name": "g", "gid": 5, "system": true}],
        })
    );
}

#[test]
fn partitions_in_sectors_need_the_size_of_one() {
    let disk = |partition: Value| {
        old("2.2.0", json!({"storage": {"disks": [{"device": "/dev/sda", "partitions": [partition]}]}}))
    };
    let sized = json!({"label": "a", "number": 1, "size": 409_600, "start": 2048});
    let with = |config: Value, sectors| convert(config, Spec2Options { sectors, duplicates: DuplicatePolicy::Refused });
    for (sectors, size, start) in [(Sectors::Bytes512, 200, 1), (Sectors::Bytes4096, 1600, 8)] {
        let new = with(disk(sized.clone()), sectors).unwrap();
        let wanted = json!({"label": "a", "number": 1, "sizeMiB": size, "startMiB": start});
        assert_eq!(new["storage"]["disks"][0]["partitions"][0], wanted);
    }
    assert!(refused(disk(sized)).starts_with("storage.disks[0].partitions[0].size: is in sectors of the disk"));
    let all = converted(disk(json!({"label": "a", "number": 1, "size": 0, "start": 0})));
    assert_eq!(all["storage"]["disks"][0]["partitions"][0]["sizeMiB"], 0);
    let odd = with(disk(json!({"number": 1, "size": 2049})), Sectors::Bytes512).unwrap_err().to_string();
    assert!(odd.contains("size: is no whole number of MiB"), "{odd}");
    assert!(refused(disk(json!({"number": 1, "size": 1, "sizeMiB": 1}))).contains("cannot stand beside sizeMiB"));
    for count in [-2048, i64::MAX] {
        let refused = with(disk(json!({"number": 1, "start": count})), Sectors::Bytes4096).unwrap_err();
        assert!(matches!(refused, ConvertError::Field(_)), "{refused}");
    }
}

#[test]
fn a_root_filesystem_that_is_made_anew_is_that_of_the_root() {
    let new = converted(old(
        "2.3.0",
        json!({"storage": {
            "filesystems": [{"name": "root", "mount": {"device": "/dev/disk/by-label/ROOT", "format": "btrfs", "wipeFilesystem": true, "label": "ROOT"}}],
            "files": [{"filesystem": "root", "path": "/a", "mode": 420}],
        }}),
    ));
    assert_eq!(new["storage"]["filesystems"][0]["path"], "/");
    assert_eq!(new["storage"]["files"][0]["path"], "/a");
}

/// Before 2.2 a file without a mode had none of its bits.
#[test]
fn an_old_default_stays_what_it_was() {
    let file = json!({"storage": {"files": [{"filesystem": "root", "path": "/a"}]}});
    assert_eq!(converted(old("2.1.0", file.clone()))["storage"]["files"][0]["mode"], 0);
    assert_eq!(converted(old("2.2.0", file))["storage"]["files"][0].get("mode"), None);
}

#[test]
fn what_cannot_be_kept_is_named() {
    let file = |more: Value| {
        let mut file = json!({"filesystem": "root", "path": "/a", "mode": 420});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let files = |files: Value| old("2.3.0", json!({"storage": {"files": files}}));
    let mounted = |name: &str, device: &str| json!({"name": name, "mount": {"device": device, "format": "xfs"}});
    let unit = json!({"name": "v.mount", "contents": "[Mount]\nWhat=/dev/v\nWhere=/v"});
    let on = |fs: &str, path: &str| json!({"filesystem": fs, "path": path, "mode": 420});
    let inner = crate::data_url::encode(br#"{"ignition":{"version":"2.1.0"}}"#);
    let cases = [
        (old("2.3.0", json!({"x": 1})), "x: is not known here"),
        (
            old("2.3.0", json!({"systemd": {"units": [{"name": "a.service", "runtime": true}]}})),
            "systemd.units[0].runtime:",
        ),
        (old("2.3.0", json!({"systemd": {"units": {}}})), "systemd.units: must be a list"),
        (
            old("2.3.0", json!({"systemd": {"units": [{"name": "a.service"}, {"name": "a.service"}]}})),
            "systemd.units[1].name: is the name of systemd.units[0] too",
        ),
        (
            old("2.3.0", json!({"ignition": {"config": {"append": [{"source": inner}]}}})),
            "ignition.config.append[0].source: holds a config that is not spec 3",
        ),
        (
            old("2.3.0", json!({"passwd": {"users": [{"name": "a", "uid": 1, "create": {"gecos": "x"}}]}})),
            "passwd.users[0].create.uid: cannot stand beside",
        ),
        (old("2.3.0", json!({"passwd": {"users": [{"name": "a"}, {"name": "a"}]}})), "passwd.users[1].name:"),
        (
            old("2.3.0", json!({"networkd": {"units": [{"name": "../x.network", "contents": "[Unit]\n"}]}})),
            "networkd.units[0].name:",
        ),
        (
            old("2.3.0", json!({"storage": {"filesystems": [{"name": "x", "path": "/tmp"}]}})),
            "storage.filesystems[0].path:",
        ),
        (
            old("2.3.0", json!({"storage": {"filesystems": [mounted("x", "/dev/x")], "files": [on("x", "/a")]}})),
            "storage.filesystems[0].name: files are put on it",
        ),
        (files(json!([on("nowhere", "/a")])), "storage.files[0].filesystem:"),
        (
            files(json!([file(json!({})), file(json!({}))])),
            "storage.files[1].path: is the path of storage.files[0] too",
        ),
        (files(json!([file(json!({"append": true, "overwrite": true}))])), "storage.files[0].append:"),
        (
            files(json!([file(json!({"append": true})), file(json!({"append": true, "mode": 384}))])),
            "storage.files[1].mode: differs",
        ),
        (files(json!([file(json!({"path": "a"}))])), "storage.files[0].path: is not an absolute path"),
        (
            old(
                "2.3.0",
                json!({"systemd": {"units": [unit]}, "storage": {"filesystems": [mounted("v", "/dev/v")], "files": [on("v", "/a"), on("root", "/v/b")]}}),
            ),
            "storage.files[1].path: would come to lie on the filesystem that is mounted at /v",
        ),
        (
            old(
                "2.3.0",
                json!({"storage": {"links": [{"filesystem": "root", "path": "/l", "target": "/x"}], "files": [on("root", "/l")]}}),
            ),
            "as spec 3.2.0 it would not be valid: ",
        ),
    ];
    for (config, wanted) in cases {
        let told = refused(config.clone());
        assert!(told.contains(wanted), "{config}: {told:?} lacks {wanted:?}");
    }
}

#[test]
fn in_machine_configs_the_last_of_two_wins() {
    let options = Spec2Options { sectors: Sectors::Unknown, duplicates: DuplicatePolicy::LastWins };
    let new = convert(old("2.2.0", json!({
        "storage": {"files": [
            {"filesystem": "root", "path": "/a", "mode": 384, "contents": {"source": "data:,1"}},
            {"filesystem": "root", "path": "/a", "mode": 420, "contents": {"source": "data:,2"}},
        ]},
        "systemd": {"units": [
            {"name": "a.service", "contents": "[Unit]\n", "dropins": [{"name": "1.conf", "contents": "[Unit]\n"}, {"name": "2.conf", "contents": "[Unit]\n"}]},
            {"name": "a.service", "enabled": true, "dropins": [{"name": "2.conf", "contents": "[Service]\n"}]},
        ]},
        "passwd": {"users": [
            {"name": "core", "sshAuthorizedKeys": ["one", "two"]},
            {"name": "core", "sshAuthorizedKeys": ["two", "three"]},
        ]},
    })), options).unwrap();
    assert_eq!(
        new["storage"]["files"],
        json!([{"path": "/a", "mode": 420, "overwrite": true, "contents": {"source": "data:,2"}}])
    );
    assert_eq!(
        new["systemd"]["units"],
        json!([{"name": "a.service", "enabled": true, "dropins": [
            {"name": "2.conf", "contents": "[Service]\n"}, {"name": "1.conf", "contents": "[Unit]\n"},
        ]}])
    );
    assert_eq!(new["passwd"]["users"][0]["sshAuthorizedKeys"], json!(["two", "three", "one"]));
}

/// Files, units and users at random, of few names, so that they meet.
fn arb_old() -> impl Strategy<Value = Value> {
    let file = ("[ab]", "(root|data)", any::<bool>(), prop::option::of(0_u32..0o1000)).prop_map(|(name, filesystem, append, mode)| {
        json!({"filesystem": filesystem, "path": format!("/{name}"), "append": append, "mode": mode, "contents": {"source": "data:,x"}})
    });
    let unit = ("[ab]", any::<bool>(), prop::option::of(any::<bool>())).prop_map(|(name, enable, enabled)| {
        json!({"name": format!("{name}.service"), "enable": enable, "enabled": enabled, "contents": "[Unit]\n"})
    });
    let user =
        ("[ab]", prop::option::of(0_u32..9)).prop_map(|(name, uid)| json!({"name": name, "create": {"uid": uid}}));
    let list = |one| prop::collection::vec(one, 0..4);
    (list(file.boxed()), list(unit.boxed()), list(user.boxed()), 0_u32..5, any::<bool>()).prop_map(
        |(files, units, users, minor, mounted)| {
            let unit = json!({"name": "d.mount", "contents": "[Mount]\nWhat=/dev/d\nWhere=/d\n"});
            let units: Vec<Value> = units.into_iter().chain(mounted.then_some(unit)).collect();
            old(&format!("2.{minor}.0"), json!({
                "storage": {"files": files, "filesystems": [{"name": "data", "mount": {"device": "/dev/d", "format": "xfs"}}]},
                "systemd": {"units": units},
                "passwd": {"users": users},
            }))
        },
    )
}

proptest! {
    /// What comes out is valid and has everything that went in.
    #[test]
    fn what_is_converted_is_valid_and_whole(config in arb_old()) {
        if let Ok(new) = convert(config.clone(), STRICT) {
            assert_valid(&new);
            let pieces: usize = new["storage"]["files"].as_array().into_iter().flatten()
                .map(|file| file["append"].as_array().map_or(0, Vec::len) + usize::from(file.get("contents").is_some()))
                .sum();
            prop_assert_eq!(pieces, config["storage"]["files"].as_array().unwrap().len());
            let count = |config: &Value, section: &str, list: &str| config[section][list].as_array().map_or(0, Vec::len);
            prop_assert_eq!(count(&new, "systemd", "units"), count(&config, "systemd", "units"));
            prop_assert_eq!(count(&new, "passwd", "users"), count(&config, "passwd", "users"));
        }
        let lenient = Spec2Options { sectors: Sectors::Bytes512, duplicates: DuplicatePolicy::LastWins };
        if let Ok(new) = convert(config, lenient) {
            assert_valid(&new);
        }
    }
}
