//! The answers to requests: who asked for something gets a word for it, in the host's journal. A request by annotation
//! is answered once, also where the removal of its annotation was lost.

use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::{RequestAnswer, RequestOutcome};

use crate::host::model::HostEffect;
use crate::host::turn::{StepDraft, gate};

impl StepDraft<'_> {
    /// Removes an annotation, as long as it says what it says in this step.
    pub(crate) fn remove_annotation(&mut self, key: &str) {
        let Some(value) = self.seen.host.metadata.annotation(key) else { return };
        self.effect(HostEffect::RemoveAnnotation { key: key.to_owned(), value: value.to_owned() });
    }

    /// Takes a one-shot request off the host. `None` where there is none, and where it was answered already.
    pub(crate) fn take_request(&mut self, key: &str) -> Option<String> {
        let value = self.seen.host.metadata.annotation(key)?.to_owned();
        self.remove_annotation(key);
        (!self.answers.is_pending(key, &value)).then_some(value)
    }

    /// Answers a one-shot request, whose annotation is removed in this step; once.
    pub(crate) fn answer(&mut self, key: &str, outcome: RequestOutcome, message: &str) {
        let Some(value) = self.seen.host.metadata.annotation(key) else { return };
        if !self.answers.is_pending(key, value) {
            let answer = RequestAnswer::new(key, value, outcome, message, self.now);
            self.answers.record(RequestAnswer { pending_removal: true, ..answer });
        }
    }

    /// Answers a request that is no one-shot annotation.
    pub(crate) fn answer_to(&mut self, request: &str, value: &str, outcome: RequestOutcome, message: &str) {
        self.answers.record(RequestAnswer::new(request, value, outcome, message, self.now));
    }

    /// Says of a request that was accepted what came of it.
    pub(crate) fn conclude(&mut self, key: &str, outcome: RequestOutcome, message: &str) {
        let is_accepted = |answer: &&RequestAnswer| answer.outcome == RequestOutcome::Accepted;
        let Some(last) = self.answers.of(key).filter(is_accepted).cloned() else { return };
        let answer = RequestAnswer::new(key, &last.value, outcome, message, self.now);
        self.answers.record(RequestAnswer { pending_removal: last.pending_removal, ..answer });
    }

    /// Drops a reboot that was accepted and comes to nothing.
    pub(crate) fn drop_reboot(&mut self, why: &str) {
        if self.memory.reboot.take().is_some() {
            self.conclude(annotations::REBOOT, RequestOutcome::Refused, &format!("the host was not rebooted: {why}"));
        }
    }

    /// Adds to an answer what shuts the gate before changes of the host's disks.
    pub(crate) fn with_gate(&self, text: &str) -> String {
        match gate::closed_gate(&self.memory, self.seen) {
            Some(shut) => format!("{text}; its disks wait: {}", shut.text),
            None => text.to_owned(),
        }
    }

    /// Adds to an answer why no disk of the host is changed for now: the gate, and a freeze.
    pub(crate) fn with_obstacles(&self, text: &str) -> String {
        let text = self.with_gate(text);
        match &self.memory.frozen {
            Some(frozen) => format!("{text}; the host is frozen: {}", frozen.message),
            None => text,
        }
    }
}
