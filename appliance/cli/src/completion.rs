//! Completion of command lines: `firesteel completions SHELL` prints a script, and the script asks this program what the
//! word at the cursor may become.
//!
//! `clap_complete` has an engine for this, too. It is not used: its script for bash cannot complete words with colons or
//! spaces, such as MACs and states, and its completers do not see the other words of the line.

mod candidates;
mod line;
mod walk;

use std::thread;
use std::time::Duration;

use clap::{CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use self::candidates::{CompletionWord, Completions};
use self::line::BashLine;
use super::{ConnectionOptions, FiresteelCli, output};

/// The hidden command that the scripts run.
pub(super) const COMMAND: &str = "__complete";
/// The time after which nothing is completed: a shell must not hang.
const LIMIT: Duration = Duration::from_secs(2);
/// The line that has the shell complete names of files.
const FILES: &str = ":files\n";

const BASH: &str = include_str!("completion/firesteel.bash");
const ZSH: &str = include_str!("completion/firesteel.zsh");
const FISH: &str = include_str!("completion/firesteel.fish");

#[derive(Debug, clap::Args)]
pub struct CompleteOptions {
    shell: CompletedShell,
    /// Words up to the cursor; of bash the line up to the cursor, and what breaks words
    #[arg(last = true)]
    words: Vec<String>,
}

/// A shell whose script asks this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// Returns the script of a shell. Those for shells that are not asked for names complete commands and flags alone.
pub(super) fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut FiresteelCli::command(), "firesteel", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    }
}

/// Prints the candidates, and ends the process: whatever is still under way must not keep the shell waiting.
pub(super) async fn run(connection: &ConnectionOptions, options: CompleteOptions) -> ! {
    thread::spawn(|| {
        thread::sleep(LIMIT);
        std::process::exit(0);
    });
    let bash = (options.shell == CompletedShell::Bash).then(|| BashLine::read(&options.words));
    let words = bash.as_ref().map_or(options.words.as_slice(), |line| line.words.as_slice());
    let mut root = FiresteelCli::command();
    root.build();
    let place = walk::walk(&root, words);
    let text = match candidates::of(connection, &place).await {
        Completions::Files => FILES.to_owned(),
        Completions::Words(words) => {
            words.iter().map(|word| line_of(options.shell, bash.as_ref(), word) + "\n").collect()
        }
    };
    output::print_text(&text);
    std::process::exit(0);
}

/// Writes a candidate in the form that the shell's script takes.
fn line_of(shell: CompletedShell, bash: Option<&BashLine>, word: &CompletionWord) -> String {
    let CompletionWord { value, about } = word;
    let about = about.lines().next().unwrap_or_default();
    match (shell, bash) {
        (CompletedShell::Bash, Some(line)) => line.replacement(value),
        (CompletedShell::Bash, None) => value.clone(),
        (CompletedShell::Zsh, _) => {
            let value = value.replace('\\', "\\\\").replace(':', "\\:");
            if about.is_empty() { value } else { format!("{value}:{about}") }
        }
        (CompletedShell::Fish, _) if about.is_empty() => value.clone(),
        (CompletedShell::Fish, _) => format!("{value}\t{about}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_candidates_in_its_form() {
        let word = CompletionWord { value: "externally provisioned".into(), about: "a state\nmore".into() };
        assert_eq!(line_of(CompletedShell::Zsh, None, &word), "externally provisioned:a state");
        assert_eq!(line_of(CompletedShell::Fish, None, &word), "externally provisioned\ta state");
        let line = BashLine::read(&["firesteel watch --until e".to_owned(), " :=".to_owned()]);
        assert_eq!(line_of(CompletedShell::Bash, Some(&line), &word), "externally\\ provisioned");
        let mac = CompletionWord { value: "52:54:00".into(), about: String::new() };
        assert_eq!(line_of(CompletedShell::Zsh, None, &mac), "52\\:54\\:00");
    }

    #[test]
    fn every_script_runs_the_command_that_there_is() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            let name = shell.to_string();
            assert!(script.contains(&format!(" {COMMAND} {name} -- ")) && script.contains(":files"), "{script}");
        }
        assert!(script(Shell::PowerShell).contains("firesteel"));
    }
}
