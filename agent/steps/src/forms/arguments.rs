//! Kernel arguments: what is to be changed on one command line.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_wire::hand_off::{KernelArgumentEdit, name_of};

use super::{LoaderError, form_detection::printable};

/// What GRUB puts before a kernel's path, and both before its arguments. Only GRUB knows its number of the disk, so
/// that there is room for a large one.
const BOOT_IMAGE: &str = "BOOT_IMAGE=(hd99,gpt128)";
/// Where the lexer of GRUB's scripts ends a word that is not quoted (`grub-core/script/yylex.l`).
const ENDS_OF_WORDS: [char; 7] = [';', '&', '|', '<', '>', '{', '}'];

/// What to do with the words of one command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelArgumentChange {
    /// Places of the words that go.
    pub remove: BTreeSet<usize>,
    /// Words that come, in the order in which they are wanted.
    pub add: Vec<String>,
    /// Names of arguments that stand twice afterwards.
    pub repeated: BTreeSet<String>,
}

/// Compares a command line with what is wanted. `words` stand on the line; `elsewhere` are those that a variable on it
/// brings, which count as there and are not removed from here.
#[must_use]
pub fn change(words: &[&str], elsewhere: &[&str], wanted: &KernelArgumentEdit) -> KernelArgumentChange {
    let is_deleted = |word: &str| {
        let named = |list: &[String]| list.iter().any(|one| one == word);
        named(&wanted.delete) && !named(&wanted.append)
    };
    let remove: BTreeSet<usize> =
        words.iter().enumerate().filter(|(_, word)| is_deleted(word)).map(|(place, _)| place).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let kept = words.iter().enumerate().filter(|(place, _)| !remove.contains(place)).map(|(_, word)| word);
    for &word in kept.chain(elsewhere) {
        *counts.entry(word).or_default() += 1;
    }
    let mut left = counts.clone();
    let mut add = Vec::new();
    for argument in &wanted.append {
        match left.get_mut(argument.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => {
                add.push(argument.clone());
                *counts.entry(argument).or_default() += 1;
            }
        }
    }
    let repeated = counts.into_iter().filter(|(_, count)| *count > 1).map(|(word, _)| name_of(word).to_owned());
    KernelArgumentChange { remove, add, repeated: repeated.collect() }
}

/// The words of a command line as the kernel reads it: parted by blanks, but for those in double quotes
/// (`lib/cmdline.c`, `next_arg`). `None`: a quote has no end.
#[must_use]
pub fn split_arguments(line: &str) -> Option<Vec<&str>> {
    let (mut words, mut start, mut quoted) = (Vec::new(), None, false);
    for (at, letter) in line.char_indices() {
        if letter == '"' {
            quoted = !quoted;
        }
        let is_blank = letter.is_ascii_whitespace() && !quoted;
        match (start, is_blank) {
            (None, false) => start = Some(at),
            (Some(begin), true) => {
                words.push(&line[begin..at]);
                start = None;
            }
            (None, true) | (Some(_), false) => {}
        }
    }
    if quoted {
        return None;
    }
    words.extend(start.map(|begin| &line[begin..]));
    Some(words)
}

/// How much of the command line GRUB takes for the path of the kernel.
#[must_use]
pub fn boot_image_bytes(kernel: &str) -> usize {
    BOOT_IMAGE.len() + kernel.len()
}

/// Whether words to be added come through GRUB where nothing can quote them: it puts the options of an entry, and the
/// variables in them, into a script as they are. The error shows only the name of an argument: it may hold a token.
pub fn check_unquoted(added: &[String]) -> Result<(), LoaderError> {
    match added.iter().find(|word| word.starts_with('#') || word.contains(ENDS_OF_WORDS)) {
        None => Ok(()),
        Some(word) => Err(LoaderError::Unquoted { name: printable(name_of(word)) }),
    }
}

/// The variable that a word is: `kernelopts` of `$kernelopts` and `${kernelopts}`.
#[must_use]
pub fn variable(word: &str) -> Option<&str> {
    let name = word.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn wanted(append: &[&str], delete: &[&str]) -> KernelArgumentEdit {
        let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        KernelArgumentEdit { append: own(append), delete: own(delete) }
    }

    #[test]
    fn what_is_there_is_not_added_and_what_stands_twice_stays_and_is_told() {
        let words = ["root=/dev/vda", "console=tty0", "console=tty0", "quiet"];
        let change = change(&words, &[], &wanted(&["quiet", "ip=dhcp"], &["rhgb"]));
        assert_eq!(change.add, ["ip=dhcp"]);
        assert!(change.remove.is_empty());
        assert_eq!(change.repeated.into_iter().collect::<Vec<_>>(), ["console"]);
    }

    #[test]
    fn every_occurrence_goes_but_of_what_is_appended() {
        let words = ["a", "quiet", "b", "quiet", "a=b"];
        let done = change(&words, &[], &wanted(&["b"], &["quiet", "a", "b"]));
        assert_eq!(done.remove.into_iter().collect::<Vec<_>>(), [0, 1, 3]);
        assert!(done.add.is_empty(), "b stands there already");
    }

    #[test]
    fn what_is_wanted_twice_stands_twice() {
        let done = change(&["x"], &[], &wanted(&["x", "x", "x"], &[]));
        assert_eq!(done.add, ["x", "x"]);
        assert!(change(&["x"], &["x", "x"], &wanted(&["x", "x", "x"], &[])).add.is_empty(), "a variable brings two");
    }

    #[test]
    fn words_are_the_kernels() {
        assert_eq!(split_arguments("  a  b=\"c d\" \t e\n").unwrap(), ["a", "b=\"c d\"", "e"]);
        assert_eq!(split_arguments("").unwrap(), Vec::<&str>::new());
        assert_eq!(split_arguments("a=\"b c"), None);
        assert_eq!(
            (variable("$a"), variable("${a_b}"), variable("$"), variable("a$b")),
            (Some("a"), Some("a_b"), None, None)
        );
    }

    #[test]
    fn what_grub_would_end_a_command_at_is_told_by_its_name_alone() {
        for bad in
            ["#u=s3cr3t", "u=s3cr3t;", "u=a&s3cr3t", "u=|s3cr3t", "u=<s3cr3t", "u=>s3cr3t", "u={s3cr3t", "u=s3cr3t}"]
        {
            let error = check_unquoted(&["a".to_owned(), bad.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("u has one of the letters") && !error.contains("s3cr3t"), "{error}");
        }
        let good =
            ["ip=[fd00::1]:::[64]:h:eth0:none", "u=https://a/b?c=d%26e#f", "a!b*c(d)^e~f,g@h+i"].map(str::to_owned);
        assert_eq!(check_unquoted(&good), Ok(()));
    }

    proptest! {
        /// Done twice is done once, whatever stood there.
        #[test]
        fn a_second_time_nothing_changes(
            line in prop::collection::vec("[ab]{1,2}", 0..8),
            append in prop::collection::vec("[ab]{1,2}", 0..4),
            delete in prop::collection::vec("[ab]{1,2}", 0..4),
        ) {
            let wanted = KernelArgumentEdit { append: append.clone(), delete: delete.clone() };
            let words: Vec<&str> = line.iter().map(String::as_str).collect();
            let once = change(&words, &[], &wanted);
            let mut after: Vec<&str> =
                words.iter().enumerate().filter(|(at, _)| !once.remove.contains(at)).map(|(_, word)| *word).collect();
            after.extend(once.add.iter().map(String::as_str));
            let twice = change(&after, &[], &wanted);
            prop_assert!(twice.add.is_empty() && twice.remove.is_empty());
            prop_assert_eq!(twice.repeated, once.repeated);
            for argument in &append {
                let count = |list: &[&str]| list.iter().filter(|one| *one == argument).count();
                let asked = append.iter().filter(|one| *one == argument).count();
                let kept = if delete.contains(argument) { 0 } else { count(&words) };
                prop_assert!(count(&after) >= asked.max(kept));
            }
            let is_gone = |word: &String| append.contains(word) || !after.contains(&word.as_str());
            prop_assert!(delete.iter().all(is_gone));
        }
    }
}
