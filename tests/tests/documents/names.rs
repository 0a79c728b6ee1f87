//! The names that a user meets, and whether a page has each of them. [`super::made`] has those without an owner.

use std::{collections::BTreeMap, path::Path};

use firesteel_appliance::serve::kinds as served;
use serde::Deserialize;

use super::{constants::constants, page::Page, rust::Form, source::Source, tree};

/// Names, each with a place where it is found.
pub(crate) type Names = BTreeMap<String, String>;

/// Where the annotations of hosts are.
const HOST_ANNOTATIONS: &str = "bare_metal_host/annotations.rs";
/// What begins the name of a metric: ours, upstream's, and those of every process.
const METRIC_PREFIXES: [&str; 4] = ["baremetal_", "firesteel_", "metal3_", "process_"];

/// Names, and the calls whose names could not be seen.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) names: Names,
    pub(crate) faults: Vec<String>,
}

impl Found {
    pub(crate) fn add(&mut self, names: impl IntoIterator<Item = String>, place: &str) {
        for name in names {
            self.names.entry(name).or_insert_with(|| place.to_owned());
        }
    }
}

/// Annotations, labels and other qualified names: all constants of that form, and what has a dot in the file of the
/// hosts' annotations.
pub(crate) fn annotations(sources: &[Source]) -> Names {
    let mut found = Found::default();
    for source in sources {
        let is_owner = source.name.ends_with(HOST_ANNOTATIONS);
        for (name, texts) in constants(source) {
            let meant = texts.into_iter().filter(|text| is_qualified(text) || (is_owner && text.contains('.')));
            found.add(meant.map(str::to_owned), &format!("{name} in {}", source.name));
        }
    }
    found.names
}

/// `example.com/name`, but for the version of an API.
fn is_qualified(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else { return false };
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_letter);
    let is_domain = domain.contains('.') && domain.split('.').all(is_label);
    let ends_in_letters = domain.ends_with(|letter: char| letter.is_ascii_lowercase());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_version =
        name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    is_domain && ends_in_letters && is_name && !is_version
}

/// The metrics that are registered. A name with a place for a word, `{what}`, stands for all that fit it.
pub(crate) fn metrics(sources: &[Source]) -> Names {
    let is_of_metrics = |source: &&Source| source.name.split('/').any(|part| part == "metrics" || part == "metrics.rs");
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_{}".contains(&byte);
    let mut found = Found::default();
    for source in sources.iter().filter(is_of_metrics) {
        for (at, token) in source.tokens.iter().enumerate() {
            let is_metric = METRIC_PREFIXES.iter().any(|prefix| token.text.starts_with(prefix));
            if token.form == Form::Text && is_metric && token.text.bytes().all(is_letter) {
                found.add([token.text.clone()], &source.place(at));
            }
        }
    }
    found.names
}

/// The alerts of the rules for Prometheus.
pub(crate) fn alerts(root: &Path) -> Names {
    let file = "appliance/alerts/firesteel.yaml";
    let text = tree::read(&root.join(file));
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(|name| (name.trim().to_owned(), file.to_owned())).collect()
}

/// The kinds of the API.
pub(crate) fn kinds() -> Names {
    let registry = served::registry();
    let all = registry.kinds().iter();
    all.map(|kind| (kind.kind.to_owned(), format!("{}/{}", kind.group, kind.version))).collect()
}

#[derive(Debug, Deserialize)]
struct Manifest {
    workspace: Option<Workspace>,
    package: Option<Package>,
}

#[derive(Debug, Deserialize)]
struct Workspace {
    members: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
}

/// The crates of the workspace.
pub(crate) fn crates(root: &Path) -> Names {
    let manifest = |folder: &str| -> Manifest {
        let path = root.join(folder).join("Cargo.toml");
        toml::from_str(&tree::read(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let members = manifest("").workspace.map(|workspace| workspace.members).unwrap_or_default();
    let package = |folder: String| Some((manifest(&folder).package?.name, folder));
    members.into_iter().filter_map(package).collect()
}

/// Says of each name without a line what to do.
pub(crate) fn missing(file: &str, page: Option<&Page>, what: &str, names: &Names) -> Vec<String> {
    let Some(page) = page else { return vec![format!("there is no {file}: write it, with a line for each {what}")] };
    let words = page.code_words();
    let absent = names.iter().filter(|(name, _)| !words.iter().any(|word| is_it(word, name)));
    absent.map(|(name, place)| format!("{file} has no line for the {what} `{name}` ({place}): add one")).collect()
}

/// Whether a word on a page is this name: a counter has `_total` behind it, and `{what}` stands for any word.
fn is_it(word: &str, name: &str) -> bool {
    let word = word.strip_suffix("_total").unwrap_or(word);
    match (name.split_once('{'), name.split_once('}')) {
        (Some((before, _)), Some((_, behind))) => {
            word.len() > before.len() + behind.len() && word.starts_with(before) && word.ends_with(behind)
        }
        (Some(_) | None, _) => word == name.strip_suffix("_total").unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_and_metrics_are_told_from_other_texts() {
        for (text, is_one) in [
            ("firesteel.dev/lock", true),
            ("cluster.x-k8s.io/conversion-data", true),
            ("metal3.io/v1alpha1", false),
            ("text/plain", false),
            ("secrets/at-rest.key", false),
            ("10.0.0.0/8", false),
            ("a.io/b/c", false),
        ] {
            assert_eq!(is_qualified(text), is_one, "{text}");
        }
        let text = "fn a() { b(\"firesteel_a\", \"firesteel a\", \"metal3_{c}_d\") }";
        let sources = [Source::of("appliance/x/metrics.rs", text)];
        assert_eq!(metrics(&sources).into_keys().collect::<Vec<_>>(), ["firesteel_a", "metal3_{c}_d"]);
        for (word, name, is_same) in [
            ("firesteel_a_total", "firesteel_a", true),
            ("firesteel_ab", "firesteel_a", false),
            ("metal3_x_y_d", "metal3_{c}_d", true),
            ("metal3__d", "metal3_{c}_d", false),
        ] {
            assert_eq!(is_it(word, name), is_same, "{word} {name}");
        }
        let names = Names::from([("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())]);
        let faults = missing("x.md", Some(&Page::of("| `a` | c |\n")), "thing", &names);
        assert_eq!(faults, ["x.md has no line for the thing `c` (d): add one"]);
        assert!(missing("x.md", None, "thing", &names)[0].contains("there is no x.md"));
    }
}
