//! Entries of the Boot Loader Specification, type 1 (`loader/entries/*.conf`), as systemd-boot and GRUB's `blscfg` read
//! them: lines of a key, blanks and a value. systemd-boot joins all `options` lines, GRUB reads the first alone, so that
//! is where arguments are added, and only those on it count as there.

use std::collections::BTreeSet;

use firesteel_wire::{hand_off::Arguments, limits::COMMAND_LINE_BYTES_MAX};

use super::{
    Edited, LoaderError,
    arguments::{self, change},
};

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
}

/// An entry, with its command line changed.
pub fn edit(text: &str, environment: &Environment<'_>, wanted: &Arguments) -> Result<Edited, LoaderError> {
    let mut edited = Edited {
        text: String::with_capacity(text.len()),
        command_lines: 0,
        repeated: BTreeSet::new(),
        variables: BTreeSet::new(),
        left: Vec::new(),
    };
    if !text.lines().any(|line| value_of(line, "linux").is_some()) {
        edited.left.push("it starts no kernel (it has no line `linux`), so it was left as it is".to_owned());
        text.clone_into(&mut edited.text);
        return Ok(edited);
    }
    let mut bytes = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let Some(value) = value_of(line, "options") else {
            edited.text.push_str(line);
            continue;
        };
        let is_first = edited.command_lines == 0;
        edited.command_lines = 1;
        let nothing = Arguments { append: Vec::new(), delete: wanted.delete.clone() };
        let changed = options(value, environment, if is_first { wanted } else { &nothing }, number, &mut edited)?;
        bytes += changed.as_deref().unwrap_or(value).trim().len() + usize::from(!is_first);
        if bytes > COMMAND_LINE_BYTES_MAX {
            return Err(LoaderError::TooLong { line: number, bytes });
        }
        match changed {
            None => edited.text.push_str(line),
            Some(changed) => {
                let lead = &line[..line.len() - line.trim_start().len()];
                let end = &line[line.trim_end().len()..];
                edited.text.extend([lead, "options ", changed.as_str(), end]);
            }
        }
    }
    if edited.command_lines == 0 {
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

/// The words of a line; those that systemd-boot, GRUB and the kernel take apart alike.
fn words_of(value: &str, line: usize) -> Result<Vec<&str>, LoaderError> {
    arguments::words(value).ok_or(LoaderError::Line { line, what: "a quotation mark on it has no end" })
}

/// The value of an `options` line after the change; `None` where nothing changes.
fn options(
    value: &str,
    environment: &Environment<'_>,
    wanted: &Arguments,
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
    let kept = words.iter().enumerate().filter(|(place, _)| !change.remove.contains(place)).map(|(_, word)| *word);
    Ok(Some(kept.chain(change.add.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")))
}

/// An entry without options: its kernel gets none, but where GRUB has some by default.
fn add_options(edited: &mut Edited, environment: &Environment<'_>, wanted: &Arguments) -> Result<(), LoaderError> {
    edited.command_lines = 1;
    if wanted.append.is_empty() && !environment.has_default {
        return Ok(());
    }
    let lines = edited.text.lines().count();
    if environment.has_default {
        let what = "there is no `options` line, and the loader takes the arguments from elsewhere (default_kernelopts)";
        return Err(LoaderError::Line { line: lines, what });
    }
    let change = change(&[], &[], wanted);
    edited.repeated.extend(change.repeated);
    let value = change.add.join(" ");
    if value.len() > COMMAND_LINE_BYTES_MAX {
        return Err(LoaderError::TooLong { line: lines + 1, bytes: value.len() });
    }
    if !edited.text.is_empty() && !edited.text.ends_with('\n') {
        edited.text.push('\n');
    }
    edited.text.extend(["options ", value.as_str(), "\n"]);
    Ok(())
}

/// The kernel arguments of an entry, for what they say of the image; nothing of one that cannot be read.
#[must_use]
pub fn arguments_of(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| arguments::words(value_of(line, "options")?)).flatten().collect()
}

/// Entry for fuzzing: what was changed once does not change again, and nothing but options lines changes.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let wanted = Arguments { append: vec!["ip=dhcp".into(), "a".into(), "a".into()], delete: vec!["quiet".into()] };
    drop(arguments_of(&text));
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
