//! What is stored of a host, what is observed of it and what a step returns: data, and what follows from one value alone.
//! Nothing here knows a step.

pub(crate) mod claims;
pub(crate) mod effect;
pub(crate) mod erasure;
pub(crate) mod inputs;
pub(crate) mod known_identity;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod orders;
pub(crate) mod power_cut;
