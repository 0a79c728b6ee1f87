//! `firesteel get -w`: prints the objects, and then each of them again when it changes.

use std::collections::BTreeMap;

use anyhow::bail;
use firesteel_resources::{BareMetalHost, HostJournal};
use jiff::Timestamp;
use serde_json::Value;

use super::hosts::{self, FleetListing};
use super::listing::{ObjectListing, complete, object_name};
use super::server_table::{ServerTable, last_seen, with_objects};
use crate::client::with_query;
use crate::follow::{CollectionFollower, FollowedEvent};
use crate::table::{self, TableLayout, TableRow, TextTable};
use crate::{ApiClient, OutputFormat, kinds, print_text};

/// Follows one listing until the user ends the command.
///
/// # Errors
/// When there is no such object, the appliance refuses, or it is away for too long.
pub(super) async fn run(client: &ApiClient, listing: &ObjectListing, output: &OutputFormat) -> anyhow::Result<()> {
    // An object that is not there is an error, as it is without the flag.
    if let Some(name) = listing.names.first() {
        let path = format!("{}/{name}", listing.collection(client));
        client.get(&path).await.map_err(|error| super::listing::missing(client, listing.kind, name, error))?;
    }
    let is_wide = *output == OutputFormat::Wide;
    let width = if is_wide { table::UNBOUNDED } else { table::output_width() };
    if !output.is_table() {
        objects(client, listing, output).await
    } else if listing.kind.is_host() {
        hosts(client, listing, is_wide, width).await
    } else {
        rows(client, listing, is_wide, width).await
    }
}

/// Prints whole objects.
async fn objects(client: &ApiClient, listing: &ObjectListing, output: &OutputFormat) -> anyhow::Result<()> {
    let path = listing.list_path(client);
    loop {
        let mut list = client.get(&path).await?;
        let mut follower = CollectionFollower::new(client, path.clone(), false, &list);
        let Value::Array(mut items) = list["items"].take() else { bail!("the appliance's answer is no list") };
        if listing.options.by_time {
            items.sort_by_cached_key(last_seen);
        }
        for item in items {
            print_object(item, listing, output)?;
        }
        while let FollowedEvent::Changed { object, .. } = follower.next().await? {
            print_object(object, listing, output)?;
        }
    }
}

fn print_object(mut object: Value, listing: &ObjectListing, output: &OutputFormat) -> anyhow::Result<()> {
    complete(&mut object, listing.kind);
    let text = output.text_of(&object)?.unwrap_or_else(|| object_name(&object) + "\n");
    let separator = if *output == OutputFormat::Yaml { "---\n" } else { "" };
    print_text(&format!("{separator}{text}"));
    Ok(())
}

/// Prints rows of tables that the appliance makes.
async fn rows(client: &ApiClient, listing: &ObjectListing, is_wide: bool, width: usize) -> anyhow::Result<()> {
    let path = with_objects(&listing.list_path(client), listing);
    let mut printer = RowPrinter::default();
    loop {
        let answer = client.get_table(&path).await?;
        let server = ServerTable::of(&answer, is_wide, listing.options.everywhere);
        let mut follower = CollectionFollower::new(client, path.clone(), true, &answer);
        let mut rows: Vec<((String, u64), TableRow)> = Vec::new();
        let answered = answer["rows"].as_array().into_iter().flatten();
        rows.extend(answered.map(|row| last_seen(&row["object"])).zip(server.rows(&answer)));
        if listing.options.by_time {
            rows.sort_by(|one, other| one.0.cmp(&other.0));
        }
        printer.print(server.table(Vec::new()), rows.into_iter().map(|(_, row)| row).collect(), width);
        while let FollowedEvent::Changed { object, .. } = follower.next().await? {
            printer.print(server.table(Vec::new()), server.rows(&object), width);
        }
    }
}

/// Prints rows below each other, in the columns of the first ones.
#[derive(Debug, Default)]
struct RowPrinter {
    layout: Option<TableLayout>,
}

impl RowPrinter {
    fn print(&mut self, table: TextTable<'_>, rows: Vec<TableRow>, width: usize) {
        if rows.is_empty() {
            return;
        }
        let table = TextTable { rows, ..table };
        let mut text = String::new();
        let layout = self.layout.get_or_insert_with(|| {
            let layout = table.layout(width);
            text = table.header_line(&layout);
            layout
        });
        table.rows.iter().for_each(|row| layout.write(row, &mut text));
        print_text(&text);
    }
}

/// Prints rows of hosts. A host changes with its journal, too, which has its reason.
async fn hosts(client: &ApiClient, listing: &ObjectListing, is_wide: bool, width: usize) -> anyhow::Result<()> {
    let everywhere = listing.options.everywhere;
    let journals = ObjectListing { kind: kinds::by_name("hostjournals")?, ..listing.clone() };
    // Labels are on hosts alone.
    let named = listing.names.first().map(|name| ("fieldSelector", format!("metadata.name={name}")));
    let journal_path = with_query(&journals.collection(client), named.as_slice());
    let path = listing.list_path(client);
    let mut printer = HostPrinter { is_wide, everywhere, width, rows: RowPrinter::default(), shown: BTreeMap::new() };
    loop {
        let (mut host_list, mut journal_list) = (client.get(&path).await?, client.get(&journal_path).await?);
        let mut host_changes = CollectionFollower::new(client, path.clone(), false, &host_list);
        let mut journal_changes = CollectionFollower::new(client, journal_path.clone(), false, &journal_list);
        let mut view = FleetListing {
            hosts: serde_json::from_value(host_list["items"].take())?,
            journals: serde_json::from_value(journal_list["items"].take())?,
            ..FleetListing::default()
        };
        printer.print(&view, view.hosts.iter());
        loop {
            let event = tokio::select! {
                event = host_changes.next() => event?,
                event = journal_changes.next() => event?,
            };
            let FollowedEvent::Changed { object, is_deleted } = event else { break };
            let key = HostRowKey::of(&object);
            match take(&mut view, object, is_deleted)? {
                Some(gone) => printer.print_gone(&view, &gone),
                None => printer.print(&view, view.hosts.iter().filter(|host| HostRowKey::of_host(host) == key)),
            }
        }
    }
}

/// Namespace and name of a host, and of its journal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HostRowKey {
    namespace: String,
    name: String,
}

impl HostRowKey {
    fn of(object: &Value) -> Self {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        Self { namespace: text("namespace"), name: text("name") }
    }

    fn of_host(host: &BareMetalHost) -> Self {
        Self { namespace: host.metadata.namespace.clone(), name: host.metadata.name.clone() }
    }
}

/// Prints hosts whose rows have changed.
struct HostPrinter {
    is_wide: bool,
    everywhere: bool,
    width: usize,
    rows: RowPrinter,
    /// What was printed last, without ages: those change by themselves.
    shown: BTreeMap<HostRowKey, TableRow>,
}

impl HostPrinter {
    fn print<'a>(&mut self, view: &FleetListing, hosts: impl Iterator<Item = &'a BareMetalHost>) {
        let now = Timestamp::now();
        let mut changed = Vec::new();
        for host in hosts {
            let plain = view.row(host, now, false, self.everywhere);
            let before = self.shown.insert(HostRowKey::of_host(host), plain.clone());
            if before.as_ref() != Some(&plain) {
                changed.push(if self.is_wide { view.row(host, now, true, self.everywhere) } else { plain });
            }
        }
        self.print_rows(changed);
    }

    fn print_gone(&mut self, view: &FleetListing, host: &BareMetalHost) {
        self.shown.remove(&HostRowKey::of_host(host));
        let mut row = view.row(host, Timestamp::now(), self.is_wide, self.everywhere);
        if let Some(reason) = row.cells.last_mut() {
            "it is gone".clone_into(reason);
        }
        self.print_rows(vec![row]);
    }

    fn print_rows(&mut self, rows: Vec<TableRow>) {
        let header = hosts::header(self.is_wide, self.everywhere);
        self.rows.print(TextTable { header, ..TextTable::default() }, rows, self.width);
    }
}

/// Takes a change into the view. Returns a host that is gone.
fn take(view: &mut FleetListing, object: Value, is_deleted: bool) -> anyhow::Result<Option<BareMetalHost>> {
    if object["kind"] == "HostJournal" {
        let journal: HostJournal = serde_json::from_value(object)?;
        let is_other = |other: &HostJournal| {
            (&other.metadata.name, &other.metadata.namespace) != (&journal.metadata.name, &journal.metadata.namespace)
        };
        view.journals.retain(is_other);
        if !is_deleted {
            view.journals.push(journal);
        }
        return Ok(None);
    }
    let host: BareMetalHost = serde_json::from_value(object)?;
    let is_same = |other: &BareMetalHost| {
        (&other.metadata.name, &other.metadata.namespace) == (&host.metadata.name, &host.metadata.namespace)
    };
    let at = view.hosts.iter().position(is_same);
    match (at, is_deleted) {
        (Some(at), false) => view.hosts[at] = host,
        (None, false) => view.hosts.push(host),
        (Some(at), true) => {
            view.hosts.remove(at);
            return Ok(Some(host));
        }
        (None, true) => {}
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_of_hosts_and_journals_meet_in_one_row() {
        let mut view = FleetListing::default();
        let host = |power: bool| {
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                   "metadata": {"name": "a", "namespace": "n"}, "spec": {"online": true}, "status": {"poweredOn": power}})
        };
        let reason = json!({"text": "booting", "location": "", "since": "2026-01-01T00:00:00Z"});
        let journal =
            json!({"kind": "HostJournal", "metadata": {"name": "a", "namespace": "n"}, "status": {"reason": reason}});
        for object in [host(false), journal, host(true)] {
            assert!(take(&mut view, object, false).unwrap().is_none());
        }
        let row = view.row(&view.hosts[0].clone(), Timestamp::UNIX_EPOCH, false, true);
        assert_eq!(row.cells, ["n", "a", "new", "on", "-", "booting"]);
        assert!(take(&mut view, host(true), true).unwrap().is_some() && view.hosts.is_empty());
    }
}
