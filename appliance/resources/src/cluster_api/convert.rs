//! Converts from v1beta1 to v1beta2 and back, as upstream does it. Pure.
//!
//! One table for each kind of object says where a field of one version is in the other; what it does not
//! name is the same in both. Each row is used in both directions. What one version has alone is left
//! out: the caller keeps it beside the result ([`KindConversion`]). Values that cannot be
//! converted, such as a duration that is none, are left out as well, and so is what says nothing.

mod duration;
mod idle;
mod tables;

use serde_json::{Map, Value, json};

use super::v1beta2;
use crate::kind::KindConversion;

/// The version that v1beta1 gets for a reference that v1beta2 makes by the group alone. Upstream
/// asks the definitions of kinds that may not be known here; this is the one that clients of v1beta1 know.
const REFERENCE_VERSION: &str = "v1beta1";

/// A row: a path of v1beta1, one of v1beta2, and how the value differs. An empty path: it is not there.
#[derive(Debug)]
struct FieldMapping {
    old: &'static str,
    new: &'static str,
    form: MappingForm,
}

/// A table, in parts: some of them are in several tables.
type Steps = &'static [&'static [FieldMapping]];

/// How a value differs between the versions.
#[derive(Debug)]
enum MappingForm {
    Same,
    /// A text such as "1h30m0s", and seconds.
    Duration,
    /// A reference with a version and a namespace, and one with a group.
    Reference,
    /// A reference to a Node, and its name.
    Node,
    /// A reference with a namespace, and one without.
    Template,
    /// Fields by their names, and a list of them.
    Domains,
    /// A word that v1beta1 does not have.
    Phase,
    Object(Steps),
    List(Steps),
}

const fn same(old: &'static str, new: &'static str) -> FieldMapping {
    FieldMapping { old, new, form: MappingForm::Same }
}

const fn seconds(old: &'static str, new: &'static str) -> FieldMapping {
    FieldMapping { old, new, form: MappingForm::Duration }
}

const fn reference(path: &'static str) -> FieldMapping {
    FieldMapping { old: path, new: path, form: MappingForm::Reference }
}

const fn object(path: &'static str, steps: Steps) -> FieldMapping {
    FieldMapping { old: path, new: path, form: MappingForm::Object(steps) }
}

const fn list(path: &'static str, steps: Steps) -> FieldMapping {
    FieldMapping { old: path, new: path, form: MappingForm::List(steps) }
}

/// What v1beta1 has alone.
const fn only_old(path: &'static str) -> FieldMapping {
    same(path, "")
}

/// What v1beta2 has alone.
const fn only_new(path: &'static str) -> FieldMapping {
    same("", path)
}

pub const CLUSTER: KindConversion = KindConversion {
    to_stored: |object| idle::dropped(convert(object, tables::CLUSTER, Direction::Up), &v1beta2::cluster::SHAPE),
    from_stored: |object| convert(object, tables::CLUSTER, Direction::Down),
};
pub const MACHINE: KindConversion = KindConversion {
    to_stored: |object| idle::dropped(convert(object, tables::MACHINE, Direction::Up), &v1beta2::machine::SHAPE),
    from_stored: |object| convert(object, tables::MACHINE, Direction::Down),
};
pub const MACHINE_SET: KindConversion = KindConversion {
    to_stored: |object| {
        idle::dropped(convert(object, tables::MACHINE_SET, Direction::Up), &v1beta2::machine_set::SHAPE)
    },
    from_stored: |object| convert(object, tables::MACHINE_SET, Direction::Down),
};

/// Whether a text is a duration as v1beta1 has them.
pub(super) fn is_duration(text: &str) -> bool {
    duration::parse(text).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// The direction to v1beta2.
    Up,
    /// The direction to v1beta1.
    Down,
}

impl FieldMapping {
    fn from(&self, direction: Direction) -> &'static str {
        if direction == Direction::Up { self.old } else { self.new }
    }

    fn to(&self, direction: Direction) -> &'static str {
        if direction == Direction::Up { self.new } else { self.old }
    }
}

/// What is beside `apiVersion`, `kind` and `metadata`, in the other version.
fn convert(object: &Value, steps: Steps, direction: Direction) -> Map<String, Value> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let fields = object.as_object().into_iter().flatten();
    let own = fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    let mut body: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    rebuild(&mut body, steps, direction, namespace);
    body
}

/// Takes out what has another place there, then puts it in: a path may be the old one of one value and
/// the new one of another. What stays where it is is rebuilt between the two, since it may lose a value
/// by the one and get one by the other.
fn rebuild(fields: &mut Map<String, Value>, steps: Steps, direction: Direction, namespace: &str) {
    let stays = |step: &&FieldMapping| step.old == step.new;
    let all = || steps.iter().copied().flatten();
    let moving = all().filter(|step| !stays(step) && !step.from(direction).is_empty());
    let taken: Vec<(&FieldMapping, Value)> =
        moving.filter_map(|step| Some((step, take(fields, step.from(direction))?))).collect();
    for step in all().filter(stays) {
        if let Some(place) = at(fields, step.old)
            && let Some(value) = step.form.convert(place.take(), direction, namespace)
        {
            *place = value;
        }
    }
    for (step, value) in taken {
        let path = step.to(direction);
        if path.is_empty() {
            continue;
        }
        if let Some(value) = step.form.convert(value, direction, namespace) {
            put(fields, path, value);
        }
    }
}

impl MappingForm {
    fn convert(&self, mut value: Value, direction: Direction, namespace: &str) -> Option<Value> {
        match (self, direction) {
            (Self::Same, _) => Some(value),
            (Self::Duration, Direction::Up) => value.as_str().and_then(duration::parse).map(|seconds| json!(seconds)),
            (Self::Duration, Direction::Down) => value.as_i64().map(|seconds| json!(duration::text(seconds))),
            (Self::Reference, Direction::Up) => Some(grouped(&value)),
            (Self::Reference, Direction::Down) => Some(versioned(&value, namespace)),
            (Self::Node, Direction::Up) => {
                let name = value.get("name").cloned();
                Some(Value::Object(name.map(|name| ("name".to_owned(), name)).into_iter().collect()))
            }
            (Self::Node, Direction::Down) => {
                let mut node = value.as_object().cloned().unwrap_or_default();
                node.insert("apiVersion".into(), "v1".into());
                node.insert("kind".into(), "Node".into());
                Some(Value::Object(node))
            }
            (Self::Template, Direction::Up) => Some(only_fields(&value, &["apiVersion", "kind", "name"])),
            (Self::Template, Direction::Down) => {
                let mut template = value.as_object().cloned().unwrap_or_default();
                put_namespace(&mut template, namespace);
                Some(Value::Object(template))
            }
            (Self::Domains, Direction::Up) => Some(listed(&value)),
            (Self::Domains, Direction::Down) => Some(named(&value)),
            (Self::Phase, Direction::Down) if value == "Updating" => Some(json!("Running")),
            (Self::Phase, _) => Some(value),
            (Self::Object(steps), _) => {
                if let Value::Object(fields) = &mut value {
                    rebuild(fields, steps, direction, namespace);
                }
                Some(value)
            }
            (Self::List(steps), _) => {
                for fields in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                    rebuild(fields, steps, direction, namespace);
                }
                Some(value)
            }
        }
    }
}

/// `infrastructure.cluster.x-k8s.io/v1beta1` → the group alone.
fn grouped(reference: &Value) -> Value {
    let mut group = only_fields(reference, &["kind", "name"]);
    if let Some(version) = reference["apiVersion"].as_str() {
        let name = version.split_once('/').map_or("", |(group, _)| group);
        group["apiGroup"] = json!(name);
    }
    group
}

fn versioned(reference: &Value, namespace: &str) -> Value {
    let Value::Object(mut fields) = only_fields(reference, &["kind", "name"]) else { return json!({}) };
    match reference["apiGroup"].as_str() {
        Some("") => drop(fields.insert("apiVersion".into(), "v1".into())),
        Some(group) => drop(fields.insert("apiVersion".into(), format!("{group}/{REFERENCE_VERSION}").into())),
        None => {}
    }
    // What names nothing is in no namespace either.
    if !fields.is_empty() {
        put_namespace(&mut fields, namespace);
    }
    Value::Object(fields)
}

fn put_namespace(fields: &mut Map<String, Value>, namespace: &str) {
    if !namespace.is_empty() {
        fields.insert("namespace".into(), namespace.into());
    }
}

fn only_fields(value: &Value, names: &[&str]) -> Value {
    let fields = names.iter().filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone())));
    Value::Object(fields.collect())
}

/// Failure domains by their names, as a list in the order of the names.
fn listed(domains: &Value) -> Value {
    let named = domains.as_object().into_iter().flatten().map(|(name, domain)| {
        let mut fields = domain.as_object().cloned().unwrap_or_default();
        fields.insert("name".into(), name.as_str().into());
        Value::Object(fields)
    });
    Value::Array(named.collect())
}

fn named(domains: &Value) -> Value {
    let named = domains.as_array().into_iter().flatten().filter_map(|domain| {
        let mut fields = domain.as_object()?.clone();
        let Value::String(name) = fields.remove("name")? else { return None };
        Some((name, Value::Object(fields)))
    });
    Value::Object(named.collect())
}

fn at<'a>(fields: &'a mut Map<String, Value>, path: &str) -> Option<&'a mut Value> {
    match path.split_once('.') {
        None => fields.get_mut(path),
        Some((name, rest)) => at(fields.get_mut(name)?.as_object_mut()?, rest),
    }
}

/// Takes the value of a dotted path; objects on the way that become empty by that go too.
fn take(fields: &mut Map<String, Value>, path: &str) -> Option<Value> {
    let Some((name, rest)) = path.split_once('.') else { return fields.remove(path) };
    let inner = fields.get_mut(name)?.as_object_mut()?;
    let value = take(inner, rest)?;
    if inner.is_empty() {
        fields.remove(name);
    }
    Some(value)
}

fn put(fields: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((name, rest)) = path.split_once('.') else { return drop(fields.insert(path.into(), value)) };
    let inner = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        put(inner, rest, value);
    }
}
