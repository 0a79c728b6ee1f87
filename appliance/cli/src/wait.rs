//! `firesteel wait`: waits until objects are as they should be, as `kubectl wait` does.

mod goal;

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::Value;

use self::goal::{WaitGoal, WaitOutcome};
use super::client::with_query;
use super::follow::{CollectionFollower, FollowedEvent};
use super::get::ScopeOptions;
use super::kinds::{self, CliKind};
use super::object_words;
use super::usage::wrong_use;
use super::{ApiClient, durations, get, print_text, table};

/// kubectl's meaning of a negative time.
const A_WEEK: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, clap::Args)]
pub struct WaitOptions {
    /// KIND/NAME, or a kind with names behind it
    #[arg(value_name = "KIND/NAME", required = true)]
    what: Vec<String>,
    #[command(flatten)]
    scope: ScopeOptions,
    /// What to wait for: `condition=NAME`, `condition=NAME=False`, `jsonpath={.status.x}=VALUE`, `create` or `delete`
    #[arg(long = "for", value_name = "GOAL", value_parser = WaitGoal::parse)]
    goal: WaitGoal,
    /// How long to wait at most for all of them; 0 looks once, and a negative time is a week
    #[arg(long, value_name = "DURATION", value_parser = durations::any, default_value = "30s", allow_hyphen_values = true)]
    timeout: SignedDuration,
}

/// When to stop waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitDeadline(Option<WaitSpan>);

#[derive(Clone, Copy, Debug)]
struct WaitSpan {
    end: Instant,
    length: Duration,
}

impl WaitDeadline {
    pub(super) fn never() -> Self {
        Self(None)
    }

    pub(super) fn after(length: Duration) -> Self {
        Self(Some(WaitSpan { end: Instant::now() + length, length }))
    }

    /// Waits for a future; `None` if the time is over.
    async fn bound<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            None => Some(future.await),
            Some(WaitSpan { end, .. }) => tokio::time::timeout_at(end.into(), future).await.ok(),
        }
    }

    fn length(self) -> String {
        let seconds = self.0.map_or(0, |span| span.length.as_secs());
        table::duration(i64::try_from(seconds).unwrap_or(i64::MAX))
    }
}

/// An object that is waited for.
struct AwaitedObject {
    kind: CliKind,
    /// The path of the collection that it is in.
    collection: String,
    name: String,
}

/// # Errors
/// When an object is not there, is not as it should be when the time is over, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: &WaitOptions) -> anyhow::Result<()> {
    let objects = objects(client, options).await?;
    let length = Duration::try_from(options.timeout).unwrap_or(A_WEEK);
    let deadline = WaitDeadline::after(length);
    for object in &objects {
        let shown = object.kind.object(&object.name);
        let unmet = wait_for(client, object, &options.goal, deadline).await?;
        let Some(unmet) = unmet else {
            print_text(&format!("{shown} {}\n", options.goal.met()));
            continue;
        };
        let (goal, word, name) = (&options.goal, object.kind.word(), &object.name);
        anyhow::bail!(
            "could not wait longer than {} until {shown} {}: {unmet}; `firesteel describe {word} {name}` shows more, \
             and --timeout waits longer",
            deadline.length(),
            goal.met()
        );
    }
    Ok(())
}

/// The objects that are named, or that the selector finds.
async fn objects(client: &ApiClient, options: &WaitOptions) -> anyhow::Result<Vec<AwaitedObject>> {
    let selections = object_words::read(&options.what)?;
    options.scope.check(&selections)?;
    let mut found = Vec::new();
    for selection in selections {
        let kind = selection.kind;
        let collection = kinds::collection(kind, &client.namespace);
        if !selection.names.is_empty() {
            let named = selection.names.into_iter();
            found.extend(named.map(|name| AwaitedObject { kind, collection: collection.clone(), name }));
            continue;
        }
        let Some(selector) = options.scope.selector() else {
            object_words::need_names("wait", &[selection])?;
            continue;
        };
        let everywhere = options.scope.is_everywhere() && kind.namespaced;
        let path = if everywhere { kinds::everywhere(kind) } else { collection };
        let list = client.get(&with_query(&path, &[("labelSelector", selector.to_owned())])).await?;
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.map(|item| {
            let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
            AwaitedObject { kind, collection: kinds::collection(kind, &text("namespace")), name: text("name") }
        }));
    }
    if found.is_empty() {
        return Err(wrong_use("no object has these labels, so there is nothing to wait for: check --selector (-l)"));
    }
    Ok(found)
}

/// Waits for one object. Returns what it is like if the time is over.
async fn wait_for(
    client: &ApiClient,
    object: &AwaitedObject,
    goal: &WaitGoal,
    deadline: WaitDeadline,
) -> anyhow::Result<Option<String>> {
    let AwaitedObject { kind, collection, name } = object;
    let watched = watched(collection, name);
    loop {
        let list = client.get(&watched).await?;
        let mut current = list["items"].get(0).cloned();
        if current.is_none() && !goal.may_be_missing() {
            let found = client.get(&format!("{collection}/{name}")).await;
            current = Some(found.map_err(|error| get::missing(client, *kind, name, error))?);
        }
        let mut follower = CollectionFollower::new(client, watched.clone(), false, &list);
        loop {
            let unmet = match goal.outcome(current.as_ref()) {
                WaitOutcome::Met => return Ok(None),
                WaitOutcome::Unmet(why) => why,
            };
            match deadline.bound(follower.next()).await.transpose()? {
                None => return Ok(Some(unmet)),
                Some(FollowedEvent::Expired) => break,
                Some(FollowedEvent::Changed { object, is_deleted }) => current = (!is_deleted).then_some(object),
            }
        }
    }
}

/// Waits until this object is gone, from the state of it that was seen. Returns its last state; `None` if that is not
/// kept any more.
///
/// # Errors
/// When it is still there at the deadline, or the appliance does not answer.
pub(super) async fn wait_until_gone(
    client: &ApiClient,
    path: &str,
    seen: &Value,
    deadline: WaitDeadline,
) -> anyhow::Result<Option<Value>> {
    let (collection, name) = path.rsplit_once('/').unwrap_or((path, ""));
    let watched = watched(collection, name);
    let is_other = |object: &Value| object["metadata"]["uid"] != seen["metadata"]["uid"];
    let mut follower = CollectionFollower::new(client, watched.clone(), false, seen);
    loop {
        match deadline.bound(follower.next()).await.transpose()? {
            None => anyhow::bail!("it is still there after {}; --timeout waits longer", deadline.length()),
            Some(FollowedEvent::Expired) => {
                let list = client.get(&watched).await?;
                if list["items"].get(0).is_none_or(is_other) {
                    return Ok(None);
                }
                follower = CollectionFollower::new(client, watched.clone(), false, &list);
            }
            Some(FollowedEvent::Changed { object, .. }) if is_other(&object) => return Ok(None),
            Some(FollowedEvent::Changed { object, is_deleted: true }) => return Ok(Some(object)),
            Some(FollowedEvent::Changed { .. }) => {}
        }
    }
}

/// The path of the list that holds one object alone, or nothing. Unlike the object, it has the revision of now, which
/// can be followed.
fn watched(collection: &str, name: &str) -> String {
    with_query(collection, &[("fieldSelector", format!("metadata.name={name}"))])
}
