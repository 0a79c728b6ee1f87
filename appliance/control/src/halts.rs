//! Stops of the whole fleet: `Halt` objects, followed. Replies to agents say hold from the moment that one is
//! known, whatever the host's next step finds; and until it is known that there is none. One that could not be stored
//! counts like any other.

use std::collections::BTreeMap;

use firesteel_kube::{Change, Status, UnstoredObjects};
use firesteel_plan::host as plan;
use firesteel_resources::{Halt, kinds::HALT as KIND};
use firesteel_runtime::{ControllerError, HostKey, regarding};
use jiff::Timestamp;

use crate::Control;

/// What a reply says before the halts were read, or the host was looked at, after a start.
const NOT_LOOKED: &str = "the appliance has just started and has not looked at this host yet";

/// What the reason of a halt ends with that is in memory alone.
const IN_MEMORY: &str = "; it could not be stored yet, and is held in memory";

/// The halts that are in force.
#[derive(Debug, Default)]
pub(crate) struct Halts {
    /// Absent until all were read once.
    known: Option<BTreeMap<String, plan::Halt>>,
    /// Read, while not all were.
    read: BTreeMap<String, plan::Halt>,
    /// In force, and in memory alone.
    held: BTreeMap<String, plan::Halt>,
}

impl Halts {
    fn all(&mut self) -> &mut BTreeMap<String, plan::Halt> {
        self.known.as_mut().unwrap_or(&mut self.read)
    }

    fn read_all(&mut self) {
        let read = std::mem::take(&mut self.read);
        self.known.get_or_insert(read);
    }

    /// The oldest.
    pub(crate) fn oldest(&self) -> Option<&plan::Halt> {
        let stored = self.known.as_ref().unwrap_or(&self.read);
        stored.values().chain(self.held.values()).min_by_key(|halt| halt.since)
    }

    /// Why nothing may be destroyed on any host.
    fn hold(&self) -> Option<String> {
        match self.oldest() {
            Some(halt) => Some(halt.to_string()),
            None => self.known.is_none().then(|| NOT_LOOKED.to_owned()),
        }
    }
}

impl Control {
    /// Why nothing may be destroyed on this host now, as its agent is told.
    pub(crate) fn hold_of(&self, key: &HostKey) -> Option<String> {
        let doubt = self.handles().clock.doubt().map(|doubt| doubt.to_string());
        let views = self.views();
        views.halts.hold().or(doubt).or_else(|| match views.hosts.get(key) {
            Some(view) if view.damage.is_some() => view.damage.clone(),
            Some(view) if view.boot_entry.is_some() => view.shut.clone(),
            Some(_) | None => Some(NOT_LOOKED.to_owned()),
        })
    }

    pub(crate) async fn follow_halts(self) -> Result<(), ControllerError> {
        let mut held = self.handles().core.unstored();
        let mut changes = self.inner.halts.subscribe().await?;
        loop {
            let unstored = held.borrow_and_update().clone();
            self.hold_unstored(&unstored).await?;
            let change = tokio::select! {
                biased;
                // Its other end lives as long as this.
                _ = held.changed() => continue,
                change = changes.next() => change?,
            };
            match change {
                Change::Applied(halt) => {
                    let name = halt.metadata.name.clone();
                    let is_new = self.views().halts.all().insert(name, in_force(&halt)).is_none();
                    let is_late = self.handles().hosts.are_halts_read();
                    if is_new {
                        tracing::warn!(by = %halt.spec.by, reason = %halt.spec.reason, "the fleet is halted: no disk is changed");
                        self.wake_hosts(|_| true);
                    }
                    // One that was there at the start was told by the life before.
                    if is_new && is_late {
                        self.tell(&halt, "FleetHalted", true, in_force(&halt).to_string());
                    }
                }
                Change::Deleted(halt) => {
                    self.views().halts.all().remove(&halt.metadata.name);
                    tracing::warn!(by = %halt.spec.by, reason = %halt.spec.reason, "a halt of the fleet is over");
                    self.tell(&halt, "FleetResumed", false, format!("the halt by {} is over", halt.spec.by));
                    self.wake_hosts(|_| true);
                }
                Change::Synced => {
                    self.views().halts.read_all();
                    self.handles().hosts.note_halts_read();
                }
                Change::Undecodable { name, error } => {
                    tracing::error!(halt = %name.name, %error, "a stored halt cannot be read: it counts as one");
                    self.views().halts.all().insert(name.name.to_string(), unread(&name.name));
                    self.wake_hosts(|_| true);
                }
            }
        }
    }

    /// Takes over what is held in memory. One that is not held any more was stored or lifted: where it was stored it is
    /// known as such first, so that it counts without a gap.
    async fn hold_unstored(&self, unstored: &UnstoredObjects) -> Result<(), Status> {
        let is_halt = |group: &str, plural: &str| (group, plural) == (KIND.group, KIND.plural);
        let halts = unstored.iter().filter(|(key, _)| is_halt(&key.kind.group, &key.kind.resource));
        let now = held_halts(halts.map(|(key, object)| (key.name.as_str(), &*object.value)));
        let before = self.views().halts.held.clone();
        if now == before {
            return Ok(());
        }
        for (name, held) in before.iter().filter(|(name, _)| !now.contains_key(*name)) {
            let stored = match self.inner.halts.get("", name).await {
                Ok(stored) => stored.as_ref().map(in_force),
                // It may be there: it counts until it is deleted unread.
                Err(status) if status.is_unreadable() => Some(held.clone()),
                Err(status) => return Err(status),
            };
            if let Some(halt) = stored {
                self.views().halts.all().insert(name.clone(), halt);
            }
        }
        for halt in now.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(_, halt)| halt) {
            tracing::warn!(by = %halt.who, reason = %halt.why, "the fleet is halted: no disk is changed");
        }
        self.views().halts.held = now;
        self.wake_hosts(|_| true);
        Ok(())
    }

    fn tell(&self, halt: &Halt, reason: &str, is_warning: bool, message: String) {
        let regarding = regarding("firesteel.dev/v1alpha1", "Halt", &halt.metadata);
        self.events().tell_about(regarding, reason, is_warning, message);
    }
}

fn in_force(halt: &Halt) -> plan::Halt {
    plan::Halt {
        who: halt.spec.by.clone(),
        why: halt.spec.reason.clone(),
        since: halt.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

/// A stored halt that cannot be read.
fn unread(name: &str) -> plan::Halt {
    let why = format!("the object {name} cannot be read: delete it");
    plan::Halt { who: "unknown".to_owned(), why, since: Timestamp::UNIX_EPOCH }
}

/// The halts among what is held, by name and content. One that cannot be read counts, too.
fn held_halts<'a>(held: impl Iterator<Item = (&'a str, &'a [u8])>) -> BTreeMap<String, plan::Halt> {
    held.map(|(name, content)| {
        let mut halt = in_force(&serde_json::from_slice(content).unwrap_or_default());
        halt.why.push_str(IN_MEMORY);
        (name.to_owned(), halt)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use firesteel_runtime::HostEvents;

    use super::*;
    use crate::{metrics::Survey, views::Views};

    fn halt(second: i64) -> plan::Halt {
        let since = Timestamp::from_second(second).unwrap_or_default();
        plan::Halt { who: "ann".into(), why: "why".into(), since }
    }

    /// After a start nothing is destroyed before it is known that nobody stopped the fleet.
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
        // A watch that begins anew changes nothing.
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
        let is_halted = |views: &Views| Survey::of(views, Timestamp::UNIX_EPOCH).is_halted;
        assert!(!is_halted(&views), "nobody did it, though it is not known yet");
        views.halts.all().insert("a".into(), halt(1));
        assert!(is_halted(&views));
        views.halts.all().remove("a");
        assert!(!is_halted(&views));
    }
}
