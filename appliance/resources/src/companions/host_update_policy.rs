//! `HostUpdatePolicy` (metal3.io/v1alpha1): when the firmware of a host may be touched. Named as its
//! host.

use crate::companions::CONDITIONS_ONLY;
use crate::kind::{Kind, METAL3, V1ALPHA1};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    about: "When the firmware of the host of the same name may be changed.",
    without_controller: Some("firmware is neither set nor updated"),
    ..Kind::new(METAL3, V1ALPHA1, "HostUpdatePolicy", "hostupdatepolicies", "hostupdatepolicy", &SHAPE)
};

const WHEN: Shape = Shape::one_of(&["onPreparing", "onReboot"]);

const SPEC: Shape = Shape::object(&[
    Field::new("firmwareSettings", WHEN)
        .about("When settings may be changed: before the host is given out (onPreparing), or whenever it restarts."),
    Field::new("firmwareUpdates", WHEN)
        .about("When firmware may be updated: before the host is given out (onPreparing), or whenever it restarts."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "What is allowed."),
    Field::status(CONDITIONS_ONLY, "What becomes of this object."),
]);
