//! The commands of `firesteel` with their flags, as `clap` knows them, and where a page has them.
//!
//! The place of a command is the section under a heading with its words, such as `## firesteel serve`, or the rows of
//! tables that begin with them. Its flags stand there; those of every command stand under [`ROOT_HEADING`].

use clap::CommandFactory as _;
use firesteel_cli::FiresteelCli;

use super::page::{Page, code_words_of};

/// Where the flags are that each command has.
const ROOT_HEADING: &str = "Flags of every command";

/// A command that does something by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandFlags {
    /// `firesteel image import`
    pub(crate) words: String,
    /// `--checksum`
    pub(crate) flags: Vec<String>,
}

/// All commands, and the command itself with what all of them have.
pub(crate) fn commands() -> Vec<CommandFlags> {
    let mut found = Vec::new();
    collect(&FiresteelCli::command(), "", &mut found);
    found
}

fn collect(command: &clap::Command, above: &str, found: &mut Vec<CommandFlags>) {
    let words = format!("{above} {}", command.get_name()).trim_start().to_owned();
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let flags: Vec<String> = shown.filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect();
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set()).peekable();
    // What only has others below it is found by them.
    if below.peek().is_none() || !flags.is_empty() {
        found.push(CommandFlags { words: words.clone(), flags });
    }
    below.for_each(|below| collect(below, &words, found));
}

/// Says of each command and flag without a place what to do.
pub(crate) fn missing(file: &str, pages: &[&Page], commands: &[CommandFlags]) -> Vec<String> {
    let mut faults = Vec::new();
    for CommandFlags { words, flags } in commands {
        let lines: Vec<&str> = pages.iter().flat_map(|page| place_of(page, words)).collect();
        if lines.is_empty() {
            faults.push(format!("{file} has no place for `{words}`: add a heading with its words, or a row"));
            continue;
        }
        let shown: Vec<&str> = lines.into_iter().flat_map(code_words_of).collect();
        let absent = flags.iter().filter(|flag| !shown.contains(&flag.as_str()));
        faults.extend(absent.map(|flag| format!("{file} has no `{flag}` where `{words}` is: add it there")));
    }
    faults
}

/// The lines about a command.
fn place_of<'a>(page: &'a Page, words: &str) -> Vec<&'a str> {
    let heading = if words.contains(' ') { words } else { ROOT_HEADING };
    let mut headings = page.headings().skip_while(|(_, text)| *text != heading);
    if let Some((start, _)) = headings.next() {
        let end = headings.next().map_or(page.lines.len(), |(next, _)| next);
        return page.lines[start..end].iter().map(|line| line.text.as_str()).collect();
    }
    let begins = |line: &str| {
        let rest = line.strip_prefix("| `").and_then(|cell| cell.strip_prefix(words));
        rest.is_some_and(|rest| rest.starts_with(['`', ' ']))
    };
    page.lines.iter().map(|line| line.text.as_str()).filter(|line| begins(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_looked_for_where_their_command_is() {
        let page = "## Flags of every command\n| `--all` |\n## firesteel serve\n`--data DIR`\n## Others\n\
                    | `firesteel get KIND` | `--output` |\n| `firesteel getter` | `--none` |\n";
        let page = Page::of(page);
        let command = |words: &str, flags: &[&str]| CommandFlags {
            words: words.to_owned(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        };
        let good = [
            command("firesteel", &["--all"]),
            command("firesteel serve", &["--data"]),
            command("firesteel get", &["--output"]),
        ];
        assert_eq!(missing("x.md", &[&Page::of(""), &page], &good), Vec::<String>::new());
        let bad = [
            command("firesteel get", &["--none"]),
            command("firesteel serve", &["--all"]),
            command("firesteel x", &[]),
        ];
        let faults = missing("x.md", &[&page], &bad);
        assert!(faults.len() == 3 && faults[0].contains("no `--none` where `firesteel get` is"), "{faults:?}");
        assert!(faults[2].contains("no place for `firesteel x`"), "{faults:?}");
    }

    #[test]
    fn commands_of_all_levels_are_known() {
        let commands = commands();
        let has = |words: &str, flag: &str| {
            commands.iter().any(|known| known.words == words && known.flags.iter().any(|known| known == flag))
        };
        assert!(has("firesteel", "--kubeconfig") && has("firesteel serve", "--data"));
        assert!(has("firesteel image import", "--checksum"));
        assert!(!commands.iter().any(|known| known.words == "firesteel image"), "it does nothing by itself");
    }
}
