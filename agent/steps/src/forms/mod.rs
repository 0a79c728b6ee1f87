//! How the system on a disk finds its first configuration: everything about it that can be decided without a disk.
//!
//! ```text
//! what stood in the image's files ─► signs ─► recognise ─► the form
//! text of a boot loader's file, arguments ─► bls | grub | grubenv ─► the new text
//! files of a drive ─► fat ─► the bytes of a volume
//! ```
//!
//! Pure: text and bytes in, text and bytes out. Reading, writing and reading back is
//! the hand-off step's. Texts come out of an image and are hostile.

pub mod arguments;
pub mod bls;
pub mod fat;
pub mod form_detection;
pub mod grub;
pub mod grubenv;
mod lexer;

use std::collections::BTreeSet;

use firesteel_wire::limits::COMMAND_LINE_BYTES_MAX;

/// The text of a boot loader's file with its arguments changed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// Command lines of kernels that it holds; 0 where there is nothing to change.
    pub command_lines: usize,
    /// Names of arguments that stand twice on one line. They may be meant so (`console`), so they stay.
    pub repeated: BTreeSet<String>,
    /// Variables on command lines, whose arguments stand elsewhere.
    pub variables: BTreeSet<String>,
    /// What was left as it was, and why, in words.
    pub left: Vec<String>,
}

/// Command lines may hold tokens.
impl std::fmt::Debug for Edited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edited").field("command_lines", &self.command_lines).finish_non_exhaustive()
    }
}

/// Why a boot loader's file is not changed. The caller names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoaderError {
    #[error("line {line} cannot be understood: {what}")]
    Line { line: usize, what: &'static str },
    #[error(
        "the kernel command line of line {line} would be {bytes} bytes long, and the kernel cuts it after \
         {COMMAND_LINE_BYTES_MAX}: hand over fewer or shorter arguments"
    )]
    TooLong { line: usize, bytes: usize },
    #[error(
        "the argument {name} has one of the letters ; & | < > {{ }} or begins with #: GRUB, of which the image has files, \
         puts what stands here into a script without quotes, and would end the command line there. Write the argument \
         without such letters, or use an image that has it already; where it leads to the configuration, name another \
         form by the annotation firesteel.dev/hand-off"
    )]
    Unquoted { name: String },
    #[error("it is no GRUB environment block: {what}")]
    Environment { what: &'static str },
    #[error("the GRUB environment block of {bytes} bytes is too small: {needed} are needed")]
    EnvironmentFull { bytes: usize, needed: usize },
}
