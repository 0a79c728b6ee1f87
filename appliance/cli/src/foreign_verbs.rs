//! Verbs that fingers know from other programs and that `firesteel` does not have: the error says what does it here.

use clap::Parser as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::FiresteelCli;

/// Verbs of kubectl that change objects. They work on the appliance, which `firesteel` needs no second way for.
const KUBECTL: [&str; 9] = ["annotate", "auth", "create", "edit", "exec", "label", "patch", "replace", "scale"];
/// What other programs call the things that are done here by another word.
const OTHERS: [(&str, &str); 8] = [
    ("deploy", "`firesteel apply -f FILE` with spec.image of the host"),
    ("deprovision", "`firesteel release HOST`"),
    ("inspect", "`firesteel describe host HOST` shows the inspection, and `firesteel retry HOST` makes a new one"),
    ("list", "`firesteel get hosts`"),
    ("power", "`firesteel reboot HOST`, or spec.online of the host in `firesteel apply -f FILE`"),
    ("provision", "`firesteel apply -f FILE` with spec.image of the host"),
    ("show", "`firesteel describe host HOST`"),
    ("status", "`firesteel get hosts`, `firesteel watch`"),
];

/// Reads the command line, or ends the process with what is wrong with it.
#[must_use]
pub fn parse() -> FiresteelCli {
    FiresteelCli::try_parse().unwrap_or_else(|error| with_tip(error).exit())
}

/// Puts what does it here in the place of subcommands that merely look alike.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let Some(tip) = tip(verb) else { return error };
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

fn tip(verb: &str) -> Option<String> {
    if KUBECTL.contains(&verb) {
        return Some(format!(
            "`kubectl --kubeconfig admin.kubeconfig {verb}` works on the appliance; or change the file and run \
             `firesteel apply -f FILE`"
        ));
    }
    let (_, instead) = OTHERS.iter().find(|(other, _)| *other == verb)?;
    Some(format!("here it is {instead}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// `edit` was answered with `get` and `audit`.
    #[test]
    fn a_verb_of_another_program_is_answered_with_what_does_it_here() {
        for (verb, expected) in [("edit", "kubectl --kubeconfig"), ("deprovision", "firesteel release HOST")] {
            let error = FiresteelCli::try_parse_from(["firesteel", verb, "hosts", "a"]).unwrap_err();
            let text = with_tip(error).to_string();
            assert!(text.contains(expected) && !text.contains("similar"), "{text}");
        }
        let typo = with_tip(FiresteelCli::try_parse_from(["firesteel", "relase", "a"]).unwrap_err()).to_string();
        assert!(typo.contains("similar subcommand") && typo.contains("release"), "{typo}");
    }

    #[test]
    fn no_verb_of_ours_has_such_an_answer() {
        let command = FiresteelCli::command();
        let ours: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(ours.iter().all(|verb| tip(verb).is_none()), "{ours:?}");
    }
}
