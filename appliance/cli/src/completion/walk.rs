//! Where in a command the word is that is being typed. Pure.

use std::collections::BTreeMap;

use clap::{Arg, Command, ValueHint};

use super::candidates::CompletionWord;

/// What the word may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompletionPlace {
    /// The word as far as it is typed, without the flag of `--flag=`.
    pub(super) typed: String,
    /// What stands before each candidate, such as `--output=`.
    pub(super) prefix: String,
    /// Commands and flags.
    pub(super) words: Vec<CompletionWord>,
    /// The argument that the word may be a value of.
    pub(super) value: Option<PlaceValue>,
    /// Values of flags earlier in the line, by their arguments' names.
    pub(super) flags: BTreeMap<String, String>,
}

/// A value of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlaceValue {
    /// The command without the program, such as `image ls`.
    pub(super) command: String,
    /// The argument's name.
    pub(super) argument: String,
    /// Values before this one that are no values of flags.
    pub(super) before: Vec<String>,
    /// The values that are possible, if they are known.
    pub(super) possible: Vec<CompletionWord>,
    pub(super) is_path: bool,
}

/// How far a line was read.
struct LineWalk<'a> {
    command: &'a Command,
    names: Vec<&'a str>,
    positionals: Vec<String>,
    /// The flag whose value comes next.
    awaited: Option<&'a Arg>,
    /// Whether `--` was read, behind which nothing is a flag.
    is_past_flags: bool,
    flags: BTreeMap<String, String>,
}

/// Reads a line up to the word that is being typed, the last one. The first is the program.
pub(super) fn walk(root: &Command, words: &[String]) -> CompletionPlace {
    let mut line = LineWalk {
        command: root,
        names: Vec::new(),
        positionals: Vec::new(),
        awaited: None,
        is_past_flags: false,
        flags: BTreeMap::new(),
    };
    let Some((typed, before)) = words.split_last() else { return CompletionPlace::default() };
    before.iter().skip(1).for_each(|word| line.read(word));
    line.place(typed)
}

impl<'a> LineWalk<'a> {
    fn read(&mut self, word: &str) {
        if let Some(flag) = self.awaited.take() {
            self.flags.insert(flag.get_id().to_string(), word.to_owned());
        } else if self.is_past_flags || !word.starts_with('-') || word == "-" {
            match self.command.find_subcommand(word).filter(|_| self.positionals.is_empty() && !self.is_past_flags) {
                Some(command) => {
                    self.command = command;
                    self.names.push(command.get_name());
                }
                None => self.positionals.push(word.to_owned()),
            }
        } else if word == "--" {
            self.is_past_flags = true;
        } else if let Some(long) = word.strip_prefix("--") {
            match long.split_once('=') {
                Some((name, value)) => {
                    if let Some(flag) = self.long(name) {
                        self.flags.insert(flag.get_id().to_string(), value.to_owned());
                    }
                }
                None => self.awaited = self.long(long).filter(|flag| takes_next_word(flag)),
            }
        } else {
            self.read_short(&word[1..]);
        }
    }

    /// Reads letters such as `-fA` or `-nrack1`.
    fn read_short(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let flag = self.command.get_arguments().find(|flag| flag.get_short() == Some(letter));
            let Some(flag) = flag.filter(|flag| takes_next_word(flag)) else { continue };
            let value = letters[at + letter.len_utf8()..].trim_start_matches('=');
            if value.is_empty() {
                self.awaited = Some(flag);
            } else {
                self.flags.insert(flag.get_id().to_string(), value.to_owned());
            }
            return;
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|flag| flag.get_long() == Some(name))
    }

    fn place(self, typed: &str) -> CompletionPlace {
        let mut place = CompletionPlace { typed: typed.to_owned(), flags: self.flags.clone(), ..Default::default() };
        let with_value = typed.strip_prefix("--").and_then(|long| long.split_once('='));
        if let Some(flag) = self.awaited {
            place.value = Some(self.value_of(flag, Vec::new()));
        } else if self.is_past_flags || !typed.starts_with('-') {
            if self.positionals.is_empty() && !self.is_past_flags {
                place.words = subcommands(self.command);
            }
            place.value = self.positional().map(|argument| self.value_of(argument, self.positionals.clone()));
        } else if let Some((name, value)) = with_value {
            place.value = self.long(name).map(|flag| self.value_of(flag, Vec::new()));
            (place.prefix, place.typed) = (format!("--{name}="), value.to_owned());
        } else {
            place.words = flags(self.command);
        }
        place
    }

    /// The positional argument that comes next; the last one may have many values.
    fn positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let last = *all.last()?;
        let takes_many = last.get_num_args().is_some_and(|count| count.max_values() > 1)
            || matches!(last.get_action(), clap::ArgAction::Append);
        match all.get(self.positionals.len()) {
            Some(next) => Some(next),
            None => takes_many.then_some(last),
        }
    }

    fn value_of(&self, argument: &Arg, before: Vec<String>) -> PlaceValue {
        let possible = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        let possible = possible.map(|value| CompletionWord {
            value: value.get_name().to_owned(),
            about: value.get_help().map(ToString::to_string).unwrap_or_default(),
        });
        let paths = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
        PlaceValue {
            command: self.names.join(" "),
            argument: argument.get_id().to_string(),
            before,
            possible: possible.collect(),
            is_path: paths.contains(&argument.get_value_hint()),
        }
    }
}

/// Whether the word behind a flag is its value.
fn takes_next_word(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

fn subcommands(command: &Command) -> Vec<CompletionWord> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown
        .map(|command| CompletionWord {
            value: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string).unwrap_or_default(),
        })
        .collect()
}

fn flags(command: &Command) -> Vec<CompletionWord> {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let words = shown.flat_map(|flag| {
        let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let long = flag.get_long().map(|long| format!("--{long}"));
        let short = flag.get_short().map(|short| format!("-{short}"));
        long.into_iter().chain(short).map(move |value| CompletionWord { value, about: about.clone() })
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::FiresteelCli;

    fn place(line: &str) -> CompletionPlace {
        let mut root = FiresteelCli::command();
        root.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        walk(&root, &words)
    }

    fn value(line: &str) -> String {
        let place = place(line);
        let value = place.value.unwrap_or_default();
        format!("{} {} {}|{}", value.command, value.argument, value.before.join("+"), place.typed)
    }

    #[test]
    fn the_argument_of_the_last_word_is_found() {
        for (line, expected) in [
            ("firesteel get ho", "get what |ho"),
            ("firesteel get hosts ", "get what hosts|"),
            ("firesteel get hosts a ", "get what hosts+a|"),
            ("firesteel -n rack1 describe host ", "describe what host|"),
            ("firesteel get -A -o js", "get output |js"),
            ("firesteel get --output=js", "get output |js"),
            ("firesteel retry ", "retry host |"),
            ("firesteel watch a b", "watch hosts a|b"),
            ("firesteel watch --until pro", "watch until |pro"),
            ("firesteel receipt list ", "receipt list host |"),
            ("firesteel delete --wait host", "delete what |host"),
            ("firesteel --kubeconfig ", " kubeconfig |"),
        ] {
            assert_eq!(value(line), expected, "{line}");
        }
        assert!(place("firesteel --kubeconfig ").value.is_some_and(|value| value.is_path));
        assert_eq!(place("firesteel get --output=js").prefix, "--output=");
    }

    #[test]
    fn flags_before_the_word_are_known_and_commands_and_flags_are_offered() {
        let found = place("firesteel -nrack1 --kubeconfig=f get hosts ").flags;
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("kubeconfig", "f"), ("namespace", "rack1")]);
        let words = |line: &str| place(line).words.into_iter().map(|word| word.value).collect::<Vec<_>>();
        assert!(
            words("firesteel ").contains(&"get".to_owned()) && !words("firesteel ").contains(&"__complete".to_owned())
        );
        assert!(words("firesteel receipt ").contains(&"export".to_owned()));
        let flags = words("firesteel get -");
        assert!(
            ["--selector", "-l", "--kubeconfig"].iter().all(|flag| flags.contains(&(*flag).to_owned())),
            "{flags:?}"
        );
        assert_eq!(words("firesteel get hosts "), Vec::<String>::new());
    }
}
