#![allow(clippy::unwrap_used, reason = "a test may fail")]

use serde_json::{Value, json};

use super::*;
use crate::{admit, admit::decode};

const DIGEST: &str = "e98f83a2b9d4043719664a2be75fe8134dc6ca1fdbde807996622f8cc7ecd234";

fn judged(spec: Value) -> (Value, Vec<String>, Vec<String>) {
    let mut object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
    let admission = admit(&KIND, &mut object, None);
    let warnings = admission.warnings.into_iter().filter(|line| line.starts_with("spec.")).collect();
    (object, admission.causes.into_iter().map(|cause| cause.field).collect(), warnings)
}

fn group(more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"role": "worker"}}, "image": {"stream": "stable"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn each_rule_has_a_good_and_a_bad_case() {
    let own = |more: Value| {
        let mut image = json!({"url": "http://a/b.raw", "checksum": DIGEST});
        image.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "image": image })
    };
    let stream = |more: Value| {
        let mut image = json!({"stream": "stable"});
        image.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "image": image })
    };
    for (good, bad, field) in [
        (json!({}), json!({"selector": {}}), "spec.selector"),
        (json!({}), json!({"selector": {"matchLabels": {"a b": "c"}}}), "spec.selector"),
        (own(json!({})), json!({"image": {}}), "spec.image"),
        (own(json!({})), own(json!({"stream": "stable"})), "spec.image.url"),
        (own(json!({"url": "store://a"})), own(json!({"url": "ftp://a/b"})), "spec.image.url"),
        (own(json!({"checksum": "http://a/SUMS"})), own(json!({"checksum": "abc"})), "spec.image.checksum"),
        (own(json!({})), own(json!({"release": "1"})), "spec.image.release"),
        (own(json!({})), own(json!({"track": "pinned"})), "spec.image.track"),
        (stream(json!({"track": "pinned", "release": "1"})), stream(json!({"track": "pinned"})), "spec.image.release"),
        (stream(json!({"track": "pinned", "digest": DIGEST})), stream(json!({"digest": DIGEST})), "spec.image.track"),
        (stream(json!({})), stream(json!({"checksum": DIGEST})), "spec.image.checksum"),
        (stream(json!({})), stream(json!({"stream": "A/b"})), "spec.image.stream"),
        (json!({"pool": "worker"}), json!({"pool": "../x"}), "spec.pool"),
        (json!({"architecture": "arm64"}), json!({"architecture": "vax"}), "spec.architecture"),
        (json!({"restore": {"entry": 3}}), json!({"restore": {"entry": 0}}), "spec.restore.entry"),
        (json!({"restore": {"entry": 3}}), json!({"restore": {}}), "spec.restore.entry"),
        (
            json!({"rollout": {"mode": "canary", "canaries": 2}}),
            json!({"rollout": {"canaries": 2}}),
            "spec.rollout.canaries",
        ),
        (
            json!({"rollout": {"mode": "canary", "deadlineSeconds": 600}}),
            json!({"rollout": {"mode": "canary", "deadlineSeconds": 1}}),
            "spec.rollout.deadlineSeconds",
        ),
    ] {
        assert_eq!(judged(group(good.clone())).1, Vec::<String>::new(), "{good}");
        assert_eq!(judged(group(bad.clone())).1, [field], "{bad}");
    }
}

#[test]
fn what_is_not_said_has_a_meaning_and_what_is_idle_is_told() {
    let (object, _, warnings) = judged(group(json!({})));
    assert_eq!(warnings, Vec::<String>::new());
    let typed: HostGroup = decode(&object).unwrap();
    assert_eq!((typed.spec.image.track, typed.spec.rollout.mode), (ReleaseTrack::Latest, RolloutMode::All));
    assert_eq!((typed.spec.rollout.canaries(), typed.spec.rollout.deadline_seconds()), (1, 7200));
    assert_eq!(judged(group(json!({"rollout": {"deadlineSeconds": 600}}))).2.len(), 1);
}

/// A status that did not have its own shape could not be stored.
#[test]
fn a_full_status_has_its_shape() {
    let image = ImageReference { stream: "s".into(), release: "1".into(), digest: DIGEST.into(), url: "u".into() };
    let entry =
        HistoryEntry { entry: 1, image: image.clone(), by: "ann".into(), host: "h".into(), ..Default::default() };
    let host = CanaryHost { name: "h".into(), ..CanaryHost::default() };
    let canary = Canary { image: image.clone(), hosts: vec![host], attempt: 1, ..Canary::default() };
    let skipped = SkippedHost { name: "h".into(), reason: "NotReady".into(), message: "it is paused".into() };
    let status = HostGroupStatus {
        observed_generation: 1,
        golden: Some(image.clone()),
        current: Some(image.clone()),
        previous: Some(image),
        canary: Some(canary),
        history: vec![entry],
        last_entry: 1,
        skipped_hosts: vec![skipped],
        conditions: vec![Condition::new(CANARY_HALTED, true, "HostFailed", "h")],
        ..HostGroupStatus::default()
    };
    let mut object = json!({"spec": group(json!({})), "status": status});
    let admission = admit(&KIND, &mut object, None);
    assert!(admission.causes.is_empty() && admission.unknown_fields.is_empty(), "{admission:?}");
    assert_eq!(decode::<HostGroup>(&object).unwrap().status, status);
}
