//! A [`Shape`] as an OpenAPI schema, as CustomResourceDefinitions hold it (a *structural* schema: no
//! references, one type for each place). Pure.

use serde_json::{Map, Value, json};

use crate::shape::{Field, Ownership, Shape, ShapeForm};

/// The schema of a document of this shape.
#[must_use]
pub fn openapi(shape: &Shape) -> Value {
    let mut schema = match shape.form {
        ShapeForm::Boolean => json!({ "type": "boolean" }),
        ShapeForm::Integer => json!({ "type": "integer" }),
        ShapeForm::Number => json!({ "type": "number" }),
        ShapeForm::Text => json!({ "type": "string" }),
        ShapeForm::IntegerOrText => {
            json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true })
        }
        ShapeForm::Any => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        ShapeForm::Map(item) => json!({ "type": "object", "additionalProperties": openapi(item) }),
        ShapeForm::List(item) => json!({ "type": "array", "items": openapi(item) }),
        ShapeForm::Object(fields) => object(fields),
    };
    let bounds = [
        ("minimum", shape.min.map(Value::from)),
        ("maximum", shape.max.map(Value::from)),
        ("minLength", shape.chars_min.map(Value::from)),
        ("maxLength", shape.chars_max.map(Value::from)),
        ("minItems", shape.items_min.map(Value::from)),
        ("maxItems", shape.items_max.map(Value::from)),
        ("minProperties", shape.fields_min.map(Value::from)),
        ("pattern", shape.pattern.map(Value::from)),
        ("format", shape.format.map(|format| Value::from(format.word()))),
        ("default", shape.default.map(|default| default.value())),
        ("enum", (!shape.words.is_empty()).then(|| json!(shape.words))),
        ("nullable", shape.nullable.then_some(Value::Bool(true))),
        ("x-kubernetes-preserve-unknown-fields", shape.is_open.then_some(Value::Bool(true))),
        ("x-kubernetes-validations", rules(shape)),
    ];
    for (name, value) in bounds {
        if let Some(value) = value {
            schema[name] = value;
        }
    }
    ownership(shape, &mut schema);
    schema
}

fn object(fields: &[Field]) -> Value {
    let mut schema = json!({ "type": "object" });
    if !fields.is_empty() {
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
        schema["properties"] = Value::Object(properties);
    }
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = openapi(&field.shape);
    if !field.about.is_empty() {
        schema["description"] = json!(field.about);
    }
    schema
}

fn rules(shape: &Shape) -> Option<Value> {
    let rules = shape.rules.iter().map(|rule| json!({ "rule": rule.cel, "message": rule.message }));
    (!shape.rules.is_empty()).then(|| rules.collect())
}

fn ownership(shape: &Shape, schema: &mut Value) {
    let is_list = matches!(shape.form, ShapeForm::List(_));
    match shape.ownership {
        Ownership::Unsaid => {}
        Ownership::Atomic if is_list => schema["x-kubernetes-list-type"] = json!("atomic"),
        Ownership::Atomic => schema["x-kubernetes-map-type"] = json!("atomic"),
        Ownership::Set => schema["x-kubernetes-list-type"] = json!("set"),
        Ownership::Keyed(keys) => {
            schema["x-kubernetes-list-type"] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{CelRule, Literal};

    #[test]
    fn a_shape_says_all_that_it_knows() {
        const ITEM: Shape = Shape::object(&[Field::required("type", Shape::one_of(&["a", "b"]))]);
        const RULE: CelRule = CelRule { cel: "self > 0", message: "must be more", holds: |_, _| true };
        const SHAPE: Shape = Shape::object(&[
            Field::required("size", Shape::INT32.min(0).with_default(Literal::Integer(3)).ruled_by(&[RULE]))
                .about("How large."),
            Field::new("list", Shape::list(&ITEM).keyed_by(&["type"]).items_max(2)),
            Field::new("map", Shape::map(&Shape::TIME.nullable())),
            Field::new("name", Shape::TEXT.chars_min(1).chars_max(9).matching("^a")),
            Field::new("any", Shape::ANY),
            Field::new("either", Shape::INTEGER_OR_TEXT),
            Field::new("reference", Shape::object(&[Field::new("name", Shape::TEXT)]).atomic().fields_min(1)),
            Field::new("open", Shape::object(&[]).open()),
        ]);
        let word = json!({ "type": "string", "enum": ["a", "b"] });
        assert_eq!(
            openapi(&SHAPE),
            json!({
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {
                        "type": "integer", "format": "int32", "minimum": 0, "default": 3, "description": "How large.",
                        "x-kubernetes-validations": [{ "rule": "self > 0", "message": "must be more" }],
                    },
                    "list": {
                        "type": "array",
                        "items": { "type": "object", "required": ["type"], "properties": { "type": word } },
                        "maxItems": 2,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                    },
                    "map": {
                        "type": "object",
                        "additionalProperties": { "type": "string", "format": "date-time", "nullable": true },
                    },
                    "name": { "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a" },
                    "any": { "x-kubernetes-preserve-unknown-fields": true },
                    "either": {
                        "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true,
                    },
                    "reference": {
                        "type": "object",
                        "properties": { "name": { "type": "string" } },
                        "minProperties": 1,
                        "x-kubernetes-map-type": "atomic",
                    },
                    "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                },
            })
        );
    }
}
