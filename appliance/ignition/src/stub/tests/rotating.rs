use proptest::prelude::*;
use serde_json::{Value, json};

use super::{authority, endpoint};
use crate::fixtures::{authority_of, certificate, json as parsed, stub};
use crate::stub::authority::{LeftAlone, StubCaChange, rotate};
use crate::stub::managed_stub::{StubSpec, managed};
use crate::{StubAuthority, data_url};

fn source(pem: &str) -> Value {
    json!({"source": data_url::encode(pem.as_bytes())})
}

fn config(authorities: Value) -> String {
    json!({"ignition": {
        "version": "3.2.0",
        "config": {"merge": [{"source": "https://config.example:22623/config/worker"}]},
        "security": {"tls": {"certificateAuthorities": authorities}},
    }})
    .to_string()
}

fn state(text: &str, to: &StubAuthority) -> StubCaChange {
    let (changed, state) = rotate(text, &[endpoint("config.example")], to);
    assert_eq!(changed.is_some(), state == StubCaChange::Rotated, "{state:?}");
    state
}

/// S1.22: upstream's stub before a rotation becomes the one after it, in one value.
#[test]
fn a_single_ca_is_replaced_and_nothing_else() {
    let (Some(before), Some(after)) = (stub("v3-worker-dns.json"), stub("v3-worker-ca-rotated.json")) else { return };
    let (old, new) = (authority_of(&before), authority_of(&after));
    let to = StubAuthority::new(&new, &[&old]).unwrap();
    let text = String::from_utf8(before).unwrap();
    let (changed, state) = rotate(&text, &[endpoint("api-int.cluster.example.com")], &to);
    assert_eq!((changed.unwrap().into_bytes(), state), (after, StubCaChange::Rotated));
}

/// S1.22: an overlap is one entry with both, and is recognised at its end.
#[test]
fn an_overlap_begins_and_ends() {
    let (old, new) = (certificate("old"), certificate("new"));
    let at = [endpoint("config.example")];
    let before = managed("worker", &at[0], &authority(&old), StubSpec::V3_2).unwrap();
    let both = StubAuthority::new(&format!("{new}{old}"), &[&old]).unwrap();
    let during = rotate(&before, &at, &both).0.unwrap();
    assert_eq!(authority_of(during.as_bytes()), format!("{new}{old}"));
    assert_eq!(rotate(&during, &at, &both), (None, StubCaChange::Current), "once is enough");
    let after = rotate(&during, &at, &StubAuthority::new(&new, &[&old]).unwrap()).0.unwrap();
    assert_eq!(after, managed("worker", &at[0], &authority(&new), StubSpec::V3_2).unwrap());
}

/// S1.22
#[test]
fn a_stub_with_two_cas_is_left_alone() {
    let Some(two) = stub("v3-worker-two-cas.json") else { return };
    let to = authority(&authority_of(&two));
    let text = String::from_utf8(two).unwrap();
    let (changed, state) = rotate(&text, &[endpoint("api-int.cluster.example.com")], &to);
    assert_eq!((changed, state), (None, StubCaChange::LeftAlone(LeftAlone::Several(2))));
}

#[test]
fn what_may_be_the_owners_is_left_alone_with_a_reason() {
    let (old, new, own) = (certificate("old"), certificate("new"), certificate("own"));
    let to = StubAuthority::new(&new, &[&old]).unwrap();
    let pinned = json!([{"source": source(&old)["source"], "verification": {"hash": "sha512-00"}}]);
    let packed = json!([{"source": source(&old)["source"], "compression": "gzip"}]);
    let cases = [
        (json!([source(&old), source(&own)]), LeftAlone::Several(2)),
        (json!([source(&format!("{old}{own}"))]), LeftAlone::OwnBundle),
        (json!([{"source": "https://pki.example/ca.pem"}]), LeftAlone::Fetched),
        (pinned, LeftAlone::Pinned),
        (packed, LeftAlone::Compressed),
        (json!([source("no certificate")]), LeftAlone::Unreadable),
        (json!([{"source": "data:;base64,!"}]), LeftAlone::Unreadable),
        (json!([{}]), LeftAlone::Unreadable),
        (json!({}), LeftAlone::Unreadable),
    ];
    for (authorities, reason) in cases {
        assert_eq!(state(&config(authorities), &to), StubCaChange::LeftAlone(reason));
    }
    assert_eq!(state(&config(json!([source(&own)])), &to), StubCaChange::Rotated, "the only one, for us alone");
    let mut proxied = parsed(config(json!([source(&own)])).as_bytes());
    proxied["ignition"]["proxy"] = json!({"httpsProxy": "https://proxy.example"});
    assert_eq!(state(&proxied.to_string(), &to), StubCaChange::Rotated, "through a proxy, and still for us alone");
    let foreign = config(json!([source(&own)])).replace("config.example", "other.example");
    assert_eq!(state(&foreign, &to), StubCaChange::LeftAlone(LeftAlone::Elsewhere));
    let mut shared = parsed(config(json!([source(&own)])).as_bytes());
    shared["storage"] = json!({"files": [{"path": "/a", "contents": {"source": "https://other.example/a"}}]});
    assert_eq!(state(&shared.to_string(), &to), StubCaChange::LeftAlone(LeftAlone::Foreign));
    for absent in [json!(null), json!([])] {
        assert_eq!(state(&config(absent), &to), StubCaChange::None);
    }
    assert_eq!(state(r#"{"ignition":{"version":"3.2.0"}}"#, &to), StubCaChange::None);
}

/// Go reads names in any case, and the last of two; where that matters the meaning is not certain.
#[test]
fn a_doubtful_name_is_left_alone() {
    let to = authority(&certificate("new"));
    let good = config(json!([source(&certificate("old"))]));
    for (name, other) in
        [("\"security\"", "\"Security\""), ("\"tls\"", "\"TLS\""), ("\"source\":\"data", "\"SOURCE\":\"data")]
    {
        let doubtful = good.replacen(name, other, 1);
        assert_ne!(doubtful, good);
        assert_eq!(state(&doubtful, &to), StubCaChange::LeftAlone(LeftAlone::Doubtful), "{other}");
    }
    let twice = good.replacen("\"security\":", "\"security\":{},\"security\":", 1);
    assert_eq!(state(&twice, &to), StubCaChange::LeftAlone(LeftAlone::Doubtful));
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// S1.15: whatever else is in a stub, and however it is laid out.
    #[test]
    fn a_rotation_changes_the_one_value_and_no_other_byte(
        before in arb_json(), after in arb_json(), space in "[ \n\t]{0,6}", escape: bool,
    ) {
        let old = data_url::encode(certificate("old").as_bytes());
        let value = if escape { old.replace('/', "\\/") } else { old };
        let stub = |value: &str| format!(
            "{space}{{\"a\":{before},{space}\"ignition\"{space}:{{\"z\":{after},\"version\":\"3.2.0\",\"config\":{{\"merge\":[{{\"source\":\"https://config.example:22623/config/w\"}}]}},\"security\":{{{space}\"tls\":{{\"certificateAuthorities\":[{space}{{\"source\":{space}\"{value}\"{space},\"verification\":{{\"hash\":null}}}}]}}}}}},\"b\":{after}{space}}}\n"
        );
        let to = StubAuthority::new(&certificate("new"), &[&certificate("old")]).unwrap();
        let (changed, state) = rotate(&stub(&value), &[endpoint("config.example")], &to);
        prop_assert_eq!(state, StubCaChange::Rotated);
        prop_assert_eq!(changed.unwrap(), stub(&to.source()));
    }
}
