//! Patches of all types, and applied objects.

use firesteel_kube::{apply, builtin, json, patch};
use serde_json::Value;

/// Two messages: an object, and what is to become of it.
pub(super) fn check(input: &[u8]) {
    let mut parts = super::messages(input);
    let (object, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    patch::check(body);
    if let Ok(document) = json::read(object) {
        // A name that the other parser keeps for itself.
        if !String::from_utf8_lossy(object).contains("$serde_json") {
            assert_eq!(serde_json::from_slice::<Value>(object).ok().as_ref(), Some(&document.value));
        }
        patch::check_on(&document.value, body);
    }
    for kind in builtin::kinds() {
        apply::check(&kind, object);
        apply::check(&kind, body);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","labels":{"x":"y"},"finalizers":["f.io/a","f.io/b"],"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"1","controller":true}]},"data":{"k":"dg=="}}"#;
    let event = "apiVersion: v1\nkind: Event\nmetadata: {name: a, annotations: {}}\ninvolvedObject: {kind: K, name: n}\nreason: null\ncount: 3\n";
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}"#;
    [
        (secret, r#"{"metadata":{"labels":{"x":null,"z":"1"}},"data":null}"#),
        (secret, r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["f.io/a"],"ownerReferences":[{"$patch":"delete","uid":"1"}]},"data":{"$patch":"replace","n":"MQ=="}}"#),
        (secret, r#"[{"op":"test","path":"/metadata/x","value":null},{"op":"copy","from":"/metadata","path":"/metadata/y"},{"op":"move","from":"/data/k","path":"/data/l"},{"op":"remove","path":"/metadata/finalizers/0"}]"#),
        (event, lease),
        (r#"{"a":{"a":1,"a":2},"a":[1,-0.5e3,1e400]}"#, r#"{"a":{"b":{"c":null}}}"#),
        ("[[[[[[", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":""},"data":{"":""}}"#),
    ]
    .map(|(object, body)| super::joined(&[object.as_bytes(), body.as_bytes()]))
    .to_vec()
}
