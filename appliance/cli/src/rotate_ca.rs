//! `firesteel rotate-ca`: replaces the CA of the appliance's certificates, with an overlap.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ApiClient;
use super::confirm::{self, ConfirmOptions, ExpectedAnswer};

#[derive(Clone, Copy, Debug, Args)]
pub struct RotateCaOptions {
    /// End the overlap: clients that trust the old CA alone are cut off from then on
    ///
    /// This is refused while hosts that were installed before the rotation began have not run yet, and names them:
    /// their disks may trust the old CA alone.
    #[arg(long)]
    finish: bool,
    /// End it in spite of these hosts: they can no longer fetch their config, and must be installed again
    #[arg(long, requires = "finish")]
    force: bool,
    /// Undo the last step: the end of an overlap, or the beginning of one
    #[arg(long, conflicts_with = "finish")]
    undo: bool,
    #[command(flatten)]
    confirm: ConfirmOptions,
}

/// # Errors
/// When the person says no, the appliance does not answer, or the change failed.
pub(crate) async fn run(client: &ApiClient, options: RotateCaOptions) -> anyhow::Result<()> {
    let RotateCaOptions { finish, force, undo, confirm } = options;
    let (question, expected) = question(finish, force, undo);
    confirm::ask("rotate-ca", question, expected, confirm)?;
    let path = match (finish, force, undo) {
        (false, _, false) => "/firesteel.dev/rotate-ca",
        (true, false, _) => "/firesteel.dev/rotate-ca?finish=true",
        (true, true, _) => "/firesteel.dev/rotate-ca?finish=true&force=true",
        (false, _, true) => "/firesteel.dev/rotate-ca?undo=true",
    };
    let done = client.create(path, &json!({})).await?;
    super::print_text(&text(&done));
    Ok(())
}

/// Says what the step means, and what has to be typed for it.
fn question(finish: bool, force: bool, undo: bool) -> (&'static str, ExpectedAnswer<'static>) {
    match (finish, force, undo) {
        (false, _, false) => (
            "A new CA is made, and both are trusted from now on: managed stubs get both, and everyone who has the old one \
             needs the new one.\n",
            ExpectedAnswer::Yes,
        ),
        (false, _, true) => ("The last step of the rotation is undone.\n", ExpectedAnswer::Yes),
        (true, false, _) => {
            ("The old CA ends: clients that trust it alone are cut off at once.\n", ExpectedAnswer::Name("finish"))
        }
        (true, true, _) => (
            "The old CA ends: clients that trust it alone are cut off at once. Hosts that were installed before the \
             rotation and have not run yet can no longer fetch their config, and must be installed again.\n",
            ExpectedAnswer::Name("finish"),
        ),
    }
}

fn text(done: &Value) -> String {
    let day = |key: &str| {
        let text = done[key].as_str()?;
        Some(text.parse::<Timestamp>().map_or_else(|_| super::table::clean(text), |at| at.strftime("%F").to_string()))
    };
    let (ends, next) = (day("ends").unwrap_or_else(|| "?".to_owned()), day("nextEnds"));
    match (next, done["takenBack"].as_str()) {
        (Some(next), Some(_)) => format!(
            "the old CA is trusted again: it ends at {ends}, the new one at {next}; both are trusted until `firesteel \
             rotate-ca --finish`\n"
        ),
        (Some(next), None) => format!(
            "the new CA ends at {next}, the old one at {ends}; both are trusted until `firesteel rotate-ca \
             --finish`.\nManaged stubs get both now; give pki/ca.crt to everyone who has the old one, and make other \
             kubeconfigs again\n"
        ),
        (None, Some(_)) => {
            format!("the rotation is undone: the earlier CA is the only one again and ends at {ends}\n")
        }
        (None, None) => format!(
            "the new CA is the only one now and ends at {ends}; clients that trust the old one alone are cut off. \
             `firesteel rotate-ca --undo` undoes that\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_says_what_is_trusted_then() {
        let said = |next: Option<&str>, taken_back: Option<&str>| {
            let ends = "2036-01-01T00:00:00Z";
            text(&json!({"ends": ends, "nextEnds": next.map(|_| "2046-01-01T00:00:00Z"), "takenBack": taken_back}))
        };
        assert!(said(Some(""), None).starts_with("the new CA ends at 2046-01-01, the old one at 2036-01-01"));
        assert!(said(Some(""), Some("end")).starts_with("the old CA is trusted again: it ends at 2036-01-01"));
        assert!(said(None, None).contains("--undo") && said(None, None).contains("the only one now"));
        assert!(said(None, Some("beginning")).starts_with("the rotation is undone"));
    }
}
