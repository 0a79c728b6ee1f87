//! Which image a host gets: groups give images to hosts that are not installed, and the boot image policy says which
//! image each set of machines is to have.
//!
//! ```text
//! HostGroup, streams, stubs ─► groups ─► spec.image of hosts that are not installed, status of the groups
//! MachineConfiguration, MachineSets ─► policy ─► golden image of groups, image in templates
//! hosts (from control, by value) ─► where each stands with images
//! ```
//!
//! [`RolloutController`] is both, because they wake each other; the appliance starts it. It needs no other controller
//! and knows neither agents nor BMCs. Hosts come as [`firesteel_runtime::HostEvent`]s, images from a
//! [`firesteel_runtime::ImageIndex`]. It writes to a host while its [`firesteel_runtime::StepLocks`] keep steps of the
//! host away.

mod controller;
mod groups;
mod policy;

pub use controller::{RolloutConfig, RolloutController, RolloutSurvey};
