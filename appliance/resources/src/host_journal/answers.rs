//! The answers to requests that were made of a host: what became of the newest one of each sort.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use firesteel_kube_types::ObjectMeta;

use crate::zero::is_zero;

/// Stands in [`RequestAnswer::request`] for the deletion of a host; the value is its `metadata.deletionTimestamp`.
pub const DELETION: &str = "metadata.deletionTimestamp";
/// The most answers that are kept: there are fewer sorts of requests.
const ANSWERS_MAX: usize = 24;
/// The most answers that are kept beside the newest ones.
const EARLIER_MAX: usize = 16;
/// The longest value that is kept of a request.
const VALUE_BYTES_MAX: usize = 256;
/// The longest text of an answer.
const MESSAGE_BYTES_MAX: usize = 2048;

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestOutcome {
    /// It is going to be done.
    #[default]
    Accepted,
    /// It is done.
    Done,
    /// Nothing is done.
    Refused,
}

/// The answer to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestAnswer {
    /// Counts the answers of this host: a newer one has a greater number.
    pub number: u64,
    /// The annotation that asked, or [`DELETION`].
    pub request: String,
    /// Its value, or the first 256 bytes of it.
    pub value: String,
    pub outcome: RequestOutcome,
    /// What is done, or why nothing is, and what to do then.
    pub message: String,
    pub at: Timestamp,
    /// The annotation was not seen to be gone yet. While it is there, it is the same request.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending_removal: bool,
}

impl RequestAnswer {
    /// Makes an answer without a number, which [`RequestAnswers::record`] gives it.
    #[must_use]
    pub fn new(request: &str, value: &str, outcome: RequestOutcome, message: &str, at: Timestamp) -> Self {
        Self {
            number: 0,
            request: request.to_owned(),
            value: kept_value(value).to_owned(),
            outcome,
            message: cut(message, MESSAGE_BYTES_MAX).to_owned(),
            at,
            pending_removal: false,
        }
    }

    /// Says whether it answers this request.
    #[must_use]
    pub fn answers(&self, request: &str, value: &str) -> bool {
        self.request == request && self.value == kept_value(value)
    }
}

/// The answers of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestAnswers {
    /// The newest answer to each sort of request, the oldest first.
    newest: Vec<RequestAnswer>,
    /// Some answers that newer ones replaced: who waits for one may look late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<RequestAnswer>,
}

impl RequestAnswers {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Gives the newest answer to each sort of request, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RequestAnswer> {
        self.newest.iter()
    }

    /// Returns the number of the newest answer; 0 before the first.
    #[must_use]
    pub fn newest_number(&self) -> u64 {
        self.newest.iter().map(|answer| answer.number).max().unwrap_or(0)
    }

    /// Returns the newest answer to requests of this sort.
    #[must_use]
    pub fn of(&self, request: &str) -> Option<&RequestAnswer> {
        self.newest.iter().find(|answer| answer.request == request)
    }

    /// Finds the newest answer to this very request that has a greater number.
    #[must_use]
    pub fn find_after(&self, number: u64, request: &str, value: &str) -> Option<&RequestAnswer> {
        let is_it = |answer: &&RequestAnswer| answer.number > number && answer.answers(request, value);
        self.newest.iter().chain(self.earlier.iter().rev()).find(is_it)
    }

    /// Says whether this very request was answered, and its annotation is still there.
    #[must_use]
    pub fn is_pending(&self, request: &str, value: &str) -> bool {
        self.of(request).is_some_and(|answer| answer.pending_removal && answer.answers(request, value))
    }

    /// Adds an answer with the next number. It takes the place of the last answer to a request of its sort.
    pub fn record(&mut self, answer: RequestAnswer) {
        let number = self.newest_number() + 1;
        if let Some(index) = self.newest.iter().position(|known| known.request == answer.request) {
            self.earlier.push(RequestAnswer { pending_removal: false, ..self.newest.remove(index) });
        }
        self.newest.push(RequestAnswer { number, ..answer });
        let excess = self.newest.len().saturating_sub(ANSWERS_MAX);
        self.newest.drain(..excess);
        let excess = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..excess);
    }

    /// Takes note of requests whose annotations are gone, or say something else: the next one is another request.
    pub fn close_removed(&mut self, metadata: &ObjectMeta) {
        for answer in self.newest.iter_mut().filter(|answer| answer.pending_removal) {
            let value = metadata.annotation(&answer.request).map(kept_value);
            answer.pending_removal = value == Some(answer.value.as_str());
        }
    }
}

fn kept_value(value: &str) -> &str {
    cut(value, VALUE_BYTES_MAX)
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &str, value: &str) -> RequestAnswer {
        RequestAnswer::new(request, value, RequestOutcome::Done, "done", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_newest_of_each_sort_is_kept_and_the_number_only_grows() {
        let mut answers = RequestAnswers::default();
        assert_eq!((answers.newest_number(), answers.is_empty()), (0, true));
        for value in ["1", "2", "3"] {
            answers.record(answer("a", value));
            answers.record(answer("b", value));
        }
        let kept: Vec<_> = answers.iter().map(|answer| (answer.number, &*answer.request, &*answer.value)).collect();
        assert_eq!(kept, [(5, "a", "3"), (6, "b", "3")]);
        let late = |value| answers.find_after(0, "a", value).map(|answer| answer.number);
        assert_eq!((late("1"), late("3"), late("4")), (Some(1), Some(5), None), "who looks late finds it");
        assert_eq!(answers.find_after(1, "a", "1"), None);
        for number in 0..100 {
            answers.record(answer(&number.to_string(), ""));
        }
        for value in 0..100 {
            answers.record(answer("a", &value.to_string()));
        }
        assert_eq!((answers.iter().count(), answers.newest_number()), (ANSWERS_MAX, 206));
        assert_eq!(answers.earlier.len(), EARLIER_MAX);
    }

    #[test]
    fn a_request_is_the_same_one_until_its_annotation_was_seen_to_be_gone() {
        let mut metadata = ObjectMeta::default();
        metadata.annotations.insert("a".into(), "x".into());
        let mut answers = RequestAnswers::default();
        answers.record(RequestAnswer { pending_removal: true, ..answer("a", "x") });
        answers.close_removed(&metadata);
        assert!(answers.is_pending("a", "x") && !answers.is_pending("a", "y") && !answers.is_pending("b", "x"));
        metadata.annotations.insert("a".into(), "y".into());
        answers.close_removed(&metadata);
        assert!(!answers.is_pending("a", "x"), "another value is another request");
        metadata.annotations.insert("a".into(), "x".into());
        assert!(!answers.is_pending("a", "x"), "and so is the old value once more");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "ä".repeat(1 << 16);
        let kept = RequestAnswer::new("a", &long, RequestOutcome::Refused, &long, Timestamp::UNIX_EPOCH);
        assert!(kept.value.len() <= VALUE_BYTES_MAX && kept.message.len() <= MESSAGE_BYTES_MAX);
        assert!(kept.answers("a", &long), "a long value is recognised");
    }
}
