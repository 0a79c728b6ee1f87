//! `allowed.toml`: places that may break a rule, each with a reason.

use serde::Deserialize;

use crate::rule::{Hit, Rule};

/// Where the list stands, below the repository's root.
pub const PATH: &str = "tests/tidy/allowed.toml";
/// A reason says more than this many characters can.
const REASON_CHARS_MIN: usize = 20;

/// All places that are allowed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    #[serde(default)]
    pub allowed: Vec<AllowedPlace>,
}

/// A place that is allowed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AllowedPlace {
    /// The rule's name.
    pub rule: String,
    pub path: String,
    /// The function, type or arrow; without it, the rule does not count in the whole file.
    #[serde(default)]
    pub item: Option<String>,
    pub reason: String,
}

impl AllowedPlace {
    fn allows(&self, hit: &Hit) -> bool {
        let is_item = self.item.as_ref().is_none_or(|item| *item == hit.item);
        self.rule == hit.rule.name() && self.path == hit.path && is_item
    }

    fn describe(&self) -> String {
        let item = self.item.as_ref().map(|item| format!(", item {item}")).unwrap_or_default();
        format!("{PATH}: {} in {}{item}", self.rule, self.path)
    }
}

impl Allowed {
    /// Takes out the hits that are allowed. Returns what is left, and what is wrong with the list.
    pub fn apply(&self, hits: Vec<Hit>) -> (Vec<Hit>, Vec<String>) {
        let mut faults: Vec<String> = self.allowed.iter().filter_map(|place| fault(place, &hits)).collect();
        faults.extend(Rule::ALL.into_iter().filter_map(|rule| self.excess(rule)));
        let is_left = |hit: &Hit| !self.allowed.iter().any(|place| place.allows(hit));
        (hits.into_iter().filter(is_left).collect(), faults)
    }

    fn excess(&self, rule: Rule) -> Option<String> {
        let count = self.allowed.iter().filter(|place| place.rule == rule.name()).count();
        let (name, max) = (rule.name(), rule.allowed_max());
        (count > max).then(|| format!("{PATH}: {count} places of {name}, and {max} are allowed. {}", rule.remedy()))
    }
}

fn fault(place: &AllowedPlace, hits: &[Hit]) -> Option<String> {
    let described = place.describe();
    if Rule::by_name(&place.rule).is_none() {
        return Some(format!("{described}: there is no such rule"));
    }
    if place.reason.trim().chars().count() < REASON_CHARS_MIN || !place.reason.trim().ends_with('.') {
        return Some(format!("{described}: give the reason as a sentence"));
    }
    let is_stale = !hits.iter().any(|hit| place.allows(hit));
    is_stale.then(|| format!("{described} is stale: nothing there breaks the rule. Take the entry out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(rule: &str, item: Option<&str>, reason: &str) -> AllowedPlace {
        let (rule, item, reason) = (rule.to_owned(), item.map(str::to_owned), reason.to_owned());
        AllowedPlace { rule, path: "a.rs".to_owned(), item, reason }
    }

    fn hit(rule: Rule, item: &str) -> Hit {
        Hit { rule, path: "a.rs".to_owned(), line: 1, item: item.to_owned(), text: String::new() }
    }

    const REASON: &str = "The trait of another crate asks for it.";

    #[test]
    fn what_is_allowed_is_taken_out() {
        let hits = vec![hit(Rule::FunctionLength, "f"), hit(Rule::FunctionLength, "g"), hit(Rule::TypeName, "f")];
        let allowed = vec![place("function-length", Some("f"), REASON), place("type-name", None, REASON)];
        let (left, faults) = Allowed { allowed }.apply(hits.clone());
        assert_eq!((left.as_slice(), faults.as_slice()), (&hits[1..2], &[][..]));
    }

    #[test]
    fn entries_that_are_stale_or_say_nothing_are_found() {
        let allowed = vec![
            place("type-name", Some("gone"), REASON),
            place("type-names", Some("f"), REASON),
            place("type-name", Some("f"), "because of it"),
            place("log-event", Some("f"), REASON),
        ];
        let (_, faults) = Allowed { allowed }.apply(vec![hit(Rule::TypeName, "f"), hit(Rule::LogEvent, "f")]);
        let start = |fault: &String| fault.split(". ").next().unwrap_or_default().to_owned();
        let expected = [
            "tests/tidy/allowed.toml: type-name in a.rs, item gone is stale: nothing there breaks the rule",
            "tests/tidy/allowed.toml: type-names in a.rs, item f: there is no such rule",
            "tests/tidy/allowed.toml: type-name in a.rs, item f: give the reason as a sentence",
            "tests/tidy/allowed.toml: 1 places of log-event, and 0 are allowed",
        ];
        assert_eq!(faults.iter().map(start).collect::<Vec<_>>(), expected);
    }
}
