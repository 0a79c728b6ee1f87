use serde_json::{Value, json};

use super::spec2::{converted, old, refused};
use crate::CONFIG_BYTES_MAX;

fn storage(storage: Value) -> Value {
    old("2.3.0", json!({"storage": storage}))
}

fn mount(device: &str, more: Value) -> Value {
    let mut mount = json!({"device": device, "format": "ext4"});
    mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"mount": mount})
}

#[test]
fn appended_pieces_of_one_file_have_the_same_owner() {
    let piece = |source: &str, more: Value| {
        let mut file = json!({"filesystem": "root", "path": "/etc/log", "append": true, "mode": 420, "user": {"id": 1}, "contents": {"source": source}});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let pieces = |more: Value| storage(json!({"files": [piece("data:,1", json!({})), piece("data:,2", more)]}));
    assert_eq!(
        converted(pieces(json!({})))["storage"]["files"],
        json!([{"path": "/etc/log", "mode": 420, "user": {"id": 1}, "overwrite": false, "append": [{"source": "data:,1"}, {"source": "data:,2"}]}])
    );
    for (name, other) in [("mode", json!(384)), ("user", json!({"id": 2})), ("group", json!({"name": "g"}))] {
        assert_eq!(
            refused(pieces(json!({name: other}))),
            format!("storage.files[1].{name}: differs from that of storage.files[0], which is the same file")
        );
    }
}

/// Only a hard link's target that is absolute lies on the link's filesystem.
#[test]
fn targets_of_links_are_taken_as_they_are_meant() {
    let unit = json!({"name": "srv.mount", "enabled": true, "contents": "[Mount]\nWhat=/dev/d\nWhere=/srv\n[Install]\nWantedBy=x"});
    let link = |path: &str, target: &str, hard: bool| json!({"filesystem": "data", "path": path, "target": target, "hard": hard});
    let mut data = mount("/dev/d", json!({}));
    data["name"] = json!("data");
    let links =
        json!([link("/a", "/etc/x", false), link("/b", "x", false), link("/c", "/x", true), link("/d", "x", true)]);
    let config =
        old("2.3.0", json!({"storage": {"filesystems": [data], "links": links}, "systemd": {"units": [unit]}}));
    assert_eq!(
        converted(config)["storage"]["links"],
        json!([
            {"path": "/srv/a", "target": "/etc/x"},
            {"path": "/srv/b", "target": "x"},
            {"path": "/srv/c", "target": "/srv/x", "hard": true},
            {"path": "/srv/d", "target": "x", "hard": true},
        ])
    );
}

#[test]
fn an_array_keeps_its_spares() {
    let array = |spares: Value| json!({"name": "r", "level": "raid1", "devices": ["/dev/a", "/dev/b", "/dev/c"], "spares": spares});
    for (spares, wanted) in [(json!(1), json!({"spares": 1})), (json!(0), json!({})), (json!(null), json!({}))] {
        let mut whole = json!({"name": "r", "level": "raid1", "devices": ["/dev/a", "/dev/b", "/dev/c"]});
        whole.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
        assert_eq!(converted(storage(json!({"raid": [array(spares)]})))["storage"]["raid"], json!([whole]));
    }
}

#[test]
fn a_filesystem_says_one_thing() {
    let named = |mut filesystem: Value| {
        filesystem["name"] = json!("x");
        filesystem
    };
    let (one, two) = (mount("/dev/a", json!({})), mount("/dev/b", json!({})));
    assert_eq!(
        converted(storage(json!({"filesystems": [one, two]})))["storage"]["filesystems"],
        json!([{"device": "/dev/a", "format": "ext4"}, {"device": "/dev/b", "format": "ext4"}])
    );
    let mut both = one.clone();
    both["path"] = json!("/sysroot");
    let create = |more: Value| {
        let mut mount = mount("/dev/a", more);
        mount["mount"]["create"] = json!({"force": true});
        mount
    };
    let beside = "storage.filesystems[0].mount.create: cannot stand beside wipeFilesystem and options";
    for (filesystems, wanted) in [
        (
            json!([named(one), named(two)]),
            "storage.filesystems[1].name: is the name of storage.filesystems[0] too, and only one of them could be meant",
        ),
        (json!([both]), "storage.filesystems[0].path: cannot stand beside mount"),
        (json!([{"name": "x"}]), "storage.filesystems[0].mount: is needed, or path"),
        (json!([create(json!({"wipeFilesystem": true}))]), beside),
        (json!([create(json!({"options": ["-x"]}))]), beside),
    ] {
        assert_eq!(refused(storage(json!({"filesystems": filesystems}))), wanted);
    }
}

/// A config with a directory on a filesystem, which the last of its mount units mounts.
fn mounted(what: &str, place: &str) -> Value {
    let unit = |name: &str, contents: String| json!({"name": name, "contents": contents});
    let mut data = mount("/dev/x", json!({"label": "DATA", "uuid": "12-AB"}));
    data["name"] = json!("data");
    old(
        "2.3.0",
        json!({
            "storage": {"filesystems": [data], "directories": [{"filesystem": "data", "path": "/d"}]},
            "systemd": {"units": [
                unit("other.mount", "[Mount]\nWhat=/dev/other\nWhere=/other\n".to_owned()),
                unit("srv-data.mount", format!("[Unit]\nWhere=/no\n[Mount]\nWhat = {what}\nWhere = {place}\n[X]\nWhat=/dev/no\nWhere=/no\n")),
            ]},
        }),
    )
}

#[test]
fn a_mount_unit_says_where_a_filesystem_is() {
    for what in ["/dev/x", "LABEL=DATA", "/dev/disk/by-label/DATA", "UUID=12-AB", "/dev/disk/by-uuid/12-AB"] {
        for place in ["/srv/data", "/srv/data/"] {
            let storage = &converted(mounted(what, place))["storage"];
            assert_eq!(storage["filesystems"][0]["path"], "/srv/data", "{what}");
            assert_eq!(storage["directories"], json!([{"path": "/srv/data/d"}]), "{what}");
        }
    }
    for (what, place) in [
        ("/dev/y", "/srv/data"),
        ("LABEL=12-AB", "/srv/data"),
        ("UUID=DATA", "/srv/data"),
        ("/dev/x", "srv/data"),
        ("/dev/x", "/srv/../data"),
        ("/dev/x", "/srv/./data"),
        ("/dev/x", "/srv//data"),
        ("/dev/x", "/"),
    ] {
        let error = refused(mounted(what, place));
        assert!(error.starts_with("storage.filesystems[0].name: files are put on it, and no mount unit"), "{error}");
    }
}

#[test]
fn a_config_of_the_greatest_size_is_converted() {
    let with = |bytes: usize| {
        let source = format!("data:,{}", "x".repeat(bytes));
        storage(json!({"files": [{"filesystem": "root", "path": "/a", "mode": 420, "contents": {"source": source}}]}))
    };
    let most = CONFIG_BYTES_MAX - converted(with(0)).to_string().len();
    assert_eq!(converted(with(most)).to_string().len(), CONFIG_BYTES_MAX);
    let wanted = "as spec 3.2.0 it would not be valid: it has 2097153 bytes, more than 2097152";
    assert_eq!(refused(with(most + 1)), wanted);
}
