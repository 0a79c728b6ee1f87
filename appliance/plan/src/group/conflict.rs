//! Hosts that several groups select. It is not known which of them is meant, so that none gives anything to such a
//! host, and each of them names the others.

use std::collections::BTreeMap;

use firesteel_resources::Selector;

/// A host of one namespace.
#[derive(Clone, Copy, Debug)]
pub struct GroupMember<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

/// The contested hosts of one group, each with the names of the other groups.
pub type Contested = BTreeMap<String, Vec<String>>;

/// Lists for each group of a namespace the hosts that another one selects, too. Groups without any are left out.
#[must_use]
pub fn contested(groups: &[(&str, &Selector)], hosts: &[GroupMember<'_>]) -> BTreeMap<String, Contested> {
    let mut all: BTreeMap<String, Contested> = BTreeMap::new();
    for host in hosts {
        let selecting = groups.iter().filter(|(_, selector)| selector.matches(host.labels));
        let names: Vec<&str> = selecting.map(|(name, _)| *name).collect();
        if names.len() < 2 {
            continue;
        }
        for name in &names {
            let others = names.iter().filter(|other| *other != name).map(|other| (*other).to_owned()).collect();
            all.entry((*name).to_owned()).or_default().insert(host.name.to_owned(), others);
        }
    }
    all
}
