//! Verbs that fingers know from other programs and that `firesteel` does not have: the error says what does it here.

use clap::Parser as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::FiresteelCli;

/// Verbs of kubectl that change objects or ask the API. They work on the appliance, which `firesteel` needs no second
/// way for.
const KUBECTL: [&str; 10] =
    ["annotate", "api-resources", "api-versions", "auth", "create", "edit", "label", "patch", "replace", "scale"];
/// Words of other programs, each with what does it here.
const OTHERS: [(&[&str], &str); 21] = [
    (&["add", "discover", "enroll", "register"], "`firesteel apply -f FILE`, or `firesteel adopt MAC --name NAME`"),
    (&["abort", "cancel", "pause"], "`firesteel lock HOST`, or `firesteel halt --reason TEXT` for the whole fleet"),
    (
        &["clean", "erase", "wipe"],
        "`firesteel release HOST`, or `firesteel apply -f FILE` without spec.image of the host",
    ),
    (&["bundle", "collect", "diagnostics", "dump", "must-gather", "sosreport"], "`firesteel support-bundle`"),
    (&["console", "serial"], "`firesteel logs HOST -c console`"),
    (&["deploy", "install", "provision"], "`firesteel apply -f FILE` with spec.image of the host"),
    (&["deprovision", "unprovision"], "`firesteel release HOST`"),
    (&["destroy", "remove", "rm"], "`firesteel release HOST`, and `firesteel delete KIND NAME` for other objects"),
    (&["exec", "ssh"], "no command: the appliance opens no shell on a host, so use ssh to its OS"),
    (&["export"], "`firesteel image export`, or `firesteel receipt export`"),
    (&["freeze"], "`firesteel lock HOST`"),
    (&["hosts", "list", "ls", "machines", "nodes", "status"], "`firesteel get hosts`, or `firesteel watch`"),
    (&["images", "import", "upload"], "`firesteel image import`, and `firesteel image ls`"),
    (
        &["inspect"],
        "`firesteel describe host HOST` shows the last inspection; the annotation inspect.metal3.io asks for a new one",
    ),
    (
        &["login", "revoke", "user", "users"],
        "`firesteel kubeconfig --user NAME --role ROLE`, and `firesteel kubeconfig --revoke NAME`",
    ),
    (
        &["off", "on", "power", "poweroff", "poweron", "shutdown", "stop"],
        "spec.online of the host in `firesteel apply -f FILE`",
    ),
    (&["receipts", "verify"], "`firesteel receipt list`, and `firesteel receipt verify`"),
    (
        &["reset", "restart", "start"],
        "`firesteel reboot HOST`, or spec.online of the host in `firesteel apply -f FILE`",
    ),
    (&["resume-host", "thaw", "unpause"], "`firesteel unlock HOST`, or `firesteel resume` for the whole fleet"),
    (&["show"], "`firesteel describe host HOST`"),
    (&["diagnose", "troubleshoot", "why"], "`firesteel explain host HOST`"),
];

/// Reads the command line, or ends the process with what is wrong with it.
#[must_use]
pub fn parse() -> FiresteelCli {
    FiresteelCli::try_parse().unwrap_or_else(|error| with_tip(error).exit())
}

/// Puts what does it here in the place of subcommands that merely look alike.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand || !is_first_word(&error) {
        return error;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let Some(tip) = tip(verb) else { return error };
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

/// Tells whether the word stands where a command does, and not behind one, as in `image list`.
fn is_first_word(error: &clap::Error) -> bool {
    matches!(
        error.get(ContextKind::Usage),
        Some(ContextValue::StyledStr(usage)) if usage.to_string().split_whitespace().nth(2) == Some("[OPTIONS]")
    )
}

/// The kubectl that finds the appliance where this program would: `variable` reads the environment.
fn kubectl(variable: impl Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(file) = set("FIRESTEEL_KUBECONFIG") {
        return format!("kubectl --kubeconfig {file}");
    }
    match set("FIRESTEEL_DATA") {
        Some(data) => format!("kubectl --kubeconfig {data}/admin.kubeconfig"),
        None if set("KUBECONFIG").is_some() => "kubectl".to_owned(),
        None => "kubectl --kubeconfig DATA/admin.kubeconfig".to_owned(),
    }
}

fn tip(verb: &str) -> Option<String> {
    if KUBECTL.contains(&verb) {
        let kubectl = kubectl(|name| std::env::var(name).ok());
        return Some(format!(
            "`{kubectl} {verb}` works on the appliance; to change an object, edit its file and run `firesteel apply -f \
             FILE`"
        ));
    }
    let (_, instead) = OTHERS.iter().find(|(others, _)| others.contains(&verb))?;
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
        let deeper = with_tip(FiresteelCli::try_parse_from(["firesteel", "receipt", "clean"]).unwrap_err()).to_string();
        assert!(!deeper.contains("here it is"), "{deeper}");
        let typo = with_tip(FiresteelCli::try_parse_from(["firesteel", "relase", "a"]).unwrap_err()).to_string();
        assert!(typo.contains("similar subcommand") && typo.contains("release"), "{typo}");
    }

    /// The file that was named lay in another folder.
    #[test]
    fn kubectl_is_shown_with_the_kubeconfig_that_is_used() {
        let with = |set: &'static [(&str, &str)]| {
            kubectl(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(with(&[("FIRESTEEL_KUBECONFIG", "/a"), ("KUBECONFIG", "/b")]), "kubectl --kubeconfig /a");
        assert_eq!(with(&[("FIRESTEEL_DATA", "/d")]), "kubectl --kubeconfig /d/admin.kubeconfig");
        assert_eq!(with(&[("FIRESTEEL_KUBECONFIG", ""), ("KUBECONFIG", "/b")]), "kubectl");
        assert_eq!(with(&[]), "kubectl --kubeconfig DATA/admin.kubeconfig");
    }

    #[test]
    fn no_verb_of_ours_has_such_an_answer() {
        let command = FiresteelCli::command();
        let ours: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(ours.iter().all(|verb| tip(verb).is_none()), "{ours:?}");
    }
}
