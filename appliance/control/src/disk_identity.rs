//! Maps between the identity of a disk in the agent's protocol and that of the planner.

use firesteel_plan::DiskIdentity;
use firesteel_wire as wire;

/// Returns the identity of a disk that an agent names.
pub(crate) fn identity(disk: &wire::DiskIdentity) -> DiskIdentity {
    DiskIdentity {
        wwn: disk.wwn.clone(),
        serial: disk.serial.clone(),
        model: disk.model.clone(),
        size_bytes: disk.size_bytes,
        by_path: disk.by_path.clone(),
    }
}
