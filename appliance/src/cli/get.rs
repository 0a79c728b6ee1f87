//! `firesteel get KIND [NAME]`: lists objects.

use anyhow::Context as _;
use firesteel_plan::host::DAMAGED;
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_group::{CANARY_HALTED, DEGRADED, ImageReference};
use firesteel_resources::{BareMetalHost, ConditionStatus, DiscoveredHost, HostGroup, HostJournal};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::warn_and_default;
use super::table::{self, clean};
use super::unowned_machines::Strangers;
use super::{ApiClient, OutputFormat, kinds, print_text};

/// # Errors
/// When there is no such kind or object, or the appliance does not answer.
pub(crate) async fn run(
    client: &ApiClient,
    kind: &str,
    name: Option<&str>,
    output: OutputFormat,
) -> anyhow::Result<()> {
    let found = kinds::by_name(kind)?;
    let collection = kinds::collection(found, &client.namespace);
    let path = name.map_or_else(|| collection.clone(), |name| format!("{collection}/{name}"));
    let value = client.get(&path).await?;
    if output == OutputFormat::Json {
        print_text(&(serde_json::to_string_pretty(&value)? + "\n"));
        return Ok(());
    }
    let items = match value.get("items") {
        Some(Value::Array(items)) => items.clone(),
        _ => vec![value],
    };
    if found.kind == "BareMetalHost" {
        let strangers = if name.is_none() { Strangers::read(client).await? } else { Strangers::default() };
        return hosts(client, items, &strangers).await;
    }
    if found.kind == "HostGroup" && !items.is_empty() {
        return groups(items);
    }
    if items.is_empty() {
        print_text(&format!("no {} in namespace {}\n", found.plural, clean(&client.namespace)));
        return Ok(());
    }
    let (header, rows) = columns(&client.get_table(&path).await?);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    print_text(&table::render(&header, &rows, table::terminal_width()));
    Ok(())
}

/// The columns that `kubectl get` shows of a table: those of priority 0.
fn columns(answer: &Value) -> (Vec<String>, Vec<Vec<String>>) {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let shown: Vec<(usize, String)> = list(answer, "columnDefinitions")
        .iter()
        .enumerate()
        .filter(|(_, column)| column["priority"].as_i64().unwrap_or(0) == 0)
        .map(|(at, column)| (at, clean(column["name"].as_str().unwrap_or_default()).to_uppercase()))
        .collect();
    let cell = |row: &Value, at: usize| match &row["cells"][at] {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => clean(text),
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => clean(&value.to_string()),
    };
    let rows = list(answer, "rows").iter().map(|row| shown.iter().map(|(at, _)| cell(row, *at)).collect()).collect();
    (shown.into_iter().map(|(_, name)| name).collect(), rows)
}

/// Fetches all objects of a kind, typed.
pub(super) async fn list<T: DeserializeOwned>(client: &ApiClient, kind: &str) -> anyhow::Result<Vec<T>> {
    let found = kinds::by_name(kind)?;
    let value = client.get(&kinds::collection(found, &client.namespace)).await?;
    let items = value.get("items").cloned().unwrap_or(Value::Array(Vec::new()));
    serde_json::from_value(items).with_context(|| format!("could not read the list of {}", found.plural))
}

/// Fetches the machines that are not adopted.
pub(super) async fn discovered(client: &ApiClient) -> anyhow::Result<Vec<DiscoveredHost>> {
    list(client, "discoveredhosts").await
}

async fn hosts(client: &ApiClient, items: Vec<Value>, strangers: &Strangers) -> anyhow::Result<()> {
    let hosts: Vec<BareMetalHost> = serde_json::from_value(Value::Array(items)).context("could not read the hosts")?;
    let journals: Vec<HostJournal> = warn_and_default(list(client, "hostjournals").await)?;
    let mut rows: Vec<Vec<String>> = hosts
        .iter()
        .map(|host| {
            let journal = journals.iter().find(|journal| journal.metadata.name == host.metadata.name);
            row(host, journal)
        })
        .collect();
    rows.extend(strangers.rows(&hosts, Timestamp::now()));
    if rows.is_empty() {
        print_text(&format!(
            "no hosts in namespace {}; `firesteel apply -f FILE` adds one, and a machine that boots from the network appears by itself\n",
            client.namespace
        ));
        return Ok(());
    }
    print_text(&table::render(&["NAME", "STATE", "POWER", "DONE", "REASON"], &rows, table::terminal_width()));
    Ok(())
}

fn groups(items: Vec<Value>) -> anyhow::Result<()> {
    let groups: Vec<HostGroup> = serde_json::from_value(Value::Array(items)).context("could not read the groups")?;
    let rows: Vec<Vec<String>> = groups.iter().map(group_row).collect();
    let header = ["NAME", "STREAM", "CURRENT", "GOLDEN", "CANARY", "HOSTS", "RUNNING", "WRONG"];
    print_text(&table::render(&header, &rows, table::terminal_width()));
    Ok(())
}

fn group_row(group: &HostGroup) -> Vec<String> {
    let (image, status) = (&group.spec.image, &group.status);
    let release = |image: Option<&ImageReference>| match image {
        None => "-".to_owned(),
        Some(image) if image.release.is_empty() => "own".to_owned(),
        Some(image) => clean(&image.release),
    };
    let wrong = [DEGRADED, CANARY_HALTED].into_iter().find_map(|type_| {
        find_condition(&status.conditions, type_).filter(|found| found.status == ConditionStatus::True)
    });
    vec![
        clean(&group.metadata.name),
        clean(if image.stream.is_empty() { "-" } else { &image.stream }),
        release(status.current.as_ref()),
        release(status.golden.as_ref()),
        status.canary.as_ref().map_or_else(|| "-".to_owned(), |canary| format!("{:?}", canary.state)),
        status.hosts.total.to_string(),
        status.hosts.running.to_string(),
        wrong.map_or_else(|| "-".to_owned(), |found| clean(&format!("{}: {}", found.reason, found.message))),
    ]
}

fn row(host: &BareMetalHost, journal: Option<&HostJournal>) -> Vec<String> {
    let status = host.status.clone().unwrap_or_default();
    let journal = journal.map(|journal| &journal.status);
    let percent =
        journal.and_then(|journal| journal.progress.as_ref()).map(|progress| format!("{}%", progress.percent));
    let damaged =
        find_condition(&status.conditions, DAMAGED).filter(|condition| condition.status == ConditionStatus::True);
    let reason = match damaged {
        Some(damaged) => format!("DAMAGED: {}", damaged.message),
        None if status.error_message.is_empty() => {
            journal.and_then(|journal| journal.reason.as_ref()).map(|reason| reason.text.clone()).unwrap_or_default()
        }
        None => format!("ERROR: {}", status.error_message),
    };
    vec![
        clean(&host.metadata.name),
        state(host),
        if status.powered_on { "on" } else { "off" }.to_owned(),
        percent.unwrap_or_else(|| "-".to_owned()),
        clean(&reason),
    ]
}

/// The host's state in upstream's word.
pub(super) fn state(host: &BareMetalHost) -> String {
    let state = host.status.as_ref().map(|status| status.provisioning.state.to_string()).unwrap_or_default();
    if state.is_empty() { "new".to_owned() } else { state }
}
