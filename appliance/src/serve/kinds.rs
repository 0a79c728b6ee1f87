//! The kinds that this appliance serves: Kubernetes' own, and those of `firesteel_resources`.

use std::sync::OnceLock;

use firesteel_kube::{
    AdmittedObject, Cause, Cell, KindInfo, PrinterColumn, Registry, VersionConversion, Writers, builtin,
};
use firesteel_resources::kind::{Kind, KindScope, StoredAs};
use firesteel_resources::kinds::{ACCESS_GRANT, HALT, KINDS};
use firesteel_resources::{self as resources};
use serde_json::Value;

use super::pods;
use crate::access::CERTIFICATE_REQUEST;

/// Returns all kinds, in the order in which clients see them.
#[must_use]
pub fn registry() -> Registry {
    // The schemas do not change: a process that opens its store again and again makes them once.
    static MADE: OnceLock<Registry> = OnceLock::new();
    let make =
        || Registry::new(builtin::kinds().into_iter().chain([pods::kind()]).chain(KINDS.iter().map(|kind| info(kind))));
    MADE.get_or_init(make).clone()
}

fn info(kind: &'static Kind) -> KindInfo {
    let columns: Vec<PrinterColumn> = kind
        .columns
        .iter()
        .map(|column| PrinterColumn {
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
        categories: kind.categories,
        requests: if kind.kind == ACCESS_GRANT.kind { &[CERTIFICATE_REQUEST] } else { &[] },
        namespaced: kind.scope == KindScope::Namespaced,
        has_status: kind.has_status,
        is_record: kind.read_only,
        // The fleet can be stopped even if the disk is full.
        holds_unstored: kind.kind == HALT.kind,
        writers: if kind.read_only { Writers::Controllers } else { Writers::Everyone },
        columns,
        description: kind.about,
        // A kind that only this process writes has one owner, and is written with every report.
        tracks_owners: !kind.read_only,
        scale: kind.scale,
        is_deprecated: kind.is_deprecated,
        conversion: kind.stored_as.as_ref().map(conversion),
        definition_labels: kind.definition_labels,
        own_labels: kind.labels,
        author_annotation: kind.author_annotation,
        ..KindInfo::namespaced(kind.group, kind.version, kind.kind, kind.plural)
            .with_schema(resources::schema::openapi(kind.shape))
            .admitting(move |new, old| admit(kind, new, old))
    }
}

fn admit(kind: &Kind, new: &mut Value, old: Option<&Value>) -> Result<AdmittedObject, Vec<Cause>> {
    let admission = resources::admit(kind, new, old);
    if !admission.causes.is_empty() {
        return Err(admission.causes);
    }
    if let Some(stored_as) = &kind.stored_as {
        admit_stored(kind, stored_as, new, old)?;
    }
    Ok(AdmittedObject { warnings: admission.warnings, unknown_fields: admission.unknown_fields })
}

/// Makes a version's conversion in the form that the API server takes.
#[must_use]
pub fn conversion(stored_as: &StoredAs) -> VersionConversion {
    VersionConversion {
        to_stored: stored_as.conversion.to_stored,
        from_stored: stored_as.conversion.from_stored,
        annotation: stored_as.annotation,
        fits_stored: stored_as.fits_stored,
        fits: stored_as.fits,
    }
}

/// Applies the defaults and rules of the stored version to an object of another one.
fn admit_stored(kind: &Kind, stored_as: &StoredAs, new: &mut Value, old: Option<&Value>) -> Result<(), Vec<Cause>> {
    let (conversion, stored) = (conversion(stored_as), stored_as.kind);
    let stored_form = |object: &Value| conversion.to_stored(&stored.api_version(), object);
    let (mut whole, old) = (stored_form(new), old.map(stored_form));
    (stored.complete)(&mut whole, old.as_ref());
    let verdict = (stored.rules)(&whole, old.as_ref());
    if !verdict.causes.is_empty() {
        return Err(verdict.causes);
    }
    *new = conversion.from_stored(&kind.api_version(), &whole);
    Ok(())
}
