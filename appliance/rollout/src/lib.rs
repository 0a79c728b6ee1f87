//! Which image a host gets: groups give images to hosts that are not installed, and the boot image policy says which image
//! each set of machines is to have.
//!
//! ```text
//! HostGroup, streams, stubs ─► groups ─► spec.image of hosts that are not installed, status of the groups
//! MachineConfiguration, MachineSets ─► policy ─► golden image of groups, image in templates
//! hosts (from control, by value) ─► where each stands with images
//! ```
//!
//! [`RolloutController`] is both: they ring each other. It needs no other controller: hosts come as
//! [`firesteel_runtime::HostEvent`]s, images from a [`firesteel_runtime::ImageIndex`], and a host is written to while its
//! [`firesteel_runtime::StepLocks`] keep steps of it away.

mod controller;
mod groups;
mod policy;

pub use controller::{RolloutConfig, RolloutController, RolloutSurvey};
