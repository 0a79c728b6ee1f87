//! `firesteel describe host NAME`: shows everything that explains the state of a host, or of a group of hosts.

mod answers;
mod claimants;
mod disk_plan;
mod group;
mod hardware;
mod machine;

use anyhow::bail;
use firesteel_facts::shown_url;
use firesteel_plan::host::{CleanedNote, NETWORK_BOOT};
use firesteel_plan::{HostMemory, disk::CleaningMethod, journal::memory};
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::ReceiptRecord;
use firesteel_resources::{BareMetalHost, Condition, ConditionStatus, HostGroup, HostJournal};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::warn_and_default;
use super::table::{self, bytes, clean, cut, duration, first_lines, wrap};
use super::{ApiClient, OutputFormat, get, kinds, print_text, receipt};

/// # Errors
/// When there is no such object, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, kind: &str, name: &str, output: OutputFormat) -> anyhow::Result<()> {
    let found = kinds::by_name(kind)?;
    if found.kind == "BareMetalHost" && name.parse::<firesteel_facts::Mac>().is_ok() {
        return machine::run(client, name, output).await;
    }
    let object = client.get(&format!("{}/{name}", kinds::collection(found, &client.namespace))).await?;
    if found.kind == "HostGroup" && output != OutputFormat::Json {
        let group: HostGroup = serde_json::from_value(object)?;
        let hosts: Vec<BareMetalHost> = get::list(client, "baremetalhosts").await?;
        print_text(&group::render(&group, &hosts, Timestamp::now(), table::terminal_width()));
        return Ok(());
    }
    if found.kind != "BareMetalHost" {
        if output == OutputFormat::Json {
            print_text(&(serde_json::to_string_pretty(&object)? + "\n"));
        } else {
            bail!(
                "describe knows hosts and hostgroups; for {} use `firesteel get {} {name} -o json`",
                found.plural,
                found.plural
            );
        }
        return Ok(());
    }
    let companion = async |kind: &str| -> anyhow::Result<Option<Value>> {
        let path = kinds::collection(kinds::by_name(kind)?, &client.namespace);
        client.get_if_there(&format!("{path}/{name}")).await
    };
    let journal = companion("hostjournals").await;
    if output == OutputFormat::Json {
        let all = json!({"host": object, "journal": journal?, "hardware": companion("hardwaredata").await?});
        print_text(&(serde_json::to_string_pretty(&all)? + "\n"));
        return Ok(());
    }
    let host: BareMetalHost = serde_json::from_value(object)?;
    let journal: HostJournal = warn_and_default(journal)?.map(serde_json::from_value).transpose()?.unwrap_or_default();
    let width = table::terminal_width();
    print_text(&render(&host, &journal, Timestamp::now(), width));
    let signed = warn_and_default(receipt::of(client, Some(name)).await)?;
    if !signed.is_empty() {
        print_text(&format!(
            "\nSigned receipts (`firesteel receipt export {name}`)\n{}",
            receipt::table(&signed, width)
        ));
    }
    Ok(())
}

struct TextPage {
    text: String,
    width: usize,
}

impl TextPage {
    fn field(&mut self, name: &str, value: &str) {
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

    fn title(&mut self, title: &str) {
        self.text.push('\n');
        self.text.push_str(&clean(title));
        self.text.push('\n');
    }

    /// Writes `text` behind `start`, and its further lines below its beginning or below `indent`.
    fn item(&mut self, start: &str, text: &str, indent: usize) {
        let start = clean(start);
        let (mut before, further) = (start.clone(), " ".repeat(indent));
        let first = self.width.saturating_sub(start.chars().count()).max(20);
        let lines = wrap(&clean(text), first.min(self.width.saturating_sub(indent).max(20)));
        for line in lines {
            self.text.push_str(format!("{before}{line}").trim_end());
            self.text.push('\n');
            before.clone_from(&further);
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(cut(&clean(line), self.width).trim_end());
        self.text.push('\n');
    }
}

/// Renders the whole page for a person, as wide as the terminal.
#[must_use]
pub fn render(host: &BareMetalHost, journal: &HostJournal, now: Timestamp, width: usize) -> String {
    let mut page = TextPage { text: String::new(), width };
    let status = host.status.clone().unwrap_or_default();
    page.field("Name", &host.metadata.name);
    page.field("State", &get::state(host));
    if let Some(reason) = &journal.status.reason {
        page.field("Reason", &reason.text);
        page.field("", &format!("for {}; decided at {}", ago(reason.since, now), reason.location));
    }
    page.field("Error", &status.error_message);
    hints(&mut page, &status.conditions);
    page.field("Power", if status.powered_on { "on" } else { "off" });
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
    timeline(&mut page, journal);
    receipts(&mut page, journal);
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
    page.text.push_str(&table::render(&["  TYPE", "STATUS", "FOR", "WHY"], &rows, page.width));
}

fn timeline(page: &mut TextPage, journal: &HostJournal) {
    let history = journal.status.history();
    if history.is_empty() {
        return;
    }
    page.title("Timeline");
    let mut previous: Option<Timestamp> = None;
    let mut attempt = None;
    for event in &history {
        if attempt != Some(event.attempt) {
            page.line(&format!("  attempt {}", event.attempt));
            attempt = Some(event.attempt);
        }
        let since = previous.map_or(0.0, |before| event.at.duration_since(before).as_secs_f64());
        previous = Some(event.at);
        let clock = event.at.strftime("%H:%M:%S").to_string();
        let start = format!("  {clock} {since:>+7.1}s  {:<20}  ", event.event);
        let size = event.bytes.map(bytes).into_iter();
        let text: Vec<String> = size.chain(Some(event.detail.clone()).filter(|detail| !detail.is_empty())).collect();
        page.item(&start, &text.join(", "), start.chars().count());
    }
}

fn receipts(page: &mut TextPage, journal: &HostJournal) {
    if journal.status.receipts.is_empty() {
        return;
    }
    page.title("Receipts");
    let proven = memory(&journal.status).ok().and_then(|memory| proven_in(&memory));
    for receipt in &journal.status.receipts {
        let start = format!("  attempt {} plan {} {}: ", receipt.attempt, receipt.plan, receipt.step);
        page.item(&start, &evidence(receipt, proven == Some(receipt.attempt)), 6);
    }
}

/// The boot whose erasure grades are proven; the signed receipts prove those of older boots.
fn proven_in(memory: &HostMemory) -> Option<u64> {
    let is_open = memory.wipe.is_some();
    let is_proven =
        |cleaned: &&CleanedNote| cleaned.method > CleaningMethod::Metadata && cleaned.unverified.is_empty() && !is_open;
    memory.cleaned.as_ref().filter(is_proven).map(|cleaned| cleaned.attempt)
}

/// Summarises a receipt in one line; names the grade of an erasure only if it is proven.
fn evidence(receipt: &ReceiptRecord, is_proven: bool) -> String {
    let text = |name: &str| receipt.evidence.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| receipt.evidence.get(name).and_then(Value::as_u64).unwrap_or_default();
    let short = |digest: String| digest.chars().take(12).collect::<String>();
    let list = |name: &str| {
        let texts = receipt.evidence.get(name).and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
        if texts.is_empty() { String::new() } else { format!("; {name}: {}", texts.join(", ")) }
    };
    match text("kind").as_str() {
        "inspected" => "hardware recorded".to_owned(),
        "metadata_cleared" => {
            format!("{} cleared, {} read back as zero", text("device"), bytes(number("verified_bytes")))
        }
        "disk_erased" => format!(
            "{} by {}, {}, {} read back{}",
            text("device"),
            text("method"),
            match text("grade").as_str() {
                "none" => "NIST SP 800-88 neither clear nor purge".to_owned(),
                _ if !is_proven => "by its agent's word: `firesteel receipt list` has the grade".to_owned(),
                grade => format!("NIST SP 800-88 {grade}"),
            },
            bytes(receipt.evidence["samples"]["read_back"].as_u64().unwrap_or_default().saturating_mul(512)),
            list("unverified"),
        ),
        "image_written" => format!(
            "{} written, {} read back, sha256 {}…",
            text("device"),
            bytes(number("readback_bytes")),
            short(text("readback_sha256"))
        ),
        "files_handed_off" => {
            let count = receipt.evidence.get("files").and_then(Value::as_array).map_or(0, Vec::len);
            let loader = receipt.evidence.get("loader").and_then(Value::as_array).map_or(0, Vec::len);
            let loader = if loader == 0 { String::new() } else { format!(", and {loader} of the boot loader") };
            format!(
                "{count} files on {} {}{loader}, read back{}{}",
                text("device"),
                text("filesystem"),
                list("recognised"),
                list("warnings")
            )
        }
        "boot_entry_set" => format!("{} {}", text("method"), text("entry")),
        "leaving" => text("how"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_resources::BareMetalHostStatus;
    use firesteel_resources::host_journal::TimelineEvent;

    use super::*;

    fn event(name: &str, detail: &str) -> TimelineEvent {
        TimelineEvent { attempt: 1, event: name.to_owned(), detail: detail.to_owned(), ..TimelineEvent::default() }
    }

    #[test]
    fn on_80_columns_nothing_of_an_event_is_lost() {
        let disk = "writing the image to /dev/nvme0n1 (model QEMU NVMe Ctrl, serial LAB01DISK0, 4.29 GB)";
        let mut journal = HostJournal::default();
        journal.status.timeline = vec![
            TimelineEvent { bytes: Some(284_700), ..event("loader", "snponly.efi by tftp") },
            event("DiskSelected", disk),
            event("boot_entry", &format!("Boot0006 {}", "PciRoot(0x0)/".repeat(20))),
        ];
        let page = render(&BareMetalHost::default(), &journal, Timestamp::UNIX_EPOCH, 80);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let words: Vec<&str> = page.split_whitespace().collect();
        assert!(words.join(" ").contains(disk), "{page}");
        assert!(page.contains("284.7 kB, snponly.efi by tftp"), "{page}");
        assert_eq!(words.concat().matches("PciRoot(0x0)/").count(), 20, "{page}");
    }

    #[test]
    fn a_grade_is_shown_only_where_it_is_proven() {
        let evidence =
            json!({"kind": "disk_erased", "device": "/dev/sda", "method": "sanitize-crypto", "grade": "purge"});
        let receipt = ReceiptRecord { attempt: 3, evidence, ..ReceiptRecord::default() };
        let mut journal = HostJournal::default();
        journal.status.receipts = vec![receipt];
        let shown = |journal: &HostJournal| render(&BareMetalHost::default(), journal, Timestamp::UNIX_EPOCH, 200);
        let note = |attempt: u64, unverified: &[&str]| {
            let at = Timestamp::UNIX_EPOCH;
            json!({"cleaned": {
                "at": at, "attempt": attempt, "method": "full", "isErased": false, "text": "", "unverified": unverified,
            }})
        };
        // Not verified yet, unverified, and of another boot than the proven one.
        for memory in [json!({}), note(3, &["there is no BMC"]), note(4, &[])] {
            journal.status.memory = memory;
            let page = shown(&journal);
            assert!(page.contains("by its agent's word") && !page.contains("purge"), "{page}");
        }
        journal.status.memory = note(3, &[]);
        assert!(shown(&journal).contains("sanitize-crypto, NIST SP 800-88 purge"), "{}", shown(&journal));
    }

    #[test]
    fn what_keeps_a_host_from_booting_is_shown_whole() {
        let cause = format!("nothing was heard {}", "for long ".repeat(40));
        let mut host = BareMetalHost::default();
        let conditions = vec![
            Condition::new(NETWORK_BOOT, false, "NothingHeard", &cause),
            Condition::new("Running", false, "Waiting", "the OS has not fetched its config yet"),
        ];
        host.status = Some(BareMetalHostStatus { conditions, ..BareMetalHostStatus::default() });
        let shown = |host: &BareMetalHost| {
            let page = render(host, &HostJournal::default(), Timestamp::UNIX_EPOCH, 80);
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let page = shown(&host);
        assert!(page.contains(&format!("Hint: {} First boot: the OS has not", cause.trim_end())), "{page}");
        host.status = Some(BareMetalHostStatus {
            conditions: vec![
                Condition::new(NETWORK_BOOT, true, "NoStall", ""),
                Condition::new("Running", true, "NonceReturned", "the OS reported"),
            ],
            ..BareMetalHostStatus::default()
        });
        let page = shown(&host);
        assert!(!page.contains("Hint:") && !page.contains("First boot:"), "{page}");
    }
}
