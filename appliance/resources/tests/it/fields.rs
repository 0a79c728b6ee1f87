//! What becomes of each field of each kind: acted on, with the test that sees the effect, or warned of at admission and
//! named in `NoController`. The fields come from the shapes, so that none can be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use firesteel_kube_types::summary;
use firesteel_resources::kind::{Kind, KindScope};
use firesteel_resources::kinds::KINDS;
use firesteel_resources::shape::{Shape, ShapeForm};
use firesteel_resources::{admit, no_controller};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// Shortest reason that explains anything.
const REASON_CHARS_MIN: usize = 20;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FieldRows {
    kind: String,
    group: String,
    /// Of a kind with one object.
    name: String,
    base: Value,
    acted: BTreeMap<String, String>,
    warned: BTreeMap<String, Value>,
    refused: BTreeMap<String, Value>,
    kept: BTreeMap<String, String>,
}

impl FieldRows {
    fn paths(&self) -> BTreeSet<&str> {
        let paths = self.acted.keys().chain(self.warned.keys()).chain(self.refused.keys()).chain(self.kept.keys());
        paths.map(String::as_str).collect()
    }

    /// An object with this laid over the base.
    fn object(&self, kind: &Kind, over: &Value) -> Value {
        let mut spec = self.base.as_object().cloned().unwrap_or_default();
        spec.extend(over.as_object().cloned().unwrap_or_default());
        let one = if kind.kind == "Provisioning" { "provisioning-configuration" } else { "a" };
        let name = if self.name.is_empty() { one } else { self.name.as_str() };
        let mut metadata = json!({"name": name, "generation": 1});
        if kind.scope == KindScope::Namespaced {
            metadata["namespace"] = json!("default");
        }
        json!({"metadata": metadata, "spec": spec})
    }
}

fn read() -> Vec<FieldRows> {
    serde_saphyr::from_str(include_str!("fields.yaml")).unwrap()
}

/// Those that have something for users to write, and of which something is acted on.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    let has_fields = |kind: &Kind| {
        let mut fields = Vec::new();
        leaves(kind.shape, "", &mut fields);
        fields != ["spec"]
    };
    let is_here = move |kind: &&Kind| {
        !kind.read_only && kind.stored_as.is_none() && kind.without_controller.is_none() && has_fields(kind)
    };
    KINDS.iter().copied().filter(is_here)
}

/// Every field that has no others in it, with the fields of lists and maps; not those of the status.
fn leaves(shape: &Shape, path: &str, found: &mut Vec<String>) {
    let inside = match shape.form {
        ShapeForm::Boolean
        | ShapeForm::Integer
        | ShapeForm::Number
        | ShapeForm::Text
        | ShapeForm::IntegerOrText
        | ShapeForm::Any => &[][..],
        ShapeForm::Map(item) | ShapeForm::List(item) => return leaves(item, path, found),
        ShapeForm::Object(fields) => fields,
    };
    if inside.is_empty() {
        found.push(path.to_owned());
    }
    for field in inside.iter().filter(|field| !(path.is_empty() && field.name == "status")) {
        let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        leaves(&field.shape, &path, found);
    }
}

fn is_in(path: &str, row: &str) -> bool {
    path.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The row that a field is of: the longest.
fn row_of<'a>(rows: &FieldRows, path: &'a str) -> Option<&'a str> {
    let longest = rows.paths().into_iter().filter(|row| is_in(path, row)).map(str::len).max()?;
    Some(&path[..longest])
}

fn faults(table: &[FieldRows], root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for kind in kinds() {
        let rows = table.iter().find(|rows| rows.kind == kind.kind && rows.group == kind.group);
        let Some(rows) = rows else {
            faults.push(format!("{}: it has no rows", kind.kind));
            continue;
        };
        let mut fields = Vec::new();
        leaves(kind.shape, "", &mut fields);
        let without = fields.iter().filter(|path| row_of(rows, path).is_none());
        faults.extend(without.map(|path| format!("{} {path}: it has no row", kind.kind)));
        for row in rows.paths() {
            if !row.contains('.') || !fields.iter().any(|path| is_in(path, row)) {
                faults.push(format!("{} {row}: there is no such field", kind.kind));
            }
        }
        let broken = rows.acted.iter().filter_map(|(row, test)| Some((row, fault_of(test, root)?)));
        faults.extend(broken.map(|(row, fault)| format!("{} {row}: {fault}", kind.kind)));
        let silent = rows.kept.iter().filter(|(_, why)| why.len() < REASON_CHARS_MIN);
        faults.extend(silent.map(|(row, _)| format!("{} {row}: it does not say why", kind.kind)));
        faults.extend(verdict_faults(kind, rows));
    }
    let is_known = |rows: &&FieldRows| kinds().any(|kind| kind.kind == rows.kind && kind.group == rows.group);
    faults.extend(table.iter().filter(|rows| !is_known(rows)).map(|rows| format!("{}: no such kind", rows.kind)));
    faults
}

/// What admission and the condition say is what the rows say.
fn verdict_faults(kind: &Kind, rows: &FieldRows) -> Vec<String> {
    let mut faults = Vec::new();
    for (row, over) in &rows.warned {
        let mut object = rows.object(kind, over);
        let admission = admit(kind, &mut object, None);
        if !admission.causes.is_empty() {
            faults.push(format!("{} {row}: it is refused: {}", kind.kind, summary(&admission.causes)));
            continue;
        }
        // The line is of this field: it begins with it, or lists it.
        let names = |text: &str| text.split([' ', ',', ';']).any(|word| word == row);
        if !admission.warnings.iter().any(|line| names(line)) {
            faults.push(format!("{} {row}: no warning names it: {:?}", kind.kind, admission.warnings));
        }
        no_controller::set_no_controller(kind, &mut object, Timestamp::UNIX_EPOCH);
        let told = object["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        if !names(told) {
            faults.push(format!("{} {row}: NoController does not name it: {told:?}", kind.kind));
        }
    }
    for (row, over) in &rows.refused {
        let causes = admit(kind, &mut rows.object(kind, over), None).causes;
        if !causes.iter().any(|cause| is_in(&cause.field, row)) {
            faults.push(format!("{} {row}: it is not refused: {}", kind.kind, summary(&causes)));
        }
    }
    faults
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether `FILE TEST` names a test.
fn fault_of(test: &str, root: &Path) -> Option<String> {
    let Some((file, name)) = test.split_once(' ') else { return Some(format!("{test:?} is not FILE TEST")) };
    let Ok(source) = std::fs::read_to_string(root.join(file)) else { return Some(format!("there is no file {file}")) };
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let is_head = |line: &&str| line.strip_prefix("async ").unwrap_or(line).starts_with(&head);
    let Some(at) = lines.iter().position(is_head) else { return Some(format!("{file} has no function {name}")) };
    let mut attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let is_test = attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    (!is_test).then(|| format!("{name} in {file} is not a test"))
}

#[test]
fn every_field_is_acted_on_or_warned_of() {
    let table = read();
    for kind in KINDS.iter().filter(|kind| kind.stored_as.is_none()) {
        match kind.without_controller {
            Some(why) => println!("{}: warned of as a whole: {why}", kind.kind),
            None if kind.read_only => println!("{}: the appliance alone writes it", kind.kind),
            None => print_rows(kind, &table),
        }
    }
    let faults = faults(&table, &repository());
    assert!(faults.is_empty(), "fields.yaml:\n{}", faults.join("\n"));
}

fn print_rows(kind: &Kind, table: &[FieldRows]) {
    let Some(rows) = table.iter().find(|rows| rows.kind == kind.kind && rows.group == kind.group) else { return };
    let mut fields = Vec::new();
    leaves(kind.shape, "", &mut fields);
    for path in &fields {
        let Some(row) = row_of(rows, path) else { continue };
        let acted = rows.acted.get(row).map(|test| format!("acted on: {test}"));
        let warned = rows.warned.get(row).map(|_| "warned of, in NoController".to_owned());
        let refused = rows.refused.get(row).map(|_| "refused".to_owned());
        let kept = rows.kept.get(row).map(|why| format!("kept: {why}"));
        let words: Vec<String> = [acted, warned, refused, kept].into_iter().flatten().collect();
        println!("{} {path} | {}", kind.kind, words.join("; "));
    }
}

/// The check finds what it is for.
#[test]
fn a_wrong_table_of_fields_is_found() {
    type Spoil = fn(&mut Vec<FieldRows>);
    let cases: [(Spoil, &str); 8] = [
        (|all| drop(all.remove(0)), "BareMetalHost: it has no rows"),
        (|all| drop(all[0].acted.remove("spec.online")), "spec.online: it has no row"),
        (|all| drop(all[0].kept.insert("spec.none".into(), "there is no reason for it".into())), "no such field"),
        (|all| drop(all[0].acted.insert("spec.online".into(), "a.rs b".into())), "there is no file"),
        (|all| drop(all[0].kept.insert("spec.description".into(), "so".into())), "does not say why"),
        (|all| drop(all[0].warned.insert("spec.online".into(), json!({"online": false}))), "no warning names it"),
        (|all| drop(all[0].refused.insert("spec.online".into(), json!({"online": false}))), "it is not refused"),
        (|all| all.push(FieldRows { kind: "Rack".into(), ..FieldRows::default() }), "Rack: no such kind"),
    ];
    for (spoil, text) in cases {
        let mut table = read();
        spoil(&mut table);
        let faults = faults(&table, &repository());
        assert!(faults.iter().any(|fault| fault.contains(text)), "{text}: {faults:?}");
    }
}
