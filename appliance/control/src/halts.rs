//! Stops of the whole fleet: `Halt` objects, followed. Replies to agents say hold from the moment that one is
//! known, whatever the host's next step finds; and until it is known that there is none. One that could not be stored
//! counts like any other.

use std::collections::BTreeMap;

use firesteel_plan::host as plan;
use firesteel_resources::Halt;
use jiff::Timestamp;

/// What a reply says before the halts were read, or the host was looked at, after a start.
pub(crate) const NOT_LOOKED: &str = "the appliance has just started and has not looked at this host yet";

/// What the reason of a halt ends with that is in memory alone.
const IN_MEMORY: &str = "; it could not be stored yet, and is held in memory";

/// The halts that are in force.
#[derive(Debug, Default)]
pub(crate) struct Halts {
    /// Is absent until all were read once.
    pub(crate) known: Option<BTreeMap<String, plan::FleetHalt>>,
    /// Holds what was read, while not all were.
    read: BTreeMap<String, plan::FleetHalt>,
    /// Halts that are in force, and in memory alone.
    pub(crate) held: BTreeMap<String, plan::FleetHalt>,
}

impl Halts {
    pub(crate) fn all(&mut self) -> &mut BTreeMap<String, plan::FleetHalt> {
        self.known.as_mut().unwrap_or(&mut self.read)
    }

    pub(crate) fn read_all(&mut self) {
        let read = std::mem::take(&mut self.read);
        self.known.get_or_insert(read);
    }

    /// The oldest.
    pub(crate) fn oldest(&self) -> Option<&plan::FleetHalt> {
        let stored = self.known.as_ref().unwrap_or(&self.read);
        stored.values().chain(self.held.values()).min_by_key(|halt| halt.since)
    }

    /// Why nothing may be destroyed on any host.
    pub(crate) fn hold(&self) -> Option<String> {
        match self.oldest() {
            Some(halt) => Some(halt.to_string()),
            None => self.known.is_none().then(|| NOT_LOOKED.to_owned()),
        }
    }
}

pub(crate) fn in_force(halt: &Halt) -> plan::FleetHalt {
    plan::FleetHalt {
        who: halt.spec.by.clone(),
        why: halt.spec.reason.clone(),
        since: halt.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

/// A stored halt that cannot be read.
pub(crate) fn unreadable_halt(name: &str) -> plan::FleetHalt {
    let why = format!("the object {name} cannot be read: delete it");
    plan::FleetHalt { who: "unknown".to_owned(), why, since: Timestamp::UNIX_EPOCH }
}

/// The halts among what is held, by name and content. One that cannot be read counts, too.
pub(crate) fn held_halts<'a>(held: impl Iterator<Item = (&'a str, &'a [u8])>) -> BTreeMap<String, plan::FleetHalt> {
    held.map(|(name, content)| {
        let mut halt = in_force(&serde_json::from_slice(content).unwrap_or_default());
        halt.why.push_str(IN_MEMORY);
        (name.to_owned(), halt)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::survey::FleetSurvey;
    use firesteel_runtime::HostEvents;

    use super::*;
    use crate::views::Views;

    fn halt(second: i64) -> plan::FleetHalt {
        let since = Timestamp::from_second(second).unwrap_or_default();
        plan::FleetHalt { who: "ann".into(), why: "why".into(), since }
    }

    /// After a start nothing is destroyed before it is known that the fleet is not halted.
    #[test]
    fn what_is_not_known_holds() {
        let mut halts = Halts::default();
        assert_eq!(halts.hold().as_deref(), Some(NOT_LOOKED));
        halts.all().insert("b".into(), halt(2));
        assert!(halts.hold().is_some_and(|hold| hold.contains("ann")));
        halts.read_all();
        halts.all().insert("a".into(), halt(1));
        assert_eq!(halts.oldest(), Some(&halt(1)));
        halts.all().remove("a");
        assert_eq!(halts.oldest(), Some(&halt(2)), "another one goes on");
        halts.all().remove("b");
        // A watch that begins again changes nothing.
        halts.read_all();
        assert_eq!(halts.hold(), None);
    }

    /// It counts while nothing is stored, and says so.
    #[test]
    fn a_halt_that_could_not_be_stored_holds() {
        let held = |content: &'static str| held_halts([("fleet", content.as_bytes())].into_iter());
        let mut halts = Halts::default();
        halts.read_all();
        assert_eq!(halts.hold(), None);
        halts.held = held(r#"{"spec": {"by": "ann", "reason": "wrong disks"}}"#);
        assert!(halts.hold().is_some_and(|hold| hold.contains("ann") && hold.contains("wrong disks; it could not")));
        assert_eq!(held("no JSON").len(), 1, "what cannot be read counts");
        halts.held.clear();
        assert_eq!(halts.hold(), None);
    }

    #[test]
    fn who_surveys_the_fleet_is_told_of_a_halt() {
        let mut views = Views::new(1, HostEvents::default());
        let is_halted = |views: &Views| FleetSurvey::of(views, Timestamp::UNIX_EPOCH).is_halted;
        assert!(!is_halted(&views), "nobody did it, though it is not known yet");
        views.halts.all().insert("a".into(), halt(1));
        assert!(is_halted(&views));
        views.halts.all().remove("a");
        assert!(!is_halted(&views));
    }
}
