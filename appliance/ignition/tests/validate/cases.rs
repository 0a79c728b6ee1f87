//! One case of each rule: what is put into a config, and in which versions Ignition then refuses it.

mod storage;

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::random::Random;

pub(crate) struct Case {
    pub(crate) rule: &'static str,
    /// Minor versions.
    pub(crate) refused: Range<u8>,
    edits: Vec<(&'static str, Value)>,
}

impl Case {
    pub(crate) fn apply(&self, config: &mut Value) {
        for (pointer, value) in &self.edits {
            put(config, pointer, value.clone());
        }
    }
}

/// Sets what stands at a pointer, or adds to the list there (`/-`); makes what is missing on the way.
pub(crate) fn put(config: &mut Value, pointer: &str, value: Value) {
    let mut at = config;
    for name in pointer.split('/').skip(1) {
        if name == "-" {
            if !at.is_array() {
                *at = json!([]);
            }
            let list = at.as_array_mut().unwrap();
            list.push(Value::Null);
            at = list.last_mut().unwrap();
        } else {
            if !at.is_object() {
                *at = json!({});
            }
            at = at.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
        }
    }
    *at = value;
}

const ALL: Range<u8> = 0..9;
const NONE: Range<u8> = 9..9;

/// Base and more fields of an object.
fn with(mut base: Value, more: Value) -> Value {
    let more: Map<String, Value> = serde_json::from_value(more).unwrap();
    base.as_object_mut().unwrap().extend(more);
    base
}

fn case(rule: &'static str, refused: Range<u8>, edits: impl IntoIterator<Item = (&'static str, Value)>) -> Case {
    Case { rule, refused, edits: edits.into_iter().collect() }
}

fn file(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    case(rule, refused, [("/storage/files/-", with(json!({"path": "/case/file"}), more))])
}

fn source(rule: &'static str, refused: Range<u8>, source: &str) -> Case {
    file(rule, refused, json!({"contents": {"source": source}}))
}

fn unit(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    case(rule, refused, [("/systemd/units/-", with(json!({"name": "case.service"}), more))])
}

pub(crate) fn cases(random: &mut Random) -> Vec<Case> {
    let parts: [fn(&mut Random) -> Vec<Case>; 9] = [
        types,
        ignition,
        resources,
        storage::nodes,
        storage::disks,
        storage::raids_and_filesystems,
        storage::volumes,
        units,
        others,
    ];
    parts.into_iter().flat_map(|part| part(random)).collect()
}

fn types(random: &mut Random) -> Vec<Case> {
    let wrong = |random: &mut Random, right: usize| {
        let values = [json!("x"), json!(true), json!(3), json!([]), json!({})];
        values[(right + 1 + random.below(4)) % 5].clone()
    };
    vec![
        case("type: text", ALL, [("/ignition/config/replace/source", wrong(random, 0))]),
        case("type: flag", ALL, [("/systemd/units/-", json!({"name": "case.service", "enabled": wrong(random, 1)}))]),
        case("type: number", ALL, [("/ignition/timeouts/httpTotal", wrong(random, 2))]),
        case("type: list", ALL, [("/passwd/users", wrong(random, 3))]),
        case("type: object", ALL, [("/storage", wrong(random, 4))]),
        case("type: fraction", ALL, [("/ignition/timeouts/httpTotal", json!(1.5))]),
        case("type: whole with a point", ALL, [("/ignition/timeouts/httpTotal", json!(2.0))]),
        case("type: too great", ALL, [("/ignition/timeouts/httpTotal", json!(1_u64 << 63))]),
        case("type: entry of a list", ALL, [("/passwd/users/-", json!({"name": "case", "groups": [1]}))]),
        case("type: wrong where it is not known yet", 3..9, [("/kernelArguments", json!(3))]),
        case("null is nothing", NONE, [("/ignition/timeouts", json!(null)), ("/passwd/users/-", json!(null))]),
        case("null is nothing: needed", ALL, [("/storage/files/-", json!(null))]),
        case("unknown field", NONE, [("/case", json!({"x": [1]})), ("/ignition/case", json!(1.5))]),
        case("no section", ALL, [("/ignition", json!(null))]),
        case("no version", ALL, [("/ignition/version", json!(null))]),
        case("version: empty", ALL, [("/ignition/version", json!(""))]),
        case("version: not three numbers", ALL, [("/ignition/version", json!("3.3"))]),
        case("version: patch", ALL, [("/ignition/version", json!("3.3.1"))]),
        case("version: other major", ALL, [("/ignition/version", json!("2.3.0"))]),
        case("version: metadata", ALL, [("/ignition/version", json!("3.3.0+x"))]),
        case("version: pre-release", ALL, [("/ignition/version", json!("3.3.0-x"))]),
        case("version: a number with a zero before it", NONE, [("/ignition/version", json!("03.3.00-"))]),
    ]
}

fn ignition(_: &mut Random) -> Vec<Case> {
    let merge = |rule, refused, more: Value| case(rule, refused, [("/ignition/config/merge/-", more)]);
    let authority =
        |rule, refused, more: Value| case(rule, refused, [("/ignition/security/tls/certificateAuthorities/-", more)]);
    let same = json!({"source": "https://case.example/x"});
    let proxy = |rule, refused, field: &'static str, url: &str| case(rule, refused, [(field, json!(url))]);
    vec![
        merge("merge: without source", 1..9, json!({})),
        merge("merge: empty source", 1..9, json!({"source": ""})),
        merge("merge: bad source", ALL, json!({"source": "/case"})),
        case(
            "merge: source twice",
            ALL,
            [("/ignition/config/merge/-", same.clone()), ("/ignition/config/merge/-", same.clone())],
        ),
        merge("merge: digest without source", 1..9, json!({"verification": {"hash": format!("sha512-{:0128}", 0)}})),
        case("replace: without source", NONE, [("/ignition/config/replace", json!({}))]),
        case("replace: bad source", ALL, [("/ignition/config/replace", json!({"source": "x"}))]),
        case(
            "replace: digest without source",
            1..9,
            [("/ignition/config/replace", json!({"verification": {"hash": format!("sha512-{:0128}", 0)}}))],
        ),
        authority("authority: without source", ALL, json!({})),
        authority("authority: bad source", ALL, json!({"source": "case"})),
        authority("authority: compression", 1..9, json!({"source": "data:,x", "compression": "xz"})),
        case(
            "authority: source twice",
            ALL,
            [same.clone(), same].map(|same| ("/ignition/security/tls/certificateAuthorities/-", same)),
        ),
        proxy("proxy: no scheme", 1..9, "/ignition/proxy/httpProxy", ""),
        proxy("proxy: other scheme", 1..9, "/ignition/proxy/httpsProxy", "socks5://case"),
        proxy("proxy: no URL", 1..9, "/ignition/proxy/httpsProxy", "https://ca se"),
        proxy("proxy: plain for HTTPS", NONE, "/ignition/proxy/httpsProxy", "http://case"),
        case("proxy: exception twice", 1..9, [("/ignition/proxy/noProxy", json!(["case", "case"]))]),
    ]
}

fn resources(_: &mut Random) -> Vec<Case> {
    let hash = |rule, refused, hash: String| {
        file(rule, refused, json!({"contents": {"source": "data:,", "verification": {"hash": hash}}}))
    };
    let headers = |rule, refused, source: Value, headers: Value| {
        file(rule, refused, json!({"contents": {"source": source, "httpHeaders": headers}}))
    };
    let web = || json!("https://case.example/x");
    vec![
        source("source: empty", NONE, ""),
        source("source: no URL", ALL, "https://case:x/"),
        source("source: other scheme", ALL, "ftp://case/x"),
        source("source: oem", ALL, "oem:///x"),
        source("source: gs", 0..2, "gs://case/x"),
        source("source: arn", 0..4, "arn:aws:s3:::case/x"),
        source("source: s3", NONE, "s3://case/x?versionId=1"),
        source("source: s3 version empty", ALL, "s3://case/x?versionId="),
        source("source: data URL", ALL, "data:text/plain;base64,!"),
        source("source: data URL of a wrong type", ALL, "data:font/woff,x"),
        source("source: data URL with a parameter", NONE, "data:text/plain;charset=utf-8;base64,eAo="),
        file("compression: gzip", NONE, json!({"contents": {"source": "data:,", "compression": "gzip"}})),
        file("compression: other", ALL, json!({"contents": {"source": "data:,", "compression": "xz"}})),
        file("compression: of what is appended", ALL, json!({"append": [{"source": "data:,", "compression": "GZIP"}]})),
        file("append twice", NONE, json!({"append": [{"source": "data:,x"}, {"source": "data:,x"}]})),
        hash("digest: sha512", NONE, format!("sha512-{:0128}", 7)),
        hash("digest: sha256", 0..1, format!("sha256-{:064}", 7)),
        hash("digest: other", ALL, format!("sha1-{:040}", 7)),
        hash("digest: no word", ALL, format!("{:0128}", 7)),
        hash("digest: empty", ALL, String::new()),
        hash("digest: length", ALL, format!("sha512-{:0127}", 7)),
        hash("digest: no hexadecimal", NONE, format!("sha512-{}", "z".repeat(128))),
        file(
            "digest: without source",
            ALL,
            json!({"contents": {"verification": {"hash": format!("sha512-{:0128}", 7)}}}),
        ),
        headers("headers: null is none", NONE, web(), json!([{"name": "a", "value": null}])),
        headers("headers: empty value", 1..9, web(), json!([{"name": "a", "value": ""}])),
        headers("headers: empty name", 1..9, web(), json!([{"name": "", "value": "a"}])),
        headers("headers: no name", 1..9, web(), json!([{"value": "a"}])),
        headers("headers: name twice", 1..9, web(), json!([{"name": "a", "value": "b"}, {"name": "a", "value": "c"}])),
        headers("headers: other case is another", NONE, web(), json!([{"name": "a"}, {"name": "A"}])),
        headers("headers: scheme", 1..9, json!("tftp://case/x"), json!([{"name": "a", "value": "b"}])),
        headers("headers: no source", 1..9, json!(null), json!([{"name": "a", "value": "b"}])),
        headers("headers: type", 1..9, web(), json!({"a": "b"})),
    ]
}

fn units(random: &mut Random) -> Vec<Case> {
    let kind = random.pick(&[
        "service",
        "socket",
        "device",
        "mount",
        "automount",
        "swap",
        "target",
        "path",
        "timer",
        "snapshot",
        "slice",
        "scope",
    ]);
    let contents = |rule, refused, text: &str| unit(rule, refused, json!({"contents": text}));
    let dropin = |rule, refused, more: Value| {
        unit(rule, refused, json!({"dropins": [with(json!({"name": "case.conf"}), more)]}))
    };
    vec![
        unit("unit: kind", NONE, json!({"name": format!("case@x.{kind}")})),
        unit("unit: other kind", ALL, json!({"name": "case.services"})),
        unit("unit: no kind", ALL, json!({"name": "case"})),
        unit("unit: no name", ALL, json!({"name": null})),
        unit("unit: kind only", NONE, json!({"name": ".service"})),
        unit("unit: kind in a folder", ALL, json!({"name": "case.service/x"})),
        case("unit: twice", ALL, [1, 2].map(|_| ("/systemd/units/-", json!({"name": "case.service"})))),
        contents("unit file: good", NONE, "[Unit]\nDescription=x\n\n[Install]\nWantedBy=multi-user.target\n"),
        contents("unit file: empty", NONE, ""),
        contents("unit file: no section", NONE, "A=b\n"),
        contents("unit file: no bracket", ALL, "[Unit\nA=b\n"),
        contents("unit file: after the bracket", ALL, "[Unit] x\nA=b\n"),
        contents("unit file: no equals sign", ALL, "[Unit]\nA\n"),
        contents("unit file: long line", ALL, &format!("[Unit]\nA={}\n", "x".repeat(2100))),
        contents("unit file: longest line", NONE, &format!("[Unit]\nA={}\n", "x".repeat(2000))),
        unit("unit: enabled without [Install]", NONE, json!({"enabled": true, "contents": "[Unit]\nA=b\n"})),
        dropin("drop-in: good", NONE, json!({"contents": "[Unit]\nA=b\n"})),
        dropin("drop-in: name", ALL, json!({"name": "case.service"})),
        dropin("drop-in: contents", ALL, json!({"contents": "[Unit]\nA"})),
        unit("drop-in: twice", ALL, json!({"dropins": [{"name": "a.conf"}, {"name": "a.conf"}]})),
        case(
            "unit and file at one path",
            NONE,
            [
                ("/systemd/units/-", json!({"name": "case.service", "contents": "[Unit]\n"})),
                ("/storage/files/-", json!({"path": "/etc/systemd/system/case.service"})),
            ],
        ),
    ]
}

fn others(_: &mut Random) -> Vec<Case> {
    let user =
        |rule, refused, more: Value| case(rule, refused, [("/passwd/users/-", with(json!({"name": "case"}), more))]);
    let twice =
        |rule, list: &'static str| case(rule, ALL, [(list, json!({"name": "case"})), (list, json!({"name": "case"}))]);
    let arguments = |rule, refused, lists: Value| case(rule, refused, [("/kernelArguments", lists)]);
    vec![
        twice("user: twice", "/passwd/users/-"),
        twice("group: twice", "/passwd/groups/-"),
        user("user: group twice", ALL, json!({"groups": ["a", "a"]})),
        user("user: key twice", ALL, json!({"sshAuthorizedKeys": ["a", "b", "a"]})),
        user("user: no name", NONE, json!({"name": null})),
        case("group: number", ALL, [("/passwd/groups/-", json!({"name": "case", "gid": "1"}))]),
        user("user: shouldExist", 2..9, json!({"shouldExist": "x"})),
        arguments("kernel argument: good", NONE, json!({"shouldExist": ["a", "b=1"], "shouldNotExist": ["c"]})),
        arguments("kernel argument: twice", 3..9, json!({"shouldExist": ["a", "a"]})),
        arguments("kernel argument: twice not", 3..9, json!({"shouldNotExist": ["a", "a"]})),
        arguments("kernel argument: in both lists", 3..9, json!({"shouldExist": ["a"], "shouldNotExist": ["a"]})),
    ]
}
