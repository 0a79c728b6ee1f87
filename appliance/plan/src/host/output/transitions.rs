//! The graph of states: every change that the planner makes, upstream's and our own. The table
//! lets an observer of a host (a test, a simulation) tell a legal change from a bug.

use firesteel_resources::bare_metal_host::ProvisioningState as S;

/// Every change of state that the planner makes, and whose it is.
pub const EDGES: [(S, S, TransitionOwner); 34] = [
    (S::New, S::Unmanaged, TransitionOwner::Upstream),
    (S::New, S::Registering, TransitionOwner::Upstream),
    (S::New, S::Deleting, TransitionOwner::Upstream),
    // Also without BMC, when the host's own agent said hello.
    (S::Unmanaged, S::Registering, TransitionOwner::Upstream),
    (S::Unmanaged, S::Deleting, TransitionOwner::Upstream),
    (S::Registering, S::ExternallyProvisioned, TransitionOwner::Upstream),
    (S::Registering, S::Preparing, TransitionOwner::Upstream),
    (S::Registering, S::Inspecting, TransitionOwner::Upstream),
    (S::Registering, S::Deleting, TransitionOwner::Upstream),
    (S::Inspecting, S::Preparing, TransitionOwner::Upstream),
    (S::Inspecting, S::PoweringOff, TransitionOwner::Upstream),
    (S::Preparing, S::Available, TransitionOwner::Upstream),
    (S::Preparing, S::PoweringOff, TransitionOwner::Upstream),
    (S::Available, S::ExternallyProvisioned, TransitionOwner::Upstream),
    (S::Available, S::Inspecting, TransitionOwner::Upstream),
    (S::Available, S::Preparing, TransitionOwner::Upstream),
    (S::Available, S::Provisioning, TransitionOwner::Upstream),
    (S::Available, S::PoweringOff, TransitionOwner::Upstream),
    (S::Provisioning, S::Provisioned, TransitionOwner::Upstream),
    (S::Provisioning, S::Deprovisioning, TransitionOwner::Upstream),
    // Nothing was written yet, so nothing is cleaned.
    (S::Provisioning, S::Available, TransitionOwner::Own),
    (S::Provisioned, S::Deprovisioning, TransitionOwner::Upstream),
    (S::ExternallyProvisioned, S::Provisioned, TransitionOwner::Upstream),
    (S::ExternallyProvisioned, S::PoweringOff, TransitionOwner::Upstream),
    (S::Deprovisioning, S::Available, TransitionOwner::Upstream),
    (S::Deprovisioning, S::PoweringOff, TransitionOwner::Upstream),
    (S::PoweringOff, S::Deleting, TransitionOwner::Upstream),
    // Deleted while detached, or released by force.
    (S::Inspecting, S::Deleting, TransitionOwner::Detached),
    (S::Preparing, S::Deleting, TransitionOwner::Detached),
    (S::Available, S::Deleting, TransitionOwner::Detached),
    (S::Provisioned, S::Deleting, TransitionOwner::Detached),
    (S::ExternallyProvisioned, S::Deleting, TransitionOwner::Detached),
    (S::Provisioning, S::Deleting, TransitionOwner::Detached),
    (S::Deprovisioning, S::Deleting, TransitionOwner::Detached),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionOwner {
    Upstream,
    Own,
    /// Upstream's `* -> deleting`.
    Detached,
}

/// Whether the planner makes this change, or none.
#[must_use]
pub fn is_legal(from: S, to: S) -> bool {
    from == to || EDGES.iter().any(|(a, b, _)| (*a, *b) == (from, to))
}
