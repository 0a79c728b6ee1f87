//! User data of owners: read in every form, brought from spec 2 to 3.2, its CA rotated.

use firesteel_ignition::stub::authority::{StubCaChange, rotate};
use firesteel_ignition::stub::form::{self, Base64Layout, ParsedUserData, USER_DATA_BYTES_MAX, UserDataForm};
use firesteel_ignition::stub::managed_stub::{CONFIG_PORT, Endpoint, StubSpec, managed};
use firesteel_ignition::stub::spec2::Sectors;
use firesteel_ignition::stub::upgrade::{Upgrade, UpgradeTargets, upgrade};
use firesteel_ignition::{self as ignition, StubAuthority};

const OLD: &str = "-----BEGIN CERTIFICATE-----\nb2xk\n-----END CERTIFICATE-----\n";
const NEW: &str = "-----BEGIN CERTIFICATE-----\nbmV3\n-----END CERTIFICATE-----\n";

fn endpoint() -> Endpoint {
    Endpoint::new("192.0.2.1", CONFIG_PORT).unwrap()
}

pub(super) fn check(input: &[u8]) {
    let authority = StubAuthority::new(&format!("{NEW}{OLD}"), &[OLD]).unwrap();
    let ours = UpgradeTargets { endpoints: &[endpoint()], authority: Some(&authority), sectors: Sectors::Bytes512 };
    let Ok(ParsedUserData::Json { text, form }) = form::read(input) else {
        if let Upgrade::Refused(error) = upgrade(input, &ours) {
            super::assert_plain(&error.to_string());
        }
        return;
    };
    assert!(text.len() <= ignition::CONFIG_BYTES_MAX, "nothing grows past its bound");
    let again = form::write(&text, form);
    assert!(again.len() <= USER_DATA_BYTES_MAX * 2);
    let Ok(ParsedUserData::Json { text: same, .. }) = form::read(&again) else { panic!("what was written is read") };
    assert_eq!(same, text);
    match upgrade(input, &ours) {
        Upgrade::Ignored(_) => panic!("JSON is not cloud-init's"),
        Upgrade::Unchanged { authority: state, .. } => assert_ne!(state, StubCaChange::Rotated),
        Upgrade::Refused(error) => super::assert_plain(&error.to_string()),
        Upgrade::Changed(change) => {
            let Ok(ParsedUserData::Json { text: changed, form: kept }) = form::read(&change.bytes) else {
                panic!("a form")
            };
            assert_eq!(kept.gzip, form.gzip);
            if change.from_version == change.to_version {
                assert_one_value_differs(&text, &changed);
            } else {
                let errors = ignition::validate(changed.as_bytes()).errors;
                assert_eq!(errors, [""; 0], "what we convert is valid");
            }
            // What is decided once stays decided.
            assert!(matches!(upgrade(&change.bytes, &ours), Upgrade::Unchanged { .. }));
            assert_eq!(rotate(&changed, ours.endpoints, &authority).0, None);
        }
    }
}

/// The texts are the same up to one place and after it.
fn assert_one_value_differs(before: &str, after: &str) {
    let new = StubAuthority::new(&format!("{NEW}{OLD}"), &[]).unwrap();
    let stub = managed("w", &endpoint(), &new, StubSpec::V3_2).unwrap();
    let value = stub.rsplit_once("\"source\":").unwrap().1.trim_end_matches(['}', ']']).to_owned();
    let fits = after.match_indices(&value).any(|(at, _)| {
        let (head, tail) = (&after[..at], &after[at + value.len()..]);
        before.len() >= head.len() + tail.len() && before.starts_with(head) && before.ends_with(tail)
    });
    assert!(fits, "another byte changed");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let old = StubAuthority::new(OLD, &[]).unwrap();
    let made = |spec| managed("worker", &endpoint(), &old, spec).unwrap();
    let (new, two) = (made(StubSpec::V3_2), made(StubSpec::V2_2));
    let lines = |width| Some(Base64Layout { width, ended: true });
    let mut seeds = vec![
        form::write(&new, UserDataForm::PLAIN),
        form::write(&new, UserDataForm { gzip: true, base64: None }),
        form::write(&new, UserDataForm { gzip: true, base64: lines(Some(76)) }),
        form::write(&two, UserDataForm { gzip: false, base64: lines(None) }),
    ];
    seeds.extend(
        [
            two.as_str(),
            "#cloud-config\nhostname: a\n",
            "Content-Type: multipart/mixed; boundary=\"x\"\n",
            r#"{"ignition":{"version":"3.2.0","security":{"tls":{"certificateAuthorities":[{"source":"data:,x","verification":{"hash":"sha512-"}},{}]},"tls":null},"Security":1}}"#,
            r#"{"ignition":{"version":"2.4.0","config":{"append":[{"source":"data:,%7B%7D","httpHeaders":[{"name":"a","value":"b"}]}],"replace":null},"timeouts":{"httpTotal":1},"proxy":{"noProxy":["a"]}},"networkd":{"units":[{"name":"a.network","contents":"x","dropins":[{"name":"b.conf","contents":"y"}]}]}}"#,
            r#"{"ignition":{"version":"2.1.0"},"storage":{"disks":[{"device":"/dev/a","wipeTable":true,"partitions":[{"label":"v","number":1,"size":2048,"start":2048,"typeGuid":"","guid":""}]}],"raid":[{"name":"r","level":"raid1","devices":["/dev/b"],"spares":1}],"filesystems":[{"name":"v","mount":{"device":"/dev/v","format":"xfs","create":{"force":true,"options":["a"]}}},{"name":"root","path":"/sysroot"}],"files":[{"filesystem":"v","path":"/a","mode":420,"append":true,"contents":{"source":"data:,a","compression":"gzip"}},{"filesystem":"v","path":"/a","mode":420,"append":true}],"directories":[{"filesystem":"root","path":"/d","user":{"id":1}}],"links":[{"filesystem":"v","path":"/l","target":"/a","hard":true}]},"systemd":{"units":[{"name":"v.mount","enable":true,"contents":"[Mount]\nWhat=/dev/v\nWhere=/v\n"}]},"passwd":{"users":[{"name":"a","create":{"uid":1}}],"groups":[{"name":"g","gid":1}]}}"#,
        ]
        .map(|text| text.as_bytes().to_vec()),
    );
    seeds
}
