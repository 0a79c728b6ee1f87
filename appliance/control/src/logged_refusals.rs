//! Which refusals of a host's agents the log has said. Pure.
//!
//! An agent that is held asks again every ten seconds, and one that boots in a loop comes each minute, for as long as
//! it takes a person to look: the log says each refusal once an hour. What an agent says of itself is in these texts,
//! so that they are bounded in number, too: a machine that says something else each time cannot fill the log.

use jiff::{SignedDuration, Timestamp};

/// Most texts about one host within [`AGAIN_AFTER`].
const SAID_MAX: usize = 8;
const AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// What was said of one host.
#[derive(Debug, Default)]
pub(crate) struct LoggedRefusals(Vec<(String, Timestamp)>);

impl LoggedRefusals {
    /// Says whether the log is to have this text now; from now on it has it.
    pub(crate) fn is_news(&mut self, text: &str, now: Timestamp) -> bool {
        // A clock that was set back ends the wait, too.
        self.0.retain(|(_, at)| (SignedDuration::ZERO..AGAIN_AFTER).contains(&now.duration_since(*at)));
        if self.0.len() >= SAID_MAX || self.0.iter().any(|(known, _)| known == text) {
            return false;
        }
        self.0.push((text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn an_agent_that_asks_every_ten_seconds_is_in_the_log_once_an_hour() {
        let mut said = LoggedRefusals::default();
        let asked = (0..7200).step_by(10).filter(|second| said.is_news("held", at(*second)));
        assert_eq!(asked.collect::<Vec<_>>(), [0, 3600]);
        assert!(said.is_news("another reason", at(7200)));
        assert!(said.is_news("held", at(60)), "a clock that was set back silences nothing");
    }

    #[test]
    fn a_machine_that_says_something_else_each_time_fills_no_log() {
        let mut said = LoggedRefusals::default();
        let in_log = (0..600).filter(|second| said.is_news(&format!("the UUID {second}"), at(*second))).count();
        assert_eq!(in_log, SAID_MAX);
    }
}
