//! The kinds beside a BareMetalHost (S3-5.3 names them companions): what is wanted of the
//! firmware of a host, of its switches, its virtual media and its events.
//!
//! Shapes and rules, upstream's. No controller of this appliance acts on them yet, so that they have no
//! types; each says so at admission and in its status.

pub mod bare_metal_switch;
pub mod bmc_event_subscription;
pub mod data_image;
pub mod firmware_schema;
pub mod host_firmware_components;
pub mod host_firmware_settings;
pub mod host_network_attachment;
pub mod host_update_policy;
pub mod preprovisioning_image;

use crate::condition;
use crate::shape::{Field, Shape};

/// The status of a kind for which upstream has none, or none with conditions: the one condition that says
/// why nothing happens needs a place.
pub(crate) const CONDITIONS_ONLY: Shape =
    Shape::object(&[Field::new("conditions", condition::LIST_SHAPE).about("What is known of it.")]);
