//! What speaks against wiping a disk, besides its contents: how it is reached, and what was started from it. Adds that
//! to a scan, so that one judge ([`firesteel_contents::objections`]) has it all. Pure.

use firesteel_contents::DiskContents;
use firesteel_wire::InventoryDisk;

use super::disk_access::{self, DiskAccess};
use super::foreign::Scan;

/// The contents with all that speaks against the disk. `all` are the host's disks; `loaded_from` is the GUID of the
/// partition that the running agent was loaded from.
#[must_use]
pub fn contents(
    scan: &Scan,
    disk: &InventoryDisk,
    reached: &DiskAccess,
    all: &[InventoryDisk],
    loaded_from: Option<&str>,
) -> DiskContents {
    let mut contents = scan.contents.clone();
    contents.barred = disk_access::several_paths(disk, reached, all);
    contents.attached = disk_access::attachment(disk, reached);
    if let Some(guid) = loaded_from
        && scan.partition_guids.iter().any(|partition| partition.eq_ignore_ascii_case(guid))
    {
        contents.barred.push(format!("the running agent was loaded from it (partition {guid})"));
    }
    contents
}

#[cfg(test)]
mod tests {
    use firesteel_contents::{OwnershipClaim, objections};

    use super::*;

    #[test]
    fn the_medium_of_the_agent_stays_even_where_it_is_an_own_one() {
        const GUID: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";
        let names = [GUID.to_owned()];
        let mut scan = Scan { partition_guids: vec!["aa".into(), "bb".into()], ..Scan::default() };
        scan.contents.guid = GUID.into();
        let reasons = |loaded_from: &str| {
            let disk = InventoryDisk::default();
            let contents = contents(&scan, &disk, &DiskAccess::default(), &[], Some(loaded_from));
            objections(&contents, OwnershipClaim { names: &names, was_vacant: true, is_named: true })
        };
        assert!(reasons("CC").is_empty());
        assert_eq!(reasons("BB"), ["the running agent was loaded from it (partition BB)"]);
    }
}
