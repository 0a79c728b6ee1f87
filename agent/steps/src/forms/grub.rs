//! `grub.cfg`: the commands `linux`, `linuxefi` and `linux16` wherever they stand, with their arguments. What
//! `grub-mkconfig` writes for other systems and for memory tests, in blocks between
//! `### BEGIN /etc/grub.d/… ###` and `### END …`, is left as it is.

use std::ops::Range;

use firesteel_wire::{hand_off::KernelArgumentEdit, limits::COMMAND_LINE_BYTES_MAX};

use super::arguments::{self, change};
use super::lexer::{GrubToken, GrubWord, Token, lex};
use super::{Edited, LoaderError};

const COMMANDS: [&str; 3] = ["linux", "linuxefi", "linux16"];
/// Words after which a command begins.
const OPENERS: [&str; 9] = ["if", "then", "else", "elif", "while", "until", "do", "!", "{"];
/// Commands of Xen and of other kernels than Linux: their arguments are not the kernel's.
const OTHER_KERNELS: [&str; 3] = ["multiboot", "multiboot2", "xen_hypervisor"];
/// Blocks whose kernels are not of this system.
const FOREIGN_BLOCKS: [&str; 2] = ["os-prober", "memtest"];

/// One `linux` command.
struct GrubLinuxCommand<'a> {
    line: usize,
    /// The kernel and its arguments.
    words: Vec<PlacedWord<'a>>,
}

struct PlacedWord<'a> {
    word: &'a GrubWord,
    place: Range<usize>,
}

/// A script with the arguments of its kernels changed.
pub fn edit(text: &str, wanted: &KernelArgumentEdit) -> Result<Edited, LoaderError> {
    let tokens = lex(text)?;
    let mut edited = Edited::default();
    let mut done = 0;
    for command in commands(text, &tokens, &mut edited.left)? {
        let Some((kernel, rest)) = command.words.split_first() else {
            return Err(LoaderError::Line { line: command.line, what: "the command `linux` names no kernel" });
        };
        edited.command_lines += 1;
        done = arguments_of_one(text, &command, kernel, rest, wanted, done, &mut edited)?;
    }
    edited.text.push_str(&text[done..]);
    Ok(edited)
}

/// Copies the text up to the end of one command, changed. Says up to where it copied.
fn arguments_of_one(
    text: &str,
    command: &GrubLinuxCommand<'_>,
    kernel: &PlacedWord<'_>,
    rest: &[PlacedWord<'_>],
    wanted: &KernelArgumentEdit,
    mut done: usize,
    edited: &mut Edited,
) -> Result<usize, LoaderError> {
    let values: Vec<&str> = rest.iter().map(|argument| argument.word.text.as_str()).collect();
    edited.variables.extend(rest.iter().flat_map(|argument| argument.word.variables.iter().cloned()));
    let change = change(&values, &[], wanted);
    let kept = values.iter().enumerate().filter(|(place, _)| !change.remove.contains(place));
    let words: usize = kept.map(|(_, value)| value.len() + 1).chain(change.add.iter().map(|word| word.len() + 1)).sum();
    let bytes = arguments::boot_image_bytes(&kernel.word.text) + words;
    if bytes > COMMAND_LINE_BYTES_MAX {
        return Err(LoaderError::TooLong { line: command.line, bytes });
    }
    let mut end = kernel.place.end;
    for (index, argument) in rest.iter().enumerate() {
        if change.remove.contains(&index) {
            // With the blanks before it.
            edited.text.push_str(&text[done..end]);
            done = argument.place.end;
        }
        end = argument.place.end;
    }
    edited.text.push_str(&text[done..end]);
    for argument in &change.add {
        edited.text.push(' ');
        edited.text.push_str(&quoted(argument));
    }
    edited.repeated.extend(change.repeated);
    Ok(end)
}

/// An argument as GRUB reads it back: in quotes where a letter could mean something to it.
fn quoted(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.,:/=@%+-".contains(letter);
    if argument.chars().all(is_plain) { argument.to_owned() } else { format!("'{argument}'") }
}

/// The commands that load a kernel of this system.
fn commands<'a>(
    text: &str,
    tokens: &'a [Token],
    left: &mut Vec<String>,
) -> Result<Vec<GrubLinuxCommand<'a>>, LoaderError> {
    let (mut commands, mut foreign, mut begins) = (Vec::new(), None, true);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let word = match &token.kind {
            GrubToken::Comment => {
                block(&text[token.place.clone()], &mut foreign);
                continue;
            }
            GrubToken::End | GrubToken::Semicolon | GrubToken::Other => {
                begins = true;
                continue;
            }
            GrubToken::Word(word) => word,
        };
        let is_command = begins && word.is_plain;
        begins = word.is_plain && (OPENERS.contains(&word.text.as_str()) && (begins || word.text == "{"));
        if is_command && OTHER_KERNELS.contains(&word.text.as_str()) {
            left.push(format!(
                "the `{}` of line {} was left as it is: it starts no Linux by itself",
                word.text, token.line
            ));
        }
        if !is_command || !COMMANDS.contains(&word.text.as_str()) {
            continue;
        }
        let words = words_of(tokens, &mut at, token.line)?;
        let is_memtest = words.first().is_some_and(|kernel| kernel.word.text.contains("memtest"));
        match &foreign {
            _ if is_memtest => {}
            Some(block) => left.push(format!("the kernel of line {} is not of this system ({block})", token.line)),
            None => commands.push(GrubLinuxCommand { line: token.line, words }),
        }
    }
    Ok(commands)
}

/// The words of one command, up to its end.
fn words_of<'a>(tokens: &'a [Token], at: &mut usize, line: usize) -> Result<Vec<PlacedWord<'a>>, LoaderError> {
    let mut words = Vec::new();
    let failed = |what| Err(LoaderError::Line { line, what });
    while let Some(token) = tokens.get(*at) {
        match &token.kind {
            GrubToken::Word(word) if word.is_continued => return failed("the command `linux` goes on in another line"),
            GrubToken::Word(word) if word.is_plain && matches!(word.text.as_str(), "{" | "}") => {
                return failed("a brace stands among the arguments of `linux`");
            }
            GrubToken::Word(word) => words.push(PlacedWord { word, place: token.place.clone() }),
            GrubToken::End | GrubToken::Semicolon | GrubToken::Comment => return Ok(words),
            GrubToken::Other => return failed("a sign that parts commands stands in the command `linux`"),
        }
        *at += 1;
    }
    Ok(words)
}

/// Notes where a block of another system begins and ends.
fn block(comment: &str, foreign: &mut Option<String>) {
    if let Some(name) = comment.strip_prefix("### BEGIN ").and_then(|rest| rest.strip_suffix(" ###")) {
        *foreign = FOREIGN_BLOCKS.iter().any(|other| name.contains(other)).then(|| name.to_owned());
    } else if comment.starts_with("### END ") {
        *foreign = None;
    }
}

/// The kernel arguments of a script, for what they say of the image; nothing of one that cannot be read.
#[must_use]
pub fn arguments_of_script(text: &str) -> Vec<String> {
    let Ok(tokens) = lex(text) else { return Vec::new() };
    let commands = commands(text, &tokens, &mut Vec::new()).unwrap_or_default();
    let words = commands.iter().flat_map(|command| command.words.iter().skip(1));
    words.map(|argument| argument.word.text.clone()).collect()
}

/// Whether the script takes boot loader entries in.
#[must_use]
pub fn reads_entries(text: &str) -> bool {
    text.lines().any(|line| arguments::split_arguments(line).is_some_and(|words| words.contains(&"blscfg")))
}

/// Entry for fuzzing: what was changed once does not change again, and the arguments are there as GRUB reads them.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let appended = ["ip=dhcp", "url=https://a/?b=c&d;e", "a", "a"];
    let wanted = KernelArgumentEdit {
        append: appended.map(str::to_owned).into(),
        delete: vec!["quiet".into(), "splash".into()],
    };
    let _reads = reads_entries(&text);
    let Ok(once) = edit(&text, &wanted) else { return };
    let twice = edit(&once.text, &wanted);
    assert!(twice.as_ref().is_ok_and(|twice| twice.text == once.text), "a second change");
    let found = arguments_of_script(&once.text);
    let count = |argument: &str| found.iter().filter(|one| *one == argument).count();
    assert!(count("ip=dhcp") >= once.command_lines && count("a") >= 2 * once.command_lines, "an argument is missing");
    assert_eq!((count("quiet"), count("splash")), (0, 0), "an argument is left");
    if once.command_lines == 0 {
        assert_eq!(once.text, text);
    }
}

#[cfg(test)]
#[path = "grub_tests.rs"]
mod tests;
