//! Leaf types of Kubernetes that several crates share: one type for each, with Kubernetes' field names. The kinds
//! (`firesteel_resources`) and the API (`firesteel_kube`) both use them.
//!
//! Nothing here knows a kind, a store or HTTP.

mod cause;
mod meta;
mod scale;

pub use cause::{Cause, CauseReason, summary};
pub use meta::{ObjectMeta, ObjectReference, OwnerReference, SecretReference};
pub use scale::ScaleSubresource;
