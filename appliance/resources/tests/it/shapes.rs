//! Objects that have a shape, drawn at random.

use firesteel_resources::shape::{OpenApiFormat, Ownership, Shape, ShapeForm};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Items and names more than the least.
const MORE: usize = 3;

pub(crate) fn object(shape: &'static Shape) -> BoxedStrategy<Value> {
    match shape.form {
        ShapeForm::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        ShapeForm::Integer => {
            let (min, max) = (shape.min.unwrap_or(-2), shape.max.unwrap_or(1 << 20));
            (min..=max).prop_map(Value::from).boxed()
        }
        ShapeForm::Number => (-5..5).prop_map(|number| json!(f64::from(number) / 2.0)).boxed(),
        ShapeForm::Text => text(shape),
        ShapeForm::IntegerOrText => prop_oneof![(0..9).prop_map(Value::from), Just(json!("20%"))].boxed(),
        ShapeForm::Any => prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!({ "timeout": [true] }))].boxed(),
        ShapeForm::Map(item) => prop::collection::btree_map("[a-c]{1,3}", object(item), 0..MORE)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
            .boxed(),
        ShapeForm::List(item) => {
            let least = shape.items_min.unwrap_or(0);
            let ownership = shape.ownership;
            prop::collection::vec(object(item), least..least + MORE)
                .prop_map(move |items| once(items, ownership))
                .boxed()
        }
        ShapeForm::Object(fields) => {
            let mut strategy: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
            for field in fields {
                let value = object(&field.shape);
                let value = if field.required { value.prop_map(Some).boxed() } else { prop::option::of(value).boxed() };
                strategy = (strategy, value)
                    .prop_map(|(mut fields, value)| {
                        fields.extend(value.map(|value| (field.name.to_owned(), value)));
                        fields
                    })
                    .boxed();
            }
            strategy.prop_map(Value::Object).boxed()
        }
    }
}

fn text(shape: &'static Shape) -> BoxedStrategy<Value> {
    if !shape.words.is_empty() {
        return prop::sample::select(shape.words).prop_map(Value::from).boxed();
    }
    if shape.format == Some(OpenApiFormat::DateTime) {
        return (0..60).prop_map(|second| json!(format!("2026-01-01T00:00:{second:02}Z"))).boxed();
    }
    match shape.pattern {
        Some(pattern) if pattern.contains("[0-9]+-[0-9]+") => Just(json!("[3-5]")).boxed(),
        Some(pattern) if pattern.contains("\\/[a-z]") => Just(json!("a.example.com/v1")).boxed(),
        // What suits the patterns of names, and what suits none of their exceptions.
        Some(_) => "[a-d]{1,4}".prop_map(Value::from).boxed(),
        None => prop_oneof!["[a-d]{1,4}", Just("10m".to_owned()), Just("1h0m0s".to_owned()), Just("30s".to_owned())]
            .prop_map(Value::from)
            .boxed(),
    }
}

/// Items that are known by some of their fields are there once.
fn once(items: Vec<Value>, ownership: Ownership) -> Value {
    let Ownership::Keyed(keys) = ownership else { return Value::Array(items) };
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if kept.iter().all(|other| keys.iter().any(|key| other[key] != item[key])) {
            kept.push(item);
        }
    }
    Value::Array(kept)
}
