//! The cache of the OS image that the Provisioning object names (S0.12): when it is looked for and fetched, when it is
//! tried again, and what goes once another one is there. It performs nothing.
//!
//! ```text
//! wanted ─► Acquire ─► Stored ─► Ready ─► (the earlier image is removed)
//!              ▲   ├─► Failed: tried again, later and later
//!              │   └─► Refused: another digest, or no image; not fetched again until the address is changed
//!              └────── another address; an image that is gone from the store
//! ```

use std::time::Duration;

use firesteel_facts::Sha256;
use firesteel_resources::provisioning::OsImageSource;

use crate::service_health::{ServiceHealth, ServiceState};

/// Images that were replaced and are to go: more are left to the making of room.
const SUPERSEDED_MAX: usize = 16;
/// How often it is looked whether the image still is in the store.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How the OS image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OsImageState {
    /// It is looked for in the store, and read again if it is there.
    Checking,
    /// Counts the others that are downloaded or imported before it.
    Waiting {
        ahead: u32,
    },
    Downloading {
        done_bytes: u64,
        total_bytes: Option<u64>,
    },
    Importing,
    /// It is in the store, and has the digest.
    Ready,
    /// It did not come; it is tried again. `is_late`: for five minutes nothing new of it has come.
    Failing {
        why: String,
        is_late: bool,
    },
    /// It has another digest, or is no image: only an edit, or another file at its origin, can help.
    Refused {
        why: String,
    },
}

/// What is said of the OS image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsImageReport {
    /// The name of the image.
    pub name: String,
    /// The address that it is of.
    pub url: String,
    pub state: OsImageState,
}

/// How an acquisition ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OsImageOutcome {
    /// It is in the store, under the digest of its raw bytes.
    Stored(Sha256),
    /// It did not come, and may come later.
    Failed {
        why: String,
        /// What had come of it.
        reached_bytes: u64,
    },
    /// What came is not what is wanted.
    Refused(String),
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OsImageStep {
    /// Look for it, fetch it where it is not there, and report by [`OsImageKeeper::acquired`].
    Acquire,
    /// These images, by their raw digests, are to go as far as no host uses them, and report by
    /// [`OsImageKeeper::removed`].
    Remove(Vec<Sha256>),
    /// Look whether this image is still there, and report by [`OsImageKeeper::looked`].
    Look(Sha256),
    /// Wait until then, or for another address.
    Wait(Duration),
    /// Wait for another address.
    WaitForEdit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OsImagePhase {
    Due,
    Ready { raw_sha256: Sha256, look_at: Duration },
    Failed(String),
    Refused(String),
}

/// Decides about one image.
#[derive(Clone, Debug)]
pub struct OsImageKeeper {
    source: OsImageSource,
    phase: OsImagePhase,
    /// Is there since the first failure after which nothing new came.
    trouble: Option<ServiceHealth>,
    /// The most that came of it.
    reached_bytes: u64,
    superseded: Vec<Sha256>,
}

impl OsImageKeeper {
    #[must_use]
    pub fn new(source: OsImageSource) -> Self {
        Self { source, phase: OsImagePhase::Due, trouble: None, reached_bytes: 0, superseded: Vec::new() }
    }

    #[must_use]
    pub fn source(&self) -> &OsImageSource {
        &self.source
    }

    /// Takes in another address. An image with the same digest stays.
    pub fn set_source(&mut self, source: OsImageSource) {
        if self.source == source {
            return;
        }
        let is_same_image = self.source.sha256 == source.sha256;
        self.source = source;
        if let OsImagePhase::Ready { raw_sha256, .. } = self.phase {
            if is_same_image {
                return;
            }
            self.superseded.push(raw_sha256);
            let surplus = self.superseded.len().saturating_sub(SUPERSEDED_MAX);
            self.superseded.drain(..surplus);
        }
        (self.phase, self.trouble, self.reached_bytes) = (OsImagePhase::Due, None, 0);
    }

    /// Says what is to be done.
    #[must_use]
    pub fn step(&self, uptime: Duration) -> OsImageStep {
        match &self.phase {
            OsImagePhase::Due => OsImageStep::Acquire,
            OsImagePhase::Failed(_) => match &self.trouble {
                Some(trouble) if !trouble.is_due(uptime) => {
                    OsImageStep::Wait(trouble.poll_timeout(uptime).unwrap_or_else(|| uptime.saturating_add(LOOK_EVERY)))
                }
                Some(_) | None => OsImageStep::Acquire,
            },
            OsImagePhase::Ready { .. } if !self.superseded.is_empty() => OsImageStep::Remove(self.superseded.clone()),
            OsImagePhase::Ready { raw_sha256, look_at } if *look_at <= uptime => OsImageStep::Look(*raw_sha256),
            OsImagePhase::Ready { look_at, .. } => OsImageStep::Wait(*look_at),
            OsImagePhase::Refused(_) => OsImageStep::WaitForEdit,
        }
    }

    /// Notes how an acquisition ended.
    pub fn acquired(&mut self, uptime: Duration, outcome: OsImageOutcome) {
        match outcome {
            OsImageOutcome::Stored(raw_sha256) => {
                self.superseded.retain(|raw| *raw != raw_sha256);
                self.trouble = None;
                self.phase = OsImagePhase::Ready { raw_sha256, look_at: uptime.saturating_add(LOOK_EVERY) };
            }
            OsImageOutcome::Failed { why, reached_bytes } => {
                if reached_bytes > self.reached_bytes {
                    (self.reached_bytes, self.trouble) = (reached_bytes, None);
                }
                let trouble = self.trouble.get_or_insert_with(|| ServiceHealth::wanted(uptime));
                trouble.failed_to_start(uptime, why.clone());
                self.phase = OsImagePhase::Failed(why);
            }
            OsImageOutcome::Refused(why) => (self.phase, self.trouble) = (OsImagePhase::Refused(why), None),
        }
    }

    /// Notes that replaced images went, or stay because hosts use them: they go when room is made.
    pub fn removed(&mut self) {
        self.superseded.clear();
    }

    /// Notes whether the image is still in the store.
    pub fn looked(&mut self, uptime: Duration, is_there: bool) {
        if let OsImagePhase::Ready { look_at, .. } = &mut self.phase {
            *look_at = uptime.saturating_add(LOOK_EVERY);
            if !is_there {
                (self.phase, self.reached_bytes) = (OsImagePhase::Due, 0);
            }
        }
    }

    /// Says how the image is between two steps; while it is acquired, who acquires it knows more.
    pub fn state(&mut self, uptime: Duration) -> OsImageState {
        match &self.phase {
            OsImagePhase::Due => OsImageState::Checking,
            OsImagePhase::Ready { .. } => OsImageState::Ready,
            OsImagePhase::Refused(why) => OsImageState::Refused { why: why.clone() },
            OsImagePhase::Failed(why) => {
                let state = self.trouble.as_mut().map(|trouble| trouble.state(uptime));
                OsImageState::Failing { why: why.clone(), is_late: matches!(state, Some(ServiceState::Late(_))) }
            }
        }
    }
}

/// What an OS image means for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OsImageVerdict {
    Ready,
    Starting,
    Late,
    Faulty,
}

impl OsImageReport {
    /// Judges it, and says why for people where it is not ready.
    pub(crate) fn judge(&self) -> (OsImageVerdict, Option<String>) {
        let name = &self.name;
        match &self.state {
            OsImageState::Ready => (OsImageVerdict::Ready, None),
            OsImageState::Checking => {
                (OsImageVerdict::Starting, Some(format!("the OS image {name} is looked for and read again")))
            }
            OsImageState::Waiting { ahead } => (
                OsImageVerdict::Starting,
                Some(format!("the OS image {name} waits for its turn behind {ahead} others")),
            ),
            OsImageState::Downloading { done_bytes, total_bytes } => {
                let progress = progress(*done_bytes, *total_bytes);
                (OsImageVerdict::Starting, Some(format!("the OS image {name} is downloaded: {progress}")))
            }
            OsImageState::Importing => {
                (OsImageVerdict::Starting, Some(format!("the OS image {name} is downloaded and being imported")))
            }
            OsImageState::Failing { why, is_late: false } => {
                (OsImageVerdict::Starting, Some(format!("could not get the OS image {name} yet: {why}")))
            }
            OsImageState::Failing { why, is_late: true } => (
                OsImageVerdict::Late,
                Some(format!("nothing of the OS image {name} has come for 5 minutes, and it is tried again: {why}")),
            ),
            OsImageState::Refused { why } => (
                OsImageVerdict::Faulty,
                Some(format!("spec.provisioningOSDownloadURL: the OS image {name} is not served: {why}")),
            ),
        }
    }
}

/// Writes how far a download is, coarsely: each other text is a write to the store.
fn progress(done_bytes: u64, total_bytes: Option<u64>) -> String {
    match total_bytes {
        Some(total) if total > 0 => {
            let percent = u128::from(done_bytes) * 100 / u128::from(total);
            format!("{percent}% of {} MiB", total.div_ceil(1 << 20))
        }
        Some(_) | None => format!("more than {} MiB", (done_bytes >> 26) << 6),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn source(name: &str) -> OsImageSource {
        OsImageSource {
            url: format!("http://a/{name}.qcow2.gz"),
            sha256: Sha256::of(name.as_bytes()),
            name: format!("{name}.qcow2"),
        }
    }

    fn raw(name: &str) -> Sha256 {
        Sha256::of(format!("raw {name}").as_bytes())
    }

    fn failed(reached_bytes: u64) -> OsImageOutcome {
        OsImageOutcome::Failed { why: "connection refused".to_owned(), reached_bytes }
    }

    #[test]
    fn an_image_is_acquired_once_and_looked_for_from_time_to_time() {
        let mut keeper = OsImageKeeper::new(source("a"));
        assert_eq!((keeper.step(at(0)), keeper.state(at(0))), (OsImageStep::Acquire, OsImageState::Checking));
        keeper.acquired(at(9), OsImageOutcome::Stored(raw("a")));
        assert_eq!((keeper.step(at(9)), keeper.state(at(9))), (OsImageStep::Wait(at(69)), OsImageState::Ready));
        assert_eq!(keeper.step(at(69)), OsImageStep::Look(raw("a")));
        keeper.looked(at(69), true);
        assert_eq!(keeper.step(at(70)), OsImageStep::Wait(at(129)));
        keeper.looked(at(129), false);
        assert_eq!(keeper.step(at(129)), OsImageStep::Acquire, "it is gone from the store");
    }

    #[test]
    fn what_fails_is_tried_later_and_later_and_is_late_after_five_minutes_without_progress() {
        let mut keeper = OsImageKeeper::new(source("a"));
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..8 {
            assert_eq!(keeper.step(at(now)), OsImageStep::Acquire);
            keeper.acquired(at(now), failed(0));
            let OsImageStep::Wait(until) = keeper.step(at(now)) else { panic!("at once again") };
            pauses.push(until.as_secs() - now);
            now += pauses.last().unwrap();
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let state = |is_late| OsImageState::Failing { why: "connection refused".to_owned(), is_late };
        assert_eq!(keeper.state(at(299)), state(false));
        assert_eq!(keeper.state(at(300)), state(true));
        keeper.acquired(at(310), failed(5000));
        assert_eq!(keeper.state(at(320)), state(false), "something new came");
        assert_eq!(keeper.step(at(310)), OsImageStep::Wait(at(311)));
        keeper.acquired(at(311), failed(5000));
        assert_eq!(keeper.state(at(610)), state(true), "the same came again");
    }

    #[test]
    fn what_has_another_digest_is_fetched_again_only_after_an_edit() {
        let mut keeper = OsImageKeeper::new(source("a"));
        keeper.acquired(at(0), OsImageOutcome::Refused("is b, not a".to_owned()));
        for second in [0, 60, 100_000] {
            assert_eq!(keeper.step(at(second)), OsImageStep::WaitForEdit);
        }
        keeper.set_source(source("a"));
        assert_eq!(keeper.step(at(1)), OsImageStep::WaitForEdit, "nothing was edited");
        keeper.set_source(OsImageSource { url: "http://mirror/a.qcow2.gz".to_owned(), ..source("a") });
        assert_eq!(keeper.step(at(1)), OsImageStep::Acquire);
    }

    #[test]
    fn an_image_that_was_replaced_goes_once_the_other_is_there() {
        let mut keeper = OsImageKeeper::new(source("a"));
        keeper.acquired(at(0), OsImageOutcome::Stored(raw("a")));
        keeper.set_source(OsImageSource { url: "http://mirror/a.qcow2.gz".to_owned(), ..source("a") });
        assert_eq!(keeper.step(at(1)), OsImageStep::Wait(at(60)), "the same image from elsewhere");
        keeper.set_source(source("b"));
        assert_eq!(keeper.step(at(1)), OsImageStep::Acquire);
        keeper.acquired(at(1), failed(0));
        assert_eq!(keeper.step(at(1)), OsImageStep::Wait(at(2)), "the old one stays until then");
        keeper.acquired(at(2), OsImageOutcome::Stored(raw("b")));
        assert_eq!(keeper.step(at(2)), OsImageStep::Remove(vec![raw("a")]));
        keeper.removed();
        assert_eq!(keeper.step(at(2)), OsImageStep::Wait(at(62)));
        // Two addresses may lead to one image.
        keeper.set_source(source("c"));
        keeper.acquired(at(3), OsImageOutcome::Stored(raw("b")));
        assert_eq!(keeper.step(at(3)), OsImageStep::Wait(at(63)));
        for number in 0..40 {
            let name = format!("n{number}");
            keeper.set_source(source(&name));
            keeper.acquired(at(4), OsImageOutcome::Stored(raw(&name)));
        }
        let OsImageStep::Remove(images) = keeper.step(at(4)) else { panic!("nothing goes") };
        assert_eq!((images.len(), images.last()), (SUPERSEDED_MAX, Some(&raw("n38"))));
    }

    #[test]
    fn progress_changes_by_percent_and_has_no_secret() {
        let report = |state| OsImageReport { name: "a.qcow2".to_owned(), url: String::new(), state }.judge();
        let (verdict, text) = report(OsImageState::Downloading { done_bytes: 43 << 20, total_bytes: Some(100 << 20) });
        assert_eq!(verdict, OsImageVerdict::Starting);
        assert_eq!(text.as_deref(), Some("the OS image a.qcow2 is downloaded: 43% of 100 MiB"));
        let (_, text) = report(OsImageState::Downloading { done_bytes: 200 << 20, total_bytes: None });
        assert_eq!(text.as_deref(), Some("the OS image a.qcow2 is downloaded: more than 192 MiB"));
        assert_eq!(report(OsImageState::Ready), (OsImageVerdict::Ready, None));
        assert_eq!(report(OsImageState::Refused { why: String::new() }).0, OsImageVerdict::Faulty);
        assert_eq!(report(OsImageState::Failing { why: String::new(), is_late: true }).0, OsImageVerdict::Late);
    }
}
