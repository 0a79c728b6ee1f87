//! Sets of paths in an object, and `FieldsV1`, the form in which they are stored and sent.
//!
//! An element of a path is kept as `FieldsV1` writes it: `f:name` for a field,
//! `k:{"type":"Ready"}` for an item known by its keys, `v:"x"` for an item known by itself, `i:0`
//! for one known by its place. The path itself is a member where `FieldsV1` has a `.` or nothing more.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) children: BTreeMap<String, FieldSetNode>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSetNode {
    /// The path that ends here is in the set.
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

pub(super) const SELF: &str = ".";
/// Letters of a path that people read. Names of fields can be as long as an object.
const PATH_CHARS_MAX: usize = 1024;

impl FieldSet {
    /// Reads `FieldsV1`; `None` if it is none.
    pub(crate) fn from_v1(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in value.as_object()? {
            let fields = below.as_object()?;
            let node = FieldSetNode {
                member: fields.is_empty() || fields.contains_key(SELF),
                below: match fields.contains_key(SELF) {
                    true => {
                        let fields = fields.iter().filter(|(key, _)| *key != SELF);
                        Self::from_v1(&fields.map(|(key, value)| (key.clone(), value.clone())).collect())?
                    }
                    false => Self::from_v1(below)?,
                },
            };
            set.children.insert(canonical(key)?, node);
        }
        Some(set)
    }

    pub(crate) fn to_v1(&self) -> Value {
        let below = |node: &FieldSetNode| {
            let mut fields = node.below.to_v1();
            if let Value::Object(fields) = &mut fields
                && node.member
                && !fields.is_empty()
            {
                fields.insert(SELF.into(), json!({}));
            }
            fields
        };
        Value::Object(self.children.iter().map(|(key, node)| (key.clone(), below(node))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.children.entry(first.clone()).or_default();
        match rest {
            [] => node.member = true,
            rest => node.below.insert(rest),
        }
    }

    pub(crate) fn union(mut self, other: &Self) -> Self {
        self.add_all(other);
        self
    }

    fn add_all(&mut self, other: &Self) {
        for (key, node) in &other.children {
            match self.children.get_mut(key) {
                Some(mine) => {
                    mine.member |= node.member;
                    mine.below.add_all(&node.below);
                }
                None => drop(self.children.insert(key.clone(), node.clone())),
            }
        }
    }

    /// The paths that are not in the other set, each for itself.
    pub(crate) fn difference(mut self, other: &Self) -> Self {
        self.remove_all(other);
        self
    }

    fn remove_all(&mut self, other: &Self) {
        for (key, theirs) in &other.children {
            let Some(mine) = self.children.get_mut(key) else { continue };
            mine.member &= !theirs.member;
            mine.below.remove_all(&theirs.below);
            if !mine.member && mine.below.is_empty() {
                self.children.remove(key);
            }
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (key, mine) in &self.children {
            let Some(theirs) = other.children.get(key) else { continue };
            let node =
                FieldSetNode { member: mine.member && theirs.member, below: mine.below.intersection(&theirs.below) };
            if node.member || !node.below.is_empty() {
                both.children.insert(key.clone(), node);
            }
        }
        both
    }

    /// The first paths, at most so many: those that end at a level before those that go deeper.
    pub(crate) fn paths(&self, most: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", most, &mut paths);
        paths
    }

    fn collect(&self, at: &str, most: usize, paths: &mut Vec<String>) {
        let path = |key: &str| format!("{at}{}", shown(key)).chars().take(PATH_CHARS_MAX).collect::<String>();
        let members = self.children.iter().filter(|(_, node)| node.member);
        paths.extend(members.map(|(key, _)| path(key)).take(most.saturating_sub(paths.len())));
        for (key, node) in self.children.iter().filter(|(_, node)| !node.below.is_empty()) {
            if paths.len() >= most {
                return;
            }
            node.below.collect(&path(key), most, paths);
        }
    }

    /// The paths with none below them.
    pub(crate) fn leaves(&self) -> Self {
        let mut leaves = self.clone();
        for node in leaves.children.values_mut() {
            node.member &= node.below.is_empty();
            node.below = node.below.leaves();
        }
        leaves
    }

    /// The paths, and those that lead to them.
    pub(crate) fn with_ancestors(&self) -> Self {
        let mut all = self.clone();
        for node in all.children.values_mut() {
            node.member |= !node.below.is_empty();
            node.below = node.below.with_ancestors();
        }
        all
    }

    /// How many paths there are.
    pub(crate) fn len(&self) -> usize {
        self.children.values().map(|node| usize::from(node.member) + node.below.len()).sum()
    }
}

pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// What an item of a set is known by.
pub(super) fn by_value(item: &Value) -> Option<String> {
    (!item.is_object() && !item.is_array()).then(|| format!("v:{item}"))
}

/// What an item is known by that has these keys; `None` if it lacks one.
pub(super) fn by_keys(item: &Value, keys: &[String]) -> Option<String> {
    let mut known = Map::new();
    for key in keys {
        let value = item.get(key)?;
        if value.is_object() || value.is_array() || value.is_null() {
            return None;
        }
        known.insert(key.clone(), value.clone());
    }
    Some(format!("k:{}", Value::Object(known)))
}

/// An element as this server writes it: clients may have other ideas of JSON's spaces and order.
fn canonical(element: &str) -> Option<String> {
    let (form, rest) = element.split_once(':')?;
    match form {
        "f" => Some(element.into()),
        "k" | "v" => {
            let value: Value = serde_json::from_str(rest).ok()?;
            (form == "v" || value.is_object()).then(|| format!("{form}:{value}"))
        }
        "i" => rest.parse::<u64>().ok().map(|index| format!("i:{index}")),
        _ => None,
    }
}

/// An element as part of a path that people read.
pub(super) fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some((_, index)) => format!("[{index}]"),
        None => element.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_v1(&value).unwrap()
    }

    #[test]
    fn fields_v1_is_read_and_written_alike() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
            "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}}}},
        });
        assert_eq!(set(text.clone()).to_v1(), text);
        let paths = [
            ".metadata.labels",
            ".metadata.finalizers[=\"x/y\"]",
            ".metadata.labels.a",
            ".status.conditions[type=\"Ready\"]",
            ".status.conditions[type=\"Ready\"].status",
        ];
        assert_eq!((set(text.clone()).paths(9), set(text.clone()).len()), (paths.map(str::to_owned).to_vec(), 5));
        assert_eq!(set(text.clone()).paths(2), paths[..2]);
        let leaves =
            [".metadata.finalizers[=\"x/y\"]", ".metadata.labels.a", ".status.conditions[type=\"Ready\"].status"];
        assert_eq!(set(text).leaves().paths(9), leaves);
        let loose = set(json!({"f:c": {"k:{ \"b\": 1, \"a\": \"x\" }": {}}}));
        assert_eq!(loose.to_v1(), json!({"f:c": {"k:{\"a\":\"x\",\"b\":1}": {}}}));
        for bad in [json!([]), json!({"spec": {}}), json!({"f:a": 1}), json!({"k:x": {}}), json!({"k:1": {}})] {
            assert_eq!(FieldSet::from_v1(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_parent_and_its_child_are_two_members() {
        let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
        let (parent, child) = (set(json!({"f:a": {}})), set(json!({"f:a": {"f:b": {}}})));
        assert_eq!(both.clone().difference(&parent), child);
        assert_eq!(both.clone().difference(&child), parent);
        assert_eq!(both.intersection(&child), child);
        assert_eq!(parent.union(&child), both);
    }

    fn sets() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(prop::sample::select(vec!["f:a", "f:b", "v:1"]), 1..4);
        prop::collection::vec(path, 0..6).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                set.insert(&path.into_iter().map(str::to_owned).collect::<Vec<_>>());
            }
            set
        })
    }

    proptest! {
        #[test]
        fn they_are_sets(a in sets(), b in sets()) {
            prop_assert_eq!(FieldSet::from_v1(&a.to_v1()).unwrap(), a.clone());
            prop_assert_eq!(a.clone().difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        }
    }
}
