use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::json;

use super::{authority, endpoint};
use crate::fixtures::{assert_valid, authority_of, certificate, json as parsed, stub};
use crate::stub::authority::{LeftAlone, StubCaChange};
use crate::stub::form::{NotIgnition, UserDataError};
use crate::stub::managed_stub::{Endpoint, StubSpec, managed};
use crate::stub::spec2::Sectors;
use crate::stub::upgrade::{StubUpgradeResult, Upgrade, UpgradeError, UpgradeTargets, upgrade};
use crate::{StubAuthority, pem};

const HOST: &str = "api-int.cluster.example.com";

fn with(bytes: &[u8], endpoints: &[Endpoint], to: &StubAuthority) -> Upgrade {
    upgrade(bytes, &UpgradeTargets { endpoints, authority: Some(to), sectors: Sectors::Unknown })
}

fn changed(upgrade: Upgrade) -> StubUpgradeResult {
    let Upgrade::Changed(change) = upgrade else { panic!("{upgrade:?}") };
    *change
}

/// S1.14
#[test]
fn upstreams_spec_2_stub_becomes_its_spec_3_stub() {
    let (Some(old), Some(new)) = (stub("v2-worker.json"), stub("v3-worker-dns.json")) else { return };
    let to = authority(&authority_of(&new));
    let at = [endpoint(HOST)];
    let change = changed(with(&old, &at, &to));
    assert_eq!(parsed(&change.bytes), parsed(&new), "the same URL and CA");
    assert_eq!((change.from_version.as_str(), change.to_version.as_str()), ("2.2.0", "3.2.0"));
    assert_eq!(change.before_sha256, hex::encode(pem::sha256(&old)));
    assert_eq!(change.after_sha256, hex::encode(pem::sha256(&change.bytes)));
    assert_eq!((change.authority, change.notes), (StubCaChange::Current, Vec::new()));
    assert_valid(&parsed(&change.bytes));
    assert!(matches!(with(&change.bytes, &at, &to), Upgrade::Unchanged { .. }), "once is enough");
}

/// S1.14
#[test]
fn the_form_stays_through_a_conversion() {
    let (Some(old), Some(new)) = (stub("v2-worker.json.gz"), stub("v3-worker-dns.json")) else { return };
    let change = changed(with(&old, &[endpoint(HOST)], &authority(&authority_of(&new))));
    let mut text = Vec::new();
    GzDecoder::new(&change.bytes[..]).read_to_end(&mut text).unwrap();
    assert_eq!(parsed(&text), parsed(&new));
    let Some(insecure) = stub("v2-worker-insecure-no-ca.json") else { return };
    let change = changed(with(&insecure, &[endpoint(HOST)], &authority(&authority_of(&new))));
    assert_eq!(change.authority, StubCaChange::None);
    assert_eq!(change.notes.len(), 1, "it fetches from elsewhere: {:?}", change.notes);
}

/// S1.15
#[test]
fn a_spec_3_stub_with_the_present_ca_is_not_touched() {
    let names = [
        "v3-worker-dns.json",
        "v3-worker-dns.json.gz",
        "v3-worker-dns.json.gz.b64",
        "v3-master-vip-ipv4.json",
        "v3-worker-vip-ipv6.json",
        "v3.1-worker.json",
        "v3-worker-with-token-header.json",
    ];
    for name in names {
        let (Some(bytes), Some(plain)) = (stub(name), stub("v3-worker-dns.json")) else { return };
        let version = if name.starts_with("v3.1") { "3.1.0" } else { "3.2.0" }.to_owned();
        let wanted = Upgrade::Unchanged { version, authority: StubCaChange::Current };
        assert_eq!(with(&bytes, &[endpoint(HOST)], &authority(&authority_of(&plain))), wanted, "{name}");
    }
}

fn customised(version: &str) -> serde_json::Value {
    let stub = managed("worker", &endpoint(HOST), &authority(&certificate("old")), StubSpec::V3_2).unwrap();
    let mut config = parsed(stub.as_bytes());
    config["ignition"]["version"] = json!(version);
    config["storage"] = json!({
        "disks": [{"device": "/dev/disk/by-id/wwn-0x1", "wipeTable": false, "partitions": [
            {"label": "var", "number": 5, "startMiB": 25000, "sizeMiB": 0},
        ]}],
        "filesystems": [{"device": "/dev/disk/by-partlabel/var", "format": "xfs", "path": "/var", "label": "var"}],
    });
    config["systemd"] = json!({"units": [{"name": "var.mount", "enabled": true, "contents":
        "[Mount]\nWhat=/dev/disk/by-partlabel/var\nWhere=/var\n[Install]\nWantedBy=local-fs.target\n"}]});
    config
}

/// S1.16
#[test]
fn a_rotation_keeps_what_the_owner_added() {
    // With an owner's layout and key order.
    let text = format!("{:#}\n", customised("3.2.0"));
    let to = StubAuthority::new(&certificate("new"), &[&certificate("old")]).unwrap();
    let change = changed(with(text.as_bytes(), &[endpoint(HOST)], &to));
    let (old, new) = (authority(&certificate("old")).source(), to.source());
    assert_eq!(String::from_utf8(change.bytes).unwrap(), text.replace(&old, &new));
    assert_eq!(change.authority, StubCaChange::Rotated);
}

/// S1.16
#[test]
fn a_conversion_keeps_what_the_owner_added() {
    let wanted = customised("3.2.0");
    let mut old = wanted.clone();
    old["ignition"] = json!({
        "version": "2.4.0",
        "config": {"append": wanted["ignition"]["config"]["merge"]},
        "security": wanted["ignition"]["security"],
    });
    let filesystem = json!({"device": "/dev/disk/by-partlabel/var", "format": "xfs", "label": "var"});
    old["storage"]["filesystems"] = json!([{"name": "var", "mount": filesystem}]);
    old["storage"]["files"] =
        json!([{"filesystem": "var", "path": "/a", "mode": 384, "contents": {"source": "data:,a"}}]);
    let mut wanted = wanted;
    wanted["storage"]["files"] =
        json!([{"path": "/var/a", "mode": 384, "overwrite": true, "contents": {"source": "data:,a"}}]);
    wanted["storage"]["disks"][0].as_object_mut().unwrap().remove("wipeTable");
    let to = authority(&certificate("old"));
    let change = changed(with(old.to_string().as_bytes(), &[endpoint(HOST)], &to));
    assert_eq!(parsed(&change.bytes), wanted);
}

/// S1.17
#[test]
fn what_is_no_stub_is_refused() {
    let to = authority(&certificate("a"));
    let refused = |bytes: &[u8]| match with(bytes, &[endpoint(HOST)], &to) {
        Upgrade::Refused(error) => error,
        other @ (Upgrade::Unchanged { .. } | Upgrade::Ignored(_) | Upgrade::Changed(_)) => panic!("{other:?}"),
    };
    assert_eq!(refused(b"hostname: a"), UpgradeError::Form(UserDataError::Unknown));
    assert!(matches!(refused(b"{\"ignition\":"), UpgradeError::Json { line: 1, .. }));
    assert_eq!(refused(b"{}"), UpgradeError::NoVersion);
    assert_eq!(refused(br#"{"ignition":{"version":3}}"#), UpgradeError::NoVersion);
    assert_eq!(refused(br#"{"ignitionVersion":1}"#), UpgradeError::NoVersion);
    for version in ["", "4.0.0", "1.0.0", "2.5.0-experimental", "2.9.0", "3", "three"] {
        let text = format!(r#"{{"ignition":{{"version":"{version}"}}}}"#);
        assert_eq!(refused(text.as_bytes()), UpgradeError::UnknownVersion, "{version}");
    }
    let typo = br#"{"ignition":{"version":"2.2.0"},"storage":{"file":[{"secret":1}]}}"#;
    let told = refused(typo).to_string();
    assert!(told.contains("storage.file:") && !told.contains("secret"), "{told}");
    for (name, error) in [
        ("invalid-no-version.json", UpgradeError::NoVersion),
        ("invalid-unknown-major.json", UpgradeError::UnknownVersion),
    ] {
        let Some(bytes) = stub(name) else { return };
        assert_eq!(refused(&bytes), error, "{name}");
    }
}

/// S1.22
#[test]
fn cloud_init_is_ignored_and_two_cas_are_told() {
    let to = authority(&certificate("a"));
    let (Some(cloud), Some(two)) = (stub("invalid-not-json.txt"), stub("v3-worker-two-cas.json")) else { return };
    assert_eq!(with(&cloud, &[endpoint(HOST)], &to), Upgrade::Ignored(NotIgnition::CloudConfig));
    let authority = StubCaChange::LeftAlone(LeftAlone::Several(2));
    assert_eq!(with(&two, &[endpoint(HOST)], &to), Upgrade::Unchanged { version: "3.2.0".into(), authority });
}

#[test]
fn a_change_does_not_show_in_debug_output() {
    let text = customised("3.2.0").to_string();
    let to = StubAuthority::new(&certificate("new"), &[&certificate("old")]).unwrap();
    let told = format!("{:?}", with(text.as_bytes(), &[endpoint(HOST)], &to));
    assert!(told.contains("Rotated") && !told.contains("local-fs") && !told.contains("bytes"), "{told}");
}
