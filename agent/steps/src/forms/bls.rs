//! Entries of the Boot Loader Specification, type 1 (`loader/entries/*.conf`), as systemd-boot and GRUB's `blscfg` read
//! them: lines of a key, blanks and a value. systemd-boot joins all `options` lines, GRUB reads the first alone, so
//! that is where arguments are added, and only those on it count as there. GRUB reads no further than a line without a
//! value, so that none is left.

use firesteel_wire::{hand_off::KernelArgumentEdit, limits::COMMAND_LINE_BYTES_MAX};

use super::arguments::{self, change};
use super::{Edited, LoaderError};

/// The variable that brings the arguments of all entries, where the image keeps them in GRUB's environment block.
pub const KERNELOPTS: &str = "kernelopts";
/// What GRUB takes in place of an `options` line that is not there.
pub const DEFAULT_KERNELOPTS: &str = "default_kernelopts";

/// What GRUB's environment block of this image brings.
#[derive(Clone, Debug, Default)]
pub struct Environment<'a> {
    /// Words of `kernelopts`.
    pub kernelopts: Option<Vec<&'a str>>,
    /// Whether an entry without options gets some from `default_kernelopts`.
    pub has_default: bool,
    /// Whether the image has files of GRUB, which takes the words of an entry for those of a script.
    pub has_grub: bool,
}

/// An entry, with its command line changed.
pub fn edit(text: &str, environment: &Environment<'_>, wanted: &KernelArgumentEdit) -> Result<Edited, LoaderError> {
    let mut edited = Edited::default();
    if !text.lines().any(|line| value_of(line, "linux").is_some()) {
        edited.left.push("it starts no kernel (it has no line `linux`), so it was left as it is".to_owned());
        text.clone_into(&mut edited.text);
        return Ok(edited);
    }
    let mut bytes = prefix_bytes(text);
    let mut has_options = false;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let Some(value) = value_of(line, "options") else {
            edited.text.push_str(line);
            continue;
        };
        let is_first = edited.command_lines == 0;
        edited.command_lines = 1;
        let nothing = KernelArgumentEdit { append: Vec::new(), delete: wanted.delete.clone() };
        let changed = options(value, environment, if is_first { wanted } else { &nothing }, number, &mut edited)?;
        let after = changed.as_deref().unwrap_or(value).trim();
        bytes += after.len() + usize::from(!is_first) + brought(after, environment);
        if bytes > COMMAND_LINE_BYTES_MAX {
            return Err(LoaderError::TooLong { line: number, bytes });
        }
        has_options |= changed.as_deref() != Some("");
        match changed {
            None => edited.text.push_str(line),
            // The last word went, and the line goes with it.
            Some(changed) if changed.is_empty() => {}
            Some(changed) => {
                let lead = &line[..line.len() - line.trim_start().len()];
                let end = &line[line.trim_end().len()..];
                edited.text.extend([lead, "options ", changed.as_str(), end]);
            }
        }
    }
    if !has_options {
        add_options(&mut edited, environment, wanted)?;
    }
    Ok(edited)
}

/// The value of a line with this key.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let line = line.trim();
    let (found, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    (found == key).then(|| value.trim())
}

/// What the loader puts before the options, with the blank after it: GRUB the kernel's path, systemd-boot the initial
/// ramdisks'. Either may start the kernel, so that the longer counts.
fn prefix_bytes(text: &str) -> usize {
    let values = |key: &'static str| text.lines().filter_map(move |line| value_of(line, key));
    let kernel = values("linux").next().map_or(0, |path| arguments::boot_image_bytes(path) + 1);
    let ramdisks: usize = values("initrd").map(|path| "initrd= ".len() + path.len()).sum();
    kernel.max(ramdisks)
}

/// Counts by how much the words that a variable brings are longer than its name.
fn brought(options: &str, environment: &Environment<'_>) -> usize {
    let Some(words) = &environment.kernelopts else { return 0 };
    let bytes = words.iter().map(|word| word.len() + 1).sum::<usize>().saturating_sub(1);
    let names = arguments::split_arguments(options).unwrap_or_default().into_iter();
    let names = names.filter(|word| arguments::variable(word) == Some(KERNELOPTS));
    names.map(|name| bytes.saturating_sub(name.len())).sum()
}

/// The words of a line; those that systemd-boot, GRUB and the kernel take apart alike.
fn words_of(value: &str, line: usize) -> Result<Vec<&str>, LoaderError> {
    arguments::split_arguments(value).ok_or(LoaderError::Line { line, what: "a quotation mark on it has no end" })
}

/// The value of an `options` line after the change; `None` where nothing changes.
fn options(
    value: &str,
    environment: &Environment<'_>,
    wanted: &KernelArgumentEdit,
    line: usize,
    edited: &mut Edited,
) -> Result<Option<String>, LoaderError> {
    let words = words_of(value, line)?;
    let variables: Vec<&str> = words.iter().filter_map(|word| arguments::variable(word)).collect();
    let mut elsewhere = Vec::new();
    for name in variables {
        match &environment.kernelopts {
            Some(brought) if name == KERNELOPTS => elsewhere.extend(brought.iter().copied()),
            Some(_) | None => {
                edited.variables.insert(name.to_owned());
            }
        }
    }
    let change = change(&words, &elsewhere, wanted);
    edited.repeated.extend(change.repeated);
    if change.remove.is_empty() && change.add.is_empty() {
        return Ok(None);
    }
    if environment.has_grub {
        arguments::check_unquoted(&change.add)?;
    }
    let kept = words.iter().enumerate().filter(|(place, _)| !change.remove.contains(place)).map(|(_, word)| *word);
    Ok(Some(kept.chain(change.add.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")))
}

/// An entry without options: its kernel gets none, but where GRUB has some by default. New ones come right behind the
/// kernel, where GRUB still reads.
fn add_options(
    edited: &mut Edited,
    environment: &Environment<'_>,
    wanted: &KernelArgumentEdit,
) -> Result<(), LoaderError> {
    edited.command_lines = 1;
    if wanted.append.is_empty() && !environment.has_default {
        return Ok(());
    }
    if environment.has_default {
        let what = "without an `options` line the loader takes the arguments from elsewhere (default_kernelopts)";
        return Err(LoaderError::Line { line: edited.text.lines().count(), what });
    }
    let change = change(&[], &[], wanted);
    if environment.has_grub {
        arguments::check_unquoted(&change.add)?;
    }
    edited.repeated.extend(change.repeated);
    let value = change.add.join(" ");
    let (mut end, mut number, mut line_end) = (0, 1, "");
    for line in edited.text.split_inclusive('\n') {
        end += line.len();
        number += 1;
        line_end = &line[line.trim_end_matches(['\r', '\n']).len()..];
        if value_of(line, "linux").is_some() {
            break;
        }
    }
    let bytes = prefix_bytes(&edited.text) + value.len();
    if bytes > COMMAND_LINE_BYTES_MAX {
        return Err(LoaderError::TooLong { line: number, bytes });
    }
    // The kernel's may be the last line, without an end.
    let (before, after) = if line_end.ends_with('\n') { ("", line_end) } else { ("\n", "\n") };
    let line = format!("{before}options {value}{after}");
    edited.text.insert_str(end, &line);
    Ok(())
}

/// The kernel arguments of an entry, for what they say of the image; nothing of one that cannot be read.
#[must_use]
pub fn arguments_of(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| arguments::split_arguments(value_of(line, "options")?)).flatten().collect()
}

/// Entry for fuzzing: what was changed once does not change again, and nothing but options lines changes.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let wanted =
        KernelArgumentEdit { append: vec!["ip=dhcp".into(), "a".into(), "a".into()], delete: vec!["quiet".into()] };
    drop(arguments_of(&text));
    let none = KernelArgumentEdit { append: Vec::new(), delete: vec!["quiet".into()] };
    if let Ok(done) = edit(&text, &Environment::default(), &none) {
        let empty = |text: &str| text.lines().filter(|line| value_of(line, "options") == Some("")).count();
        assert!(empty(&done.text) <= empty(&text), "a line without a value");
        let twice = edit(&done.text, &Environment::default(), &none);
        assert!(twice.is_ok_and(|twice| twice.text == done.text), "a second removal");
    }
    // What GRUB would end the command line at is never new on it.
    let pasted = KernelArgumentEdit { append: vec!["u=a&b".into()], delete: Vec::new() };
    let grub = Environment { has_grub: true, ..Environment::default() };
    if let Ok(done) = edit(&text, &grub, &pasted) {
        assert_eq!(done.text, text, "an argument that GRUB would cut");
    }
    let Ok(once) = edit(&text, &Environment::default(), &wanted) else { return };
    let twice = edit(&once.text, &Environment::default(), &wanted);
    assert!(twice.is_ok_and(|twice| twice.text == once.text), "a second change");
    let others = |text: &str| {
        let lines = text.lines().filter(|line| value_of(line, "options").is_none());
        // The last line may have got an end.
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(others(&text), others(&once.text), "other lines");
    if once.command_lines > 0 {
        assert!(arguments_of(&once.text).contains(&"ip=dhcp"), "an argument is missing");
    }
}

#[cfg(test)]
#[path = "bls_tests.rs"]
mod tests;
