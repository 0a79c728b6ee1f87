//! The table of `firesteel get hosts`: hosts with their reasons, machines that are no hosts, and what stops the fleet.

use anyhow::Context as _;
use firesteel_facts::shown_url;
use firesteel_plan::host::DAMAGED;
use firesteel_plan::journal::attempt;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;
use firesteel_resources::halt::Halt;
use firesteel_resources::{BareMetalHost, ConditionStatus, HostJournal};
use jiff::Timestamp;
use serde_json::Value;

use super::listing::{FoundObjects, ObjectListing, complete, fetch};
use super::{list, list_in, state};
use crate::client::{default_if_forbidden, warn_and_default};
use crate::halt::resume_command;
use crate::table::{self, TableRow, TextTable, clean};
use crate::unowned_machines::Strangers;
use crate::{ApiClient, kinds};

/// The columns that go first where an error needs their room.
const EXPENDABLE: [&str; 2] = ["DONE", "POWER"];
/// The beginning of the reason of a locked host. The table says it in its own words.
const LOCKED_REASON: &str = "locked by its owner";

/// Everything that the table shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct FleetListing {
    pub(crate) hosts: Vec<BareMetalHost>,
    pub(crate) journals: Vec<HostJournal>,
    pub(crate) strangers: Strangers,
    pub(crate) halts: Vec<Halt>,
}

impl FleetListing {
    /// Fetches what the table shows, and says which hosts are missing.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(super) async fn read(
        client: &ApiClient,
        listing: &ObjectListing,
    ) -> anyhow::Result<(Self, Vec<anyhow::Error>)> {
        let FoundObjects { items, errors } = fetch(client, listing).await?;
        let hosts: Vec<BareMetalHost> =
            serde_json::from_value(Value::Array(items)).context("could not read the hosts")?;
        let journals = if listing.names.is_empty() {
            list_in(client, "hostjournals", listing.options.everywhere).await
        } else {
            journals_of(client, &listing.names).await
        };
        let strangers = if listing.is_whole() { Strangers::read(client).await? } else { Strangers::default() };
        let halts = warn_and_default(default_if_forbidden(list(client, "halts").await))?;
        let journals = warn_and_default(default_if_forbidden(journals))?;
        Ok((Self { hosts, journals, strangers, halts }, errors))
    }

    /// Renders the table; an empty text if there are no machines.
    pub(crate) fn render(&self, now: Timestamp, width: usize, is_wide: bool, everywhere: bool) -> String {
        let mut rows: Vec<TableRow> = self.hosts.iter().map(|host| self.row(host, now, is_wide, everywhere)).collect();
        rows.extend(self.strangers.rows(&self.hosts, now).into_iter().map(|mut row| {
            let reason = row.cells.pop();
            let wide = std::iter::repeat_n("-".to_owned(), if is_wide { WIDE.len() } else { 0 });
            let namespace = everywhere.then(|| "-".to_owned());
            let cells = namespace.into_iter().chain(row.cells).chain(wide).chain(reason).collect();
            TableRow::new(cells, row.may_be_cut)
        }));
        if rows.is_empty() {
            return String::new();
        }
        TextTable { header: header(is_wide, everywhere), rows, expendable: &EXPENDABLE }.render(width)
    }

    /// Says what stops the fleet, behind an empty line.
    pub(crate) fn notes(&self, width: usize) -> String {
        let lines = self.halts.iter().flat_map(|halt| table::wrap(&clean(&halt_line(halt)), width));
        let text: String = lines.map(|line| line + "\n").collect();
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// The row of a host.
    pub(super) fn row(&self, host: &BareMetalHost, now: Timestamp, is_wide: bool, everywhere: bool) -> TableRow {
        let is_same = |journal: &&HostJournal| {
            let (own, other) = (&host.metadata, &journal.metadata);
            own.name == other.name && own.namespace == other.namespace
        };
        let journal = self.journals.iter().find(is_same).map(|journal| &journal.status);
        // The progress of an earlier attempt is none.
        let progress = journal
            .and_then(|journal| journal.progress.as_ref().filter(|progress| progress.attempt == attempt(journal)));
        let percent = progress.map(|progress| format!("{}%", progress.percent));
        let waits = journal.and_then(|journal| journal.reason.as_ref()).map_or("", |reason| reason.text.as_str());
        let reason = reason(host, waits);
        let wide = || {
            let consumer = host.spec.consumer_ref.as_ref().map_or("", |consumer| consumer.name.as_str());
            let bmc = host.spec.bmc.as_ref().map(|bmc| shown_url(&bmc.address)).unwrap_or_default();
            let created = host.metadata.creation_timestamp;
            let age = created.map(|at| table::duration(now.duration_since(at).as_secs())).unwrap_or_default();
            [consumer, &host.spec.boot_mac_address, &bmc, &age]
                .map(|text| clean(if text.is_empty() { "-" } else { text }))
        };
        let first = [
            clean(&host.metadata.name),
            state(host),
            super::power(host).to_owned(),
            percent.unwrap_or_else(|| "-".to_owned()),
        ];
        let namespace = everywhere.then(|| clean(&host.metadata.namespace));
        let wide = is_wide.then(wide).into_iter().flatten();
        let cells = namespace.into_iter().chain(first).chain(wide).chain([clean(&reason.text)]).collect();
        TableRow::new(cells, !reason.is_wrong)
    }
}

/// The further columns of `-o wide`.
const WIDE: [&str; 4] = ["CONSUMER", "BOOT MAC", "BMC", "AGE"];

/// The names of the columns.
pub(super) fn header(is_wide: bool, everywhere: bool) -> Vec<&'static str> {
    let namespace = everywhere.then_some("NAMESPACE").into_iter();
    let wide = WIDE.into_iter().filter(|_| is_wide);
    namespace.chain(["NAME", "STATE", "POWER", "DONE"]).chain(wide).chain(["REASON"]).collect()
}

/// The reason of a host in the table.
struct ShownReason {
    text: String,
    /// Whether a person has to act, so that nothing of it may be cut.
    is_wrong: bool,
}

fn reason(host: &BareMetalHost, waits: &str) -> ShownReason {
    let status = host.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let damaged = find_condition(conditions, DAMAGED).filter(|damaged| damaged.status == ConditionStatus::True);
    let error = status.map_or("", |status| status.error_message.as_str());
    let lock = host.metadata.annotation(annotations::LOCK);
    let locked = lock.map(|why| if why.is_empty() { "LOCKED".to_owned() } else { format!("LOCKED: {why}") });
    let waits = if lock.is_some() && waits.starts_with(LOCKED_REASON) { "" } else { waits };
    let what = match damaged {
        Some(damaged) => format!("DAMAGED: {}", damaged.message),
        None if error.is_empty() => waits.to_owned(),
        None => format!("ERROR: {error}"),
    };
    let is_wrong = damaged.is_some() || !error.is_empty() || locked.is_some();
    let parts = locked.into_iter().chain(Some(what).filter(|what| !what.is_empty()));
    ShownReason { text: parts.collect::<Vec<_>>().join("; "), is_wrong }
}

/// Says who stopped the fleet, why, and what ends that.
pub(crate) fn halt_line(halt: &Halt) -> String {
    let (name, spec) = (&halt.metadata.name, &halt.spec);
    let since = halt.metadata.creation_timestamp.map(|at| format!(" since {}", table::time(at))).unwrap_or_default();
    let resume = resume_command(name);
    format!(
        "The fleet is halted by {}{since}: {}; no disk of any host is changed until `{resume}`",
        spec.by, spec.reason
    )
}

async fn journals_of(client: &ApiClient, names: &[String]) -> anyhow::Result<Vec<HostJournal>> {
    let collection = kinds::collection(kinds::by_name("hostjournals")?, &client.namespace);
    let mut journals = Vec::new();
    for name in names {
        if let Some(journal) = client.get_if_there(&format!("{collection}/{name}")).await? {
            journals.push(serde_json::from_value(journal).context("could not read a journal")?);
        }
    }
    Ok(journals)
}

/// The machines that were discovered, as objects: the table of hosts has them, too.
pub(super) async fn discovered_objects(client: &ApiClient) -> anyhow::Result<Vec<Value>> {
    let kind = kinds::by_name("discoveredhosts")?;
    let mut list = default_if_forbidden(client.get(&kinds::collection(kind, "")).await)?;
    let Value::Array(mut items) = list["items"].take() else { return Ok(Vec::new()) };
    items.iter_mut().for_each(|item| complete(item, kind));
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_shown_before_what_is_wrong_besides() {
        let mut host = BareMetalHost::default();
        let shown = |host: &BareMetalHost, waits: &str| {
            let ShownReason { text, is_wrong } = reason(host, waits);
            (text, is_wrong)
        };
        assert_eq!(shown(&host, "waiting for the host to boot"), ("waiting for the host to boot".to_owned(), false));
        host.metadata.annotations.insert(annotations::LOCK.into(), "audit".into());
        assert_eq!(shown(&host, "locked by its owner (audit): no disk"), ("LOCKED: audit".to_owned(), true));
        assert_eq!(shown(&host, "powering on"), ("LOCKED: audit; powering on".to_owned(), true));
        let status = firesteel_resources::BareMetalHostStatus { error_message: "no disk".into(), ..Default::default() };
        host.status = Some(status);
        assert_eq!(shown(&host, "x"), ("LOCKED: audit; ERROR: no disk".to_owned(), true));
    }

    #[test]
    fn a_halt_says_who_why_and_what_ends_it() {
        let mut halt = Halt::default();
        (halt.metadata.name, halt.spec.by, halt.spec.reason) = ("audit".into(), "ann".into(), "wrong disks".into());
        halt.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
        let line = halt_line(&halt);
        assert!(line.contains("halted by ann since 1970-01-01T00:00:00Z: wrong disks"), "{line}");
        assert!(line.contains("`firesteel resume --name audit`"), "{line}");
    }
}
