//! Whether more than one machine claims to be the host: see [`crate::host::rules::claimants`].

use firesteel_resources::host_journal::{ClaimRecord, Claimant};

use crate::host::model::{HostInputs, HostMemory};

/// Says why nothing is destroyed on a host that more than one machine claims to be; `None` where that is not so.
#[must_use]
pub fn contest(memory: &HostMemory, seen: &HostInputs) -> Option<String> {
    if !memory.state.gets_agent() {
        return None;
    }
    let (first, others) = match &memory.claimants {
        Some(claims) => (&claims.first, claims.others.clone()),
        // A host that is paused takes nothing over.
        None => {
            let record = seen.claim.as_ref()?;
            (&record.first, unnamed(memory, record))
        }
    };
    (!others.is_empty()).then(|| format!("{}: nothing is destroyed until that is settled", in_words(first, &others)))
}

/// Names all claimants for people.
pub(crate) fn in_words(first: &Claimant, others: &[Claimant]) -> String {
    let other = |other: &Claimant| {
        let old = if other.attempt == first.attempt { String::new() } else { format!(" of attempt {}", other.attempt) };
        format!("{other}{old}")
    };
    let others: Vec<String> = others.iter().map(other).collect();
    format!("more than one machine claims to be this host: bound is {first}; the other is {}", others.join("; and "))
}

/// Lists the others of this attempt that are not known to be intruders.
pub(crate) fn unnamed(memory: &HostMemory, record: &ClaimRecord) -> Vec<Claimant> {
    let is_named = |key: &str| memory.intruders.iter().any(|intruder| intruder.machine.key == key);
    let others = record.others.iter().filter(|other| record.attempt == memory.attempt && !is_named(&other.key));
    others.cloned().collect()
}
