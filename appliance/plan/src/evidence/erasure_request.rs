//! Whether a plan asks for what a receipt says of a disk.

use crate::{DiskIdentity, host::PlanKind};

/// What a receipt says was done to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskWork {
    Cleared,
    Erased,
    Written,
}

/// Decides whether a plan asks for this work on this disk, in the step at this place.
#[must_use]
pub fn asks(plan: &PlanKind, index: u32, work: DiskWork, disk: &DiskIdentity) -> bool {
    match plan {
        PlanKind::Write(write) => {
            write.disk == *disk && matches!((index, work), (0, DiskWork::Cleared) | (1, DiskWork::Written))
        }
        PlanKind::Clean { disk: named } => named == disk && (index, work) == (0, DiskWork::Cleared),
        PlanKind::Erase(erase) => {
            let named = usize::try_from(index).ok().and_then(|index| erase.disks.get(index));
            named == Some(disk) && work == DiskWork::Erased
        }
        PlanKind::Inspect | PlanKind::Reboot | PlanKind::PowerOff => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CleaningMethod, NextOwner};
    use crate::host::{ErasePlan, ReadyImage, WritePlan};

    fn disk(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), ..DiskIdentity::default() }
    }

    #[test]
    fn a_receipt_is_of_the_kind_and_disk_that_its_step_asks_for() {
        use DiskWork::{Cleared, Erased, Written};
        let write = PlanKind::Write(WritePlan {
            disk: disk("A"),
            disk_guid: "g".into(),
            image: ReadyImage::default(),
            user_data_sha256: None,
            configs: Vec::new(),
            override_guards: false,
        });
        let clean = PlanKind::Clean { disk: disk("A") };
        let erase = PlanKind::Erase(ErasePlan {
            disks: vec![disk("A"), disk("B")],
            method: CleaningMethod::Full,
            next: NextOwner::Another,
            own_names: Vec::new(),
            overridden: Vec::new(),
            named: Vec::new(),
        });
        for (plan, index, work, serial, is_asked) in [
            (&write, 0, Cleared, "A", true),
            (&write, 1, Written, "A", true),
            (&write, 1, Cleared, "A", false),
            (&write, 0, Erased, "A", false),
            (&write, 1, Written, "B", false),
            (&clean, 0, Cleared, "A", true),
            (&clean, 1, Cleared, "A", false),
            (&clean, 0, Erased, "A", false),
            (&erase, 0, Erased, "A", true),
            (&erase, 1, Erased, "B", true),
            (&erase, 0, Erased, "B", false),
            (&erase, 2, Erased, "A", false),
            (&erase, 0, Cleared, "A", false),
            (&PlanKind::Inspect, 0, Cleared, "A", false),
        ] {
            assert_eq!(asks(plan, index, work, &disk(serial)), is_asked, "{plan:?} {index} {work:?} {serial}");
        }
    }
}
