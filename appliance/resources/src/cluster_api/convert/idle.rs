//! Values that say nothing. Clients in Go write them wherever v1beta1 has a struct: `metadata: {}`. In
//! v1beta2 they are not there, and its bounds refuse them: an object with one of them could be written in
//! that version no more.

use serde_json::{Map, Value};

use crate::shape::{Field, Shape, ShapeForm};

/// The object without them.
pub(super) fn dropped(mut object: Map<String, Value>, shape: &Shape) -> Map<String, Value> {
    if let ShapeForm::Object(fields) = shape.form {
        drop_in(fields, &mut object);
    }
    object
}

fn drop_in(fields: &[Field], object: &mut Map<String, Value>) {
    for field in fields {
        let Some(value) = object.get_mut(field.name) else { continue };
        visit(&field.shape, value);
        if is_idle(field, value) {
            object.remove(field.name);
        }
    }
}

fn visit(shape: &Shape, value: &mut Value) {
    match (shape.form, value) {
        (ShapeForm::Object(fields), Value::Object(object)) => drop_in(fields, object),
        (ShapeForm::List(item), Value::Array(items)) => items.iter_mut().for_each(|value| visit(item, value)),
        (ShapeForm::Map(item), Value::Object(object)) => object.values_mut().for_each(|value| visit(item, value)),
        _ => {}
    }
}

/// Whether the value is nothing, and the shape wants something.
fn is_idle(field: &Field, value: &Value) -> bool {
    let shape = &field.shape;
    match (shape.form, value) {
        (ShapeForm::List(_), Value::Array(items)) => items.is_empty() && shape.items_min.is_some(),
        (ShapeForm::Object(fields), Value::Object(object)) => {
            let wants = shape.fields_min.is_some() || fields.iter().any(|field| field.required);
            object.is_empty() && wants && !field.required
        }
        (ShapeForm::Text, Value::String(text)) => {
            let wants = shape.chars_min.is_some_and(|least| least > 0) || !shape.words.is_empty();
            text.is_empty() && wants && !field.required
        }
        (ShapeForm::Integer, Value::Number(number)) => {
            number.as_i64() == Some(0) && shape.min.is_some_and(|least| least > 0) && !field.required
        }
        _ => false,
    }
}
