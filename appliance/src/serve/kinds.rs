//! The kinds that this appliance serves: Kubernetes' own, and those of `firesteel_resources`.

use firesteel_kube::{Admitted, Cause, Cell, Column, KindInfo, Registry, Writers, builtin};
use firesteel_resources::{
    self as resources, CauseReason,
    kinds::{KINDS, Kind, Scope},
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
        description: kind.about,
        // What this process alone writes has one owner, and is written with every report.
        tracks_owners: !kind.read_only,
        ..KindInfo::namespaced(kind.group, kind.version, kind.kind, kind.plural)
            .with_schema(resources::schema::openapi(kind.shape))
            .admitting(move |new, old| admit(kind, new, old))
    }
}

fn admit(kind: &Kind, new: &mut Value, old: Option<&Value>) -> Result<Admitted, Vec<Cause>> {
    let admission = resources::admit(kind, new, old);
    if !admission.causes.is_empty() {
        return Err(admission.causes.into_iter().map(cause).collect());
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
        CauseReason::FieldValueTooMany => "FieldValueTooMany",
        CauseReason::FieldValueDuplicate => "FieldValueDuplicate",
    }
}
