//! What a bad wire does to one frame. Pure: random by a seed, so that a run can be repeated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::answers::{Answers, LostAnswers};

/// Faults of a wire, as scenario files write them; each direction suffers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LinkFaults {
    /// The number of frames in a thousand that are lost.
    pub loss_permille: u32,
    /// The number of frames in a thousand that arrive twice.
    pub duplicate_permille: u32,
    /// Every frame comes so late, and by up to so much more: then frames overtake each other.
    pub delay_ms: u64,
    pub jitter_ms: u64,
    pub seed: u64,
    /// Connections that end when their request is through.
    pub lost_answers: Option<LostAnswers>,
}

#[derive(Debug)]
pub(super) struct LinkModel {
    faults: LinkFaults,
    state: u64,
    answers: Option<Answers>,
}

impl LinkModel {
    pub(super) fn new(faults: LinkFaults) -> Self {
        Self { faults, state: faults.seed, answers: faults.lost_answers.map(Answers::new) }
    }

    /// How many requests got no answer.
    pub(super) fn lost_answers(&self) -> u32 {
        self.answers.as_ref().map_or(0, Answers::lost)
    }

    /// How late each copy of a frame comes; no copy at all where it is lost.
    pub(super) fn copies(&mut self, from_machine: bool, frame: &[u8]) -> Vec<Duration> {
        if self.answers.as_mut().is_some_and(|answers| !answers.carries(from_machine, frame)) {
            return Vec::new();
        }
        if self.below(1000) < u64::from(self.faults.loss_permille) {
            return Vec::new();
        }
        let count = if self.below(1000) < u64::from(self.faults.duplicate_permille) { 2 } else { 1 };
        (0..count)
            .map(|_| Duration::from_millis(self.faults.delay_ms + self.below(self.faults.jitter_ms + 1)))
            .collect()
    }

    /// A number below `limit` (splitmix64; the limits are small, so the bias is too).
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(faults: LinkFaults) -> Vec<Vec<Duration>> {
        let mut model = LinkModel::new(faults);
        (0..100_000).map(|_| model.copies(true, b"any")).collect()
    }

    #[test]
    fn faults_come_as_often_as_they_say_and_alike_for_one_seed() {
        let faults = LinkFaults {
            loss_permille: 50,
            duplicate_permille: 20,
            delay_ms: 3,
            jitter_ms: 4,
            seed: 9,
            lost_answers: None,
        };
        let frames = run(faults);
        assert_eq!(frames, run(faults));
        assert_ne!(frames, run(LinkFaults { seed: 10, ..faults }));
        let with = |copies: usize| frames.iter().filter(|frame| frame.len() == copies).count();
        assert!((4_500..5_500).contains(&with(0)), "{}", with(0));
        assert!((1_700..2_100).contains(&with(2)), "{}", with(2));
        assert!(frames.iter().flatten().all(|delay| (3..=7).contains(&delay.as_millis())));
        assert!(run(LinkFaults::default()).iter().all(|frame| *frame == [Duration::ZERO]));
        assert!(run(LinkFaults { loss_permille: 1000, ..LinkFaults::default() }).iter().all(Vec::is_empty));
    }
}
