//! What a DELETE makes of an object, and of those that belong to it. Pure.
//!
//! Whether dependents go along, go before, or stay is kept in the object while it is going, as two
//! finalizers that the [`crate::object::lifecycle`] of objects takes away when it has done its part.

use firesteel_kube_types::Cause;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::kind::{self, KindInfo};
use crate::model::meta::{self, FOREGROUND, ORPHAN};
use crate::model::query::Query;
use crate::model::status::{self, Status};
use crate::object::options::Preconditions;
use crate::object::rules;
use crate::object::terms::{PreparedWrite, WriteEffect};

/// The body of a DELETE.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeleteOptions {
    kind: Option<String>,
    pub(crate) dry_run: Option<Vec<String>>,
    pub(crate) preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

impl DeleteOptions {
    pub(crate) const KIND: &str = "DeleteOptions";

    /// Nothing that cannot be read is passed over: it could be what keeps the object.
    pub(crate) fn read(sent: &Value) -> Result<Self, Status> {
        let refuse = |why: &str| {
            let kind = Self::KIND;
            Status::bad_request(status::one_line(&format!(
                "the object provided is unrecognized (must be of type {kind}): {why}"
            )))
        };
        // As Go reads it, `null` says nothing at all.
        if sent.is_null() {
            return Ok(Self::default());
        }
        if !sent.is_object() {
            return Err(refuse("it is no object"));
        }
        let read = Self::deserialize(sent).map_err(|error| refuse(&error.to_string()))?;
        match read.kind.as_deref() {
            None | Some("" | Self::KIND) => Ok(read),
            Some(other) => Err(refuse(other)),
        }
    }
}

/// Whether an object that cannot be read is to go, by the query or by a body's DeleteOptions. Such a deletion checks
/// nothing, so no other option could be kept, and none is accepted.
pub(crate) fn is_unread(query: &Query, sent: Option<&DeleteOptions>, causes: &mut Vec<Cause>) -> bool {
    const FIELD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let asked = match sent {
        Some(sent) => sent.ignore_store_read_error_with_cluster_breaking_potential,
        None => query.ignores_read_error,
    };
    if asked != Some(true) {
        return false;
    }
    let others = [
        ("dryRun", !query.dry_run.is_empty() || sent.is_some_and(|sent| sent.dry_run.is_some())),
        (
            "propagationPolicy",
            query.propagation_policy.is_some() || sent.is_some_and(|s| s.propagation_policy.is_some()),
        ),
        ("orphanDependents", query.orphan_dependents.is_some() || sent.is_some_and(|s| s.orphan_dependents.is_some())),
        ("preconditions", sent.is_some_and(|sent| sent.preconditions.is_some())),
    ];
    let others = others.into_iter().filter(|(_, is_set)| *is_set);
    causes.extend(
        others.map(|(other, _)| {
            Cause::invalid_json(FIELD, &json!(true), &format!("cannot be set together with .{other}"))
        }),
    );
    true
}

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay, and forget it.
    Orphan,
}

impl Propagation {
    /// What the query says, or a body's DeleteOptions, which count alone where there are any. `None` if they say
    /// nothing.
    pub(crate) fn asked(query: &Query, sent: Option<&DeleteOptions>, causes: &mut Vec<Cause>) -> Option<Self> {
        let (policy, orphan) = match sent {
            Some(sent) => (sent.propagation_policy.as_deref(), sent.orphan_dependents),
            None => (query.propagation_policy.as_deref(), query.orphan_dependents),
        };
        let policy = policy.filter(|policy| !policy.is_empty());
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid_json("propagationPolicy", &json!(policy), detail));
        }
        match policy {
            Some("Background") => Some(Self::Background),
            Some("Foreground") => Some(Self::Foreground),
            Some("Orphan") => Some(Self::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported_json("propagationPolicy", &json!(other), &supported));
                None
            }
            None => orphan.map(|orphan| if orphan { Self::Orphan } else { Self::Background }),
        }
    }

    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        }
    }
}

/// Removal, or a mark that finalizers are waited for. Without a word about dependents an earlier one
/// counts, and a later one replaces it: who deletes again in the background waits no longer.
pub(crate) fn prepare(kind: &KindInfo, current: &Value, now: Timestamp, asked: Option<Propagation>) -> PreparedWrite {
    let mut value = current.clone();
    if let Some(asked) = asked {
        mark(&mut value["metadata"], asked);
    }
    let effect = if rules::finalizers_left(kind, &value) == 0 {
        WriteEffect::Remove
    } else {
        if !value["metadata"]["deletionTimestamp"].is_string() {
            begin(kind, &mut value, now);
        }
        if value == *current { WriteEffect::None } else { WriteEffect::Store }
    };
    PreparedWrite { value, warnings: Vec::new(), effect }
}

fn begin(kind: &KindInfo, value: &mut Value, now: Timestamp) {
    let metadata = &mut value["metadata"];
    metadata["deletionTimestamp"] = json!(meta::rfc3339(now));
    metadata["deletionGracePeriodSeconds"] = json!(0);
    if kind.has_generation {
        metadata["generation"] = json!(metadata["generation"].as_i64().unwrap_or(0).saturating_add(1));
    }
    if kind::is_namespace(kind) {
        value["status"]["phase"] = json!("Terminating");
    }
}

/// Puts the finalizer of this propagation in the place of another one's.
fn mark(metadata: &mut Value, asked: Propagation) {
    let wanted = asked.finalizer();
    let stored = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = stored.map(str::to_owned).collect();
    names.retain(|name| Some(name.as_str()) == wanted || ![FOREGROUND, ORPHAN].contains(&name.as_str()));
    if let Some(wanted) = wanted
        && !names.iter().any(|name| name == wanted)
    {
        names.push(wanted.to_owned());
    }
    put_list(metadata, "finalizers", names.into_iter().map(Value::from).collect());
}

/// A list in metadata; without items it is not there.
pub(crate) fn put_list(metadata: &mut Value, name: &str, list: Vec<Value>) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    if list.is_empty() {
        metadata.remove(name);
    } else {
        metadata.insert(name.to_owned(), Value::Array(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toy() -> KindInfo {
        KindInfo::namespaced("example.org", "v1", "Toy", "toys")
    }

    fn finalizers(prepared: &PreparedWrite) -> Vec<&str> {
        prepared.value["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    #[test]
    fn an_object_without_finalizers_goes_and_one_with_stays_marked() {
        let bare = json!({ "metadata": { "name": "a", "generation": 3 } });
        assert_eq!(prepare(&toy(), &bare, at(5), None).effect, WriteEffect::Remove);
        assert_eq!(prepare(&toy(), &bare, at(5), Some(Propagation::Background)).effect, WriteEffect::Remove);
        let held = json!({ "metadata": { "name": "a", "generation": 3, "finalizers": ["x.io/f"] } });
        let marked = prepare(&toy(), &held, at(5), None);
        assert_eq!((marked.effect, finalizers(&marked)), (WriteEffect::Store, vec!["x.io/f"]));
        let metadata = &marked.value["metadata"];
        assert_eq!(metadata["deletionTimestamp"], "1970-01-01T00:00:05Z");
        assert_eq!((&metadata["deletionGracePeriodSeconds"], &metadata["generation"]), (&json!(0), &json!(4)));
        assert_eq!(
            prepare(&toy(), &marked.value, at(9), None).effect,
            WriteEffect::None,
            "a repeated DELETE is no change"
        );
    }

    #[test]
    fn the_last_word_about_dependents_counts() {
        let bare = json!({ "metadata": { "name": "a" } });
        let waiting = prepare(&toy(), &bare, at(5), Some(Propagation::Foreground));
        assert_eq!((waiting.effect, finalizers(&waiting)), (WriteEffect::Store, vec![FOREGROUND]));
        assert_eq!(
            prepare(&toy(), &waiting.value, at(6), None).effect,
            WriteEffect::None,
            "nothing said, nothing changed"
        );
        let orphaning = prepare(&toy(), &waiting.value, at(6), Some(Propagation::Orphan));
        assert_eq!((orphaning.effect, finalizers(&orphaning)), (WriteEffect::Store, vec![ORPHAN]));
        assert_eq!(orphaning.value["metadata"]["deletionTimestamp"], "1970-01-01T00:00:05Z");
        assert_eq!(prepare(&toy(), &orphaning.value, at(7), Some(Propagation::Background)).effect, WriteEffect::Remove);
    }

    #[test]
    fn a_deletion_unread_is_asked_for_by_itself() {
        let field = "ignoreStoreReadErrorWithClusterBreakingPotential";
        let query = |text: &str| Query::parse(text).unwrap_or_default();
        let sent = |value: Value| DeleteOptions::read(&value).unwrap_or_default();
        let asked = |query: &Query, sent: Option<&DeleteOptions>| {
            let mut causes = Vec::new();
            (is_unread(query, sent, &mut causes), causes.len())
        };
        assert_eq!(asked(&query(""), None), (false, 0));
        assert_eq!(asked(&query(&format!("{field}=true")), None), (true, 0));
        assert_eq!(asked(&query(""), Some(&sent(json!({ field: true })))), (true, 0));
        assert_eq!(asked(&query(""), Some(&sent(json!({ field: false })))), (false, 0));
        let others = json!({
            "dryRun": ["All"], "preconditions": { "uid": "u" },
            "propagationPolicy": "Orphan", "orphanDependents": false,
        });
        for (name, value) in others.as_object().into_iter().flatten() {
            assert_eq!(asked(&query(""), Some(&sent(json!({ field: true, name: value })))), (true, 1), "{name}");
        }
        let mut all = others;
        all[field] = json!(true);
        assert_eq!(asked(&query(""), Some(&sent(all))), (true, 4), "each is told");
    }

    #[test]
    fn both_ways_to_say_it_are_read_and_nonsense_is_refused() {
        let query = |text: &str| Query::parse(text).unwrap_or_default();
        let asked = |text: &str, sent: Option<Value>| {
            let sent = sent.map(|sent| DeleteOptions::read(&sent).unwrap_or_default());
            let mut causes = Vec::new();
            let asked = Propagation::asked(&query(text), sent.as_ref(), &mut causes);
            if causes.is_empty() { Ok(asked) } else { Err(causes.len()) }
        };
        assert_eq!(asked("", None), Ok(None));
        assert_eq!(asked("", Some(Value::Null)), Ok(None));
        assert_eq!(asked("propagationPolicy=Foreground", None), Ok(Some(Propagation::Foreground)));
        assert_eq!(asked("orphanDependents=true", None), Ok(Some(Propagation::Orphan)));
        let body = json!({ "orphanDependents": false });
        assert_eq!(asked("propagationPolicy=Orphan", Some(body)), Ok(Some(Propagation::Background)), "the body counts");
        assert_eq!(asked("", Some(json!({ "propagationPolicy": "Orphan" }))), Ok(Some(Propagation::Orphan)));
        let both = |policy: &str| Some(json!({ "propagationPolicy": policy, "orphanDependents": true }));
        assert_eq!(asked("", both("Orphan")), Err(1));
        assert_eq!(asked("", Some(json!({ "propagationPolicy": "Sideways" }))), Err(1));
        assert_eq!(asked("", both("Sideways")), Err(2), "each is told");
    }
}
