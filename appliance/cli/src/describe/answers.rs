//! The newest request of each sort that was made of the host, and the appliance's answer.

use firesteel_resources::HostJournal;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::DELETION;
use jiff::Timestamp;

use super::{TextPage, ago};

pub(super) fn render(page: &mut TextPage, journal: &HostJournal, now: Timestamp) {
    let answers = &journal.status.answers;
    if answers.is_empty() {
        return;
    }
    page.title("Requests");
    for answer in answers.iter().rev() {
        let outcome = format!("{:?}", answer.outcome).to_lowercase();
        let start = format!("  {} {} ago: {outcome}: ", command(&answer.request), ago(answer.at, now));
        page.item(&start, &answer.message, 6);
    }
}

/// The command that makes a request; the annotation's name where there is none.
fn command(request: &str) -> &str {
    match request {
        annotations::RETRY => "retry",
        annotations::REBOOT => "reboot",
        annotations::LOCK => "lock, unlock",
        annotations::ACCEPT_IDENTITY => "accept-identity",
        annotations::ACCEPT_ERASURE => "accept-erasure",
        annotations::CHOOSE_AGENT => "choose-agent",
        annotations::UNFREEZE_DISK => "unfreeze",
        annotations::EXTEND_TOKEN => "extend-token",
        annotations::RELEASE_FORCE => "release --force",
        DELETION => "release",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::BareMetalHost;
    use firesteel_resources::host_journal::{RequestAnswer, RequestOutcome};

    use super::super::render;
    use super::*;

    #[test]
    fn the_newest_answer_comes_first() {
        let mut journal = HostJournal::default();
        let now = Timestamp::UNIX_EPOCH;
        for (request, outcome, text) in [
            (annotations::RETRY, RequestOutcome::Refused, "there is nothing to try again"),
            (annotations::REBOOT, RequestOutcome::Done, "the host was rebooted"),
        ] {
            journal.status.answers.record(RequestAnswer::new(request, "", outcome, text, now));
        }
        let page = render(&BareMetalHost::default(), &journal, now, 100);
        let lines: Vec<&str> = page.lines().skip_while(|line| *line != "Requests").skip(1).collect();
        assert_eq!(
            lines,
            ["  reboot 0s ago: done: the host was rebooted", "  retry 0s ago: refused: there is nothing to try again"]
        );
    }
}
