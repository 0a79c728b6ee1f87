//! What becomes of an object by those that own it. Pure.
//!
//! An owner is *alive*, *leaving* (it goes when its dependents are gone), or *absent*. An object goes
//! when it has owners and none of them is alive; it goes in the way of its leaving owners, if it has
//! dependents itself. A reference to an owner that is not alive is taken out where another one is.

use serde::{Deserialize, Deserializer};

use crate::model::meta::{FOREGROUND, ORPHAN};
use crate::object::deletion::Propagation;

/// The part of an object that its life depends on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LifeObject {
    pub(super) metadata: LifeMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LifeMeta {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) uid: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) owner_references: Vec<OwnerLink>,
    #[serde(deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerLink {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    block_owner_deletion: Option<bool>,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl OwnerLink {
    /// Whether the owner has to wait for the object that names it.
    pub(super) fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

impl LifeObject {
    pub(super) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn orphans(&self) -> bool {
        self.has(ORPHAN)
    }

    pub(super) fn waits_for_dependents(&self) -> bool {
        self.has(FOREGROUND)
    }

    pub(super) fn finalizers(&self) -> &[String] {
        &self.metadata.finalizers
    }

    fn has(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|name| name == finalizer)
    }
}

/// How an owner is, found where the reference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// There, or not to be found out: nothing is deleted on a guess.
    Alive,
    Leaving,
    /// The owner is not there, or another object has its name.
    Absent,
}

/// What the graph knows of an object's dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DependentsSummary {
    pub(super) any: bool,
    /// One of them has to be gone before the object goes.
    pub(super) blocking: bool,
    /// One of those waits, maybe by others, for this object.
    pub(super) circle: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LifeDecision {
    Nothing,
    /// Its dependents forget it, then it goes.
    Orphan,
    /// Nothing that it waits for is left.
    LetGo,
    /// It forgets these owners.
    Forget(Vec<String>),
    Delete(Propagation),
    /// The object holds up none of its owners any more: owners that wait for each other would wait forever.
    Unblock,
}

pub(super) fn decide(object: &LifeObject, owners: &[OwnerState], below: DependentsSummary) -> LifeDecision {
    if object.is_going() {
        return match (object.orphans(), object.waits_for_dependents()) {
            (true, _) => LifeDecision::Orphan,
            (false, true) if !below.blocking => LifeDecision::LetGo,
            (false, true) if below.circle => LifeDecision::Unblock,
            (false, _) => LifeDecision::Nothing,
        };
    }
    let references = &object.metadata.owner_references;
    let dead = references.iter().zip(owners).filter(|(_, state)| **state != OwnerState::Alive);
    let dead: Vec<String> = dead.map(|(owner, _)| owner.uid.clone()).collect();
    if dead.is_empty() {
        return LifeDecision::Nothing;
    }
    if dead.len() < references.len() {
        return LifeDecision::Forget(dead);
    }
    if owners.contains(&OwnerState::Leaving) && below.any {
        return LifeDecision::Delete(Propagation::Foreground);
    }
    LifeDecision::Delete(match (object.orphans(), object.waits_for_dependents()) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(owners: usize, finalizers: &[&str], going: bool) -> LifeObject {
        let owner = |number: usize| OwnerLink { uid: format!("u{number}"), ..OwnerLink::default() };
        LifeObject {
            metadata: LifeMeta {
                uid: "u".into(),
                owner_references: (0..owners).map(owner).collect(),
                finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
                deletion_timestamp: going.then(|| "2026-01-01T00:00:00Z".into()),
            },
        }
    }

    const NONE: DependentsSummary = DependentsSummary { any: false, blocking: false, circle: false };
    const SOME: DependentsSummary = DependentsSummary { any: true, blocking: true, circle: false };

    #[test]
    fn an_object_goes_when_no_owner_is_alive() {
        use OwnerState::{Absent, Alive, Leaving};
        let delete = LifeDecision::Delete;
        assert_eq!(decide(&object(0, &[], false), &[], NONE), LifeDecision::Nothing);
        assert_eq!(decide(&object(1, &[], false), &[Alive], NONE), LifeDecision::Nothing);
        assert_eq!(decide(&object(1, &[], false), &[Absent], SOME), delete(Propagation::Background));
        assert_eq!(decide(&object(1, &[ORPHAN], false), &[Absent], SOME), delete(Propagation::Orphan));
        assert_eq!(decide(&object(2, &[], false), &[Absent, Leaving], NONE), delete(Propagation::Background));
        assert_eq!(decide(&object(2, &[], false), &[Absent, Leaving], SOME), delete(Propagation::Foreground));
        let forget = LifeDecision::Forget(vec!["u0".into(), "u2".into()]);
        assert_eq!(decide(&object(3, &[], false), &[Absent, Alive, Leaving], SOME), forget);
    }

    #[test]
    fn a_going_object_waits_for_what_its_finalizers_say() {
        assert_eq!(decide(&object(0, &[FOREGROUND], true), &[], SOME), LifeDecision::Nothing);
        assert_eq!(
            decide(&object(0, &[FOREGROUND], true), &[], DependentsSummary { blocking: false, ..SOME }),
            LifeDecision::LetGo
        );
        assert_eq!(decide(&object(0, &[ORPHAN], true), &[], SOME), LifeDecision::Orphan);
        let absent = [OwnerState::Absent];
        assert_eq!(
            decide(&object(1, &["x.io/f"], true), &absent, NONE),
            LifeDecision::Nothing,
            "somebody else's finalizer"
        );
    }

    #[test]
    fn a_circle_of_owners_is_broken() {
        let circle = DependentsSummary { circle: true, ..SOME };
        assert_eq!(decide(&object(1, &[FOREGROUND], true), &[], circle), LifeDecision::Unblock);
    }
}
