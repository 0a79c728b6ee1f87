//! A [`Shape`] as an OpenAPI schema, as CustomResourceDefinitions hold it (a *structural* schema: no
//! references, one type for each place). Pure.

use serde_json::{Map, Value, json};

use crate::shape::{Field, Shape};

/// As upstream writes it; some of its fields are not anchored.
const MAC_PATTERN: &str = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}";

/// The schema of a document of this shape.
#[must_use]
pub fn openapi(shape: &Shape) -> Value {
    match shape {
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Integer { min, max } => {
            let mut schema = json!({ "type": "integer" });
            for (name, bound) in [("minimum", min), ("maximum", max)] {
                if let Some(bound) = bound {
                    schema[name] = json!(bound);
                }
            }
            schema
        }
        Shape::OneOf(words) => json!({ "type": "string", "enum": words }),
        Shape::Time => json!({ "type": "string", "format": "date-time" }),
        Shape::Mac { anchored: true } => json!({ "type": "string", "pattern": format!("^{MAC_PATTERN}$") }),
        Shape::Mac { anchored: false } => json!({ "type": "string", "pattern": MAC_PATTERN }),
        Shape::Any => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        Shape::Map(item) => json!({ "type": "object", "additionalProperties": openapi(item) }),
        Shape::List(item) => json!({ "type": "array", "items": openapi(item) }),
        Shape::Object(fields) => object(fields),
    }
}

fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = openapi(field.shape);
    if !field.about.is_empty() {
        schema["description"] = json!(field.about);
    }
    if !field.list_keys.is_empty() {
        schema["x-kubernetes-list-type"] = json!("map");
        schema["x-kubernetes-list-map-keys"] = json!(field.list_keys);
    }
    if field.is_atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_says_all_that_it_knows() {
        const ITEM: Shape = Shape::Object(&[Field::required("type", &Shape::OneOf(&["a", "b"]))]);
        const SHAPE: Shape = Shape::Object(&[
            Field::required("size", &Shape::NATURAL).about("How large."),
            Field::new("list", &Shape::List(&ITEM)).keyed_by(&["type"]),
            Field::new("map", &Shape::Map(&Shape::Time)),
            Field::new("mac", &Shape::Mac { anchored: true }),
            Field::new("any", &Shape::Any),
            Field::new("reference", &Shape::Object(&[Field::new("name", &Shape::Text)])).atomic(),
        ]);
        let word = json!({ "type": "string", "enum": ["a", "b"] });
        assert_eq!(
            openapi(&SHAPE),
            json!({
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "minimum": 0, "description": "How large." },
                    "list": {
                        "type": "array",
                        "items": { "type": "object", "required": ["type"], "properties": { "type": word } },
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                    },
                    "map": { "type": "object", "additionalProperties": { "type": "string", "format": "date-time" } },
                    "mac": { "type": "string", "pattern": "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$" },
                    "any": { "x-kubernetes-preserve-unknown-fields": true },
                    "reference": {
                        "type": "object",
                        "properties": { "name": { "type": "string" } },
                        "x-kubernetes-map-type": "atomic",
                    },
                },
            })
        );
    }
}
