//! The graph of states: exactly these changes, upstream's and our own.

use std::{collections::BTreeSet, path::Path};

use firesteel_resources::bare_metal_host::ProvisioningState as S;

/// Every change of state that the planner makes, and whose it is.
pub(crate) const EDGES: [(S, S, Whose); 32] = [
    (S::New, S::Unmanaged, Whose::Upstream),
    (S::New, S::Registering, Whose::Upstream),
    (S::New, S::Deleting, Whose::Upstream),
    // Also without BMC, when the host's own agent said hello.
    (S::Unmanaged, S::Registering, Whose::Upstream),
    (S::Unmanaged, S::Deleting, Whose::Upstream),
    (S::Registering, S::ExternallyProvisioned, Whose::Upstream),
    (S::Registering, S::Preparing, Whose::Upstream),
    (S::Registering, S::Inspecting, Whose::Upstream),
    (S::Registering, S::Deleting, Whose::Upstream),
    (S::Inspecting, S::Preparing, Whose::Upstream),
    (S::Inspecting, S::PoweringOff, Whose::Upstream),
    (S::Preparing, S::Available, Whose::Upstream),
    (S::Preparing, S::PoweringOff, Whose::Upstream),
    (S::Available, S::ExternallyProvisioned, Whose::Upstream),
    (S::Available, S::Inspecting, Whose::Upstream),
    (S::Available, S::Preparing, Whose::Upstream),
    (S::Available, S::Provisioning, Whose::Upstream),
    (S::Available, S::PoweringOff, Whose::Upstream),
    (S::Provisioning, S::Provisioned, Whose::Upstream),
    (S::Provisioning, S::Deprovisioning, Whose::Upstream),
    // Nothing was written yet, so nothing is cleaned.
    (S::Provisioning, S::Available, Whose::Own),
    (S::Provisioned, S::Deprovisioning, Whose::Upstream),
    (S::ExternallyProvisioned, S::Provisioned, Whose::Upstream),
    (S::ExternallyProvisioned, S::PoweringOff, Whose::Upstream),
    (S::Deprovisioning, S::Available, Whose::Upstream),
    (S::Deprovisioning, S::PoweringOff, Whose::Upstream),
    (S::PoweringOff, S::Deleting, Whose::Upstream),
    // Deleted while detached, or released by force.
    (S::Available, S::Deleting, Whose::Detached),
    (S::Provisioned, S::Deleting, Whose::Detached),
    (S::ExternallyProvisioned, S::Deleting, Whose::Detached),
    (S::Provisioning, S::Deleting, Whose::Detached),
    (S::Deprovisioning, S::Deleting, Whose::Detached),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Upstream,
    Own,
    /// Upstream's `* -> deleting`.
    Detached,
}

/// Changes by force are legal from everywhere.
pub(crate) fn is_legal(from: S, to: S) -> bool {
    from == to || to == S::Deleting || EDGES.iter().any(|(a, b, _)| (*a, *b) == (from, to))
}

#[test]
fn upstreams_changes_are_all_here_and_ours_are_marked() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/vectors/baremetalhost-transitions.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: the fixtures are not beside the project ({})", file.display());
        return;
    };
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let theirs: BTreeSet<(String, String)> = rows
        .iter()
        .map(|row| (row["from"].as_str().unwrap().to_owned(), row["to"].as_str().unwrap().to_owned()))
        .filter(|(from, to)| from != "*" && to != "(gone)")
        .collect();
    let ours: BTreeSet<(String, String)> = EDGES
        .iter()
        .filter(|(_, _, whose)| *whose == Whose::Upstream)
        .map(|(from, to, _)| (from.word().to_owned(), to.word().to_owned()))
        .collect();
    let beyond: Vec<_> = ours.difference(&theirs).collect();
    assert_eq!(beyond, Vec::<&(String, String)>::new(), "not upstream's");
    // Upstream gives up cleaning a host with a registration error by going straight to deleting;
    // here it is switched off like any other, where that can be done.
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert_eq!(missing, [&("deprovisioning".to_owned(), "deleting".to_owned())]);
    assert!(rows.len() >= 31);
}
