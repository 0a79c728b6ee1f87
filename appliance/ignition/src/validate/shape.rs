//! A config against the schema: types, fields that its version does not know, and names in the wrong case.
//!
//! Ignition reads with Go's encoding/json: null is as if it was not there, a wrong type ends it, an unknown field is
//! ignored (and reported as "Unused key"). What the schema requires is not checked here: rules do that, where they do.

use serde_json::{Map, Value};

use super::super::ConfigFindings;
use super::join;
use super::schema::{FieldType, IgnitionField};

/// Cuts off what is null or not known to this version, so that a rule sees what Ignition would.
pub(super) fn check(config: &mut Value, kind: &FieldType, minor: u8, findings: &mut ConfigFindings) {
    SchemaValidator { minor, findings }.value(config, kind, "");
}

struct SchemaValidator<'f> {
    minor: u8,
    findings: &'f mut ConfigFindings,
}

impl SchemaValidator<'_> {
    fn value(&mut self, value: &mut Value, kind: &FieldType, place: &str) {
        let wanted = match (kind, value) {
            (_, Value::Null) | (FieldType::Text, Value::String(_)) | (FieldType::Flag, Value::Bool(_)) => return,
            (FieldType::Whole, Value::Number(number)) if number.as_i64().is_some() => return,
            (FieldType::List(kind), Value::Array(list)) => {
                for (index, entry) in list.iter_mut().enumerate() {
                    self.value(entry, kind, &format!("{place}[{index}]"));
                }
                return;
            }
            (FieldType::Object(fields), Value::Object(map)) => return self.object(map, fields, place),
            (FieldType::Text, _) => "a text",
            (FieldType::Flag, _) => "true or false",
            (FieldType::Whole, _) => "a whole number",
            (FieldType::List(_), _) => "a list",
            (FieldType::Object(_), _) => "an object",
        };
        let place = if place.is_empty() { "the config" } else { place };
        self.findings.error(format!("{place}: must be {wanted}"));
    }

    fn object(&mut self, map: &mut Map<String, Value>, fields: &[IgnitionField], place: &str) {
        map.retain(|name, value| {
            let is_known = self.is_known(name, fields, place);
            is_known && !value.is_null()
        });
        let minor = self.minor;
        for field in fields.iter().filter(|field| field.is_known(minor)) {
            match map.get_mut(field.name) {
                Some(value) => self.value(value, field.kind, &join(place, field.name)),
                None if field.is_required(minor) => {
                    self.findings.warning(format!("{}: is needed", join(place, field.name)));
                }
                None => {}
            }
        }
    }

    fn is_known(&mut self, name: &str, fields: &[IgnitionField], place: &str) -> bool {
        let minor = self.minor;
        if let Some(field) = fields.iter().find(|field| field.name == name) {
            if !field.is_known(minor) {
                let (place, since) = (join(place, name), field.since);
                self.findings.warning(format!("{place}: is ignored, spec 3.{minor} has no such field; 3.{since} has"));
            }
            return field.is_known(minor);
        }
        let meant = fields.iter().find(|field| field.is_known(minor) && folds_to(name, field.name));
        let place = join(place, name);
        match meant {
            Some(field) => self.findings.error(format!("{place}: is spelled {} in the spec", field.name)),
            None => self.findings.warning(format!("{place}: is ignored, spec 3.{minor} has no such field")),
        }
        false
    }
}

/// Whether Go takes the name for the field's: letters of either case, and two that Unicode folds to `s` and `k`.
fn folds_to(name: &str, field: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(field.chars().map(fold))
}
