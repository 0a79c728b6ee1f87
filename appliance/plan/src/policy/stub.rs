//! Rule 7: the stub that a set leads its machines to. An image that cannot read its stub boots into nothing, so that an
//! image is changed only where the stub is well.

use super::SetDecision;

/// What became of the stub when it was brought to the current version in memory. Nothing is written yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StubOutcome {
    /// The set names none.
    #[default]
    NotReferenced,
    /// It is well as it is.
    Unchanged,
    /// It is to be rewritten as this.
    Changed {
        /// Tells one content from another.
        digest: String,
    },
    /// It cannot be read or converted; what is wrong with it, without its content.
    Refused(String),
    /// It is not Ignition's, as of cloud-init, and none of ours to change.
    Ignored,
    /// There is no such Secret, or it has no user data: its name.
    Missing(String),
}

/// The digest of the stub that is to be written, if one is.
pub(super) fn rule(stub: &StubOutcome) -> Result<Option<String>, SetDecision> {
    match stub {
        StubOutcome::NotReferenced | StubOutcome::Unchanged | StubOutcome::Ignored => Ok(None),
        StubOutcome::Changed { digest } => Ok(Some(digest.clone())),
        StubOutcome::Refused(why) => {
            Err(SetDecision::Degraded(format!("its stub is not changed, nor is its image: {why}")))
        }
        StubOutcome::Missing(name) => {
            let message = format!("the Secret {name} with its stub is missing or has no userData: its image stays");
            Err(SetDecision::Degraded(message))
        }
    }
}
