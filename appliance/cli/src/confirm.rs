//! Questions before what cannot be undone. On a terminal the person is asked, and types the name of what is meant; a
//! script says `--yes`. Without both nothing is done.

mod host_summary;

use std::io::{self, BufRead as _, Read as _};

use anyhow::Context as _;
use clap::Args;

use super::ApiClient;
use super::output::{can_ask, print_question};
use super::table::{clean, error_width};

pub(crate) use host_summary::{HostDeletion, HostSummary, NamedHost};

/// The longest line that is read as an answer.
const LINE_BYTES_MAX: u64 = 4096;

// Goes on without a question.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmOptions {
    /// Do not ask: go on at once, as scripts must
    #[arg(long, short)]
    pub yes: bool,
}

/// A command that asks, and can ask no one.
#[derive(Debug, thiserror::Error)]
#[error(
    "`firesteel {command}` asks before it goes on, and there is no terminal to ask on; nothing was done. Add --yes to go \
     on without the question"
)]
pub(crate) struct ConfirmationMissing {
    command: &'static str,
}

/// What a person has to type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedAnswer<'a> {
    /// The key y.
    Yes,
    /// The name of what is meant: a host, a user, or a step.
    Name(&'a str),
}

impl ExpectedAnswer<'_> {
    fn prompt(self) -> String {
        match self {
            Self::Yes => "Go on? [y/N] ".to_owned(),
            Self::Name(name) => format!("Type {} to go on: ", clean(name)),
        }
    }

    fn is(self, line: &str) -> bool {
        let line = line.trim();
        match self {
            Self::Yes => line.eq_ignore_ascii_case("y") || line.eq_ignore_ascii_case("yes"),
            Self::Name(name) => line == name,
        }
    }
}

/// Checks that the person can be asked, before anything is fetched for the question.
///
/// # Errors
/// When the question is needed, and there is no terminal.
pub(crate) fn check_terminal(command: &'static str, options: ConfirmOptions) -> Result<(), ConfirmationMissing> {
    if options.yes || can_ask() { Ok(()) } else { Err(ConfirmationMissing { command }) }
}

/// Asks, and returns if the person says so.
///
/// # Errors
/// When another answer comes, or there is no terminal.
pub(crate) fn ask(
    command: &'static str,
    text: &str,
    expected: ExpectedAnswer<'_>,
    options: ConfirmOptions,
) -> anyhow::Result<()> {
    if options.yes {
        return Ok(());
    }
    check_terminal(command, options)?;
    print_question(&format!("{text}{}", expected.prompt())).context("could not ask")?;
    let mut line = String::new();
    io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).context("could not read the answer")?;
    anyhow::ensure!(
        expected.is(&line),
        "nothing was done: the answer was another one; run the command again, and answer as it asks"
    );
    Ok(())
}

/// Asks whether a host may be deleted, and names what happens to each of its disks.
///
/// # Errors
/// When the answer is no, there is no such host, or the appliance does not answer.
pub(crate) async fn ask_to_delete_host(
    client: &ApiClient,
    command: &'static str,
    host: NamedHost<'_>,
    is_forced: bool,
    options: ConfirmOptions,
) -> anyhow::Result<()> {
    if options.yes {
        return Ok(());
    }
    check_terminal(command, options)?;
    let deletion = HostDeletion::fetch(client, host, is_forced).await?;
    let lead = if is_forced { "This host is forgotten" } else { "This host is deleted" };
    ask(command, &format!("{lead}:\n{}", deletion.text(error_width())), ExpectedAnswer::Name(host.name), options)
}

/// Asks about something that is done to a host and its OS.
///
/// # Errors
/// When the answer is no, there is no such host, or the appliance does not answer.
pub(crate) async fn ask_about_host(
    client: &ApiClient,
    command: &'static str,
    host: &str,
    consequence: impl FnOnce(&HostSummary) -> String,
    options: ConfirmOptions,
) -> anyhow::Result<()> {
    if options.yes {
        return Ok(());
    }
    check_terminal(command, options)?;
    let summary = HostSummary::fetch(client, NamedHost::here(client, host)).await?;
    let text = format!("{}\n{}", clean(&consequence(&summary)), summary.text());
    ask(command, &text, ExpectedAnswer::Name(host), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_is_the_answer() {
        let is = |line: &str| ExpectedAnswer::Name("rack1-07").is(line);
        assert!(is("rack1-07\n") && is(" rack1-07 \r\n"));
        assert!(["", "\n", "y\n", "rack1-7\n", "Rack1-07\n", "rack1-07 rack1-08\n"].iter().all(|line| !is(line)));
        let yes = |line: &str| ExpectedAnswer::Yes.is(line);
        assert!(yes("y\n") && yes("YES\n"));
        assert!(["", "\n", "n\n", "yep\n"].iter().all(|line| !yes(line)));
    }

    #[test]
    fn who_cannot_be_asked_learns_what_to_add() {
        let text = ConfirmationMissing { command: "release" }.to_string();
        assert!(text.contains("`firesteel release`") && text.contains("--yes"), "{text}");
    }
}
