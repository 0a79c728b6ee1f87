//! Stream metadata and golden lists, as publishers and clusters give them.

use firesteel_images::catalogue;

pub(super) fn check(input: &[u8]) {
    catalogue::check(input);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let a = "6393ddcc0cd405d6a102e64d0dfeb1019854b4f4476de10d1f20cfc573f910a8";
    let b = "445d97cbda5ebd956ef649fbabab9a4732c91382ecc017ef01fbfe7b1483c001";
    let disk = |name: &str, sha256: &str| {
        format!(
            r#"{{"disk":{{"location":"https://example.com/{name}","signature":"https://example.com/{name}.sig","sha256":"{sha256}","uncompressed-sha256":"{b}"}}}}"#
        )
    };
    let part = |name: &str, digit: char| {
        format!(r#""{name}":{{"location":"https://example.com/{name}","sha256":"{}"}}"#, digit.to_string().repeat(64))
    };
    let metal = format!(
        r#"{{"release":"44.20260707.3.1","formats":{{"raw.xz":{},"4k.raw.xz":{},"pxe":{{{},{},{}}},"iso":{}}}}}"#,
        disk("d.raw.xz", a),
        disk("4.raw.xz", b),
        part("kernel", '1'),
        part("initramfs", '2'),
        part("rootfs", '3'),
        disk("l.iso", &"4".repeat(64)),
    );
    let stream = format!(
        r#"{{"stream":"stable","metadata":{{"last-modified":"2026-07-21T14:07:12Z"}},"architectures":{{"x86_64":{{"artifacts":{{"metal":{metal}}}}},"s390x":{{"images":{{}}}}}}}}"#
    );
    let quoted = serde_json::to_string(&stream).unwrap();
    let streams = serde_json::to_string(&format!(r#"{{"rhel-9":{stream},"rhel-10":5}}"#)).unwrap();
    let list = format!(
        r#"{{"kind":"ConfigMap","data":{{"stream":{quoted},"streams":{streams},"releaseVersion":"4.21.0","MCOVersionHash":"00","MCOReleaseImageVersion":"4.21.0"}}}}"#
    );
    [
        stream.replace("x86_64", "vax\\u001b"),
        stream.replace("https://example.com/d", "https://u:p@example.com/../d\\r\\n"),
        stream.replace("\"release\"", "\"release\":\"1\",\"release\""),
        stream.replace(b, a),
        stream,
        list,
        r#"{"stream":"x","architectures":{"x86_64":{"artifacts":{"metal":{"formats":[]}}}}}"#.to_owned(),
        "[[[[[[[[".to_owned(),
        "{}".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
