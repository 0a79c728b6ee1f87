//! Making a document have its shape, in Kubernetes' order: what is unknown goes, what is missing comes.

use serde_json::{Map, Value};

use super::{COMMON, FINDINGS_MAX, Field, Shape, ShapeForm, field, path::ShapePath};

/// Drops the fields of a whole object that its shape does not have, and those that are `null` where that
/// is no value; puts in defaults. Returns the paths of the unknown fields. What has another type than the
/// shape's is left as it is.
pub fn conform(shape: &Shape, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(shape, &ShapePath::ROOT, object, &mut unknown);
    unknown
}

fn walk(shape: &Shape, path: &ShapePath<'_>, value: &mut Value, unknown: &mut Vec<String>) {
    match (shape.form, value) {
        (ShapeForm::Object(fields), Value::Object(map)) => object(shape, fields, path, map, unknown),
        (ShapeForm::Map(item), Value::Object(map)) => {
            map.retain(|_, value| !is_absent(item, value));
            for (name, value) in map.iter_mut() {
                default(item, value);
                walk(item, &path.field(name), value, unknown);
            }
        }
        (ShapeForm::List(item), Value::Array(values)) => {
            for (index, value) in values.iter_mut().enumerate() {
                default(item, value);
                walk(item, &path.index(index), value, unknown);
            }
        }
        _ => {}
    }
}

fn object(
    shape: &Shape,
    fields: &'static [Field],
    path: &ShapePath<'_>,
    map: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
) {
    map.retain(|name, value| match field(fields, name) {
        Some(field) => !is_absent(&field.shape, value),
        None if shape.is_open || path.is_root() && COMMON.contains(&name.as_str()) => true,
        None => {
            if unknown.len() < FINDINGS_MAX {
                unknown.push(path.field(name).to_string());
            }
            false
        }
    });
    for field in fields {
        if let Some(value) = map.get_mut(field.name) {
            default(&field.shape, value);
            walk(&field.shape, &path.field(field.name), value, unknown);
        } else if let Some(default) = field.shape.default {
            let mut value = default.value();
            walk(&field.shape, &path.field(field.name), &mut value, unknown);
            map.insert(field.name.to_owned(), value);
        }
    }
}

/// A `null` that stands for nothing.
fn is_absent(shape: &Shape, value: &Value) -> bool {
    value.is_null() && !shape.nullable && shape.default.is_none()
}

fn default(shape: &Shape, value: &mut Value) {
    if let Some(default) = shape.default.filter(|_| value.is_null() && !shape.nullable) {
        *value = default.value();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::Literal;

    const INNER: Shape = Shape::object(&[
        Field::new("mode", Shape::TEXT.with_default(Literal::Text("on"))),
        Field::new("end", Shape::TIME.nullable()),
    ]);
    const SHAPE: Shape = Shape::object(&[
        Field::new("online", Shape::BOOLEAN),
        Field::new("count", Shape::INTEGER.with_default(Literal::Integer(0))),
        Field::new("list", Shape::list(&INNER)),
        Field::new("map", Shape::map(&INNER)),
        Field::new("made", INNER.with_default(Literal::EmptyObject)),
        Field::new("open", Shape::object(&[Field::new("inner", INNER)]).open()),
        Field::new("any", Shape::ANY),
    ]);

    #[test]
    fn what_is_unknown_goes_and_is_named() {
        let mut value = json!({
            "kind": "X", "metadata": {"a": null}, "online": true, "foo": 1, "made": {},
            "list": [{"mode": "a", "bar": 1}], "map": {"k": {"mode": "a", "baz": 1}},
            "open": {"inner": {"mode": "a", "x": 1}, "other": {"y": 1}}, "any": {"z": [null]},
        });
        let mut unknown = conform(&SHAPE, &mut value);
        unknown.sort();
        assert_eq!(unknown, ["foo", "list[0].bar", "map.k.baz", "open.inner.x"]);
        let kept = json!({
            "kind": "X", "metadata": {"a": null}, "online": true, "count": 0, "made": {"mode": "on"},
            "list": [{"mode": "a"}], "map": {"k": {"mode": "a"}},
            "open": {"inner": {"mode": "a"}, "other": {"y": 1}}, "any": {"z": [null]},
        });
        assert_eq!(value, kept);
        assert_eq!(conform(&SHAPE, &mut value), Vec::<String>::new());
        assert_eq!(value, kept, "once is enough");
    }

    #[test]
    fn a_null_is_absent_a_default_or_a_value() {
        let mut value = json!({"online": null, "count": null, "made": {"mode": null, "end": null}, "list": [null]});
        assert_eq!(conform(&SHAPE, &mut value), Vec::<String>::new());
        assert_eq!(value, json!({"count": 0, "made": {"mode": "on", "end": null}, "list": [null]}));
    }
}
