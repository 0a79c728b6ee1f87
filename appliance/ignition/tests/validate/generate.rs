//! Configs that are valid, with a bit of everything; and changes anywhere in one.

use serde_json::{Map, Value, json};

use super::random::Random;

/// What makes one section for a version.
type Section = fn(&mut Random, u8) -> Value;

/// A valid config. What its version does not know stands in it too, now and then: that is ignored.
pub(crate) fn valid(random: &mut Random, minor: u8) -> Value {
    let mut config = json!({"ignition": ignition(random, minor)});
    let parts: [(&str, Section); 4] =
        [("storage", storage), ("systemd", systemd), ("passwd", passwd), ("kernelArguments", kernel_arguments)];
    for (name, part) in parts {
        if !random.one_in(4) {
            config[name] = part(random, minor);
        }
    }
    config
}

fn some(random: &mut Random, most: usize, mut entry: impl FnMut(&mut Random, usize) -> Value) -> Value {
    (0..random.below(most + 1)).map(|at| entry(random, at)).collect()
}

/// The fields, each there or not, or null.
fn maybe(random: &mut Random, fields: Value) -> Value {
    let mut kept = Map::new();
    for (name, value) in fields.as_object().unwrap() {
        match random.below(8) {
            0..3 => {}
            3 => drop(kept.insert(name.clone(), Value::Null)),
            _ => drop(kept.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(kept)
}

fn with(mut base: Value, more: Value) -> Value {
    let more: Map<String, Value> = serde_json::from_value(more).unwrap();
    base.as_object_mut().unwrap().extend(more);
    base
}

fn resource(random: &mut Random, minor: u8, at: usize) -> Value {
    let source = match random.below(if minor >= 2 { 7 } else { 6 }) {
        0 => format!("https://user@host{at}.example:8443/a%20b?c=d#e"),
        1 => format!("http://[2001:db8::{at}]/x"),
        2 => format!("tftp://192.0.2.{at}/x"),
        3 => format!("s3://bucket/{at}?versionId=1"),
        4 => format!("data:text/plain;charset=utf-8;base64,{}", ["", "eA==", "eHl6"][random.below(3)]),
        5 => format!("data:,{at}%0A"),
        _ => format!("gs://bucket/{at}"),
    };
    let is_web = source.starts_with("http");
    let hash = if minor >= 1 && random.one_in(2) { format!("sha256-{at:064x}") } else { format!("sha512-{at:0128x}") };
    let mut resource = json!({"source": source});
    if random.one_in(3) {
        resource["verification"] = maybe(random, json!({"hash": hash}));
    }
    if random.one_in(4) {
        resource["compression"] = json!(["", "gzip"][random.below(2)]);
    }
    if is_web && random.one_in(3) {
        resource["httpHeaders"] = json!([{"name": "Authorization", "value": "Bearer x"}, {"name": "X", "value": null}]);
    }
    resource
}

fn ignition(random: &mut Random, minor: u8) -> Value {
    let mut seen = Vec::new();
    let mut once = |random: &mut Random, at: usize| {
        let mut resource = resource(random, minor, at);
        if seen.contains(&resource["source"]) {
            resource["source"] = json!(format!("https://once/{at}"));
        }
        seen.push(resource["source"].clone());
        resource
    };
    let merge = some(random, 2, &mut once);
    let authorities = some(random, 2, |random, at| once(random, at + 10));
    let section = json!({
        "config": {"merge": merge, "replace": if random.one_in(3) { resource(random, minor, 9) } else { json!({}) }},
        "timeouts": {"httpResponseHeaders": random.below(99), "httpTotal": null},
        "security": {"tls": {"certificateAuthorities": authorities}},
        "proxy": {"httpProxy": "http://proxy", "httpsProxy": "https://proxy:3128/", "noProxy": ["a", "b"]},
    });
    with(maybe(random, section), json!({"version": format!("3.{minor}.0")}))
}

fn storage(random: &mut Random, minor: u8) -> Value {
    let owner = json!({"user": {"id": 0}, "group": {"name": "root"}, "overwrite": false});
    let node = |random: &mut Random, path: String| with(maybe(random, owner.clone()), json!({"path": path}));
    let files = some(random, 3, |random, at| {
        let append = some(random, 2, |random, at| resource(random, minor, at));
        let more = json!({"mode": random.below(0o10000), "contents": resource(random, minor, at), "append": append});
        let file = with(node(random, format!("/base/file{at}")), maybe(random, more));
        let overwrites = file.pointer("/contents/source").is_some() && random.one_in(2);
        if overwrites { with(file, json!({"overwrite": true})) } else { file }
    });
    let directories = some(random, 2, |random, at| {
        let more = maybe(random, json!({"mode": 0o755}));
        with(node(random, format!("/base/dir{at}")), more)
    });
    let links = some(random, 2, |random, at| {
        let hard = random.one_in(2);
        with(node(random, format!("/base/link{at}")), json!({"target": "/base/file0", "hard": hard}))
    });
    let filesystems = some(random, 2, |random, at| {
        let format = random.pick(&["ext4", "btrfs", "xfs", "swap", "vfat"]);
        let more = json!({"path": format!("/var/{at}"), "label": "label", "uuid": "x", "options": ["-a", "-a"],
            "mountOptions": ["b"], "wipeFilesystem": true});
        with(maybe(random, more), json!({"device": format!("/dev/base{at}"), "format": format}))
    });
    let raids = some(random, 2, |random, at| {
        let (level, spares) = [("raid1", 1), ("stripe", 0), ("10", 2), ("linear", 0)][random.below(4)];
        json!({"name": format!("md{at}"), "level": level, "spares": spares, "devices": ["/dev/r1", "/dev/r2"]})
    });
    let volumes = some(random, 2, |random, at| {
        let clevis = if random.one_in(2) {
            json!({"tpm2": true, "threshold": 1, "tang": [{"url": "http://tang", "thumbprint": "x"}]})
        } else {
            json!({"custom": {"pin": "sss", "config": "{}", "needsNetwork": true}})
        };
        let more =
            json!({"label": "luks", "keyFile": resource(random, minor, at), "clevis": clevis, "wipeVolume": true});
        with(maybe(random, more), json!({"name": format!("luks{at}"), "device": format!("/dev/l{at}")}))
    });
    let lists = json!({
        "disks": some(random, 2, disk), "raid": raids, "filesystems": filesystems, "luks": volumes, "files": files,
        "directories": directories, "links": links,
    });
    maybe(random, lists)
}

fn disk(random: &mut Random, at: usize) -> Value {
    let mut start = 1;
    let partitions = some(random, 4, |random, number| {
        let size = 1 + random.below(500);
        start += size;
        let more = json!({"startMiB": start - size, "sizeMiB": size, "label": format!("part{number}"), "guid": "",
            "typeGuid": "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "wipePartitionEntry": true, "resize": true});
        with(maybe(random, more), json!({"number": number + 1}))
    });
    json!({"device": format!("/dev/disk/by-id/base{at}"), "wipeTable": random.one_in(2), "partitions": partitions})
}

fn systemd(random: &mut Random, _: u8) -> Value {
    let units = some(random, 3, |random, at| {
        let kind = random.pick(&["service", "mount", "timer", "target"]);
        let dropins = some(random, 2, |_, at| json!({"name": format!("{at}.conf"), "contents": "[Service]\nA=\n"}));
        let more = json!({"enabled": true, "mask": false, "dropins": dropins,
            "contents": "[Unit]\nDescription=x \\\n y\n# z\n[Install]\nWantedBy=multi-user.target\n"});
        with(maybe(random, more), json!({"name": format!("base{at}.{kind}")}))
    });
    json!({"units": units})
}

fn passwd(random: &mut Random, _: u8) -> Value {
    let users = some(random, 2, |random, at| {
        let more = json!({"uid": 1000, "gecos": "x", "homeDir": "/home/x", "groups": ["a", "b"], "system": true,
            "sshAuthorizedKeys": ["ssh-ed25519 A", "ssh-ed25519 B"], "shell": "/bin/sh", "noCreateHome": false,
            "passwordHash": "x", "primaryGroup": "x", "noUserGroup": true, "noLogInit": true, "shouldExist": true});
        with(maybe(random, more), json!({"name": format!("user{at}")}))
    });
    let groups = some(random, 2, |random, at| {
        let more = json!({"gid": 7, "passwordHash": "x", "system": false, "shouldExist": true});
        with(maybe(random, more), json!({"name": format!("group{at}")}))
    });
    json!({"users": users, "groups": groups})
}

fn kernel_arguments(random: &mut Random, _: u8) -> Value {
    maybe(random, json!({"shouldExist": ["quiet", "a=1"], "shouldNotExist": ["rhgb"]}))
}

/// Something, anywhere: gone, null, empty, of another type, elsewhere's, twice, or under another name.
pub(crate) fn change_anything(random: &mut Random, config: &mut Value) {
    let places = places(config, String::new());
    let elsewhere = config.pointer(&places[random.below(places.len())]).unwrap().clone();
    let place = &places[random.below(places.len())];
    let value = match random.below(9) {
        0 => Value::Null,
        1 => json!(""),
        2 => json!(random.below(9000)),
        3 => json!(-1),
        4 => json!(true),
        5 => json!([]),
        6 => json!({}),
        7 => elsewhere,
        _ => return structure(random, config.pointer_mut(place).unwrap()),
    };
    *config.pointer_mut(place).unwrap() = value;
}

fn structure(random: &mut Random, value: &mut Value) {
    match value {
        Value::Array(list) if !list.is_empty() => {
            let entry = list[random.below(list.len())].clone();
            list.push(entry);
        }
        Value::Object(map) if !map.is_empty() => {
            let name = map.keys().nth(random.below(map.len())).unwrap().clone();
            let entry = map.remove(&name).unwrap();
            if random.one_in(2) {
                map.insert(format!("{name}x"), entry);
            }
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => *other = Value::Null,
    }
}

/// Pointers to everything but the version.
fn places(value: &Value, place: String) -> Vec<String> {
    let mut all = Vec::new();
    match value {
        Value::Array(list) => {
            all.extend(list.iter().enumerate().flat_map(|(at, value)| places(value, format!("{place}/{at}"))));
        }
        Value::Object(map) => {
            all.extend(map.iter().flat_map(|(name, value)| places(value, format!("{place}/{name}"))));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if place != "/ignition/version" {
        all.push(place);
    }
    all
}
