//! What may stand in a boot script: the one place where foreign values are refused or reshaped.
//!
//! iPXE has no quoting: a line is split at white space, `${…}` is expanded anywhere, a word `;`,
//! `&&` or `||` ends a command, `#` begins a comment and a line end begins the next command. So a
//! kernel argument is refused unless every character is on a list of harmless ones, and text for
//! a person's eyes has everything else replaced. A quietly changed kernel argument would be a lie;
//! a question mark in a greeting is not.

use std::fmt;

/// The longest kernel argument; those in use (`ip=`, `rd.*`) are far below.
pub const ARGUMENT_BYTES_MAX: usize = 256;
/// The longest list of arguments: x86's kernel command line is 2048 bytes, and the loader adds some.
pub const ARGUMENTS_BYTES_MAX: usize = 1536;
/// The longest text on the console: a line of a terminal.
pub const CONSOLE_TEXT_CHARS_MAX: usize = 72;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelArgumentError {
    #[error("kernel argument {position} is empty")]
    Empty { position: usize },
    #[error(
        "kernel argument {position} holds {character:?}: a boot script cannot carry it; letters, digits and =,._-:/+@%~*()[]!? can be used"
    )]
    Character { position: usize, character: char },
    #[error("kernel argument {position} is longer than {ARGUMENT_BYTES_MAX} bytes")]
    Long { position: usize },
    #[error("the kernel arguments are longer than {ARGUMENTS_BYTES_MAX} bytes together")]
    LongTogether,
    #[error("kernel argument {position} ({name}) is set by Firesteel")]
    Reserved { position: usize, name: &'static str },
}

/// Checked arguments for the ramdisk's kernel, consoles included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelArguments(Vec<String>);

/// Arguments that would start something else than the agent, or unpack something else than the ramdisk.
const RESERVED: &[&str] = &["initrd", "init", "rdinit"];

impl KernelArguments {
    /// Each item is one argument; white space inside one is refused, not split.
    pub fn new<I>(arguments: I) -> Result<Self, KernelArgumentError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut checked = Vec::new();
        let mut bytes_total = 0;
        for (index, argument) in arguments.into_iter().enumerate() {
            let argument = argument.as_ref();
            let position = index + 1;
            check_argument(argument, position)?;
            bytes_total += argument.len() + 1;
            if bytes_total > ARGUMENTS_BYTES_MAX {
                return Err(KernelArgumentError::LongTogether);
            }
            checked.push(argument.to_owned());
        }
        Ok(Self(checked))
    }

    /// Reads arguments from one line, split at white space.
    pub fn parse(line: &str) -> Result<Self, KernelArgumentError> {
        Self::new(line.split_ascii_whitespace())
    }
}

impl fmt::Display for KernelArguments {
    /// Writes the arguments with spaces between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

fn check_argument(argument: &str, position: usize) -> Result<(), KernelArgumentError> {
    if argument.is_empty() {
        return Err(KernelArgumentError::Empty { position });
    }
    if argument.len() > ARGUMENT_BYTES_MAX {
        return Err(KernelArgumentError::Long { position });
    }
    if let Some(character) = argument.chars().find(|character| !is_argument_character(*character)) {
        return Err(KernelArgumentError::Character { position, character });
    }
    let name = argument.split('=').next().unwrap_or_default();
    if let Some(reserved) = RESERVED.iter().find(|reserved| **reserved == name) {
        return Err(KernelArgumentError::Reserved { position, name: reserved });
    }
    Ok(())
}

fn is_argument_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "=,._-:/+@%~*()[]!?".contains(character)
}

/// `text` for an `echo` line: at most one line of harmless characters, the rest as question marks.
#[must_use]
pub(crate) fn console_text(text: &str) -> String {
    let harmless = |character: char| match character {
        ' ' => ' ',
        character if is_argument_character(character) => character,
        _ => '?',
    };
    text.chars().take(CONSOLE_TEXT_CHARS_MAX).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_arguments_pass() {
        let arguments = KernelArguments::parse("console=tty0 console=ttyS0,115200n8 modprobe.blacklist=a,b ip=dhcp");
        assert_eq!(
            arguments.map(|checked| checked.to_string()),
            Ok("console=tty0 console=ttyS0,115200n8 modprobe.blacklist=a,b ip=dhcp".to_owned())
        );
        assert_eq!(KernelArguments::parse("").map(|none| none.to_string()), Ok(String::new()));
    }

    #[test]
    fn whatever_could_leave_its_place_is_refused() {
        for argument in [
            "a;b", "a&&b", "a||b", "#", "${x}", "`x`", "a b", "a\nb", "a\rb", "a\0b", "a\tb", "a\\", "\"a\"", "é", "<",
            "|",
        ] {
            let error = KernelArguments::new([argument]).expect_err(argument);
            assert!(matches!(error, KernelArgumentError::Character { position: 1, .. }), "{argument}: {error}");
        }
        assert_eq!(KernelArguments::new([""]), Err(KernelArgumentError::Empty { position: 1 }));
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(KernelArguments::new(["a".repeat(ARGUMENT_BYTES_MAX)]).is_ok());
        assert_eq!(
            KernelArguments::new(["a".repeat(ARGUMENT_BYTES_MAX + 1)]),
            Err(KernelArgumentError::Long { position: 1 })
        );
        assert_eq!(KernelArguments::new(vec!["abcdefg"; 193]), Err(KernelArgumentError::LongTogether));
        assert!(KernelArguments::new(vec!["abcdefg"; 192]).is_ok());
    }

    #[test]
    fn what_starts_the_agent_is_not_the_users() {
        let error = KernelArguments::new(["quiet", "rdinit=/bin/sh"]);
        assert_eq!(error, Err(KernelArgumentError::Reserved { position: 2, name: "rdinit" }));
        assert!(KernelArguments::new(["initcall_debug"]).is_ok());
    }

    #[test]
    fn console_text_stays_on_its_line() {
        assert_eq!(console_text("node-1 (rack 2)"), "node-1 (rack 2)");
        assert_eq!(console_text("a\nreboot; ${x} && \\"), "a?reboot? ??x? ?? ?");
        assert_eq!(console_text(&"a".repeat(500)).len(), CONSOLE_TEXT_CHARS_MAX);
    }
}
