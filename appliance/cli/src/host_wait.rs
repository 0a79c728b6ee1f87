//! Waits for something that the appliance does with a host, by watches of the host and its journal. A watch that ends
//! is opened again, also after a restart of the appliance. While nothing comes, standard error says why.

use std::time::Duration;

use anyhow::Context as _;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::RequestAnswer;
use firesteel_resources::{BareMetalHost, HostJournal};
use futures_util::{StreamExt as _, future, future::Either, pin_mut};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::{code_of, is_unreadable};
use super::get::missing_host;
use super::halt::resume_command;
use super::host_departure::HostDeparture;
use super::output::print_line;
use super::wait::{WaitDeadline, wait_until_gone};
use super::{ApiClient, kinds};

/// The pause before a watch that ended is opened again, and before a request whose answer was lost is looked for.
pub(super) const REOPEN: Duration = Duration::from_secs(1);
/// The time without an answer after which the reason is printed.
const FIRST_NOTE: Duration = Duration::from_secs(3);
/// The time between two looks for another reason.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// The most reasons that are remembered, so that none is printed twice.
const NOTES_MAX: usize = 32;
/// The longest look for how a host went. What is looked for is there already: only a process that was stopped for a while,
/// or a store that was restored meanwhile, needs it.
const LAST_LOOK: Duration = Duration::from_mins(2);
const FORBIDDEN: u16 = 403;
const UNAVAILABLE: u16 = 503;

/// Why a wait ended without what was waited for.
#[derive(Debug, thiserror::Error)]
pub(super) enum WaitError {
    #[error("it is gone: it was deleted meanwhile")]
    Gone(HostDeparture),
    #[error("the appliance has not answered within {limit}{why}")]
    TimedOut { limit: String, why: String },
    #[error(transparent)]
    Api(#[from] anyhow::Error),
}

/// A host and its journal, as they were seen last.
#[derive(Debug, Default)]
pub(super) struct ObservedHost {
    pub host: BareMetalHost,
    pub journal: HostJournal,
}

impl ObservedHost {
    /// Finds the answer to this request that is newer than the answer of this number.
    pub(super) fn answer(&self, request: &str, value: &str, after: u64) -> Option<RequestAnswer> {
        self.journal.status.answers.find_after(after, request, value).cloned()
    }

    /// Says what the host waits for.
    fn why(&self) -> Option<String> {
        if let Some(who) = self.host.metadata.annotation(annotations::PAUSED) {
            let who = if who.is_empty() { String::new() } else { format!(" by {who}") };
            return Some(format!(
                "paused{who}: nothing happens until the annotation {} is removed",
                annotations::PAUSED
            ));
        }
        let reason = self.journal.status.reason.as_ref().map(|reason| reason.text.clone());
        // An appliance that steps no host says so there.
        let ready = self.host.status.as_ref().and_then(|status| find_condition(&status.conditions, "Ready"));
        let ready = ready.map(|condition| condition.message.clone());
        reason.or(ready).filter(|text| !text.is_empty())
    }

    /// Takes in an event of a watch; says whether the watch goes on.
    fn take(&mut self, event: &Value) -> Result<bool, WaitError> {
        let is_gone = event["type"] == "DELETED";
        match (event["type"].as_str(), event["object"]["kind"].as_str()) {
            (Some("ERROR"), _) => return Ok(false),
            (_, Some("BareMetalHost")) if is_gone => {
                return Err(WaitError::Gone(HostDeparture::of(&read(&event["object"])?)));
            }
            (_, Some("BareMetalHost")) => self.host = read(&event["object"])?,
            (_, Some("HostJournal")) if is_gone => self.journal = HostJournal::default(),
            (_, Some("HostJournal")) => self.take_journal(read(&event["object"])?),
            (_, _) => {}
        }
        Ok(true)
    }

    /// Takes in the journal; one of an earlier host of this name says nothing.
    fn take_journal(&mut self, journal: HostJournal) {
        let is_own = journal.metadata.owner_references.iter().any(|owner| owner.uid == self.host.metadata.uid);
        self.journal = if is_own { journal } else { HostJournal::default() };
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> anyhow::Result<T> {
    serde_json::from_value(object.clone()).context("could not read the appliance's answer")
}

/// A wait for one host, which is this very object: another one of its name is another host.
pub(super) struct HostWait<'a> {
    client: &'a ApiClient,
    name: &'a str,
    uid: String,
    limit: Option<Duration>,
    ends_at: Option<Instant>,
    next_note: Instant,
    notes: Vec<String>,
    /// What the host waits for, as far as that was seen last.
    why: Option<String>,
    /// The revision of the host that was seen last.
    revision: String,
    /// The caller may ask how the fleet is, as far as is known.
    may_ask_fleet: bool,
}

impl<'a> HostWait<'a> {
    /// Begins a wait, and returns the host as it is now.
    ///
    /// # Errors
    /// When there is no such host, or the appliance does not answer.
    pub(super) async fn open(
        client: &'a ApiClient,
        name: &'a str,
        limit: Option<Duration>,
    ) -> anyhow::Result<(Self, ObservedHost)> {
        let host: BareMetalHost =
            read(&client.get(&path(client, "hosts", name)?).await.map_err(|error| missing_host(client, name, error))?)?;
        let now = Instant::now();
        let mut wait = Self {
            client,
            name,
            uid: host.metadata.uid.clone(),
            limit,
            ends_at: None,
            next_note: now + FIRST_NOTE,
            notes: Vec::new(),
            why: None,
            revision: host.metadata.resource_version.clone(),
            may_ask_fleet: true,
        };
        let seen = wait.observe().await?;
        wait.restart(limit);
        Ok((wait, seen))
    }

    /// Counts the time from now on.
    pub(super) fn restart(&mut self, limit: Option<Duration>) {
        let now = Instant::now();
        (self.limit, self.next_note) = (limit, now + FIRST_NOTE);
        self.ends_at = limit.and_then(|limit| now.checked_add(limit));
    }

    /// Waits until `found` finds something.
    ///
    /// # Errors
    /// When the host is gone, the time is over, or the appliance refuses.
    pub(super) async fn until<T>(&mut self, found: impl Fn(&ObservedHost) -> Option<T>) -> Result<T, WaitError> {
        let Some(ends_at) = self.ends_at else { return self.until_found(&found).await };
        match timeout_at(ends_at, self.until_found(&found)).await {
            Ok(result) => result,
            Err(_) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> WaitError {
        let seconds = self.limit.map_or(0, |limit| limit.as_secs());
        let limit = super::table::duration(i64::try_from(seconds).unwrap_or(i64::MAX));
        let why = self.why.as_ref().map(|why| format!("; the host: {why}")).unwrap_or_default();
        WaitError::TimedOut { limit, why }
    }

    async fn until_found<T>(&mut self, found: &impl Fn(&ObservedHost) -> Option<T>) -> Result<T, WaitError> {
        loop {
            match self.watch_until(found).await {
                Ok(Some(value)) => return Ok(value),
                // The appliance closes watches now and then, and when it restarts.
                Ok(None) => {}
                Err(WaitError::Api(error)) if is_passing(&error) => {
                    self.note(format!("the appliance does not answer ({error:#}): it may be starting"));
                }
                Err(error) => return Err(error),
            }
            sleep(REOPEN).await;
        }
    }

    /// Looks once, and then at each change; `None` if a watch ended.
    async fn watch_until<T>(&mut self, found: &impl Fn(&ObservedHost) -> Option<T>) -> Result<Option<T>, WaitError> {
        if let Some(value) = found(&self.observe().await?) {
            return Ok(Some(value));
        }
        let hosts = self.client.watch(&self.selection("hosts")?).await?;
        let journals = self.client.watch(&self.selection("hostjournals")?).await?;
        pin_mut!(hosts, journals);
        // What changed before the watches began.
        let mut seen = self.observe().await?;
        loop {
            if let Some(value) = found(&seen) {
                return Ok(Some(value));
            }
            let event = match timeout_at(self.next_note, future::select(hosts.next(), journals.next())).await {
                Ok(Either::Left((event, _)) | Either::Right((event, _))) => event,
                Err(_) => {
                    self.note_why(&seen).await;
                    continue;
                }
            };
            let Some(Ok(event)) = event else { return Ok(None) };
            if !seen.take(&event)? {
                return Ok(None);
            }
            if !self.is_same(&seen.host) {
                return Err(WaitError::Gone(self.departure().await));
            }
            self.remember(&seen);
        }
    }

    fn remember(&mut self, seen: &ObservedHost) {
        self.why = seen.why();
        self.revision.clone_from(&seen.host.metadata.resource_version);
    }

    async fn observe(&mut self) -> Result<ObservedHost, WaitError> {
        let host = self.client.get_if_there(&path(self.client, "hosts", self.name)?).await?;
        let host: Option<BareMetalHost> = host.as_ref().map(read).transpose()?;
        let Some(host) = host.filter(|host| self.is_same(host)) else {
            return Err(WaitError::Gone(self.departure().await));
        };
        let journal = self.client.get_if_there(&path(self.client, "hostjournals", self.name)?).await?;
        let mut seen = ObservedHost { host, journal: HostJournal::default() };
        seen.take_journal(journal.as_ref().map(read).transpose()?.unwrap_or_default());
        self.remember(&seen);
        Ok(seen)
    }

    fn is_same(&self, host: &BareMetalHost) -> bool {
        host.metadata.uid == self.uid
    }

    /// Finds how the host went that is not there any more, by its changes since it was seen last.
    async fn departure(&self) -> HostDeparture {
        let Ok(path) = path(self.client, "hosts", self.name) else { return HostDeparture::Unseen };
        let seen = json!({"metadata": {"uid": self.uid, "resourceVersion": self.revision}});
        let last = wait_until_gone(self.client, &path, &seen, WaitDeadline::after(LAST_LOOK)).await;
        HostDeparture::of_last(last.ok().flatten())
    }

    /// The path of the collection, with this host alone selected.
    fn selection(&self, kind: &str) -> anyhow::Result<String> {
        let collection = kinds::collection(kinds::by_name(kind)?, &self.client.namespace);
        Ok(format!("{collection}?fieldSelector=metadata.name%3D{}", self.name))
    }

    /// Prints why no answer comes, as far as that can be seen.
    async fn note_why(&mut self, seen: &ObservedHost) {
        self.next_note = Instant::now() + NOTE_EVERY;
        if self.may_ask_fleet {
            match self.client.get("/firesteel.dev/fleet").await.map_err(|error| (code_of(&error), error)) {
                Err((Some(UNAVAILABLE), error)) => self.note(format!("{error:#}")),
                // A refusal is a line of the audit log: one is enough.
                Err((Some(FORBIDDEN), _)) => self.may_ask_fleet = false,
                Ok(_) | Err(_) => {}
            }
        }
        for note in halts(self.client).await.into_iter().chain(seen.why()) {
            self.note(note);
        }
    }

    /// Prints a note once.
    fn note(&mut self, note: String) {
        if self.notes.contains(&note) {
            return;
        }
        print_line(&format!("{}: still waiting: {note}", self.name));
        self.notes.push(note);
        let excess = self.notes.len().saturating_sub(NOTES_MAX);
        self.notes.drain(..excess);
    }
}

/// Says who halted the fleet, as far as the caller may read that.
async fn halts(client: &ApiClient) -> Vec<String> {
    let Ok(kind) = kinds::by_name("halts") else { return Vec::new() };
    let halts = client.get(&kinds::collection(kind, &client.namespace)).await.unwrap_or_default();
    let line = |halt: &Value| {
        let text = |field: &str| halt["spec"][field].as_str().unwrap_or_default().to_owned();
        let (by, reason) = (text("by"), text("reason"));
        let resume = resume_command(halt["metadata"]["name"].as_str().unwrap_or_default());
        format!("the fleet is halted by {by} ({reason}): no disk is changed until `{resume}`")
    };
    halts["items"].as_array().into_iter().flatten().map(line).collect()
}

/// Says whether the same request may be answered later: the appliance was not reached, or not ready.
fn is_passing(error: &anyhow::Error) -> bool {
    !is_unreadable(error) && code_of(error).is_none_or(|code| code >= 500 || code == 429)
}

/// The path of an object of this kind that has the host's name.
pub(super) fn path(client: &ApiClient, kind: &str, host: &str) -> anyhow::Result<String> {
    Ok(format!("{}/{host}", kinds::collection(kinds::by_name(kind)?, &client.namespace)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_resources::host_journal::RequestOutcome;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_the_one_to_this_request_that_is_newer() {
        let mut seen = ObservedHost::default();
        let answer = |value: &str| RequestAnswer::new("a", value, RequestOutcome::Done, value, Timestamp::UNIX_EPOCH);
        seen.journal.status.answers.record(answer("x"));
        assert!(seen.answer("a", "x", 0).is_some() && seen.answer("a", "x", 1).is_none());
        assert!(seen.answer("a", "y", 0).is_none() && seen.answer("b", "x", 0).is_none());
        seen.journal.status.answers.record(answer("x"));
        assert_eq!(seen.answer("a", "x", 1).unwrap().number, 2, "the same request once more");
    }

    #[test]
    fn events_of_both_watches_are_taken_and_an_end_is_seen() {
        let mut seen = ObservedHost::default();
        let event = |kind: &str, what: &str| {
            let metadata = json!({"name": "h1", "uid": "u", "ownerReferences": [{"uid": "u"}]});
            json!({"type": what, "object": {
                "kind": kind, "metadata": metadata, "status": {"reason": {"text": "why"}},
            }})
        };
        assert!(seen.take(&event("HostJournal", "MODIFIED")).unwrap());
        assert_eq!(seen.why(), None, "the journal of another host");
        seen.host.metadata.uid = "u".into();
        assert!(seen.take(&event("HostJournal", "MODIFIED")).unwrap());
        assert_eq!(seen.why().as_deref(), Some("why"));
        assert!(seen.take(&event("HostJournal", "DELETED")).unwrap() && seen.why().is_none());
        assert!(!seen.take(&json!({"type": "ERROR", "object": {"kind": "Status"}})).unwrap());
        assert!(matches!(
            seen.take(&event("BareMetalHost", "DELETED")),
            Err(WaitError::Gone(HostDeparture::Untouched))
        ));
        let gone = |seen: &mut ObservedHost, state: &str, force: bool| {
            let marks = if force { json!({annotations::RELEASE_FORCE: "true"}) } else { json!({}) };
            let object = json!({"kind": "BareMetalHost", "metadata": {"name": "h1", "annotations": marks},
                "status": {"provisioning": {"state": state}}});
            match seen.take(&json!({"type": "DELETED", "object": object})) {
                Err(WaitError::Gone(departure)) => departure,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(gone(&mut seen, "deleting", false), HostDeparture::LetGo);
        assert_eq!(gone(&mut seen, "deleting", true), HostDeparture::Forced);
        assert_eq!(gone(&mut seen, "", false), HostDeparture::Untouched);
        assert_eq!(gone(&mut seen, "deprovisioning", false), HostDeparture::Unseen, "its finalizer was removed");
        seen.host.metadata.annotations.insert(annotations::PAUSED.into(), "ann".into());
        assert!(seen.why().is_some_and(|why| why.starts_with("paused by ann")));
    }
}
