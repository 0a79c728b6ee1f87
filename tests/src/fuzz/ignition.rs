//! Ignition configs of users: examined, given a token, given files.

use firesteel_ignition::{self as ignition, NewFile};
use serde_json::Value;

const ORIGIN: &str = "https://192.0.2.1:8443/config/";
const TOKEN: &str = "TOKEN-of-this-boot";

pub(super) fn check(input: &[u8]) {
    let findings = ignition::validate(input);
    for text in findings.errors.iter().chain(&findings.warnings) {
        super::assert_plain(text);
    }
    if let Ok(own) = ignition::with_config_token(input, &[ORIGIN], TOKEN) {
        let (before, after): (Value, Value) =
            (serde_json::from_slice(input).unwrap(), serde_json::from_slice(&own).unwrap());
        if before.to_string().contains(ORIGIN) {
            assert_eq!(ignition::with_config_token(&own, &[ORIGIN], TOKEN).unwrap(), own, "once is enough");
        } else {
            assert_eq!(own, input, "a config that fetches nothing from us is handed over byte for byte");
        }
        for name in ignition::fetched_from(input, &[ORIGIN]) {
            assert!(!name.is_empty() && !name.contains(['/', '?', '#']), "{name:?} is a part of a path");
        }
        // A fuzzer learns the token from comparisons; a user cannot know it.
        if !before.to_string().contains(TOKEN) {
            assert_token_stays(&after);
        }
    }
    if !findings.errors.is_empty() {
        return;
    }
    let file = NewFile { path: "/etc/firesteel/nonce".into(), mode: 0o600, contents: b"nonce".to_vec() };
    if let Ok(more) = ignition::with_files(input, std::slice::from_ref(&file)) {
        let before: Value = serde_json::from_slice(input).unwrap();
        let mut after: Value = serde_json::from_slice(&more).unwrap();
        let files = after.pointer_mut("/storage/files").and_then(Value::as_array_mut).unwrap();
        assert_eq!(files.pop().unwrap()["path"], file.path.as_str());
        let old = before.pointer("/storage/files").and_then(Value::as_array).cloned().unwrap_or_default();
        assert_eq!(*files, old, "the files that were there stay as they were");
        assert_eq!(ignition::validate(&more).errors, [""; 0], "what we add is valid");
        assert!(ignition::with_files(&more, &[file]).is_err(), "a path is taken once");
    }
}

/// The token stands in the headers, or in the URLs, of sources below our origin and nowhere else.
fn assert_token_stays(config: &Value) {
    fn walk(value: &Value, inside: bool) {
        match value {
            Value::String(text) => assert!(inside || !text.contains(TOKEN), "the token left its place"),
            Value::Array(list) => list.iter().for_each(|item| walk(item, inside)),
            Value::Object(map) => {
                let own = map.get("source").and_then(Value::as_str).is_some_and(|source| source.starts_with(ORIGIN));
                map.values().for_each(|item| walk(item, inside || own));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    walk(config, false);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"ignition":{"version":"3.4.0"}}"#,
        r#"{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"https://192.0.2.1:8443/config/worker","httpHeaders":[{"name":"authorization","value":"x"}]}],"replace":{"source":null}},"timeouts":{"httpTotal":30}}}"#,
        r#"{"ignition":{"version":"3.0.0","config":{"replace":{"source":"https://192.0.2.1:8443/config/worker"}}}}"#,
        r#"{"ignition":{"version":"3.0.0","config":{"merge":[{"source":"https://192.0.2.1:8443/config/a/b/?x=y&token=z#f"},{"source":"https://192.0.2.1:8443/config/#?"}]}}}"#,
        r#"{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 A"]}]},"storage":{"files":[{"path":"/etc/hostname","mode":420,"overwrite":true,"contents":{"source":"data:,node%2d1","verification":{"hash":"sha256-0000000000000000000000000000000000000000000000000000000000000000"}}}],"directories":[{"path":"/a"}],"links":[{"path":"/b","target":"/a"}],"filesystems":[{"device":"/dev/disk/by-label/x","format":"ext4","path":"/var"}],"disks":[{"device":"/dev/vda","wipeTable":false,"partitions":[{"number":1,"label":"r","sizeMiB":0}]}]},"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]\n","dropins":[{"name":"10.conf","contents":"x"}]}]},"kernelArguments":{"shouldExist":["a"]}}"#,
        r#"{"ignition":{"version":"3.0.0","config":{"replace":{"source":"https://192.0.2.1:8443/config/worker"}},"timeouts":{"httpTotal":3900087322222222222222222222222159524592777339}}}"#,
        r#"{"ignition":{"version":"3.5.0","security":{"tls":{"certificateAuthorities":[{"source":"data:text/plain;charset=utf-8;base64,eA=="}]}},"proxy":{"httpsProxy":"http://[::1%25x]:3128","noProxy":["a"]}},"storage":{"luks":[{"name":"x","device":"/dev/x","keyFile":{"source":"s3://a/b?versionId=1"},"clevis":{"tang":[{"url":"http://a","thumbprint":"x","advertisement":"{}"}],"custom":{"pin":"sss","config":"x"}},"cex":{"enabled":true},"openOptions":["a"]}],"raid":[{"name":"m","level":"1","devices":["/dev/a"],"spares":0}],"files":[{"path":"/a/b","append":[{"source":"arn:aws:s3:::b/k"}]}],"links":[{"path":"/a","target":"..","hard":true}]},"systemd":{"units":[{"name":"a@b.service","enabled":true,"contents":"[Install]\nA=b\\\n c\n#"}]},"kernelArguments":{"shouldExist":["a"],"shouldNotExist":["a"]}}"#,
        r#"{"ignition":{"version":"3.3.0"},"storage":{"links":[{"path":"/etc","target":"/x"}]}}"#,
        r#"{"ignition":{"version":"3.3.0"},"storage":null,"Systemd":{},"x":1,"x":2}"#,
        r#"{"ignition":{"version":"2.2.0"}}"#,
        r#"{"ignition":{"version":"2.0.0\n"}}"#,
        r#"{"ignition":{"version":"3.0.0"},"\u001b[2J":1,"storage":{"files":[{"path":"/\n"},{"path":"/\n"}]}}"#,
        r#"{"ignition":{"version":"9.0.0\n"},"x\u001b[2J":1}"#,
        "not json",
        "\"a TOKEN-of-this-boot\"",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
