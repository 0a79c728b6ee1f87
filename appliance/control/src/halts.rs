//! Stops of the whole fleet: `Halt` objects, followed. Replies to agents say hold from the moment that one is
//! known, whatever the host's next step finds; and until it is known that there is none.

use std::collections::BTreeMap;

use firesteel_kube::{Change, Occurrence, Regarding};
use firesteel_plan::host as plan;
use firesteel_resources::Halt;
use jiff::Timestamp;

use crate::{Control, HostKey};

/// What a reply says before the halts were read, or the host was looked at, after a start.
const NOT_LOOKED: &str = "the appliance has just started and has not looked at this host yet";

/// The halts that are in force.
#[derive(Debug, Default)]
pub(crate) struct Halts {
    /// Absent until all were read once.
    known: Option<BTreeMap<String, plan::Halt>>,
    /// Read, while not all were.
    read: BTreeMap<String, plan::Halt>,
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
        self.known.as_ref().unwrap_or(&self.read).values().min_by_key(|halt| halt.since)
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
        let views = self.views();
        views.halts.hold().or_else(|| match views.hosts.get(key) {
            Some(view) if view.boot_entry.is_some() => view.shut.clone(),
            Some(_) | None => Some(NOT_LOOKED.to_owned()),
        })
    }

    pub(crate) async fn follow_halts(self) -> Result<(), String> {
        let mut changes = self.inner.halts.subscribe().await.map_err(|status| status.message)?;
        loop {
            match changes.next().await.map_err(|status| status.message)? {
                Change::Applied(halt) => {
                    let name = halt.metadata.name.clone();
                    let is_new = self.views().halts.all().insert(name, in_force(&halt)).is_none();
                    let is_late = self.inner.halts_read.get().is_some();
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
                    // Told again by a watch that began anew.
                    let _known_before = self.inner.halts_read.set(());
                }
                Change::Undecodable { name, error } => {
                    tracing::error!(halt = %name.name, %error, "a stored halt cannot be read: it counts as one");
                    let unread = plan::Halt {
                        who: "somebody".to_owned(),
                        why: format!("the object {} cannot be read: delete it", name.name),
                        since: Timestamp::UNIX_EPOCH,
                    };
                    self.views().halts.all().insert(name.name.to_string(), unread);
                    self.wake_hosts(|_| true);
                }
            }
        }
    }

    fn tell(&self, halt: &Halt, reason: &str, is_warning: bool, message: String) {
        if !self.config().tells_events {
            return;
        }
        let regarding = Regarding {
            api_version: "firesteel.dev/v1alpha1".to_owned(),
            kind: "Halt".to_owned(),
            namespace: String::new(),
            name: halt.metadata.name.clone(),
            uid: halt.metadata.uid.clone(),
        };
        let happened = Occurrence { regarding, is_warning, reason: reason.to_owned(), message, at: self.now() };
        if self.events().try_send(happened).is_err() {
            tracing::warn!(halt = %halt.metadata.name, "too many events are waiting: this one is in the log alone");
        }
    }
}

fn in_force(halt: &Halt) -> plan::Halt {
    plan::Halt {
        who: halt.spec.by.clone(),
        why: halt.spec.reason.clone(),
        since: halt.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn who_surveys_the_fleet_is_told_of_a_halt() {
        let mut views = Views::new(1);
        let is_halted = |views: &Views| Survey::of(views, Timestamp::UNIX_EPOCH).is_halted;
        assert!(!is_halted(&views), "nobody did it, though it is not known yet");
        views.halts.all().insert("a".into(), halt(1));
        assert!(is_halted(&views));
        views.halts.all().remove("a");
        assert!(!is_halted(&views));
    }
}
