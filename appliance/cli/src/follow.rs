//! Follows the objects of a collection, over restarts of the appliance.

use std::time::{Duration, Instant};

use anyhow::bail;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::ApiClient;
use super::client::{UnreachedError, WatchEvents, code_of};

/// How long to wait before a watch that ended is opened again.
const REOPEN: Duration = Duration::from_secs(1);
/// How long an appliance may be away, for a restart, before the command ends.
const AWAY_MAX: Duration = Duration::from_mins(2);
/// The code of a revision whose history is gone.
const GONE: u16 = 410;

/// The changes of a collection from a revision on.
pub(crate) struct CollectionFollower<'a> {
    client: &'a ApiClient,
    /// The path of the collection, with its query.
    path: String,
    /// Whether rows of a table come in place of objects.
    as_table: bool,
    revision: String,
    events: Option<WatchEvents>,
    away_since: Option<Instant>,
}

/// What a follower gets next.
#[derive(Debug)]
pub(crate) enum FollowedEvent {
    Changed {
        object: Value,
        is_deleted: bool,
    },
    /// The history is gone: list the objects, and follow them from there.
    Expired,
}

impl<'a> CollectionFollower<'a> {
    /// Prepares to follow what changes after a revision, as a list or an object has it.
    pub(crate) fn new(client: &'a ApiClient, path: String, as_table: bool, listed: &Value) -> Self {
        let revision = revision_of(listed).unwrap_or_default().to_owned();
        Self { client, path, as_table, revision, events: None, away_since: None }
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// When the appliance refuses, or is away for too long.
    pub(crate) async fn next(&mut self) -> anyhow::Result<FollowedEvent> {
        loop {
            let Some(events) = &mut self.events else {
                match self.open().await {
                    Ok(()) => continue,
                    Err(error) if code_of(&error) == Some(GONE) => return Ok(FollowedEvent::Expired),
                    Err(error) => return Err(error),
                }
            };
            // The appliance closes watches now and then, and when it restarts.
            let Some(Ok(mut event)) = events.next().await else {
                self.events = None;
                tokio::time::sleep(REOPEN).await;
                continue;
            };
            let object = event["object"].take();
            let word = event["type"].as_str().unwrap_or_default();
            if word == "ERROR" {
                if object["code"] == GONE {
                    return Ok(FollowedEvent::Expired);
                }
                bail!("could not follow {}: {}", self.path, object["message"].as_str().unwrap_or("the watch failed"));
            }
            if let Some(revision) = revision_of(&object) {
                self.revision = revision.to_owned();
            }
            if word != "BOOKMARK" {
                return Ok(FollowedEvent::Changed { object, is_deleted: word == "DELETED" });
            }
        }
    }

    /// Opens the watch; waits for an appliance that is away.
    async fn open(&mut self) -> anyhow::Result<()> {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let (path, revision) = (&self.path, &self.revision);
        let path = format!("{path}{separator}resourceVersion={revision}&allowWatchBookmarks=true");
        loop {
            match self.client.watch_as(&path, self.as_table).await {
                Ok(events) => {
                    (self.events, self.away_since) = (Some(events), None);
                    return Ok(());
                }
                Err(error) if is_away(&error) => {
                    let since = *self.away_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > AWAY_MAX {
                        return Err(error);
                    }
                    tokio::time::sleep(REOPEN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the appliance may answer soon: it starts again, or has too much to do.
fn is_away(error: &anyhow::Error) -> bool {
    error.is::<UnreachedError>() || code_of(error).is_some_and(|code| code == 429 || code >= 500)
}

/// The revision of an object, a list, a table, or the bookmark of a table.
fn revision_of(value: &Value) -> Option<&str> {
    let places = ["/metadata/resourceVersion", "/rows/0/object/metadata/resourceVersion"];
    places.iter().find_map(|place| value.pointer(place)?.as_str())
}
