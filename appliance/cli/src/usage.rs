//! Errors of commands whose words or flags do not fit together. `clap` finds the others.

/// The words of a command do not fit; the exit code is 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

/// Makes the error of a command that cannot be meant as it was typed.
pub(crate) fn wrong_use(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}
