//! The graph of states: every change that the planner makes, upstream's and our own. Kept as a
//! table so that whoever watches a host (tests, a simulation) can tell a legal change from a bug.

use firesteel_resources::bare_metal_host::ProvisioningState as S;

/// Every change of state that the planner makes, and whose it is.
pub const EDGES: [(S, S, Whose); 34] = [
    (S::New, S::Unmanaged, Whose::Upstream),
    (S::New, S::Registering, Whose::Upstream),
    (S::New, S::Deleting, Whose::Upstream),
    // Also without BMC, when the host's own agent said hello.
    (S::Unmanaged, S::Registering, Whose::Upstream),
    (S::Unmanaged, S::Deleting, Whose::Upstream),
    (S::Registering, S::ExternallyProvisioned, Whose::Upstream),
    (S::Registering, S::Preparing, Whose::Upstream),
    (S::Registering, S::Inspecting, Whose::Upstream),
    (S::Registering, S::Deleting, Whose::Upstream),
    (S::Inspecting, S::Preparing, Whose::Upstream),
    (S::Inspecting, S::PoweringOff, Whose::Upstream),
    (S::Preparing, S::Available, Whose::Upstream),
    (S::Preparing, S::PoweringOff, Whose::Upstream),
    (S::Available, S::ExternallyProvisioned, Whose::Upstream),
    (S::Available, S::Inspecting, Whose::Upstream),
    (S::Available, S::Preparing, Whose::Upstream),
    (S::Available, S::Provisioning, Whose::Upstream),
    (S::Available, S::PoweringOff, Whose::Upstream),
    (S::Provisioning, S::Provisioned, Whose::Upstream),
    (S::Provisioning, S::Deprovisioning, Whose::Upstream),
    // Nothing was written yet, so nothing is cleaned.
    (S::Provisioning, S::Available, Whose::Own),
    (S::Provisioned, S::Deprovisioning, Whose::Upstream),
    (S::ExternallyProvisioned, S::Provisioned, Whose::Upstream),
    (S::ExternallyProvisioned, S::PoweringOff, Whose::Upstream),
    (S::Deprovisioning, S::Available, Whose::Upstream),
    (S::Deprovisioning, S::PoweringOff, Whose::Upstream),
    (S::PoweringOff, S::Deleting, Whose::Upstream),
    // Deleted while detached, or released by force.
    (S::Inspecting, S::Deleting, Whose::Detached),
    (S::Preparing, S::Deleting, Whose::Detached),
    (S::Available, S::Deleting, Whose::Detached),
    (S::Provisioned, S::Deleting, Whose::Detached),
    (S::ExternallyProvisioned, S::Deleting, Whose::Detached),
    (S::Provisioning, S::Deleting, Whose::Detached),
    (S::Deprovisioning, S::Deleting, Whose::Detached),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
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
