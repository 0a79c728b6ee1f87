//! Bugs that are put in on purpose, to see that the laws find them. None lives in the product: each
//! is a lie of the world that the product runs in.

use crate::laws::Law;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An agent that does not compare plan and disk.
    CarelessAgent,
    /// An agent that does a step of its plan again.
    ForgetfulAgent,
    /// A medium that loses what it acknowledged when the process dies.
    LostWrites,
    /// A lease book that does not outlive the process.
    ForgottenLeases,
    /// A token that is bound anew.
    Rebinding,
    /// A machine that nobody owns, whose token is forgotten to be bound.
    ForgottenStranger,
    /// An agent whose reports say again what was.
    StaleReports,
    /// A journal that jumps to another state.
    IllegalState,
    /// A journal whose attempt goes back.
    AttemptBack,
    /// A disk that is not what its agent proves.
    FalseReadBack,
    /// A reset that is carried out twice.
    DoubleReset,
    /// Deadlines that never come.
    LostDeadlines,
    /// A config token that does not end.
    EndlessToken,
    /// A receipt that is lost after it was acknowledged.
    LostReceipt,
    /// A status without a word.
    NoReason,
    /// An agent that goes on although the fleet is halted.
    DeafAgent,
    /// Replies that do not say that the fleet is halted.
    SilentReplies,
    /// A journal with a plan that destroys, issued while the fleet is halted.
    PlanBehindGate,
    /// An agent that does not see what a disk is marked with.
    BlindAgent,
    /// An agent that tells nothing of what stands on a disk, and guards nothing.
    GuardlessAgent,
    /// A BMC that shows a host off that stays on, with an agent that forges erasures.
    FalseOff,
}

/// Of a store that is restored from a backup; `restores` plants them.
pub(crate) const RESTORE_BUGS: [(Bug, Law); 1] = [(Bug::BlindAgent, Law::Newer)];

pub(crate) const BUGS: [(Bug, Law); 20] = [
    (Bug::CarelessAgent, Law::PlannedDisk),
    (Bug::ForgetfulAgent, Law::Once),
    (Bug::LostWrites, Law::Durable),
    (Bug::ForgottenLeases, Law::Lease),
    (Bug::Rebinding, Law::Token),
    (Bug::ForgottenStranger, Law::Token),
    (Bug::StaleReports, Law::Forward),
    (Bug::IllegalState, Law::Transition),
    (Bug::AttemptBack, Law::Forward),
    (Bug::FalseReadBack, Law::Evidence),
    (Bug::DoubleReset, Law::Power),
    (Bug::LostDeadlines, Law::Liveness),
    (Bug::EndlessToken, Law::Config),
    (Bug::LostReceipt, Law::Durable),
    (Bug::NoReason, Law::Reason),
    (Bug::DeafAgent, Law::Halted),
    (Bug::SilentReplies, Law::Halted),
    (Bug::PlanBehindGate, Law::Halted),
    (Bug::GuardlessAgent, Law::Guarded),
    (Bug::FalseOff, Law::Grade),
];
