//! A field in an OpenAPI document, and its page. Pure.

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::kinds::CliKind;
use crate::table::{clean, wrap};
use crate::usage::wrong_use;

/// How deep fields in fields are listed: schemas may contain themselves.
const DEPTH_MAX: usize = 12;
const REFERENCE: &str = "#/components/schemas/";

/// A field of a kind, or the kind itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExplainedField<'a> {
    document: &'a Value,
    /// The name of the field; empty for the kind itself.
    name: &'a str,
    schema: &'a Value,
}

impl<'a> ExplainedField<'a> {
    /// Finds a field by its path.
    ///
    /// # Errors
    /// When the document does not have the kind, or the kind does not have the field.
    pub(super) fn find(document: &'a Value, kind: CliKind, path: &'a [String]) -> anyhow::Result<Self> {
        let is_kind = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            kinds.into_iter().any(|known| known["kind"] == kind.kind && known["group"] == kind.group)
        };
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        let schema = schemas.into_iter().flat_map(Map::values).find(is_kind);
        let schema =
            schema.with_context(|| format!("could not explain {}: the appliance has no schema of it", kind.kind))?;
        let mut field = Self { document, name: "", schema };
        let mut above = kind.plural.to_owned();
        for name in path {
            let fields = field.fields();
            field = fields.iter().copied().find(|known| known.name == name).ok_or_else(|| {
                let names: Vec<&str> = fields.iter().map(|known| known.name).collect();
                let known = if names.is_empty() { "no fields".to_owned() } else { names.join(", ") };
                wrong_use(format!("there is no field {name:?} in {above}; it has: {known}"))
            })?;
            above = format!("{above}.{name}");
        }
        Ok(field)
    }

    /// The page of the field, as kubectl lays it out.
    pub(super) fn render(&self, kind: CliKind, is_recursive: bool, width: usize) -> String {
        let mut text = String::new();
        if !kind.group.is_empty() {
            text.push_str(&format!("GROUP:      {}\n", kind.group));
        }
        text.push_str(&format!("KIND:       {}\nVERSION:    {}\n\n", kind.kind, kind.version));
        if !self.name.is_empty() {
            text.push_str(&format!("FIELD: {} <{}>\n\n", clean(self.name), self.type_()));
        }
        text.push_str("DESCRIPTION:\n");
        let about = self.about();
        let about = if about.is_empty() { "<empty>" } else { about };
        push_wrapped(&mut text, about, 4, width);
        self.push_values(&mut text, 4, width);
        let fields = self.fields();
        if !fields.is_empty() {
            text.push_str("\nFIELDS:\n");
            self.push_fields(&mut text, is_recursive, width, 1);
        }
        text
    }

    fn push_fields(&self, text: &mut String, is_recursive: bool, width: usize, depth: usize) {
        let required = self.target()["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        for field in self.fields() {
            let needed = if required.iter().any(|name| name == field.name) { " -required-" } else { "" };
            let (name, type_) = (clean(field.name), field.type_());
            text.push_str(&format!("{:1$}{name}\t<{type_}>{needed}\n", "", 2 * depth));
            if !is_recursive {
                push_wrapped(text, field.about(), 4, width);
                field.push_values(text, 4, width);
                text.push('\n');
            } else if depth < DEPTH_MAX {
                field.push_fields(text, true, width, depth + 1);
            }
        }
    }

    /// Lists the values that are possible, and the one that counts if the field is left out.
    fn push_values(&self, text: &mut String, indent: usize, width: usize) {
        let schema = self.target();
        let values = schema["enum"].as_array().into_iter().flatten();
        let values: Vec<String> =
            values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        if !values.is_empty() {
            push_wrapped(text, &format!("Possible values: {}", values.join(", ")), indent, width);
        }
        if !schema["default"].is_null() {
            push_wrapped(text, &format!("Default: {}", schema["default"]), indent, width);
        }
    }

    /// The fields of an object, of the items of a list, or of the values of a map.
    fn fields(&self) -> Vec<ExplainedField<'a>> {
        let properties = self.target()["properties"].as_object();
        let fields = properties.into_iter().flatten();
        fields.map(|(name, schema)| Self { document: self.document, name: name.as_str(), schema }).collect()
    }

    /// The schema that has the fields: that of the items of a list.
    fn target(&self) -> &'a Value {
        let mut schema = resolve(self.document, self.schema);
        for _ in 0..DEPTH_MAX {
            let inner = [&schema["items"], &schema["additionalProperties"]].into_iter().find(|inner| inner.is_object());
            match inner {
                Some(inner) => schema = resolve(self.document, inner),
                None => break,
            }
        }
        schema
    }

    /// The description beside a reference counts before that of what is referred to.
    fn about(&self) -> &'a str {
        let own = self.schema["description"].as_str();
        own.or_else(|| resolve(self.document, self.schema)["description"].as_str()).unwrap_or_default()
    }

    fn type_(&self) -> String {
        type_of(self.document, self.schema, 0)
    }
}

/// The type as kubectl writes it.
fn type_of(document: &Value, schema: &Value, depth: usize) -> String {
    let name = name_of_reference(schema);
    let schema = resolve(document, schema);
    if depth < DEPTH_MAX && schema["items"].is_object() {
        return format!("[]{}", type_of(document, &schema["items"], depth + 1));
    }
    if depth < DEPTH_MAX && schema["additionalProperties"].is_object() {
        return format!("map[string]{}", type_of(document, &schema["additionalProperties"], depth + 1));
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "IntOrString".to_owned();
    }
    match schema["type"].as_str() {
        Some("object") | None => name.unwrap_or("Object").to_owned(),
        Some(type_) => clean(type_),
    }
}

/// Follows references to where the schema is.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let Some(name) = reference(schema) else { break };
        schema = &document["components"]["schemas"][name];
    }
    schema
}

fn reference(schema: &Value) -> Option<&str> {
    let own = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    own?.strip_prefix(REFERENCE)
}

/// The last part of the name of a schema: `ObjectMeta`.
fn name_of_reference(schema: &Value) -> Option<&str> {
    reference(schema)?.rsplit('.').next()
}

fn push_wrapped(text: &mut String, about: &str, indent: usize, width: usize) {
    if about.is_empty() {
        return;
    }
    for line in wrap(&clean(about), width.saturating_sub(indent).max(20)) {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds;

    fn document() -> Value {
        json!({"components": {"schemas": {
            "meta.ObjectMeta": {"type": "object", "description": "of all", "properties": {"name": {"type": "string"}}},
            "io.metal3.BareMetalHost": {
                "type": "object", "description": "A host.",
                "x-kubernetes-group-version-kind": [{"group": "metal3.io", "version": "v1alpha1", "kind": "BareMetalHost"}],
                "properties": {
                    "metadata": {"allOf": [{"$ref": "#/components/schemas/meta.ObjectMeta"}], "description": "Its name."},
                    "spec": {"type": "object", "required": ["online"], "properties": {
                        "online": {"type": "boolean", "description": "Whether it is on.", "default": false},
                        "mode": {"type": "string", "enum": ["a", "b"]},
                        "disks": {"type": "array", "items": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    }},
                },
            },
        }}})
    }

    fn page(path: &str, is_recursive: bool) -> anyhow::Result<String> {
        let (document, host) = (document(), kinds::by_name("hosts").unwrap());
        let path: Vec<String> = path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Ok(ExplainedField::find(&document, host, &path)?.render(host, is_recursive, 80))
    }

    #[test]
    fn a_field_is_explained_as_kubectl_does_it() {
        let text = page("spec", false).unwrap();
        for part in [
            "GROUP:      metal3.io\nKIND:       BareMetalHost\nVERSION:    v1alpha1\n",
            "FIELD: spec <Object>\n",
            "  disks\t<[]Object>\n",
            "  labels\t<map[string]string>\n",
            "  mode\t<string>\n    Possible values: a, b\n",
            "  online\t<boolean> -required-\n    Whether it is on.\n    Default: false\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(page("", false).unwrap().contains("  metadata\t<ObjectMeta>\n    Its name.\n"));
        assert!(page("spec.disks", false).unwrap().contains("FIELD: disks <[]Object>"));
        assert!(page("metadata.name", false).unwrap().contains("FIELD: name <string>"));
        let all = page("", true).unwrap();
        assert!(all.contains("  spec\t<Object>\n    disks\t<[]Object>\n      size\t<integer>\n"), "{all}");
    }

    #[test]
    fn a_field_that_is_not_there_names_those_that_are() {
        let error = page("spec.imag", false).unwrap_err().to_string();
        assert!(
            error.contains("no field \"imag\" in baremetalhosts.spec; it has: disks, labels, mode, online"),
            "{error}"
        );
    }
}
