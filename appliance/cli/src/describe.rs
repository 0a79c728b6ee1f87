//! `firesteel describe KIND NAME`: shows everything that explains the state of an object. Hosts, groups of hosts and
//! machines that are no hosts have pages of their own.

mod answers;
mod claimants;
mod disk_plan;
mod evidence;
mod group;
mod hardware;
pub(crate) mod machine;
mod object;
mod timeline;

use firesteel_facts::shown_url;
use firesteel_plan::host::NETWORK_BOOT;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;
use firesteel_resources::{BareMetalHost, Condition, ConditionStatus, HostGroup, HostJournal};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::warn_and_default;
use super::kinds::CliKind;
use super::table::{self, TableRow, TextTable, bytes, clean, duration, first_lines, wrap, wrap_after};
use super::{ApiClient, OutputFormat, get, kinds, object_words, print_text, receipt};

#[derive(Debug, clap::Args)]
pub struct DescribeOptions {
    /// `host`, or another kind by its plural or short name, with names behind it; or KIND/NAME
    ///
    /// A machine that is no host is described by its MAC, as `get hosts` shows it.
    #[arg(value_name = "KIND NAME", required = true)]
    what: Vec<String>,
    /// Show which line of the source decided, too
    #[arg(long)]
    verbose: bool,
    /// table, yaml, json or jsonpath=TEMPLATE
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputFormat::of_page, default_value = "table")]
    output: OutputFormat,
}

/// How pages are printed.
#[derive(Clone, Copy, Debug)]
struct PageStyle<'a> {
    output: &'a OutputFormat,
    is_verbose: bool,
    width: usize,
}

/// # Errors
/// When there is no such object, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, options: DescribeOptions) -> anyhow::Result<()> {
    let DescribeOptions { what, verbose, output } = options;
    let selections = object_words::read(&what)?;
    object_words::need_names("describe", &selections)?;
    let style = PageStyle { output: &output, is_verbose: verbose, width: table::output_width() };
    let mut is_first = true;
    for selection in selections {
        for name in &selection.names {
            if !std::mem::take(&mut is_first) && output.is_table() {
                print_text("\n\n");
            }
            one(client, selection.kind, name, style).await?;
        }
    }
    Ok(())
}

async fn one(client: &ApiClient, kind: CliKind, name: &str, style: PageStyle<'_>) -> anyhow::Result<()> {
    let is_mac = name.parse::<firesteel_facts::Mac>().is_ok();
    if is_mac && (kind.is_host() || kind.kind == "DiscoveredHost") {
        return machine::run(client, name, style).await;
    }
    let path = format!("{}/{name}", kinds::collection(kind, &client.namespace));
    let object = client.get(&path).await.map_err(|error| get::missing(client, kind, name, error))?;
    if kind.is_host() {
        return host(client, name, object, style).await;
    }
    if let Some(text) = style.output.text_of(&object)? {
        print_text(&text);
        return Ok(());
    }
    if kind.kind == "HostGroup" {
        let group: HostGroup = serde_json::from_value(object)?;
        let hosts: Vec<BareMetalHost> = get::list(client, "baremetalhosts").await?;
        print_text(&group::render(&group, &hosts, Timestamp::now(), style.width));
        return Ok(());
    }
    let events = object::events(client, kind, name).await?;
    print_text(&object::render(&object, &events, Timestamp::now(), style.width)?);
    Ok(())
}

async fn host(client: &ApiClient, name: &str, object: Value, style: PageStyle<'_>) -> anyhow::Result<()> {
    let companion = async |kind: &str| -> anyhow::Result<Option<Value>> {
        let path = kinds::collection(kinds::by_name(kind)?, &client.namespace);
        client.get_if_there(&format!("{path}/{name}")).await
    };
    let journal = companion("hostjournals").await;
    if !style.output.is_table() {
        let all = json!({"host": object, "journal": journal?, "hardware": companion("hardwaredata").await?});
        print_text(&style.output.text_of(&all)?.unwrap_or_default());
        return Ok(());
    }
    let host: BareMetalHost = serde_json::from_value(object)?;
    let journal: HostJournal = warn_and_default(journal)?.map(serde_json::from_value).transpose()?.unwrap_or_default();
    print_text(&page(&host, &journal, Timestamp::now(), style.width, style.is_verbose));
    let signed = warn_and_default(receipt::of(client, Some(name)).await)?;
    if !signed.is_empty() {
        print_text(&format!(
            "\nSigned receipts (`firesteel receipt export {name}`)\n{}",
            receipt::table(&signed, style.width)
        ));
    }
    Ok(())
}

/// A page of fields, tables and texts, as wide as the terminal.
pub(super) struct TextPage {
    text: String,
    width: usize,
}

impl TextPage {
    pub(super) fn new(width: usize) -> Self {
        Self { text: String::new(), width }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    pub(super) fn field(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let indent = 14;
        let lines = wrap(&clean(value), self.width.saturating_sub(indent).max(20));
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 && !name.is_empty() { format!("{name}:") } else { String::new() };
            self.text.push_str(format!("{label:indent$}{line}").trim_end());
            self.text.push('\n');
        }
    }

    pub(super) fn title(&mut self, title: &str) {
        self.text.push('\n');
        self.text.push_str(&clean(title));
        self.text.push('\n');
    }

    /// Writes `text` behind `start`, and its further lines below `indent`.
    pub(super) fn item(&mut self, start: &str, text: &str, indent: usize) {
        let start = clean(start);
        let (mut before, further) = (start.clone(), " ".repeat(indent));
        let first = self.width.saturating_sub(start.chars().count()).max(20);
        let lines = wrap_after(&clean(text), first, self.width.saturating_sub(indent).max(20));
        for line in lines {
            self.text.push_str(format!("{before}{line}").trim_end());
            self.text.push('\n');
            before.clone_from(&further);
        }
    }

    /// Writes a line as it is; one that is too long goes on below its beginning.
    pub(super) fn line(&mut self, line: &str) {
        if line.chars().count() <= self.width {
            self.text.push_str(clean(line).trim_end());
            self.text.push('\n');
            return;
        }
        let text = line.trim_start();
        let indent = line.len() - text.len();
        self.item(&line[..indent], text, indent + 2);
    }

    pub(super) fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>, expendable: &[&str]) {
        let rows = rows.into_iter().map(TableRow::whole).collect();
        let table = TextTable { header: header.to_vec(), rows, expendable };
        self.text.push_str(&table.render(self.width));
    }
}

/// Renders the whole page of a host for a person, as wide as the terminal.
#[must_use]
pub fn render(host: &BareMetalHost, journal: &HostJournal, now: Timestamp, width: usize) -> String {
    page(host, journal, now, width, false)
}

/// Renders the page; a verbose one names the line of the source that decided.
fn page(host: &BareMetalHost, journal: &HostJournal, now: Timestamp, width: usize, is_verbose: bool) -> String {
    let mut page = TextPage { text: String::new(), width };
    let status = host.status.clone().unwrap_or_default();
    page.field("Name", &host.metadata.name);
    page.field("State", &get::state(host));
    if let Some(reason) = &journal.status.reason {
        page.field("Reason", &reason.text);
        let source = if is_verbose { format!("; decided at {}", reason.location) } else { String::new() };
        page.field("", &format!("for {}, since {}{source}", ago(reason.since, now), table::time(reason.since)));
    }
    if let Some(lock) = host.metadata.annotation(annotations::LOCK) {
        let why = if lock.is_empty() { String::new() } else { format!(" ({lock})") };
        page.field("Locked", &format!("yes{why}: no disk is changed until `firesteel unlock {}`", host.metadata.name));
    }
    page.field("Error", &status.error_message);
    hints(&mut page, &status.conditions);
    page.field("Power", get::power(host));
    page.field("Boot MAC", &host.spec.boot_mac_address);
    if let Some(bmc) = &host.spec.bmc {
        page.field("BMC", &shown_url(&bmc.address));
    }
    if let Some(image) = &host.spec.image {
        page.field("Image", &shown_url(&image.url));
    }
    if let Some(progress) = &journal.status.progress {
        let amount = if progress.total_bytes > 0 {
            format!(", {} of {}", bytes(progress.done_bytes), bytes(progress.total_bytes))
        } else {
            String::new()
        };
        let (step, percent, activity) = (&progress.step, progress.percent, &progress.activity);
        page.field("Progress", &format!("{step} {percent}%: {activity}{amount}{}", table::speed(progress, now)));
    }
    conditions(&mut page, &status.conditions, now);
    answers::render(&mut page, journal, now);
    claimants::render(&mut page, journal, now);
    hardware::render(&mut page, host, journal);
    disk_plan::render(&mut page, journal);
    timeline::render(&mut page, journal);
    evidence::render(&mut page, journal);
    page.text
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(at).as_secs())
}

/// Shows in full what keeps the host from its agent, and its new OS from running.
fn hints(page: &mut TextPage, conditions: &[Condition]) {
    let message = |type_: &str, is_hint: fn(&Condition) -> bool| {
        let found = find_condition(conditions, type_).filter(|found| found.status == ConditionStatus::False);
        found.filter(|found| is_hint(found)).map(|found| found.message.clone()).unwrap_or_default()
    };
    page.field("Hint", &message(NETWORK_BOOT, |_| true));
    page.field("First boot", &message("Running", |found| matches!(found.reason.as_str(), "Waiting" | "ConfigFetched")));
}

fn conditions(page: &mut TextPage, conditions: &[Condition], now: Timestamp) {
    if conditions.is_empty() {
        return;
    }
    page.title("Conditions");
    let rows: Vec<Vec<String>> = conditions
        .iter()
        .map(|condition| {
            let text = if condition.message.is_empty() { &condition.reason } else { &condition.message };
            vec![
                format!("  {}", condition.type_),
                format!("{:?}", condition.status),
                ago(condition.last_transition_time, now),
                clean(text),
            ]
        })
        .collect();
    page.table(&["  TYPE", "STATUS", "FOR", "WHY"], rows, &["FOR"]);
}
