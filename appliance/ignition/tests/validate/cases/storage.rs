//! Cases of the rules of `storage`.

use std::ops::Range;

use serde_json::{Value, json};

use super::{super::random::Random, ALL, Case, NONE, case, file, with};

fn partitions(rule: &'static str, refused: Range<u8>, partitions: Value) -> Case {
    case(rule, refused, [("/storage/disks/-", json!({"device": "/dev/case", "partitions": partitions}))])
}

fn raid(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    let base = json!({"name": "case", "level": "raid1", "devices": ["/dev/case1", "/dev/case2"]});
    case(rule, refused, [("/storage/raid/-", with(base, more))])
}

fn filesystem(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    case(rule, refused, [("/storage/filesystems/-", with(json!({"device": "/dev/case"}), more))])
}

fn luks(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    case(rule, refused, [("/storage/luks/-", with(json!({"name": "case", "device": "/dev/case"}), more))])
}

fn link(rule: &'static str, refused: Range<u8>, more: Value) -> Case {
    case(rule, refused, [("/storage/links/-", with(json!({"path": "/case/link", "target": "x"}), more))])
}

pub(super) fn nodes(random: &mut Random) -> Vec<Case> {
    let list = random.pick(&["/storage/files/-", "/storage/directories/-", "/storage/links/-"]);
    let node =
        |rule, refused, more: Value| case(rule, refused, [(list, with(json!({"path": "/case", "target": "x"}), more))]);
    let below = |rule, list: &'static str| {
        let link = ("/storage/links/-", json!({"path": "/case/link", "target": "x"}));
        case(rule, ALL, [link, (list, json!({"path": "/case/link/below", "target": "x"}))])
    };
    let hard = |rule, refused, target: &str| {
        let directory = ("/storage/directories/-", json!({"path": "/case/dir/x"}));
        case(
            rule,
            refused,
            [directory, ("/storage/links/-", json!({"path": "/case/dir", "target": target, "hard": true}))],
        )
    };
    vec![
        node("path: none", ALL, json!({"path": null})),
        node("path: relative", ALL, json!({"path": "case"})),
        node("path: slash at its end", ALL, json!({"path": "/case/"})),
        node("path: dots", ALL, json!({"path": "/case/../x"})),
        node("path: two slashes", ALL, json!({"path": "//case"})),
        node("path: odd and good", NONE, json!({"path": "/case/...x/.y "})),
        case(
            "path: twice",
            ALL,
            [list, "/storage/files/-"].map(|list| (list, json!({"path": "/case", "target": "x"}))),
        ),
        node("owner: id and name", ALL, json!({"user": {"id": 0, "name": "x"}})),
        node("owner: group's id and name", ALL, json!({"group": {"id": 0, "name": "x"}})),
        node("owner: id and empty name", NONE, json!({"user": {"id": 0, "name": ""}})),
        file("mode: greatest", NONE, json!({"mode": 0o7777})),
        file("mode: too great", ALL, json!({"mode": 0o10000})),
        file("mode: below 0", ALL, json!({"mode": -1})),
        case("mode: of a directory", ALL, [("/storage/directories/-", json!({"path": "/case", "mode": 4096}))]),
        file("overwrite: without source", ALL, json!({"overwrite": true, "contents": {}})),
        file("overwrite: with empty source", NONE, json!({"overwrite": true, "contents": {"source": ""}})),
        file("overwrite: false", NONE, json!({"overwrite": false})),
        below("below a link: file", "/storage/files/-"),
        below("below a link: directory", "/storage/directories/-"),
        below("below a link: link", "/storage/links/-"),
        case(
            "below a link: like one",
            NONE,
            [
                ("/storage/links/-", json!({"path": "/case/link", "target": "x"})),
                ("/storage/files/-", json!({"path": "/case/linked/x"})),
            ],
        ),
        link("link: no target", 3..9, json!({"target": null})),
        link("link: empty target", 3..9, json!({"target": ""})),
        case(
            "hard link: to a directory",
            ALL,
            [
                ("/storage/directories/-", json!({"path": "/case/dir"})),
                ("/storage/links/-", json!({"path": "/case/link", "target": "/case//dir/.", "hard": true})),
            ],
        ),
        case(
            "hard link: to a directory beside it",
            ALL,
            [
                ("/storage/directories/-", json!({"path": "/case/dir"})),
                ("/storage/links/-", json!({"path": "/case/link", "target": "../dir", "hard": true})),
            ],
        ),
        hard("hard link: through itself", ALL, "x"),
        case(
            "soft link: to a directory",
            NONE,
            [
                ("/storage/directories/-", json!({"path": "/case/dir"})),
                ("/storage/links/-", json!({"path": "/case/link", "target": "/case/dir", "hard": false})),
            ],
        ),
    ]
}

pub(super) fn disks(random: &mut Random) -> Vec<Case> {
    let start = 1 + random.below(1000);
    let range =
        |number: usize, start: usize, size: usize| json!({"number": number, "startMiB": start, "sizeMiB": size});
    let disk = |rule, refused, more: Value| case(rule, refused, [("/storage/disks/-", more)]);
    vec![
        disk("disk: no device", ALL, json!({})),
        disk("disk: relative device", ALL, json!({"device": "dev/case"})),
        case(
            "disk: twice",
            ALL,
            [json!({"device": "/dev/case"}), json!({"device": "/dev/case"})].map(|disk| ("/storage/disks/-", disk)),
        ),
        partitions("partition: nothing", ALL, json!([{}])),
        partitions("partition: empty label", NONE, json!([{"label": ""}])),
        partitions("partition: label of 36", NONE, json!([{"label": "x".repeat(36)}])),
        partitions("partition: label of 37", ALL, json!([{"label": "x".repeat(37)}])),
        partitions("partition: label of 37 bytes", ALL, json!([{"label": format!("{}x", "ä".repeat(18))}])),
        partitions("partition: colon", ALL, json!([{"label": "a:b"}])),
        partitions("partition: guid", ALL, json!([{"number": 1, "guid": "01234567-89AB-CDEF-EDCB-A9876543210"}])),
        partitions("partition: type", ALL, json!([{"number": 1, "typeGuid": "0123456789ABCDEFEDCBA98765432101"}])),
        partitions(
            "partition: good and empty guid",
            NONE,
            json!([{"number": 1, "guid": "", "typeGuid": "01234567-89ab-CDEF-EDCB-A98765432101"}]),
        ),
        partitions("partition: number twice", ALL, json!([{"number": 1}, {"number": 1, "label": "x"}])),
        partitions("partition: label twice", ALL, json!([{"number": 1, "label": "x"}, {"number": 2, "label": "x"}])),
        partitions("partition: number 0 twice", NONE, json!([{"number": 0, "label": "x"}, {"label": "y"}])),
        partitions("partition: overlap", ALL, json!([range(1, start, 10), range(2, start + 9, 10)])),
        partitions("partition: within", ALL, json!([range(1, start + 2, 2), range(2, start, 10)])),
        partitions("partition: same start", ALL, json!([range(1, start, 1), range(2, start, 1)])),
        partitions("partition: beside", NONE, json!([range(1, start, 10), range(2, start + 10, 10)])),
        partitions("partition: size 0 within", ALL, json!([range(1, start, 10), range(2, start + 9, 0)])),
        partitions("partition: size 0 before", NONE, json!([range(1, start, 0), range(2, start + 1, 5)])),
        partitions("partition: start 0", NONE, json!([range(1, 0, 10), range(2, 0, 10), range(3, 1, 10)])),
        partitions(
            "partition: size below 0",
            ALL,
            json!([{"number": 1, "startMiB": 10, "sizeMiB": -5}, range(2, 8, 3)]),
        ),
        partitions(
            "partition: size goes round",
            ALL,
            json!([{"number": 1, "startMiB": i64::MAX, "sizeMiB": i64::MAX}, range(2, 8, 3)]),
        ),
        partitions("partition: is to go", NONE, json!([{"number": 1, "shouldExist": false}])),
        partitions("partition: is to go, with size", ALL, json!([{"number": 1, "shouldExist": false, "sizeMiB": 0}])),
        partitions("partition: is to go, with label", ALL, json!([{"number": 1, "shouldExist": false, "label": ""}])),
        partitions(
            "partition: is to go, with guid",
            ALL,
            json!([{"number": 1, "shouldExist": false, "guid": "01234567-89AB-CDEF-EDCB-A98765432101"}]),
        ),
        partitions(
            "partition: is to go, another has no number",
            ALL,
            json!([{"number": 1, "shouldExist": false}, {"label": "x"}]),
        ),
        case(
            "partition: below 0",
            NONE,
            [("/storage/disks/-", json!({"device": "/dev/case", "partitions": [{"number": -1}]}))],
        ),
        case(
            "partition: of no device",
            ALL,
            [("/storage/disks/-", json!({"partitions": [range(1, 1, 1), range(1, 1, 1)]}))],
        ),
        partitions("partition: resize", 2..9, json!([{"number": 1, "resize": 1}])),
    ]
}

pub(super) fn raids_and_filesystems(random: &mut Random) -> Vec<Case> {
    let level = random.pick(&["linear", "raid0", "0", "stripe"]);
    let other = random.pick(&["1", "mirror", "raid4", "4", "raid5", "5", "raid6", "6", "raid10", "10"]);
    let label = |bytes: usize| "x".repeat(bytes);
    let (format, most) = [("ext4", 16), ("btrfs", 256), ("xfs", 12), ("swap", 15), ("vfat", 11)][random.below(5)];
    let (field, value) = [
        ("path", json!("/case")),
        ("label", json!("x")),
        ("uuid", json!("x")),
        ("wipeFilesystem", json!(true)),
        ("options", json!(["x"])),
    ][random.below(5)]
    .clone();
    vec![
        raid("raid: no level", ALL, json!({"level": null})),
        raid("raid: level", ALL, json!({"level": "raid7"})),
        raid("raid: other level with spares", NONE, json!({"level": other, "spares": 2})),
        raid("raid: spares", ALL, json!({"level": level, "spares": 1})),
        raid("raid: no spares", NONE, json!({"level": level, "spares": 0})),
        raid("raid: no devices", ALL, json!({"devices": null})),
        raid("raid: device twice", ALL, json!({"devices": ["/dev/case1", "/dev/case1"]})),
        raid("raid: relative device", ALL, json!({"devices": ["case1"]})),
        raid("raid: device is null", ALL, json!({"devices": ["/dev/case1", null]})),
        raid("raid: option twice", NONE, json!({"options": ["x", "x"]})),
        raid("raid: no name", NONE, json!({"name": null})),
        case(
            "raid: name twice",
            ALL,
            [1, 2].map(|at| {
                ("/storage/raid/-", json!({"name": "case", "level": "1", "devices": [format!("/dev/{at}")]}))
            }),
        ),
        filesystem("filesystem: nothing said", NONE, json!({})),
        filesystem("filesystem: no format", ALL, json!({field: value})),
        filesystem("filesystem: no format, mount options", 1..9, json!({"mountOptions": ["x"]})),
        filesystem("filesystem: format", ALL, json!({"format": "ext3"})),
        filesystem("filesystem: none", 0..3, json!({"format": "none", "path": "/case"})),
        filesystem("filesystem: longest label", NONE, json!({"format": format, "label": label(most)})),
        filesystem("filesystem: label too long", ALL, json!({"format": format, "label": label(most + 1)})),
        filesystem("filesystem: relative path", ALL, json!({"format": "xfs", "path": "case"})),
        filesystem("filesystem: empty path", NONE, json!({"format": "xfs", "path": ""})),
        filesystem("filesystem: no device", ALL, json!({"format": "xfs", "device": null})),
        filesystem("filesystem: device", ALL, json!({"format": "xfs", "device": "/dev/./case"})),
        filesystem(
            "filesystem: option twice",
            NONE,
            json!({"format": "xfs", "options": ["x", "x"], "mountOptions": ["x", "x"]}),
        ),
        case(
            "filesystem: device twice",
            ALL,
            [json!({"device": "/dev/case"}), json!({"device": "/dev/case"})].map(|one| ("/storage/filesystems/-", one)),
        ),
    ]
}

pub(super) fn volumes(_: &mut Random) -> Vec<Case> {
    let clevis = |rule, refused, clevis: Value| luks(rule, refused, json!({"clevis": clevis}));
    let tang = |more: Value| with(json!({"url": "http://case", "thumbprint": "x"}), more);
    let good = json!({"pin": "tang", "config": "{}"});
    vec![
        luks("luks: good", NONE, json!({"keyFile": {"source": "data:,x"}, "options": ["x", "x"]})),
        luks("luks: name", 2..9, json!({"name": "a/b"})),
        luks("luks: label of 47", NONE, json!({"label": "x".repeat(47)})),
        luks("luks: label of 48", 2..9, json!({"label": "x".repeat(48)})),
        luks("luks: no device", 2..9, json!({"device": null})),
        luks("luks: relative device", 2..9, json!({"device": "case"})),
        luks("luks: key file", 2..9, json!({"keyFile": {"source": "case"}})),
        luks("luks: key file's digest", 2..9, json!({"keyFile": {"source": "data:,x", "verification": {"hash": "x"}}})),
        case(
            "luks: name twice",
            2..9,
            [1, 2].map(|at| ("/storage/luks/-", json!({"name": "case", "device": format!("/dev/{at}")}))),
        ),
        clevis("clevis: good", NONE, json!({"tpm2": true, "threshold": 2, "tang": [tang(json!({}))]})),
        clevis("clevis: tang without URL", 2..9, json!({"tang": [tang(json!({"url": null}))]})),
        clevis("clevis: tang by other scheme", 2..9, json!({"tang": [tang(json!({"url": "ldap://case"}))]})),
        clevis("clevis: tang without thumbprint", 2..9, json!({"tang": [tang(json!({"thumbprint": ""}))]})),
        clevis("clevis: tang twice", 2..9, json!({"tang": [tang(json!({})), tang(json!({}))]})),
        clevis("clevis: custom", NONE, json!({"custom": good})),
        clevis("clevis: custom without pin", 2..9, json!({"custom": {"config": "{}"}})),
        clevis("clevis: custom without config", 2..9, json!({"custom": {"pin": "sss"}})),
        clevis("clevis: custom pin", 2..9, json!({"custom": {"pin": "null", "config": "{}"}})),
        clevis(
            "clevis: custom says nothing",
            NONE,
            json!({"custom": {"pin": "", "config": "", "needsNetwork": false}}),
        ),
        clevis("clevis: custom needs network only", 3..9, json!({"custom": {"needsNetwork": true}})),
        clevis("clevis: custom and tpm2", 2..9, json!({"custom": good, "tpm2": true})),
        clevis("clevis: custom and tang", 2..9, json!({"custom": good, "tang": [tang(json!({}))]})),
        clevis("clevis: custom and threshold", 2..9, json!({"custom": good, "threshold": 1})),
        clevis("clevis: custom and nothing", NONE, json!({"custom": good, "tpm2": false, "threshold": 0, "tang": []})),
        clevis("clevis: empty custom and tpm2", 2..3, json!({"custom": {}, "tpm2": true})),
        clevis("clevis: null custom and tpm2", NONE, json!({"custom": null, "tpm2": true})),
    ]
}
