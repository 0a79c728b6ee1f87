//! What pools are made of, and what clients ask for: the header Accept, machine configs, the versions served.

use firesteel_ignition::render::{Additions, Defaults, PoolRenderError, RenderableConfig, render, serve};
use firesteel_ignition::stub::spec2::{DuplicatePolicy, Sectors, Spec2Options, convert};
use firesteel_ignition::{self as ignition, SpecVersion, downgrade, version_negotiation};
use serde_json::Value;

/// Messages: the header first, then each a machine config's Ignition config.
pub(super) fn check(input: &[u8]) {
    let mut messages = super::messages(input);
    let header = messages.next().and_then(|header| std::str::from_utf8(header).ok()).unwrap_or_default();
    let asked = version_negotiation::negotiate(header);
    let configs: Vec<RenderableConfig> = messages.enumerate().map(machine).collect();
    match render("worker", &configs, &Defaults::default()) {
        Err(error) => {
            super::assert_plain(&error.to_string());
            if let PoolRenderError::Contradiction { first, second, .. } = error {
                assert_ne!(first, second, "a contradiction is between two");
            }
        }
        Ok(rendered) => {
            assert_eq!(ignition::validate(rendered.config.to_string().as_bytes()).errors, [""; 0]);
            let mut reversed = configs;
            reversed.reverse();
            assert_eq!(render("worker", &reversed, &Defaults::default()).unwrap(), rendered, "order says nothing");
            for version in SpecVersion::ALL.into_iter().chain(asked) {
                served(&rendered.config, version);
                match serve(&rendered, &Additions::default(), version) {
                    Ok(served) => assert!(!served.bytes.is_empty()),
                    Err(error) => super::assert_plain(&error.to_string()),
                }
            }
        }
    }
}

fn machine((index, config): (usize, &[u8])) -> RenderableConfig {
    RenderableConfig {
        name: format!("{index:04}"),
        role: if index % 2 == 0 { "worker" } else { "web" }.to_owned(),
        config: Some(serde_json::from_slice(config).unwrap_or(Value::Null)),
        ..RenderableConfig::default()
    }
}

/// What is served is valid in its version.
fn served(config: &Value, version: SpecVersion) {
    match downgrade::convert(config.clone(), version) {
        Err(error) => super::assert_plain(&error.to_string()),
        Ok(served) if version == SpecVersion::V2_2 => {
            let options = Spec2Options { sectors: Sectors::Unknown, duplicates: DuplicatePolicy::Refused };
            if let Err(error) = convert(served, options) {
                super::assert_plain(&error.to_string());
            }
        }
        Ok(served) => {
            assert_eq!(served["ignition"]["version"], version.text());
            assert_eq!(downgrade::convert(served.clone(), version).unwrap(), served, "once is enough");
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let file = r#"{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"data:,a","compression":"gzip"}},{"path":"/b","append":[{"source":"data:,b"}]}],"filesystems":[{"device":"/dev/v","format":"xfs","path":"/v","mountOptions":["ro"]}],"disks":[{"device":"/dev/a","partitions":[{"number":1,"label":"x","sizeMiB":0}]}]},"kernelArguments":{"shouldExist":["a","a"]}}"#;
    let link = r#"{"ignition":{"version":"3.1.0","config":{"merge":[{"source":"https://a.example/x","httpHeaders":[{"name":"a","value":"b"}]}]}},"storage":{"links":[{"path":"/a","target":"/v/b","hard":true}]},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]},"systemd":{"units":[{"name":"a.service","enabled":true,"dropins":[{"name":"1.conf","contents":"x"}]}]}}"#;
    let luks = r#"{"ignition":{"version":"3.5.0"},"storage":{"luks":[{"name":"l","device":"/dev/a","keyFile":{"source":"data:,k"},"discard":true}]},"kernelArguments":{"shouldNotExist":["a"]}}"#;
    let old = r#"{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,2"}}]}}"#;
    let ask = "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1";
    let seed = |parts: &[&str]| super::joined(&parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
    vec![
        seed(&[ask, file, link, luks, old]),
        seed(&[ask, file]),
        seed(&[
            "application/vnd.coreos.ignition+json; version=2.4.0, application/vnd.coreos.ignition+json; version=1; q=0.5",
            link,
            old,
        ]),
        seed(&["a/b;q=x;version=3", luks, "{}", "null"]),
        seed(&[
            "",
            r#"{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/l/a"}]}}"#,
            r#"{"ignition":{"version":"3.0.0"},"storage":{"links":[{"path":"/l","target":"x"}]}}"#,
        ]),
    ]
}
