//! The rule: what of a disk's contents speaks against erasing it. Pure.

use super::{ContentOwner, DiskContents, ProtectedContent};

/// What a disk may have and still be its host's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnershipClaim<'a> {
    /// Names that the host had under its last systems, and GUIDs of the tables that its installations got.
    pub names: &'a [String],
    /// The journal says that the disk was blank or this host's own when its present owner got it: whatever that owner
    /// broke or planted since then keeps nothing from being erased, but for what is recognised as a cluster's.
    pub was_vacant: bool,
    /// The owner names this disk, so that how it is attached is no reason to leave it alone.
    pub is_named: bool,
}

impl OwnershipClaim<'_> {
    /// Whether a name is one of this host's: by its first label, in either case.
    fn is_named(&self, host: &str) -> bool {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        self.names.iter().any(|own| !own.is_empty() && short(own) == short(host))
    }

    /// Whether the disk's table has a GUID that an installation of this host gave it.
    fn is_marked(&self, guid: &str) -> bool {
        !guid.is_empty() && self.names.iter().any(|name| name.eq_ignore_ascii_case(guid))
    }
}

/// What the disk's contents say against erasing it, a reason each with its place.
#[must_use]
pub fn objections(contents: &DiskContents, own: OwnershipClaim<'_>) -> Vec<String> {
    let mut reasons = contents.barred.clone();
    if !own.is_named {
        reasons.extend(contents.attached.iter().cloned());
    }
    // The installation that gave the disk this table wrote all of it: what stands there now is its own.
    let is_marked = own.is_marked(&contents.guid);
    if !is_marked {
        let foreign = contents.findings.iter().filter(|finding| is_foreign(finding, own));
        reasons.extend(foreign.map(|finding| format!("{}: it holds {finding}", finding.place)));
    }
    let is_own = is_marked || own.was_vacant;
    let unread = contents.unread.iter().filter(|unread| unread.failed || !is_own);
    reasons.extend(unread.map(|unread| format!("{}: what it holds is not known: {}", unread.place, unread.why)));
    reasons
}

/// Whether this finding stops an erasure on a disk without this host's mark.
#[must_use]
pub fn is_foreign(finding: &ProtectedContent, own: OwnershipClaim<'_>) -> bool {
    let is_named_for_others = match &finding.owner {
        ContentOwner::Unnamed => false,
        ContentOwner::Host(host) => !own.was_vacant && !own.is_named(host),
        ContentOwner::Shared(_) => true,
    };
    finding.kind.is_of_clusters() || is_named_for_others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentKind, Unread};

    const GUID: &str = "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f";

    fn finding(kind: ContentKind, owner: ContentOwner) -> ProtectedContent {
        ProtectedContent { place: "partition 2".into(), kind, name: "v".into(), owner }
    }

    fn holds(findings: Vec<ProtectedContent>) -> DiskContents {
        DiskContents { guid: GUID.into(), findings, ..DiskContents::default() }
    }

    #[test]
    fn clusters_and_strangers_stop_a_wipe_and_a_hosts_own_volumes_do_not() {
        let names = ["node-1.example.org".to_owned(), String::new()];
        let host = |name: &str| ContentOwner::Host(name.to_owned());
        let shared = || ContentOwner::Shared("lock_dlm a:b".into());
        // The last two: on a disk of which nothing is known, and on one that was vacant.
        for (kind, owner, stops, stops_vacant) in [
            (ContentKind::Vmfs, ContentOwner::Unnamed, true, true),
            (ContentKind::Vsan, ContentOwner::Unnamed, true, true),
            (ContentKind::Ceph, ContentOwner::Unnamed, true, true),
            (ContentKind::Zfs, host("node-1"), true, true),
            (ContentKind::Unknown, ContentOwner::Unnamed, true, true),
            (ContentKind::Lvm, ContentOwner::Unnamed, false, false),
            (ContentKind::Lvm, host("NODE-1"), false, false),
            (ContentKind::Lvm, host("node-2"), true, false),
            (ContentKind::Lvm, shared(), true, true),
            (ContentKind::Md, ContentOwner::Unnamed, false, false),
            (ContentKind::Md, host("other"), true, false),
            (ContentKind::Bcache, ContentOwner::Unnamed, false, false),
        ] {
            let contents = holds(vec![finding(kind, owner)]);
            let stop = |was_vacant| {
                !objections(&contents, OwnershipClaim { names: &names, was_vacant, ..OwnershipClaim::default() })
                    .is_empty()
            };
            assert_eq!((stop(false), stop(true)), (stops, stops_vacant), "{:?}", contents.findings);
        }
        let reasons = objections(&holds(vec![finding(ContentKind::Lvm, host("node-2"))]), OwnershipClaim::default());
        assert_eq!(reasons, ["partition 2: it holds LVM \"v\" of host \"node-2\""]);
    }

    #[test]
    fn a_marked_disk_is_its_hosts_whatever_it_made_there() {
        let mut contents = holds(vec![
            finding(ContentKind::Zfs, ContentOwner::Host("x".into())),
            finding(ContentKind::Ceph, ContentOwner::Unnamed),
        ]);
        contents.unread = vec![Unread { place: "the disk".into(), why: "a chain that is cut".into(), failed: false }];
        assert_eq!(objections(&contents, OwnershipClaim::default()).len(), 3);
        let names = [GUID.to_ascii_uppercase()];
        assert!(objections(&contents, OwnershipClaim { names: &names, ..OwnershipClaim::default() }).is_empty());
        contents.guid.clear();
        let names = [String::new()];
        assert_eq!(
            objections(&contents, OwnershipClaim { names: &names, ..OwnershipClaim::default() }).len(),
            3,
            "no GUID is no mark"
        );
    }

    #[test]
    fn what_is_not_understood_stops_unless_its_owner_made_it_and_what_fails_always_stops() {
        let unread = |why: &str, failed| Unread { place: "partition 9".into(), why: why.into(), failed };
        let contents = DiskContents {
            unread: vec![unread("a chain that is cut", false), unread("I/O error", true)],
            ..holds(Vec::new())
        };
        let failed = "partition 9: what it holds is not known: I/O error";
        let cut = "partition 9: what it holds is not known: a chain that is cut";
        assert_eq!(objections(&contents, OwnershipClaim::default()), [cut, failed]);
        assert_eq!(objections(&contents, OwnershipClaim { was_vacant: true, ..OwnershipClaim::default() }), [failed]);
        let names = [GUID.to_owned()];
        assert_eq!(objections(&contents, OwnershipClaim { names: &names, ..OwnershipClaim::default() }), [failed]);
    }

    #[test]
    fn the_way_to_a_disk_stops_also_where_it_is_an_own_one() {
        let attached = vec!["it is on USB".into()];
        let contents = DiskContents { barred: vec!["it has two paths".into()], attached, ..holds(Vec::new()) };
        let names = [GUID.to_owned()];
        let own = OwnershipClaim { names: &names, was_vacant: true, is_named: false };
        assert_eq!(objections(&contents, own), ["it has two paths", "it is on USB"]);
        assert_eq!(objections(&contents, OwnershipClaim { is_named: true, ..own }), ["it has two paths"]);
    }
}
