//! OpenAPI v3 documents as one of v2 (Swagger), which knows less: what it cannot say is left out, as
//! Kubernetes does, for clients refuse documents with words that they do not know.

use serde_json::{Map, Value, json};

use super::SCHEMAS;

const DEFINITIONS: &str = "#/definitions/";
/// What v2 does not have, and what clients of its time take for an error.
const LEFT_OUT: [&str; 6] = ["allOf", "anyOf", "oneOf", "not", "nullable", "default"];

/// The documents of all groups and versions as one.
pub(super) fn document<'a>(parts: impl Iterator<Item = &'a Value>) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for part in parts {
        for (path, item) in part["paths"].as_object().into_iter().flatten() {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, schema) in part["components"]["schemas"].as_object().into_iter().flatten() {
            definitions.insert(name.clone(), self::schema(schema));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Firesteel", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "definitions": definitions,
    })
}

fn schema(v3: &Value) -> Value {
    let Value::Object(v3) = v3 else { return v3.clone() };
    let mut v2 = Map::new();
    // A reference with a description, which v3 has to wrap.
    let wrapped = v3.get("allOf").and_then(Value::as_array).filter(|parts| parts.len() == 1);
    if let Some(path) = v3.get("$ref").or_else(|| wrapped?.first()?.get("$ref")).and_then(Value::as_str) {
        v2.insert("$ref".into(), json!(path.replace(SCHEMAS, DEFINITIONS)));
    }
    for (name, value) in v3.iter().filter(|(name, _)| *name != "$ref" && !LEFT_OUT.contains(&name.as_str())) {
        let value = match name.as_str() {
            "properties" => {
                let own = value.as_object().into_iter().flatten();
                own.map(|(name, property)| (name.clone(), schema(property))).collect::<Map<_, _>>().into()
            }
            "items" | "additionalProperties" => schema(value),
            _ => value.clone(),
        };
        v2.insert(name.clone(), value);
    }
    if v3.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        v2.insert("type".into(), json!("string"));
        v2.insert("format".into(), json!("int-or-string"));
    }
    Value::Object(v2)
}

fn path_item(v3: &Value) -> Value {
    let items =
        v3.as_object().into_iter().flatten().map(|(name, value)| {
            (name.clone(), if name == "parameters" { parameters(value) } else { operation(value) })
        });
    Value::Object(items.collect())
}

fn operation(v3: &Value) -> Value {
    let mut v2 = v3.clone();
    v2["parameters"] = parameters(&v3["parameters"]);
    v2["produces"] = json!(["application/json", "application/yaml"]);
    let answer = schema(&v3["responses"]["200"]["content"]["application/json"]["schema"]);
    v2["responses"] = json!({ "200": { "description": "OK", "schema": answer } });
    if let Some(Value::Object(body)) = v2.as_object_mut().and_then(|operation| operation.remove("requestBody")) {
        let content = body.get("content").and_then(Value::as_object);
        let media_types: Vec<&String> = content.into_iter().flatten().map(|(name, _)| name).collect();
        let described = content.into_iter().flatten().next().map_or(Value::Null, |(_, body)| schema(&body["schema"]));
        v2["consumes"] = json!(media_types);
        if let Some(parameters) = v2["parameters"].as_array_mut() {
            parameters.insert(0, json!({ "name": "body", "in": "body", "schema": described }));
        }
    }
    v2
}

/// v3 has a schema for each parameter, v2 the type alone.
fn parameters(v3: &Value) -> Value {
    let parameters = v3.as_array().into_iter().flatten().map(|parameter| {
        let mut v2 = parameter.clone();
        if let Some(schema) = v2.as_object_mut().and_then(|parameter| parameter.remove("schema")) {
            v2["type"] = schema["type"].clone();
        }
        v2
    });
    Value::Array(parameters.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v2_cannot_say_is_left_out() {
        let v3 = json!({
            "type": "object", "nullable": true, "default": {},
            "properties": {
                "metadata": { "allOf": [{ "$ref": "#/components/schemas/a.Meta" }], "description": "x" },
                "size": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                "list": { "type": "array", "items": { "$ref": "#/components/schemas/a.Item" } },
                "allOf": { "type": "string", "default": "a" },
            },
        });
        let v2 = json!({
            "type": "object",
            "properties": {
                "metadata": { "$ref": "#/definitions/a.Meta", "description": "x" },
                "size": { "x-kubernetes-int-or-string": true, "type": "string", "format": "int-or-string" },
                "list": { "type": "array", "items": { "$ref": "#/definitions/a.Item" } },
                "allOf": { "type": "string" },
            },
        });
        assert_eq!(schema(&v3), v2);
    }
}
