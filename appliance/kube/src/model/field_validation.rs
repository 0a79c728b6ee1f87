//! Fields that a kind does not have, or that a document has twice. The client chooses between a refusal, a warning and
//! nothing.

use crate::model::{kind::KindInfo, status::Status};

/// What to do with fields that a kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

pub(crate) fn judge_unknown(
    kind: &KindInfo,
    mut unknown: Vec<String>,
    validation: FieldValidation,
    mut warnings: Vec<String>,
) -> Result<Vec<String>, Status> {
    unknown.sort();
    unknown.dedup();
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match validation {
        FieldValidation::Strict if !texts.is_empty() => return Err(strict_refusal(kind, &texts)),
        FieldValidation::Warn => warnings.extend(texts),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(warnings)
}

/// The refusal for a client that asked for strict validation.
pub(crate) fn strict_refusal(kind: &KindInfo, faults: &[String]) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {STRICT_ERROR}{}",
        kind.kind,
        kind.version,
        kind.kind,
        faults.join(", ")
    ))
}

pub(crate) const STRICT_ERROR: &str = "strict decoding error: ";
