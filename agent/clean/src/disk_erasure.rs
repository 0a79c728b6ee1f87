//! The way up the ladder: after each outcome the next move. Pure; [`super::perform`] makes the moves.
//!
//! A rung counts only after [`ErasureMove::Prove`] found none of the old data. A method that failed or lied leads to
//! the next rung, with new canaries, or to [`ErasureMove::Stop`]: never to [`ErasureMove::Done`].

use firesteel_wire::erasure::{ErasurePolicy, Grade, LeftOut, Samples, TriedMethod};

use super::ladder::{Abilities, ErasureMethod, MethodLadder};
use super::proof::ReadBackVerdict;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErasureMove {
    /// A sanitize that began before this climb runs: poll it to its end.
    Await,
    /// It ended well: see whether every sample is blank. There is nothing from before to compare with.
    CheckBlank,
    /// Take samples and write canaries, on the medium.
    Plant,
    Erase(ErasureMethod),
    /// Read samples and canaries back from the medium.
    Prove(ErasureMethod),
    Done(ProvenErasure),
    /// Nothing was proven; why, in words.
    Stop(String),
}

/// How a rung did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub enum MethodFailure {
    /// The drive refused or gave up, and takes other commands.
    Fell(String),
    /// The drive is at something, or in a state, in which nothing else may be begun.
    Stuck(String),
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// What [`ErasureMove::Await`] brought: the drive's log, or how the sanitize failed.
    Awaited(Result<String, MethodFailure>),
    /// What [`ErasureMove::CheckBlank`] or [`ErasureMove::Prove`] read back.
    Looked(ReadBackVerdict),
    /// Whether [`ErasureMove::Plant`] wrote the canaries.
    Planted(Result<(), MethodFailure>),
    /// What [`ErasureMove::Erase`] brought: the drive's log, or how the method failed.
    Erased(Result<String, MethodFailure>),
}

/// The end that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenErasure {
    /// The method that erased the disk. `None` stands for a sanitize that was running before this climb: the drive does
    /// not say which one.
    pub method: Option<ErasureMethod>,
    pub grade: Grade,
    /// What the drive said, empty for the kernel's methods.
    pub log: String,
    pub samples: Samples,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ErasureStage {
    Awaiting,
    CheckingBlank { log: String },
    Planting,
    Erasing,
    Proving { log: String },
    Done(ProvenErasure),
    Stopped(String),
}

/// Where one disk stands on its ladder.
#[derive(Clone, Debug)]
pub struct DiskErasure {
    rungs: Vec<ErasureMethod>,
    at: usize,
    stage: ErasureStage,
    rotational: bool,
    policy: ErasurePolicy,
    /// Every method that was tried, in order.
    pub tried: Vec<TriedMethod>,
    pub left_out: Vec<LeftOut>,
}

impl DiskErasure {
    #[must_use]
    pub fn new(ladder: MethodLadder, abilities: &Abilities, policy: ErasurePolicy) -> Self {
        let mut climb = Self {
            rungs: ladder.rungs,
            at: 0,
            stage: ErasureStage::Awaiting,
            rotational: abilities.rotational,
            policy,
            tried: Vec::new(),
            left_out: ladder.left_out,
        };
        if let Some(why) = &abilities.closed {
            climb.stage = ErasureStage::Stopped(why.clone());
        } else if !abilities.busy {
            climb.stage = climb.first_of_rung();
        }
        climb
    }

    /// A drive that was busy can say more of itself once it has ended: takes what it says then, before
    /// the first rung was tried.
    pub fn replace_ladder(&mut self, ladder: MethodLadder, abilities: &Abilities) {
        if self.at > 0 {
            return;
        }
        self.rungs = ladder.rungs;
        self.left_out = ladder.left_out;
        self.rotational = abilities.rotational;
        let is_quick = self.rungs.first().is_some_and(|method| method.is_quick());
        if is_quick && matches!(self.stage, ErasureStage::CheckingBlank { .. }) {
            // A disk that was mostly blank before proves little by being blank: canaries are worth minutes.
            let why = "ended; it had no canaries, so another one follows".to_owned();
            self.tried.push(tried("sanitize begun before", why, false));
            self.stage = ErasureStage::Planting;
        }
        if matches!(self.stage, ErasureStage::Planting | ErasureStage::Erasing) {
            self.stage = abilities.closed.clone().map_or_else(|| self.first_of_rung(), ErasureStage::Stopped);
        }
    }

    /// The move that is due now.
    #[must_use]
    pub fn due(&self) -> ErasureMove {
        let method = self.rungs.get(self.at).copied();
        match (&self.stage, method) {
            (ErasureStage::Awaiting, _) => ErasureMove::Await,
            (ErasureStage::CheckingBlank { .. }, _) => ErasureMove::CheckBlank,
            (ErasureStage::Done(done), _) => ErasureMove::Done(done.clone()),
            (ErasureStage::Stopped(why), _) => ErasureMove::Stop(why.clone()),
            (ErasureStage::Planting | ErasureStage::Erasing | ErasureStage::Proving { .. }, None) => {
                ErasureMove::Stop(self.exhausted())
            }
            (ErasureStage::Planting, Some(_)) => ErasureMove::Plant,
            (ErasureStage::Erasing, Some(method)) => ErasureMove::Erase(method),
            (ErasureStage::Proving { .. }, Some(method)) => ErasureMove::Prove(method),
        }
    }

    /// Takes what became of the move that was due.
    pub fn take(&mut self, outcome: MoveOutcome) {
        let method = self.rungs.get(self.at).copied();
        let stage = std::mem::replace(&mut self.stage, ErasureStage::Stopped("moves came out of order".to_owned()));
        self.stage = match (stage, outcome, method) {
            (ErasureStage::Awaiting, MoveOutcome::Awaited(ended), _) => self.awaited(ended),
            (ErasureStage::CheckingBlank { log }, MoveOutcome::Looked(verdict), _) => {
                self.after_blank_check(log, verdict)
            }
            (ErasureStage::Planting, MoveOutcome::Planted(Ok(())), _) => ErasureStage::Erasing,
            (ErasureStage::Planting, MoveOutcome::Planted(Err(why)), _) => {
                ErasureStage::Stopped(format!("an erasure of this disk cannot be proven, so none was begun: {why}"))
            }
            (ErasureStage::Erasing, MoveOutcome::Erased(ended), Some(method)) => self.erased(method, ended),
            (ErasureStage::Proving { log }, MoveOutcome::Looked(verdict), Some(method)) => {
                self.after_read_back(method, log, verdict)
            }
            // What has ended stays ended.
            (stage @ (ErasureStage::Done(_) | ErasureStage::Stopped(_)), _, _) => stage,
            (
                ErasureStage::Awaiting
                | ErasureStage::CheckingBlank { .. }
                | ErasureStage::Planting
                | ErasureStage::Erasing
                | ErasureStage::Proving { .. },
                _,
                _,
            ) => ErasureStage::Stopped("moves came out of order".to_owned()),
        };
    }

    /// Clearing metadata brings its own read-back and needs no canaries.
    fn first_of_rung(&self) -> ErasureStage {
        if self.rungs.get(self.at) == Some(&ErasureMethod::Metadata) {
            ErasureStage::Erasing
        } else {
            ErasureStage::Planting
        }
    }

    fn awaited(&mut self, ended: Result<String, MethodFailure>) -> ErasureStage {
        match ended {
            Ok(_) if self.policy == ErasurePolicy::Metadata => self.first_of_rung(),
            Ok(log) => ErasureStage::CheckingBlank { log },
            Err(MethodFailure::Fell(why)) => {
                self.tried.push(tried("sanitize begun before", why, false));
                self.first_of_rung()
            }
            Err(MethodFailure::Stuck(why)) => {
                self.tried.push(tried("sanitize begun before", why.clone(), false));
                ErasureStage::Stopped(why)
            }
        }
    }

    /// Hours of overwriting count when all is blank; anything else only says that it must be done again.
    fn after_blank_check(&mut self, log: String, verdict: ReadBackVerdict) -> ErasureStage {
        match verdict {
            ReadBackVerdict::Gone(samples) => {
                self.tried.push(tried("sanitize begun before", "done".to_owned(), false));
                ErasureStage::Done(ProvenErasure { method: None, grade: Grade::Purge, log, samples })
            }
            ReadBackVerdict::Left(why) | ReadBackVerdict::Unread(why) => {
                let why = format!("ended, and what it left proves nothing: {why}");
                self.tried.push(tried("sanitize begun before", why, false));
                self.first_of_rung()
            }
        }
    }

    fn erased(&mut self, method: ErasureMethod, ended: Result<String, MethodFailure>) -> ErasureStage {
        match ended {
            Ok(log) if method == ErasureMethod::Metadata => self.done(method, log, Samples::default()),
            Ok(log) => ErasureStage::Proving { log },
            Err(MethodFailure::Fell(why)) => self.next_rung(method, why, false),
            Err(MethodFailure::Stuck(why)) => {
                self.tried.push(tried(method.name(), why.clone(), false));
                ErasureStage::Stopped(format!("{method}: {why}"))
            }
        }
    }

    fn after_read_back(&mut self, method: ErasureMethod, log: String, verdict: ReadBackVerdict) -> ErasureStage {
        match verdict {
            ReadBackVerdict::Gone(samples) => self.done(method, log, samples),
            ReadBackVerdict::Left(why) => self.next_rung(method, format!("reported success, but {why}"), true),
            ReadBackVerdict::Unread(why) => self.next_rung(method, format!("could not be verified: {why}"), false),
        }
    }

    fn done(&mut self, method: ErasureMethod, log: String, samples: Samples) -> ErasureStage {
        let mut grade = method.grade(self.rotational);
        if self.tried.iter().any(|tried| tried.lied) {
            // What cannot be read back rests on the word of a drive that was caught lying.
            grade = grade.min(Grade::Clear);
        }
        self.tried.push(tried(method.name(), "done".to_owned(), false));
        ErasureStage::Done(ProvenErasure { method: Some(method), grade, log, samples })
    }

    fn next_rung(&mut self, method: ErasureMethod, why: String, lied: bool) -> ErasureStage {
        self.tried.push(tried(method.name(), why, lied));
        self.at += 1;
        if self.at < self.rungs.len() { self.first_of_rung() } else { ErasureStage::Stopped(self.exhausted()) }
    }

    fn exhausted(&self) -> String {
        let each: Vec<String> = self.tried.iter().map(|tried| format!("{}: {}", tried.method, tried.ended)).collect();
        format!("no method erased this disk; {}", each.join("; "))
    }
}

fn tried(method: &str, ended: String, lied: bool) -> TriedMethod {
    TriedMethod { method: method.to_owned(), ended, lied }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::ladder::{self, EraseReach, MethodOffer};
    use super::*;

    fn abilities(methods: &[ErasureMethod]) -> Abilities {
        let offer = |&method| MethodOffer { method, reach: EraseReach::Disk, barred: None };
        Abilities { offers: methods.iter().map(offer).collect(), ..Abilities::default() }
    }

    fn climb(abilities: &Abilities) -> DiskErasure {
        DiskErasure::new(
            ladder::build(abilities, &BTreeSet::new(), ErasurePolicy::Full),
            abilities,
            ErasurePolicy::Full,
        )
    }

    fn gone() -> MoveOutcome {
        MoveOutcome::Looked(ReadBackVerdict::Gone(Samples { read_back: 8, ..Samples::default() }))
    }

    #[test]
    fn a_lie_costs_the_next_rung_its_purge() {
        let mut climb = climb(&abilities(&[ErasureMethod::SanitizeCrypto, ErasureMethod::SanitizeBlock]));
        assert_eq!(climb.due(), ErasureMove::Plant);
        climb.take(MoveOutcome::Planted(Ok(())));
        assert_eq!(climb.due(), ErasureMove::Erase(ErasureMethod::SanitizeCrypto));
        climb.take(MoveOutcome::Erased(Ok("log".into())));
        assert_eq!(climb.due(), ErasureMove::Prove(ErasureMethod::SanitizeCrypto));
        climb.take(MoveOutcome::Looked(ReadBackVerdict::Left("3 canaries are left".into())));
        assert_eq!(climb.due(), ErasureMove::Plant, "new canaries for each rung");
        climb.take(MoveOutcome::Planted(Ok(())));
        climb.take(MoveOutcome::Erased(Ok("log".into())));
        climb.take(gone());
        let ErasureMove::Done(done) = climb.due() else { panic!("{:?}", climb.due()) };
        assert_eq!((done.method, done.grade), (Some(ErasureMethod::SanitizeBlock), Grade::Clear));
        assert!(climb.tried[0].lied && !climb.tried[1].lied, "{:?}", climb.tried);
    }

    #[test]
    fn a_busy_drive_is_awaited_and_a_stuck_one_stops() {
        let busy = Abilities { busy: true, ..abilities(&[]) };
        let mut ended = climb(&busy);
        assert_eq!(ended.due(), ErasureMove::Await);
        ended.take(MoveOutcome::Awaited(Ok("log".into())));
        assert_eq!(ended.due(), ErasureMove::CheckBlank);
        let mut full = ended.clone();
        full.take(MoveOutcome::Looked(ReadBackVerdict::Left("a sector holds data".into())));
        assert_eq!(full.due(), ErasureMove::Plant);
        ended.take(gone());
        assert!(matches!(ended.due(), ErasureMove::Done(ProvenErasure { method: None, grade: Grade::Purge, .. })));
        let mut stuck = climb(&busy);
        stuck.take(MoveOutcome::Awaited(Err(MethodFailure::Stuck("no progress".into()))));
        assert_eq!(stuck.due(), ErasureMove::Stop("no progress".into()));
    }

    #[test]
    fn what_cannot_be_proven_is_not_begun() {
        let mut climb = climb(&abilities(&[]));
        climb.take(MoveOutcome::Planted(Err(MethodFailure::Fell("canary 3 was not kept".into()))));
        assert!(matches!(climb.due(), ErasureMove::Stop(why) if why.contains("none was begun")));
        let closed = Abilities { closed: Some("locked".into()), ..Abilities::default() };
        assert_eq!(super::tests::climb(&closed).due(), ErasureMove::Stop("locked".into()));
    }

    /// The words reach the host's error: a person reads there how each method ended.
    #[test]
    fn the_end_of_the_ladder_says_how_each_method_ended() {
        let mut climb = climb(&abilities(&[ErasureMethod::SanitizeBlock]));
        for why in ["the drive refused it", "an I/O error at byte 0"] {
            climb.take(MoveOutcome::Planted(Ok(())));
            climb.take(MoveOutcome::Erased(Err(MethodFailure::Fell(why.into()))));
        }
        let ErasureMove::Stop(why) = climb.due() else { panic!("{:?}", climb.due()) };
        let methods = "sanitize-block: the drive refused it; overwrite: an I/O error at byte 0";
        assert_eq!(why, format!("no method erased this disk; {methods}"));
    }

    fn any_outcome() -> impl Strategy<Value = u8> {
        0_u8..8
    }

    proptest! {
        /// Any outcomes: it ends, and as done only right after a look that found nothing left.
        #[test]
        fn every_climb_ends_and_done_needs_a_proof(
            offered in prop::collection::vec(0_usize..ErasureMethod::ALL.len(), 0..11),
            busy: bool,
            outcomes in prop::collection::vec(any_outcome(), 80),
        ) {
            let methods: Vec<_> = offered.iter().map(|&index| ErasureMethod::ALL[index]).collect();
            let mut climb = climb(&Abilities { busy, ..abilities(&methods) });
            let mut proven = false;
            for pick in outcomes {
                let say = |why: &str| why.to_owned();
                let outcome = match (climb.due(), pick) {
                    (ErasureMove::Done(_), _) => {
                        prop_assert!(proven);
                        break;
                    }
                    (ErasureMove::Stop(_), _) => break,
                    (ErasureMove::Await, 0..4) => MoveOutcome::Awaited(Ok(say("log"))),
                    (ErasureMove::Await, 4..7) => MoveOutcome::Awaited(Err(MethodFailure::Fell(say("failed")))),
                    (ErasureMove::Await, _) => MoveOutcome::Awaited(Err(MethodFailure::Stuck(say("stuck")))),
                    (ErasureMove::CheckBlank | ErasureMove::Prove(_), 0) => gone(),
                    (ErasureMove::CheckBlank | ErasureMove::Prove(_), 1..5) => {
                        MoveOutcome::Looked(ReadBackVerdict::Left(say("left")))
                    }
                    (ErasureMove::CheckBlank | ErasureMove::Prove(_), _) => {
                        MoveOutcome::Looked(ReadBackVerdict::Unread(say("unread")))
                    }
                    (ErasureMove::Plant, 0..7) => MoveOutcome::Planted(Ok(())),
                    (ErasureMove::Plant, _) => MoveOutcome::Planted(Err(MethodFailure::Fell(say("not kept")))),
                    (ErasureMove::Erase(_), 0..4) => MoveOutcome::Erased(Ok(say("log"))),
                    (ErasureMove::Erase(_), 4..7) => MoveOutcome::Erased(Err(MethodFailure::Fell(say("failed")))),
                    (ErasureMove::Erase(_), _) => MoveOutcome::Erased(Err(MethodFailure::Stuck(say("stuck")))),
                };
                proven = matches!(outcome, MoveOutcome::Looked(ReadBackVerdict::Gone(_)));
                climb.take(outcome);
            }
            prop_assert!(matches!(climb.due(), ErasureMove::Done(_) | ErasureMove::Stop(_)), "{:?}", climb.due());
        }

        /// A caller that mixes the moves up gets a stop.
        #[test]
        fn out_of_order_is_never_done(outcomes in prop::collection::vec(0_u8..3, 1..20)) {
            let mut climb = climb(&abilities(&[ErasureMethod::SanitizeBlock]));
            for pick in outcomes {
                climb.take(match pick {
                    0 => gone(),
                    1 => MoveOutcome::Awaited(Ok(String::new())),
                    _ => MoveOutcome::Erased(Ok(String::new())),
                });
            }
            prop_assert!(matches!(climb.due(), ErasureMove::Stop(_)));
        }
    }
}
