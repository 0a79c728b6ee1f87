//! The kinds that this appliance serves: Kubernetes' own, and those of `firesteel_resources`.

use firesteel_kube::{Admitted, Cause, Cell, Column, KindInfo, ListType, Registry, Schema, Writers, builtin};
use firesteel_resources::{
    self as resources, CauseReason,
    kinds::{KINDS, Kind, Scope},
    shape::{Field, Shape},
};
use serde_json::Value;

/// All kinds, in the order in which clients see them.
#[must_use]
pub fn registry() -> Registry {
    Registry::new(builtin::kinds().into_iter().chain(KINDS.iter().map(|kind| info(kind))))
}

fn info(kind: &'static Kind) -> KindInfo {
    let columns: Vec<Column> = kind
        .columns
        .iter()
        .map(|column| Column {
            name: column.name,
            column_type: column.type_,
            description: column.description,
            priority: u8::try_from(column.priority).unwrap_or(1),
            cell: Cell::Path(column.json_path),
        })
        .collect();
    KindInfo {
        singular: kind.singular,
        short_names: kind.short_names,
        namespaced: kind.scope == Scope::Namespaced,
        has_status: kind.has_status,
        writers: if kind.read_only { Writers::Controllers } else { Writers::Everyone },
        columns,
        // What this process alone writes has one owner, and is written with every report.
        tracks_owners: !kind.read_only,
        ..KindInfo::namespaced(kind.group, kind.version, kind.kind, kind.plural)
            .with_fields(fields(kind.shape))
            .admitting(move |new, old| admit(kind, new, old))
    }
}

/// What the shape says of owners: kinds of text and bounds make no difference to them.
fn fields(shape: &'static Shape) -> Schema {
    match shape {
        Shape::Any => Schema::Any,
        Shape::Boolean => Schema::Boolean,
        Shape::Integer { .. } | Shape::Number => Schema::Number,
        Shape::Text | Shape::OneOf(_) | Shape::Time | Shape::Mac { .. } => Schema::Text,
        Shape::Map(values) => Schema::map(fields(values)),
        Shape::List(items) => Schema::list(fields(items), ListType::Atomic),
        Shape::Object(named) => Schema::object(named.iter().map(|named| (named.name, field(named)))),
    }
}

fn field(field: &'static Field) -> Schema {
    match field.shape {
        Shape::List(items) if !field.list_keys.is_empty() => {
            Schema::list(fields(items), ListType::Keyed(field.list_keys))
        }
        shape if field.is_atomic => Schema::atomic(fields(shape)),
        shape => fields(shape),
    }
}

fn admit(kind: &Kind, new: &mut Value, old: Option<&Value>) -> Result<Admitted, Vec<Cause>> {
    let admission = resources::admit(kind, new, old);
    if !admission.causes.is_empty() {
        return Err(admission.causes.into_iter().map(cause).collect());
    }
    if let Value::Object(object) = new {
        let keep = ["apiVersion", "kind", "metadata"].map(|name| (name, object.remove(name)));
        resources::shape::prune(kind.shape, new);
        if let Value::Object(object) = new {
            object.extend(keep.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
    }
    Ok(Admitted { warnings: admission.warnings, unknown_fields: admission.unknown_fields })
}

fn cause(cause: resources::Cause) -> Cause {
    Cause { reason: reason(cause.reason).to_owned(), message: cause.message, field: cause.field }
}

fn reason(reason: CauseReason) -> &'static str {
    match reason {
        CauseReason::FieldValueRequired => "FieldValueRequired",
        CauseReason::FieldValueInvalid => "FieldValueInvalid",
        CauseReason::FieldValueNotSupported => "FieldValueNotSupported",
        CauseReason::FieldValueForbidden => "FieldValueForbidden",
        CauseReason::FieldValueTypeInvalid => "FieldValueTypeInvalid",
        CauseReason::FieldValueTooLong => "FieldValueTooLong",
        CauseReason::FieldValueDuplicate => "FieldValueDuplicate",
    }
}
