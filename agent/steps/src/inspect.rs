//! Reads the hardware. Changes nothing.

use firesteel_wire::Evidence;

use super::StepContext;
use crate::bytes_text;

pub(super) fn run(job: &StepContext<'_>) -> Evidence {
    let inventory = job.host.inventory();
    tracing::info!(
        "{} {}: {} CPUs, {} MiB of memory, {} NICs, {} disks",
        inventory.system.manufacturer,
        inventory.system.product,
        inventory.cpu.count,
        inventory.memory.total_mib,
        inventory.nics.len(),
        inventory.disks.len()
    );
    for disk in &inventory.disks {
        tracing::info!(
            "disk {} {} {} serial {:?} at {}",
            disk.device,
            bytes_text(disk.size_bytes),
            disk.model,
            disk.serial,
            disk.by_path
        );
    }
    Evidence::Inspected { inventory }
}
