//! The grammar of names, labels and annotations, with Kubernetes' messages.

use std::collections::BTreeSet;

use firesteel_kube_types::{Cause, CauseReason, ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::model::kind_parts::NameRule;
use crate::model::meta::{FOREGROUND, ORPHAN};

const SUBDOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Most faults of one object's metadata, and most letters of its owners that a fault shows: longer answers are not
/// read, and there can be as many faults as the metadata has parts.
const FAULTS_MAX: usize = 64;
const OWNERS_SHOWN_CHARS_MAX: usize = 4096;
/// All annotations of an object together, as Kubernetes has it.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Kubernetes' own, which have no domain.
const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];

const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY_TEXT: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

/// All that is wrong with an object's name.
pub(crate) fn check_name(rule: NameRule, name: &str) -> Vec<String> {
    let bytes_max = if rule == NameRule::Label { LABEL_BYTES_MAX } else { SUBDOMAIN_BYTES_MAX };
    let mut faults: Vec<String> = (name.len() > bytes_max).then(|| too_long(bytes_max)).into_iter().collect();
    match rule {
        NameRule::Subdomain if !is_subdomain(name) => faults.push(SUBDOMAIN_TEXT.into()),
        NameRule::Label if !is_label(name) => faults.push(LABEL_TEXT.into()),
        NameRule::Subdomain | NameRule::Label => {}
        NameRule::PathSegment if name == "." || name == ".." => faults.push(format!("may not be '{name}'")),
        NameRule::PathSegment => {
            let forbidden = ["/", "%"].into_iter().filter(|letter| name.contains(*letter));
            faults.extend(forbidden.map(|letter| format!("may not contain '{letter}'")));
        }
    }
    faults
}

/// What is wrong with labels, annotations and owner references.
pub(crate) fn check_metadata(meta: &ObjectMeta) -> Vec<Cause> {
    let wrong = |field: &'static str, shown: &str, faults: Vec<String>| {
        let shown = json!(shown);
        faults.into_iter().map(move |text| Cause::invalid_json(field, &shown, &text))
    };
    let labels = meta.labels.iter().flat_map(|(key, value)| {
        let of_key = wrong("metadata.labels", key, check_qualified(key));
        of_key.chain(wrong("metadata.labels", value, check_label_value(value)))
    });
    let annotations = meta.annotations.keys().flat_map(|key| {
        // Their letters may be large.
        wrong("metadata.annotations", key, check_qualified(&key.to_lowercase()))
    });
    let bytes: usize = meta.annotations.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
    let too_long = (bytes > ANNOTATIONS_BYTES_MAX).then(|| Cause {
        reason: CauseReason::FieldValueTooLong,
        message: format!("Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes"),
        field: "metadata.annotations".into(),
    });
    labels.chain(annotations).chain(too_long).chain(owner_faults(&meta.owner_references)).take(FAULTS_MAX).collect()
}

fn owner_faults(owners: &[OwnerReference]) -> Vec<Cause> {
    let (mut causes, mut controller) = (Vec::new(), None::<&OwnerReference>);
    for owner in owners {
        if causes.len() >= FAULTS_MAX {
            break;
        }
        let mut empty = |field: &str, text: &str| {
            causes.push(Cause::invalid_json(&format!("metadata.ownerReferences.{field}"), &json!(""), text));
        };
        if owner.api_version.is_empty() {
            empty("apiVersion", "version must not be empty");
        }
        if owner.kind.is_empty() {
            empty("kind", "must not be empty");
        }
        if owner.name.is_empty() {
            empty("name", "must not be empty");
        }
        if owner.uid.is_empty() {
            empty("uid", "must not be empty");
        }
        if owner.controller != Some(true) {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(owner);
            continue;
        };
        let text = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            first.kind, first.name, owner.kind, owner.name
        );
        // With the fields in Kubernetes' order, which is that of our type.
        let shown: String =
            serde_json::to_string(owners).unwrap_or_default().chars().take(OWNERS_SHOWN_CHARS_MAX).collect();
        causes.push(Cause {
            message: format!("Invalid value: {shown}: {text}"),
            ..Cause::invalid_json("metadata.ownerReferences", &Value::Null, "")
        });
    }
    causes
}

/// Warns of finalizers that a write adds to what was `before`: one without a domain may collide with that of another
/// program. Earlier finalizers had their warnings when they were added.
pub(crate) fn finalizer_warnings(meta: &ObjectMeta, before: &Value) -> Vec<String> {
    let before = before["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let before: BTreeSet<&str> = before.chain(STANDARD_FINALIZERS).collect();
    let names = meta.finalizers.iter().map(String::as_str);
    let added: BTreeSet<&str> = names.filter(|name| !name.contains('/') && !before.contains(name)).collect();
    added
        .into_iter()
        .take(FAULTS_MAX)
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// All that is wrong with a label's or annotation's key: an optional domain and a name.
pub(crate) fn check_qualified(key: &str) -> Vec<String> {
    let parts: Vec<&str> = key.splitn(3, '/').collect();
    let (prefix, name) = match parts.as_slice() {
        [prefix, name] => (Some(*prefix), *name),
        [name] => (None, *name),
        _ => return vec![KEY_TEXT.into()],
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".into()),
        Some(prefix) => {
            let of_prefix = check_name(NameRule::Subdomain, prefix).into_iter();
            faults.extend(of_prefix.map(|text| format!("prefix part {text}")));
        }
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else if name.len() > LABEL_BYTES_MAX {
        faults.push(format!("name part {}", too_long(LABEL_BYTES_MAX)));
    }
    if !is_word(name) {
        faults.push(QUALIFIED_TEXT.into());
    }
    faults
}

/// All that is wrong with a label's value.
pub(crate) fn check_label_value(value: &str) -> Vec<String> {
    let long = (value.len() > LABEL_BYTES_MAX).then(|| too_long(LABEL_BYTES_MAX));
    let odd = (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE_TEXT.into());
    long.into_iter().chain(odd).collect()
}

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_label(name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_word(name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::meta;

    #[test]
    fn names_follow_their_rule() {
        for good in ["a", "a-b.c", "0a", "host-1.example.com"] {
            assert_eq!(check_name(NameRule::Subdomain, good), [""; 0], "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "ä"] {
            assert_eq!(check_name(NameRule::Subdomain, bad).len(), 1, "{bad}");
        }
        assert_eq!(check_name(NameRule::Label, "a.b").len(), 1);
        assert_eq!(check_name(NameRule::Label, &"a".repeat(64)).len(), 1);
        assert_eq!(check_name(NameRule::PathSegment, "ProfileSet-6c9f9"), [""; 0]);
        assert_eq!(check_name(NameRule::PathSegment, ".."), ["may not be '..'"]);
        assert_eq!(check_name(NameRule::PathSegment, "a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn label_keys_are_qualified_names() {
        for good in ["a", "a.b/c_D", "x.io/y-z.1"] {
            assert_eq!(check_qualified(good), [""; 0], "{good}");
        }
        for bad in ["", "/a", "a/", "A.io/b", "a b", "-a", "a/b/c"] {
            assert!(!check_qualified(bad).is_empty(), "{bad}");
        }
        assert_eq!(check_label_value(""), [""; 0]);
        assert_eq!(check_label_value("bad value!").len(), 1);
    }

    /// A name was corrected once for each of its faults.
    #[test]
    fn all_that_is_wrong_with_a_name_is_told() {
        let long = format!("{}!", "A".repeat(300));
        assert_eq!(check_name(NameRule::Subdomain, &long).len(), 2);
        assert_eq!(check_name(NameRule::Label, &long).len(), 2);
        assert_eq!(check_label_value(&long).len(), 2);
        assert_eq!(check_qualified(&long).len(), 2);
        assert_eq!(
            check_qualified("/"),
            ["prefix part must be non-empty", "name part must be non-empty", QUALIFIED_TEXT]
        );
        assert_eq!(check_qualified(&format!("{long}/{long}")).len(), 4);
        assert_eq!(check_qualified("a/b/c"), [KEY_TEXT]);
    }

    #[test]
    fn finalizers_are_warned_of_when_they_come() {
        let warnings = |finalizers: &[&str], before: &[&str]| {
            let finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
            let before = json!({ "metadata": { "finalizers": before } });
            finalizer_warnings(&ObjectMeta { finalizers, ..ObjectMeta::default() }, &before)
        };
        let own = ["orphan", "foregroundDeletion", "kubernetes", "x.io/f"];
        assert_eq!(warnings(&own, &[]), [""; 0], "a domain, or a name of Kubernetes");
        let told = warnings(&["b", "a.io", "b"], &[]);
        let beginnings = ["a.io", "b"].map(|name| format!("metadata.finalizers: {name:?}: prefer a domain-qualified"));
        assert!(
            told.len() == 2 && told.iter().zip(&beginnings).all(|(told, begin)| told.starts_with(begin)),
            "{told:?}"
        );
        assert_eq!(told.iter().map(|told| told.contains("including a path (/)")).collect::<Vec<_>>(), [true, false]);
        assert_eq!(warnings(&["a.io", "b"], &["b", "a.io"]), [""; 0], "nothing came");
        assert_eq!(warnings(&["a.io", "b"], &["a.io"]).len(), 1);
    }

    #[test]
    fn faults_are_few_however_many_there_are() {
        let owner = |name: &str| OwnerReference {
            kind: "K".into(),
            name: name.into(),
            controller: Some(true),
            ..Default::default()
        };
        let three = ObjectMeta { owner_references: ["a", "b", "c"].map(owner).to_vec(), ..ObjectMeta::default() };
        let told: Vec<String> = check_metadata(&three).into_iter().map(|cause| cause.message).collect();
        assert!(
            told.iter().any(|text| text.ends_with("references for K/a and K/c")),
            "the first, as Kubernetes: {told:?}"
        );

        let finalizers = (0..2000).map(|number| number.to_string()).collect();
        assert!(finalizer_warnings(&ObjectMeta { finalizers, ..ObjectMeta::default() }, &Value::Null).len() <= 64);
        let unknown: serde_json::Map<_, _> = (0..2000).map(|number| (number.to_string(), Value::Null)).collect();
        assert!(meta::read(&json!({ "metadata": unknown })).unwrap_or_default().1.len() <= 64);

        // Each fault shows the whole list, so they must not be as many as its items.
        let many = ObjectMeta { owner_references: vec![owner("a"); 2000], ..ObjectMeta::default() };
        let labels = (0..2000).map(|number| (format!("!{number}"), "!".to_owned())).collect();
        for meta in [many, ObjectMeta { labels, ..ObjectMeta::default() }] {
            let told = check_metadata(&meta);
            assert!(told.len() <= 64, "{} faults", told.len());
            let bytes: usize = told.iter().map(|cause| cause.message.len()).sum();
            assert!(bytes < 1 << 20, "{bytes} bytes");
        }
    }
}
