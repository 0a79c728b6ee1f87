//! `ratchet.toml`: how many hits of each rule each file still has. A count may only fall.

use std::collections::BTreeMap;

use crate::rule::{Hit, Rule};

/// Where the counts stand, below the repository's root.
pub const PATH: &str = "tests/tidy/ratchet.toml";
/// The variable of the environment that has the test write the counts instead of comparing them.
pub const UPDATE: &str = "UPDATE_RATCHET";

const HEADER: &str = "\
# Hits of the rules of `firesteel-tidy` that are still to be mended: for each rule, the files and their counts.
# A higher count fails, and so does a lower one until it is written down:
# `UPDATE_RATCHET=1 cargo test -p firesteel-tidy` does that. It refuses if a rule has more hits than before.
# To see the places, take the line of a file out and run the test.
";

type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Counts by rule and file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ratchet(Counts);

impl Ratchet {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text).map(Self)
    }

    /// Counts hits.
    pub fn count(hits: &[Hit]) -> Self {
        let mut counts: Counts = Rule::ALL.into_iter().map(|rule| (rule.name().to_owned(), BTreeMap::new())).collect();
        for hit in hits {
            *counts.entry(hit.rule.name().to_owned()).or_default().entry(hit.path.clone()).or_default() += 1;
        }
        Self(counts)
    }

    /// Says where a tree has more or fewer hits than are written down, rule by rule.
    pub fn compare(&self, hits: &[Hit]) -> Vec<String> {
        let now = Self::count(hits);
        let unknown = self.0.keys().filter(|name| Rule::by_name(name).is_none());
        let mut faults: Vec<String> = unknown.map(|name| format!("{PATH}: there is no rule {name}")).collect();
        for rule in Rule::ALL {
            let more = self.more(rule, &now, hits);
            if !more.is_empty() {
                faults.push(format!("{}: {}\n{}", rule.name(), rule.remedy(), more.join("\n")));
            }
            faults.extend(self.fewer(rule, &now));
        }
        faults
    }

    /// The hits of each file that has more than are written down.
    fn more(&self, rule: Rule, now: &Self, hits: &[Hit]) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, count) in now.of(rule) {
            let before = self.count_of(rule, path);
            if *count > before && before > 0 {
                lines.push(format!("  {path} has {count} of them, and {before} are written down:"));
            }
            if *count > before {
                let own = hits.iter().filter(|hit| hit.rule == rule && hit.path == *path);
                lines.extend(own.map(|hit| format!("  {path}:{} {}", hit.line, hit.text)));
            }
        }
        lines
    }

    fn fewer(&self, rule: Rule, now: &Self) -> Vec<String> {
        let is_fewer = |(path, count): &(&String, &usize)| now.count_of(rule, path) < **count;
        let fault = |(path, count): (&String, &usize)| {
            let left = now.count_of(rule, path);
            let name = rule.name();
            format!(
                "{PATH}: {path} has {left} of {name} left, and {count} are written down: write the lower count, or run the test with {UPDATE}=1"
            )
        };
        self.of(rule).filter(is_fewer).map(fault).collect()
    }

    /// The counts of a tree, to be written down. An error names the rules that have more hits than before.
    pub fn updated(&self, hits: &[Hit]) -> Result<Self, RatchetRefusal> {
        let now = Self::count(hits);
        let is_worse = |rule: &Rule| self.0.contains_key(rule.name()) && now.total(*rule) > self.total(*rule);
        let worse: Vec<&str> = Rule::ALL.into_iter().filter(is_worse).map(Rule::name).collect();
        if worse.is_empty() { Ok(now) } else { Err(RatchetRefusal { rules: worse.join(", ") }) }
    }

    fn total(&self, rule: Rule) -> usize {
        self.of(rule).map(|(_, count)| count).sum()
    }

    fn of(&self, rule: Rule) -> impl Iterator<Item = (&String, &usize)> {
        self.0.get(rule.name()).into_iter().flatten()
    }

    fn count_of(&self, rule: Rule, path: &str) -> usize {
        self.0.get(rule.name()).and_then(|files| files.get(path)).copied().unwrap_or_default()
    }

    /// Writes the file's text.
    pub fn render(&self) -> String {
        let mut text = HEADER.to_owned();
        for (rule, files) in &self.0 {
            text.push_str(&format!("\n[{rule}]\n"));
            files.iter().for_each(|(path, count)| text.push_str(&format!("\"{path}\" = {count}\n")));
        }
        text
    }
}

/// Says why counts are not written down.
#[derive(Debug, PartialEq, Eq)]
pub struct RatchetRefusal {
    rules: String,
}

impl std::fmt::Display for RatchetRefusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "there are more hits than before of {}; mend the new ones, then update", self.rules)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn hits(paths: &[&str]) -> Vec<Hit> {
        let hit = |path: &&str| Hit {
            rule: Rule::TypeName,
            path: (*path).to_owned(),
            line: 3,
            item: String::new(),
            text: "`A` is also defined in b.rs:1".to_owned(),
        };
        paths.iter().map(hit).collect()
    }

    #[test]
    fn counts_that_are_written_down_are_read_back() {
        let ratchet = Ratchet::count(&hits(&["a.rs", "b.rs", "a.rs"]));
        let text = ratchet.render();
        assert!(text.ends_with("\n[type-name]\n\"a.rs\" = 2\n\"b.rs\" = 1\n"), "{text}");
        assert_eq!(Ratchet::parse(&text).unwrap(), ratchet);
        assert_eq!(ratchet.compare(&hits(&["a.rs", "b.rs", "a.rs"])), Vec::<String>::new());
    }

    #[test]
    fn a_higher_count_and_a_lower_one_fail() {
        let ratchet = Ratchet::count(&hits(&["a.rs", "b.rs", "b.rs"]));
        let [more, fewer] = ratchet.compare(&hits(&["a.rs", "a.rs", "b.rs"])).try_into().unwrap();
        let place = "  a.rs:3 `A` is also defined in b.rs:1";
        let expected = format!("  a.rs has 2 of them, and 1 are written down:\n{place}\n{place}");
        assert_eq!(more, format!("type-name: {}\n{expected}", Rule::TypeName.remedy()));
        let expected = "tests/tidy/ratchet.toml: b.rs has 1 of type-name left, and 2 are written down: write the lower \
                        count, or run the test with UPDATE_RATCHET=1";
        assert_eq!(fewer, expected);
        let new = ratchet.compare(&hits(&["a.rs", "b.rs", "b.rs", "c.rs"]));
        assert_eq!(new[0].lines().nth(1), Some("  c.rs:3 `A` is also defined in b.rs:1"));
    }

    #[test]
    fn hits_may_move_but_not_grow() {
        let ratchet = Ratchet::count(&hits(&["a.rs", "b.rs"]));
        assert_eq!(ratchet.updated(&hits(&["c.rs", "c.rs"])), Ok(Ratchet::count(&hits(&["c.rs", "c.rs"]))));
        let refused = ratchet.updated(&hits(&["a.rs", "b.rs", "c.rs"])).unwrap_err();
        let expected = "there are more hits than before of type-name; mend the new ones, then update";
        assert_eq!(refused.to_string(), expected);
        // A rule that is new begins with what there is.
        assert!(Ratchet::default().updated(&hits(&["a.rs"])).is_ok());
        assert_eq!(
            Ratchet::parse("[no-rule]").unwrap().compare(&[]),
            ["tests/tidy/ratchet.toml: there is no rule no-rule"]
        );
    }
}
