//! Says in which form a host is handed its configuration, and who says so. Pure.

use firesteel_resources::{BareMetalHost, bare_metal_host::annotations::HAND_OFF, boot_image_stream::DeclaredForm};
use firesteel_wire::hand_off::HandOffForm;

use crate::error::HandOffProblem;

/// Where a form is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormOrigin {
    Nobody,
    Annotation,
    Stream(String),
}

impl std::fmt::Display for FormOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => f.write_str("nobody"),
            Self::Annotation => write!(f, "the annotation {HAND_OFF}"),
            Self::Stream(name) => write!(f, "spec.handOff of BootImageStream {name}"),
        }
    }
}

/// The host's annotation goes before what streams say. Those that leave it to the image say nothing; of two that say
/// different forms none counts.
pub(crate) fn form_of(
    host: &BareMetalHost,
    declared: &[DeclaredForm],
) -> Result<(HandOffForm, FormOrigin), HandOffProblem> {
    if let Some(word) = host.metadata.annotation(HAND_OFF) {
        return Ok((form_named(word).ok_or(HandOffProblem::UnknownForm)?, FormOrigin::Annotation));
    }
    let mut say = declared.iter().filter(|one| one.word != AUTO);
    let Some(one) = say.next() else { return Ok((HandOffForm::Auto, FormOrigin::Nobody)) };
    if let Some(other) = say.find(|other| other.word != one.word) {
        return Err(HandOffProblem::StreamsDiffer { one: one.clone(), other: other.clone() });
    }
    let said_by = FormOrigin::Stream(one.stream.clone());
    match form_named(&one.word) {
        Some(form) => Ok((form, said_by)),
        None => Err(HandOffProblem::UnknownFormOfStream { said_by }),
    }
}

const AUTO: &str = "auto";

/// One of [`HAND_OFF_WORDS`](firesteel_resources::bare_metal_host::annotations::HAND_OFF_WORDS).
fn form_named(word: &str) -> Option<HandOffForm> {
    match word {
        AUTO => Some(HandOffForm::Auto),
        "boot-partition" => Some(HandOffForm::BootPartition),
        "kernel-arguments" => Some(HandOffForm::KernelArguments),
        "config-drive" => Some(HandOffForm::ConfigDrive),
        "no-cloud" => Some(HandOffForm::NoCloud),
        _ => None,
    }
}
