//! What a namespace may have, in the words of Kubernetes' ResourceQuota. Pure, but for [`book`], which reads the
//! quotas, and [`usage`], which shows what is used.
//!
//! | word in `spec.hard` | what it limits |
//! |---|---|
//! | `count/PLURAL.GROUP`, `count/PLURAL` | objects of one kind; events of both groups are `count/events` |
//! | `configmaps`, `secrets`, `resourcequotas` | the same, in Kubernetes' older words |
//! | `firesteel.dev/objects` | objects of all kinds, but for events, quotas and what controllers keep |
//! | `firesteel.dev/bytes` | bytes of all objects as they are stored, but for quotas and what controllers keep |
//!
//! Only what a client writes is refused, and only what adds to what is limited. Controllers of this process are never
//! held up: a host's journal grows whatever else is in its namespace.

mod book;
pub mod usage;

pub use crate::model::namespace_quota::NamespaceQuota;
pub(crate) use book::QuotaBook;

use firesteel_kube_types::Cause;
use firesteel_store::{GroupResource, Measure};
use serde_json::{Map, Value, json};

use crate::model::kind_parts::AdmittedObject;

pub const OBJECTS: &str = "firesteel.dev/objects";
pub const BYTES: &str = "firesteel.dev/bytes";
/// Begins words for one kind.
const COUNT: &str = "count/";
/// What Kubernetes counted before it had [`COUNT`], as far as it is here.
const OLDER: [&str; 3] = ["configmaps", "secrets", "resourcequotas"];
/// Words of one quota. Each is looked at with each write.
const WORDS_MAX: usize = 128;

/// What a quota limits: one kind, or a total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuotaSubject {
    Kind(GroupResource),
    All(Measure),
}

impl QuotaSubject {
    /// Nothing, where this server does not have what the word is about.
    pub(crate) fn of(word: &str) -> Option<Self> {
        if word == OBJECTS {
            return Some(Self::All(Measure::Objects));
        }
        if word == BYTES {
            return Some(Self::All(Measure::Bytes));
        }
        let kind = word.strip_prefix(COUNT).or_else(|| OLDER.contains(&word).then_some(word))?;
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        // Events of both groups are the same objects.
        let group = if (plural, group) == ("events", "events.k8s.io") { "" } else { group };
        (!plural.is_empty()).then(|| Self::Kind(GroupResource::new(group, plural)))
    }
}

impl NamespaceQuota {
    /// Reads a stored ResourceQuota. One with scopes is about pods, and limits nothing here.
    pub(crate) fn of(name: &str, object: &Value) -> Self {
        let is_scoped = ["scopes", "scopeSelector"].iter().any(|field| is_said(&object["spec"][field]));
        let hard = object["spec"]["hard"].as_object().filter(|_| !is_scoped);
        let limit = |(word, most): (&String, &Value)| {
            QuotaSubject::of(word)?;
            Some((word.clone(), most.as_str().and_then(quantity)?))
        };
        Self { name: name.to_owned(), hard: hard.into_iter().flatten().filter_map(limit).collect() }
    }
}

fn is_said(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// A whole number in Kubernetes' form of quantities: "5", "10k", "16Mi".
#[must_use]
pub fn quantity(text: &str) -> Option<u64> {
    const SUFFIXES: [(&str, u64); 10] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
    ];
    let found = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(factor)
}

/// Numbers are quantities, too; they are stored as texts.
pub(crate) fn say_as_texts(object: &mut Value) {
    for pointer in ["/spec/hard", "/status/hard", "/status/used"] {
        let amounts = object.pointer_mut(pointer).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(Map::values_mut).filter(|amount| amount.is_number()) {
            *amount = json!(amount.to_string());
        }
    }
}

/// Checks what is limited here, and says what is not.
pub(crate) fn admit(object: &Value) -> Result<AdmittedObject, Vec<Cause>> {
    let (mut admitted, mut causes) = (AdmittedObject::default(), Vec::new());
    let hard = object["spec"]["hard"].as_object();
    if hard.is_some_and(|hard| hard.len() > WORDS_MAX) {
        return Err(vec![Cause::forbidden("spec.hard", &format!("a quota has at most {WORDS_MAX} limits"))]);
    }
    for (word, most) in hard.into_iter().flatten() {
        let field = format!("spec.hard[{word}]");
        if QuotaSubject::of(word).is_none() {
            admitted.warnings.push(format!("{field}: this server has none of it, and limits nothing"));
        } else if most.as_str().and_then(quantity).is_none() {
            causes.push(Cause::invalid_json(&field, most, "must be a whole number, such as 5, 10k or 16Mi"));
        }
    }
    if ["scopes", "scopeSelector"].iter().any(|field| is_said(&object["spec"][field])) {
        admitted.warnings.push("spec.scopes: scopes are about pods; this quota limits nothing".to_owned());
    }
    if causes.is_empty() { Ok(admitted) } else { Err(causes) }
}

/// "count/secrets: 3/10, firesteel.dev/bytes: 4711/16Mi", as `kubectl get quota` shows it.
pub(crate) fn shown(object: &Value) -> Value {
    let amount = |of: &str, word: &str| object["status"][of][word].as_str().unwrap_or("?").to_owned();
    let words = object["spec"]["hard"].as_object().into_iter().flatten().map(|(word, _)| word);
    let shown: Vec<String> =
        words.map(|word| format!("{word}: {}/{}", amount("used", word), amount("hard", word))).collect();
    json!(shown.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn quantities_are_whole_numbers() {
        let right =
            [("0", 0), ("5", 5), ("10k", 10_000), ("16Mi", 16 << 20), ("1Gi", 1 << 30), ("3P", 3 * 10_u64.pow(15))];
        for (text, number) in right {
            assert_eq!(quantity(text), Some(number), "{text}");
        }
        for text in ["", "k", "-1", "+1", "0.5", "500m", "1e3", "1 k", "Mi", "99999999999999999999", "99999999P"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }

    #[test]
    fn words_are_those_of_kubernetes_and_two_of_our_own() {
        let kind = |group, plural| Some(QuotaSubject::Kind(GroupResource::new(group, plural)));
        for (word, limited) in [
            ("count/configmaps", kind("", "configmaps")),
            ("configmaps", kind("", "configmaps")),
            ("count/hostclaims.metal3.io", kind("metal3.io", "hostclaims")),
            ("count/events.events.k8s.io", kind("", "events")),
            (OBJECTS, Some(QuotaSubject::All(Measure::Objects))),
            (BYTES, Some(QuotaSubject::All(Measure::Bytes))),
            ("requests.cpu", None),
            ("pods", None),
            ("count/", None),
        ] {
            assert_eq!(QuotaSubject::of(word), limited, "{word}");
        }
    }

    #[test]
    fn what_limits_nothing_is_said() {
        let object = |hard: Value, scopes: Value| json!({ "spec": { "hard": hard, "scopes": scopes } });
        let mut good = object(json!({ "count/secrets": 5, "requests.cpu": "500m", BYTES: "1Mi" }), json!([]));
        say_as_texts(&mut good);
        assert_eq!(good["spec"]["hard"]["count/secrets"], "5");
        let admitted = admit(&good).unwrap_or_default();
        assert_eq!(admitted.warnings, ["spec.hard[requests.cpu]: this server has none of it, and limits nothing"]);
        let hard: BTreeMap<_, _> = [("count/secrets".to_owned(), 5), (BYTES.to_owned(), 1 << 20)].into();
        assert_eq!(NamespaceQuota::of("q", &good), NamespaceQuota { name: "q".into(), hard });
        let scoped = object(json!({ "count/secrets": "5" }), json!(["BestEffort"]));
        assert!(NamespaceQuota::of("q", &scoped).hard.is_empty());
        assert_eq!(admit(&scoped).unwrap_or_default().warnings.len(), 1);
        let causes = admit(&object(json!({ "count/secrets": "many" }), Value::Null)).unwrap_err();
        assert_eq!(causes[0].field, "spec.hard[count/secrets]");
    }
}
