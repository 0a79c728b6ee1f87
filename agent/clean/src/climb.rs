//! The way up the ladder: after each outcome the next move. Pure; [`super::perform`] makes the moves.
//!
//! A rung counts only after [`Move::Prove`] said that nothing of before is left. What fell or lied leads
//! to the next rung, with new canaries, or to [`Move::Stop`]: never to [`Move::Done`].

use firesteel_wire::erasure::{Grade, LeftOut, Samples, Tried};

use super::{
    ladder::{Abilities, Ladder, Method, Policy},
    proof::Verdict,
};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A sanitize that began before this climb runs: poll it to its end.
    Await,
    /// It ended well: see whether every sample is blank. There is nothing from before to compare with.
    CheckBlank,
    /// Take samples and write canaries, on the medium.
    Plant,
    Erase(Method),
    /// Read samples and canaries back from the medium.
    Prove(Method),
    Done(Done),
    /// Nothing was proven; why, in words.
    Stop(String),
}

/// How a rung did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fall {
    /// The drive refused or gave up, and takes other commands.
    Fell(String),
    /// The drive is at something, or in a state, in which nothing else may be begun.
    Stuck(String),
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of [`Move::Await`]: the drive's log, or how it ended.
    Awaited(Result<String, Fall>),
    /// Of [`Move::CheckBlank`] and [`Move::Prove`].
    Looked(Verdict),
    /// Of [`Move::Plant`].
    Planted(Result<(), String>),
    /// Of [`Move::Erase`]: the drive's log.
    Erased(Result<String, Fall>),
}

/// The end that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// `None`: a sanitize that somebody began before this climb; the drive does not say which.
    pub method: Option<Method>,
    pub grade: Grade,
    /// What the drive said, empty for the kernel's methods.
    pub log: String,
    pub samples: Samples,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Awaiting,
    CheckingBlank { log: String },
    Planting,
    Erasing,
    Proving { log: String },
    Done(Done),
    Stopped(String),
}

/// Where one disk stands on its ladder.
#[derive(Clone, Debug)]
pub struct Climb {
    rungs: Vec<Method>,
    at: usize,
    stage: Stage,
    rotational: bool,
    policy: Policy,
    /// Every method that was tried, in order.
    pub tried: Vec<Tried>,
    pub left_out: Vec<LeftOut>,
}

impl Climb {
    #[must_use]
    pub fn new(ladder: Ladder, abilities: &Abilities, policy: Policy) -> Self {
        let mut climb = Self {
            rungs: ladder.rungs,
            at: 0,
            stage: Stage::Awaiting,
            rotational: abilities.rotational,
            policy,
            tried: Vec::new(),
            left_out: ladder.left_out,
        };
        if let Some(why) = &abilities.closed {
            climb.stage = Stage::Stopped(why.clone());
        } else if !abilities.busy {
            climb.stage = climb.first_of_rung();
        }
        climb
    }

    /// A drive that was busy can say more of itself once it has ended: takes what it says then, before
    /// the first rung was tried.
    pub fn relearn(&mut self, ladder: Ladder, abilities: &Abilities) {
        if self.at > 0 {
            return;
        }
        self.rungs = ladder.rungs;
        self.left_out = ladder.left_out;
        self.rotational = abilities.rotational;
        let is_quick = self.rungs.first().is_some_and(|method| method.is_quick());
        if is_quick && matches!(self.stage, Stage::CheckingBlank { .. }) {
            // A disk that was mostly blank before proves little by being blank: canaries are worth minutes.
            let why = "ended; it had no canaries, so another one follows".to_owned();
            self.tried.push(tried("sanitize begun before", why, false));
            self.stage = Stage::Planting;
        }
        if matches!(self.stage, Stage::Planting | Stage::Erasing) {
            self.stage = abilities.closed.clone().map_or_else(|| self.first_of_rung(), Stage::Stopped);
        }
    }

    /// The move that is due now.
    #[must_use]
    pub fn due(&self) -> Move {
        let method = self.rungs.get(self.at).copied();
        match (&self.stage, method) {
            (Stage::Awaiting, _) => Move::Await,
            (Stage::CheckingBlank { .. }, _) => Move::CheckBlank,
            (Stage::Done(done), _) => Move::Done(done.clone()),
            (Stage::Stopped(why), _) => Move::Stop(why.clone()),
            (Stage::Planting | Stage::Erasing | Stage::Proving { .. }, None) => Move::Stop(self.exhausted()),
            (Stage::Planting, Some(_)) => Move::Plant,
            (Stage::Erasing, Some(method)) => Move::Erase(method),
            (Stage::Proving { .. }, Some(method)) => Move::Prove(method),
        }
    }

    /// Takes what became of the move that was due.
    pub fn take(&mut self, outcome: Outcome) {
        let method = self.rungs.get(self.at).copied();
        let stage = std::mem::replace(&mut self.stage, Stage::Stopped("moves came out of order".to_owned()));
        self.stage = match (stage, outcome, method) {
            (Stage::Awaiting, Outcome::Awaited(ended), _) => self.awaited(ended),
            (Stage::CheckingBlank { log }, Outcome::Looked(verdict), _) => self.looked_blank(log, verdict),
            (Stage::Planting, Outcome::Planted(Ok(())), _) => Stage::Erasing,
            (Stage::Planting, Outcome::Planted(Err(why)), _) => {
                Stage::Stopped(format!("an erasure of this disk cannot be proven, so none was begun: {why}"))
            }
            (Stage::Erasing, Outcome::Erased(ended), Some(method)) => self.erased(method, ended),
            (Stage::Proving { log }, Outcome::Looked(verdict), Some(method)) => self.looked(method, log, verdict),
            // What has ended stays ended.
            (stage @ (Stage::Done(_) | Stage::Stopped(_)), _, _) => stage,
            (
                Stage::Awaiting
                | Stage::CheckingBlank { .. }
                | Stage::Planting
                | Stage::Erasing
                | Stage::Proving { .. },
                _,
                _,
            ) => Stage::Stopped("moves came out of order".to_owned()),
        };
    }

    /// Clearing metadata brings its own read-back and needs no canaries.
    fn first_of_rung(&self) -> Stage {
        if self.rungs.get(self.at) == Some(&Method::Metadata) { Stage::Erasing } else { Stage::Planting }
    }

    fn awaited(&mut self, ended: Result<String, Fall>) -> Stage {
        match ended {
            Ok(_) if self.policy == Policy::Metadata => self.first_of_rung(),
            Ok(log) => Stage::CheckingBlank { log },
            Err(Fall::Fell(why)) => {
                self.tried.push(tried("sanitize begun before", why, false));
                self.first_of_rung()
            }
            Err(Fall::Stuck(why)) => {
                self.tried.push(tried("sanitize begun before", why.clone(), false));
                Stage::Stopped(why)
            }
        }
    }

    /// Hours of overwriting count when all is blank; anything else only says that it must be done again.
    fn looked_blank(&mut self, log: String, verdict: Verdict) -> Stage {
        match verdict {
            Verdict::Gone(samples) => {
                self.tried.push(tried("sanitize begun before", "done".to_owned(), false));
                Stage::Done(Done { method: None, grade: Grade::Purge, log, samples })
            }
            Verdict::Left(why) | Verdict::Unread(why) => {
                let why = format!("ended, and what it left proves nothing: {why}");
                self.tried.push(tried("sanitize begun before", why, false));
                self.first_of_rung()
            }
        }
    }

    fn erased(&mut self, method: Method, ended: Result<String, Fall>) -> Stage {
        match ended {
            Ok(log) if method == Method::Metadata => self.done(method, log, Samples::default()),
            Ok(log) => Stage::Proving { log },
            Err(Fall::Fell(why)) => self.next_rung(method, why, false),
            Err(Fall::Stuck(why)) => {
                self.tried.push(tried(method.name(), why.clone(), false));
                Stage::Stopped(format!("{method}: {why}"))
            }
        }
    }

    fn looked(&mut self, method: Method, log: String, verdict: Verdict) -> Stage {
        match verdict {
            Verdict::Gone(samples) => self.done(method, log, samples),
            Verdict::Left(why) => self.next_rung(method, format!("reported success, but {why}"), true),
            Verdict::Unread(why) => self.next_rung(method, format!("could not be verified: {why}"), false),
        }
    }

    fn done(&mut self, method: Method, log: String, samples: Samples) -> Stage {
        let mut grade = method.grade(self.rotational);
        if self.tried.iter().any(|tried| tried.lied) {
            // What cannot be read back rests on the word of a drive that was caught lying.
            grade = grade.min(Grade::Clear);
        }
        self.tried.push(tried(method.name(), "done".to_owned(), false));
        Stage::Done(Done { method: Some(method), grade, log, samples })
    }

    fn next_rung(&mut self, method: Method, why: String, lied: bool) -> Stage {
        self.tried.push(tried(method.name(), why, lied));
        self.at += 1;
        if self.at < self.rungs.len() { self.first_of_rung() } else { Stage::Stopped(self.exhausted()) }
    }

    fn exhausted(&self) -> String {
        if self.tried.is_empty() {
            return "no method can be used on this disk".to_owned();
        }
        let each: Vec<String> = self.tried.iter().map(|tried| format!("{}: {}", tried.method, tried.ended)).collect();
        format!("no method erased this disk; {}", each.join("; "))
    }
}

fn tried(method: &str, ended: String, lied: bool) -> Tried {
    Tried { method: method.to_owned(), ended, lied }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::ladder::{self, Offer, Reach};
    use super::*;

    fn abilities(methods: &[Method]) -> Abilities {
        let offer = |&method| Offer { method, reach: Reach::Disk, barred: None };
        Abilities { offers: methods.iter().map(offer).collect(), ..Abilities::default() }
    }

    fn climb(abilities: &Abilities) -> Climb {
        Climb::new(ladder::build(abilities, &BTreeSet::new(), Policy::Full), abilities, Policy::Full)
    }

    fn gone() -> Outcome {
        Outcome::Looked(Verdict::Gone(Samples { read_back: 8, ..Samples::default() }))
    }

    #[test]
    fn a_lie_costs_the_next_rung_its_purge() {
        let mut climb = climb(&abilities(&[Method::SanitizeCrypto, Method::SanitizeBlock]));
        assert_eq!(climb.due(), Move::Plant);
        climb.take(Outcome::Planted(Ok(())));
        assert_eq!(climb.due(), Move::Erase(Method::SanitizeCrypto));
        climb.take(Outcome::Erased(Ok("log".into())));
        assert_eq!(climb.due(), Move::Prove(Method::SanitizeCrypto));
        climb.take(Outcome::Looked(Verdict::Left("3 canaries are left".into())));
        assert_eq!(climb.due(), Move::Plant, "new canaries for each rung");
        climb.take(Outcome::Planted(Ok(())));
        climb.take(Outcome::Erased(Ok("log".into())));
        climb.take(gone());
        let Move::Done(done) = climb.due() else { panic!("{:?}", climb.due()) };
        assert_eq!((done.method, done.grade), (Some(Method::SanitizeBlock), Grade::Clear));
        assert!(climb.tried[0].lied && !climb.tried[1].lied, "{:?}", climb.tried);
    }

    #[test]
    fn a_busy_drive_is_awaited_and_a_stuck_one_stops() {
        let busy = Abilities { busy: true, ..abilities(&[]) };
        let mut ended = climb(&busy);
        assert_eq!(ended.due(), Move::Await);
        ended.take(Outcome::Awaited(Ok("log".into())));
        assert_eq!(ended.due(), Move::CheckBlank);
        let mut full = ended.clone();
        full.take(Outcome::Looked(Verdict::Left("a sector holds data".into())));
        assert_eq!(full.due(), Move::Plant);
        ended.take(gone());
        assert!(matches!(ended.due(), Move::Done(Done { method: None, grade: Grade::Purge, .. })));
        let mut stuck = climb(&busy);
        stuck.take(Outcome::Awaited(Err(Fall::Stuck("no progress".into()))));
        assert_eq!(stuck.due(), Move::Stop("no progress".into()));
    }

    #[test]
    fn what_cannot_be_proven_is_not_begun() {
        let mut climb = climb(&abilities(&[]));
        climb.take(Outcome::Planted(Err("canary 3 was not kept".into())));
        assert!(matches!(climb.due(), Move::Stop(why) if why.contains("none was begun")));
        let closed = Abilities { closed: Some("locked".into()), ..Abilities::default() };
        assert_eq!(super::tests::climb(&closed).due(), Move::Stop("locked".into()));
    }

    fn any_outcome() -> impl Strategy<Value = u8> {
        0_u8..8
    }

    proptest! {
        /// Any outcomes: it ends, and as done only right after a look that found nothing left.
        #[test]
        fn every_climb_ends_and_done_needs_a_proof(
            offered in prop::collection::vec(0_usize..Method::ALL.len(), 0..11),
            busy: bool,
            outcomes in prop::collection::vec(any_outcome(), 80),
        ) {
            let methods: Vec<_> = offered.iter().map(|&index| Method::ALL[index]).collect();
            let mut climb = climb(&Abilities { busy, ..abilities(&methods) });
            let mut proven = false;
            for pick in outcomes {
                let say = |why: &str| why.to_owned();
                let outcome = match (climb.due(), pick) {
                    (Move::Done(_), _) => {
                        prop_assert!(proven);
                        break;
                    }
                    (Move::Stop(_), _) => break,
                    (Move::Await, 0..4) => Outcome::Awaited(Ok(say("log"))),
                    (Move::Await, 4..7) => Outcome::Awaited(Err(Fall::Fell(say("failed")))),
                    (Move::Await, _) => Outcome::Awaited(Err(Fall::Stuck(say("stuck")))),
                    (Move::CheckBlank | Move::Prove(_), 0) => gone(),
                    (Move::CheckBlank | Move::Prove(_), 1..5) => Outcome::Looked(Verdict::Left(say("left"))),
                    (Move::CheckBlank | Move::Prove(_), _) => Outcome::Looked(Verdict::Unread(say("unread"))),
                    (Move::Plant, 0..7) => Outcome::Planted(Ok(())),
                    (Move::Plant, _) => Outcome::Planted(Err(say("not kept"))),
                    (Move::Erase(_), 0..4) => Outcome::Erased(Ok(say("log"))),
                    (Move::Erase(_), 4..7) => Outcome::Erased(Err(Fall::Fell(say("failed")))),
                    (Move::Erase(_), _) => Outcome::Erased(Err(Fall::Stuck(say("stuck")))),
                };
                proven = matches!(outcome, Outcome::Looked(Verdict::Gone(_)));
                climb.take(outcome);
            }
            prop_assert!(matches!(climb.due(), Move::Done(_) | Move::Stop(_)), "{:?}", climb.due());
        }

        /// A caller that mixes the moves up gets a stop.
        #[test]
        fn out_of_order_is_never_done(outcomes in prop::collection::vec(0_u8..3, 1..20)) {
            let mut climb = climb(&abilities(&[Method::SanitizeBlock]));
            for pick in outcomes {
                climb.take(match pick {
                    0 => gone(),
                    1 => Outcome::Awaited(Ok(String::new())),
                    _ => Outcome::Erased(Ok(String::new())),
                });
            }
            prop_assert!(matches!(climb.due(), Move::Stop(_)));
        }
    }
}
