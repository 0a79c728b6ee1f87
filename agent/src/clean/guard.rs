//! What speaks against wiping a disk: what it holds, how it is reached, and what was started from it. Pure.

use super::foreign::{self, Scan};

/// What a disk may have and still be its host's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own<'a> {
    /// Names that the host had under its last systems, and GUIDs of the tables that its installations got.
    pub names: &'a [String],
    /// GUID of the partition that the running agent was loaded from.
    pub loaded_from: Option<&'a str>,
}

/// Pure: what the disk's contents say against it.
#[must_use]
pub fn objections(scan: &Scan, own: Own<'_>) -> Vec<String> {
    let mut objections = Vec::new();
    // Whoever gave the disk this table wrote all of it: what stands there now was made by that installation.
    let is_own = !scan.disk_guid.is_empty() && own.names.iter().any(|name| name.eq_ignore_ascii_case(&scan.disk_guid));
    if !is_own {
        objections.extend(scan.found.iter().filter_map(|found| {
            let why = foreign::objection(&found.holding, own.names)?;
            Some(format!("{}: {why}", found.place))
        }));
    }
    objections.extend(scan.unread.iter().map(|what| format!("nobody knows what it holds, because of {what}")));
    if let Some(guid) = own.loaded_from
        && scan.partition_guids.iter().any(|partition| partition.eq_ignore_ascii_case(guid))
    {
        objections.push(format!("the running agent was loaded from it (partition {guid})"));
    }
    objections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::foreign::{Found, Holding, Kind, Owner};

    const GUID: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";

    fn scan(found: Vec<(&str, Kind, Owner)>) -> Scan {
        let found = found.into_iter().map(|(place, kind, owner)| Found {
            place: place.to_owned(),
            holding: Holding { kind, name: "v".into(), owner, offset: 0 },
        });
        Scan { found: found.collect(), disk_guid: GUID.into(), ..Scan::default() }
    }

    #[test]
    fn what_is_foreign_or_unread_speaks_against_it() {
        let mut scan = scan(vec![
            ("the disk", Kind::Lvm, Owner::Unnamed),
            ("partition 2", Kind::Md, Owner::Host("nas".into())),
            ("partition 3", Kind::Md, Owner::Host("node-1".into())),
        ]);
        scan.unread.push("partition 9: I/O error".into());
        let names = ["node-1".to_owned()];
        let reasons = objections(&scan, Own { names: &names, loaded_from: None });
        assert_eq!(
            reasons,
            [
                "partition 2: it holds md RAID \"v\" of host \"nas\"",
                "nobody knows what it holds, because of partition 9: I/O error",
            ]
        );
    }

    #[test]
    fn an_own_installation_is_no_objection_whatever_it_made() {
        let holds = scan(vec![
            ("partition 4", Kind::Zfs, Owner::Host("x".into())),
            ("partition 5", Kind::Ceph, Owner::Unnamed),
        ]);
        assert_eq!(objections(&holds, Own::default()).len(), 2);
        let names = [GUID.to_ascii_uppercase()];
        assert!(objections(&holds, Own { names: &names, loaded_from: None }).is_empty());
        let bare = Scan { disk_guid: String::new(), ..holds };
        assert_eq!(
            objections(&bare, Own { names: &[String::new()], loaded_from: None }).len(),
            2,
            "no GUID is no mark"
        );
    }

    #[test]
    fn the_medium_of_the_agent_stays_even_where_it_is_an_own_one() {
        let names = [GUID.to_owned()];
        let scan = Scan { partition_guids: vec!["aa".into(), "bb".into()], ..scan(vec![]) };
        assert!(objections(&scan, Own { names: &names, loaded_from: Some("CC") }).is_empty());
        let why = objections(&scan, Own { names: &names, loaded_from: Some("BB") });
        assert_eq!(why, ["the running agent was loaded from it (partition BB)"]);
    }
}
