//! What a word may become: commands, flags, kinds, states, and names that the appliance knows.

use std::path::PathBuf;
use std::time::Duration;

use firesteel_resources::bare_metal_host::ProvisioningState;
use serde_json::Value;

use super::walk::{CompletionPlace, PlaceValue};
use crate::client::with_query;
use crate::format::{OBJECT_FORMATS, PAGE_FORMATS};
use crate::kinds::{self, CliKind};
use crate::{ApiClient, ConnectionOptions, table};

/// The time after which names are left out: the shell waits for what is known without them.
const NAMES_LIMIT: Duration = Duration::from_millis(1500);
/// Most names that are offered.
const NAMES_MAX: usize = 1000;

/// A word with what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompletionWord {
    pub(super) value: String,
    pub(super) about: String,
}

/// What the shell is to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Completions {
    Words(Vec<CompletionWord>),
    /// The shell completes names of files itself.
    Files,
}

/// Where values of an argument come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueSource {
    Words(Vec<CompletionWord>),
    Files,
    /// Names of objects of these kinds, each behind a text such as `host/`.
    Names {
        plurals: Vec<&'static str>,
        before: String,
    },
}

/// Finds the candidates. An appliance that does not answer has no names.
pub(super) async fn of(connection: &ConnectionOptions, place: &CompletionPlace) -> Completions {
    let mut words = place.words.clone();
    if let Some(value) = &place.value {
        match source(value, &place.typed) {
            ValueSource::Files if words.is_empty() => return Completions::Files,
            ValueSource::Files => {}
            ValueSource::Words(values) => words.extend(values),
            ValueSource::Names { plurals, before } => {
                let connection = connection_of(connection, place);
                let found = tokio::time::timeout(NAMES_LIMIT, names(&connection, &plurals, &place.typed)).await;
                let found = found.unwrap_or_default().into_iter();
                words.extend(found.map(|word| CompletionWord { value: format!("{before}{}", word.value), ..word }));
            }
        }
    }
    words.retain(|word| word.value.starts_with(&place.typed));
    for word in &mut words {
        word.value.insert_str(0, &place.prefix);
    }
    Completions::Words(words)
}

/// The connection that the flags of the line name.
fn connection_of(own: &ConnectionOptions, place: &CompletionPlace) -> ConnectionOptions {
    let flag = |name: &str| place.flags.get(name).cloned();
    ConnectionOptions {
        kubeconfig: flag("kubeconfig").map(PathBuf::from).or_else(|| own.kubeconfig.clone()),
        namespace: flag("namespace").or_else(|| own.namespace.clone()),
    }
}

/// Decides where the values of an argument come from.
fn source(value: &PlaceValue, typed: &str) -> ValueSource {
    let names = |plurals: &[&'static str]| ValueSource::Names { plurals: plurals.to_vec(), before: String::new() };
    let plain = |words: &[&str]| ValueSource::Words(words.iter().map(|&word| word_of(word, "")).collect());
    if !value.possible.is_empty() {
        return ValueSource::Words(value.possible.clone());
    }
    match (value.command.as_str(), value.argument.as_str()) {
        ("get" | "events", "output") => plain(&OBJECT_FORMATS),
        (_, "output") => plain(&PAGE_FORMATS),
        ("watch", "until") => {
            let states = ProvisioningState::ALL.map(|state| state.to_string());
            ValueSource::Words(states.iter().map(|state| word_of(state, "state of a host")).collect())
        }
        ("wait", "goal") => plain(&["condition=", "jsonpath=", "create", "delete"]),
        (_, "namespace") => names(&["namespaces"]),
        (_, "host" | "hosts") => names(&["baremetalhosts"]),
        (_, "machine") => names(&["discoveredhosts"]),
        ("resume", "name") => names(&["halts"]),
        (_, "kind") => ValueSource::Words(kind_words("")),
        ("delete-damaged", "name") => value.before.first().map_or_else(|| plain(&[]), |kind| names_of(kind)),
        ("events", "about") => object(typed),
        ("explain", "what") if typed.contains('/') => object(typed),
        ("explain", "what") => ValueSource::Words(kind_words("")),
        ("explain", "name") => match value.before.first().map(|kind| kinds::by_name(kind)) {
            Some(Ok(kind)) if kind.is_host() => names(&["baremetalhosts"]),
            // No other object is explained by its name.
            Some(_) | None => plain(&[]),
        },
        ("get" | "describe" | "delete" | "wait", "what") => match value.before.first() {
            Some(kind) if !kind.contains('/') => {
                let is_host = kinds::by_name(kind).is_ok_and(CliKind::is_host);
                // A machine that is no host is described by its MAC.
                if value.command == "describe" && is_host {
                    names(&["baremetalhosts", "discoveredhosts"])
                } else {
                    names_of(kind)
                }
            }
            None if !typed.contains('/') => ValueSource::Words(kind_words("")),
            Some(_) | None => object(typed),
        },
        (_, "filename") => ValueSource::Files,
        _ if value.is_path => ValueSource::Files,
        _ => plain(&[]),
    }
}

/// `KIND/NAME`: kinds before the slash, names behind it.
fn object(typed: &str) -> ValueSource {
    match typed.split_once('/') {
        None => ValueSource::Words(kind_words("/")),
        Some((kind, _)) => match names_of(kind) {
            ValueSource::Names { plurals, .. } => ValueSource::Names { plurals, before: format!("{kind}/") },
            other => other,
        },
    }
}

fn names_of(kind: &str) -> ValueSource {
    let plurals = kinds::by_name(kind).map(|kind| vec![kind.plural]).unwrap_or_default();
    ValueSource::Names { plurals, before: String::new() }
}

fn word_of(value: &str, about: &str) -> CompletionWord {
    CompletionWord { value: value.to_owned(), about: about.to_owned() }
}

/// All kinds by their plurals, and hosts by their short word, each with `end` behind it.
fn kind_words(end: &str) -> Vec<CompletionWord> {
    let mut words = vec![word_of(&format!("hosts{end}"), "BareMetalHost")];
    for kind in kinds::all() {
        let is_twice = words.iter().any(|word| word.value == format!("{}{end}", kind.plural));
        let name = if is_twice { kind.resource() } else { kind.plural.to_owned() };
        words.push(word_of(&format!("{name}{end}"), kind.kind));
    }
    words
}

/// Asks the appliance for names. What goes wrong has no names: a shell shows no errors.
async fn names(connection: &ConnectionOptions, plurals: &[&'static str], typed: &str) -> Vec<CompletionWord> {
    let Ok(client) = ApiClient::open(connection) else { return Vec::new() };
    let mut words = Vec::new();
    for kind in plurals.iter().filter_map(|plural| kinds::by_name(plural).ok()) {
        let query = [("limit", NAMES_MAX.to_string()), ("includeObject", "None".to_owned())];
        let path = with_query(&kinds::collection(kind, &client.namespace), &query);
        let Ok(answer) = client.get_table(&path).await else { continue };
        words.extend(rows(&answer, kind, typed));
    }
    words
}

/// The names in a table, with what is known of each.
fn rows(answer: &Value, kind: CliKind, typed: &str) -> Vec<CompletionWord> {
    let columns: Vec<&str> = answer["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| column["name"].as_str().unwrap_or_default())
        .collect();
    let at = |wanted: &[&str]| columns.iter().position(|column| wanted.contains(column));
    let Some(name_at) = at(&["Name"]) else { return Vec::new() };
    let about_at = at(&["State", "Product", "Status", "Reason"]);
    let rows = answer["rows"].as_array().into_iter().flatten();
    let words = rows.filter_map(|row| {
        let text = |at: usize| row["cells"][at].as_str().map(table::clean);
        let name = text(name_at)?;
        // A person who types colons means a MAC in its other spelling.
        let is_mac = kind.kind == "DiscoveredHost" && typed.contains(':');
        let value = if is_mac { name.replace('-', ":") } else { name };
        Some(CompletionWord { value, about: about_at.and_then(text).unwrap_or_default() })
    });
    words.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(command: &str, argument: &str, before: &[&str]) -> PlaceValue {
        PlaceValue {
            command: command.into(),
            argument: argument.into(),
            before: before.iter().map(|&word| word.to_owned()).collect(),
            ..PlaceValue::default()
        }
    }

    fn names(plurals: &[&'static str], before: &str) -> ValueSource {
        ValueSource::Names { plurals: plurals.to_vec(), before: before.to_owned() }
    }

    #[test]
    fn names_are_those_of_the_kind_that_stands_before() {
        assert_eq!(source(&value("get", "what", &["secret"]), ""), names(&["secrets"], ""));
        assert_eq!(
            source(&value("describe", "what", &["host"]), ""),
            names(&["baremetalhosts", "discoveredhosts"], "")
        );
        assert_eq!(source(&value("wait", "what", &[]), "host/a"), names(&["baremetalhosts"], "host/"));
        assert_eq!(source(&value("delete", "what", &["host/a"]), "cm/"), names(&["configmaps"], "cm/"));
        assert_eq!(source(&value("lock", "host", &[]), ""), names(&["baremetalhosts"], ""));
        assert_eq!(source(&value("adopt", "machine", &[]), ""), names(&["discoveredhosts"], ""));
        assert_eq!(source(&value("apply", "filename", &[]), ""), ValueSource::Files);
        assert_eq!(source(&value("explain", "name", &["host"]), ""), names(&["baremetalhosts"], ""));
        assert_eq!(source(&value("explain", "name", &["secret"]), ""), ValueSource::Words(Vec::new()));
    }

    #[tokio::test]
    async fn kinds_states_and_forms_are_known_without_an_appliance() {
        let shown = async |value: PlaceValue, typed: &str| {
            let place = CompletionPlace { typed: typed.into(), value: Some(value), ..CompletionPlace::default() };
            let none = ConnectionOptions { kubeconfig: Some(PathBuf::from("/nowhere")), namespace: None };
            match of(&none, &place).await {
                Completions::Words(words) => words.into_iter().map(|word| word.value).collect::<Vec<_>>(),
                Completions::Files => vec!["files".to_owned()],
            }
        };
        assert_eq!(shown(value("get", "what", &[]), "ho").await[0], "hosts");
        assert_eq!(shown(value("wait", "what", &["host/a"]), "baremetalhosts").await, ["baremetalhosts/"]);
        assert_eq!(shown(value("watch", "until", &[]), "provisioned").await, ["provisioned"]);
        assert_eq!(shown(value("plan", "output", &[]), "j").await, ["json", "jsonpath="]);
        assert_eq!(shown(value("get", "what", &[]), "machinesets").await.len(), 2);
        assert_eq!(shown(value("retry", "host", &[]), "").await, Vec::<String>::new(), "no appliance, no names");
    }

    #[test]
    fn names_come_with_what_is_known_of_them() {
        let answer = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "State"}],
            "rows": [{"cells": ["a", "provisioned"]}, {"cells": ["b", null]}],
        });
        let found = rows(&answer, kinds::by_name("hosts").unwrap(), "");
        assert_eq!(found, [word_of("a", "provisioned"), word_of("b", "")]);
        let mac = json!({"columnDefinitions": [{"name": "Name"}], "rows": [{"cells": ["52-54-00-00-00-01"]}]});
        let kind = kinds::by_name("discoveredhosts").unwrap();
        assert_eq!(rows(&mac, kind, "52:5")[0].value, "52:54:00:00:00:01");
    }
}
