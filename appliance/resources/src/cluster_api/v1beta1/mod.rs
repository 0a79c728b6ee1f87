//! The shapes of v1beta1.

pub(crate) mod cluster;
pub(crate) mod machine;
pub(crate) mod machine_set;
mod topology;
