//! `firesteel watch`: shows a line for each host, with a progress bar while something is written.

use std::{collections::BTreeMap, time::Duration};

use firesteel_resources::{BareMetalHost, HostJournal, bare_metal_host::ProvisioningState};
use futures_util::{StreamExt as _, future::Either, pin_mut};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::table::{self, bytes, clean, cut, terminal_width};
use super::{ApiClient, get, kinds};

/// How long to wait before a broken watch is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// Parses a state that a host can have, as the list of hosts shows it. Another state would never be reached.
pub(super) fn state(text: &str) -> anyhow::Result<String> {
    let states = ProvisioningState::ALL.map(|state| state.to_string());
    if states.iter().any(|state| state == text) {
        return Ok(text.to_owned());
    }
    anyhow::bail!("no host has this state; the states are: {}", states.join(", "))
}

/// What is known of one host.
#[derive(Debug, Default)]
struct WatchedHost {
    host: Option<BareMetalHost>,
    journal: Option<HostJournal>,
}

/// # Errors
/// When the appliance does not answer, or refuses.
pub(crate) async fn run(client: &ApiClient, only: &[String], until: Option<&str>) -> anyhow::Result<()> {
    let mut view = WatchScreen::new();
    loop {
        let hosts = client.watch(&kinds::collection(kinds::by_name("hosts")?, &client.namespace)).await?;
        let journals = client.watch(&kinds::collection(kinds::by_name("hostjournals")?, &client.namespace)).await?;
        pin_mut!(hosts, journals);
        loop {
            let event = match futures_util::future::select(hosts.next(), journals.next()).await {
                Either::Left((event, _)) | Either::Right((event, _)) => event,
            };
            // The appliance closes watches now and then, and when it restarts.
            let Some(Ok(event)) = event else { break };
            if event["type"] == "ERROR" {
                break;
            }
            view.take(&event, only);
            if until.is_some_and(|state| view.all_are(state, only)) {
                return Ok(());
            }
        }
        tokio::time::sleep(REOPEN).await;
    }
}

struct WatchScreen {
    seen: BTreeMap<String, WatchedHost>,
    bars: BTreeMap<String, ProgressBar>,
    lines: BTreeMap<String, String>,
    all: MultiProgress,
    live: bool,
}

impl WatchScreen {
    fn new() -> Self {
        let live = console::Term::stdout().is_term();
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        Self { seen: BTreeMap::new(), bars: BTreeMap::new(), lines: BTreeMap::new(), all, live }
    }

    fn take(&mut self, event: &Value, only: &[String]) {
        let object = &event["object"];
        let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned) else { return };
        if !only.is_empty() && !only.contains(&name) {
            return;
        }
        let gone = event["type"] == "DELETED";
        let seen = self.seen.entry(name.clone()).or_default();
        if object["kind"] == "BareMetalHost" {
            seen.host = if gone { None } else { serde_json::from_value(object.clone()).ok() };
            if gone {
                self.end(&name);
                return;
            }
        } else if object["kind"] == "HostJournal" {
            seen.journal = if gone { None } else { serde_json::from_value(object.clone()).ok() };
        }
        self.draw(&name);
    }

    fn all_are(&self, state: &str, only: &[String]) -> bool {
        let mut hosts = self.seen.values().filter_map(|seen| seen.host.as_ref()).peekable();
        hosts.peek().is_some()
            && only.iter().all(|name| self.seen.get(name).is_some_and(|seen| seen.host.is_some()))
            && hosts.all(|host| get::state(host) == state)
    }

    fn end(&mut self, name: &str) {
        self.seen.remove(name);
        if let Some(bar) = self.bars.remove(name) {
            bar.finish_with_message("released");
        } else if !self.live {
            super::print_text(&format!("{name}: released\n"));
        }
    }

    fn draw(&mut self, name: &str) {
        let Some(seen) = self.seen.get(name) else { return };
        let Some(host) = &seen.host else { return };
        let line = message(host, seen.journal.as_ref());
        let progress = seen.journal.as_ref().and_then(|journal| journal.status.progress.as_ref());
        if !self.live {
            if self.lines.get(name) != Some(&line) {
                super::print_text(&format!("{} {name}: {line}\n", jiff::Timestamp::now().strftime("%H:%M:%S")));
                self.lines.insert(name.to_owned(), line);
            }
            return;
        }
        let bar = self.bars.entry(name.to_owned()).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new(100));
            bar.set_prefix(clean(name));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let template = match progress {
            Some(progress) if progress.total_bytes > 0 => {
                bar.set_length(progress.total_bytes);
                bar.set_position(progress.done_bytes);
                "{prefix:12!} {bar:16} {percent:>3}% {bytes_per_sec:>12} {eta:>4} {wide_msg}"
            }
            _ => "{prefix:12!} {spinner} {wide_msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(line);
    }
}

/// Says the state, then what goes on or why nothing does.
fn message(host: &BareMetalHost, journal: Option<&HostJournal>) -> String {
    let status = host.status.clone().unwrap_or_default();
    let state = get::state(host);
    let what = if !status.error_message.is_empty() {
        format!("ERROR: {}", status.error_message)
    } else if let Some(progress) = journal.and_then(|journal| journal.status.progress.as_ref()) {
        let amount =
            if progress.total_bytes > 0 { format!(" of {}", bytes(progress.total_bytes)) } else { String::new() };
        let speed = table::speed(progress, jiff::Timestamp::now());
        format!("{}{amount}: {}{speed}", progress.step, progress.activity)
    } else {
        journal.and_then(|journal| journal.status.reason.as_ref()).map(|reason| reason.text.clone()).unwrap_or_default()
    };
    cut(&clean(&format!("{state}: {what}")), terminal_width() * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `watch --until ready` never ended.
    #[test]
    fn only_a_state_that_hosts_have_is_waited_for() {
        for known in ["new", "provisioned", "externally provisioned", "powering off before delete"] {
            assert_eq!(state(known).ok().as_deref(), Some(known));
        }
        for unknown in ["", "ready", "Provisioned", "error"] {
            assert!(
                state(unknown).is_err_and(|said| said.to_string().contains("available, provisioning, provisioned")),
                "{unknown}"
            );
        }
    }
}
