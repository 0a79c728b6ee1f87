//! `firesteel describe hostgroup NAME`: the image of the group's hosts, the state of its rollout, and earlier images.

use firesteel_facts::shown_url;
use firesteel_resources::host_group::{CanaryState, ImageReference, RolloutMode};
use firesteel_resources::{BareMetalHost, HostGroup};
use jiff::Timestamp;

use super::{TextPage, ago, conditions, get, table};

/// Renders the whole page for a person, as wide as the terminal. `hosts` are those of the group's namespace.
#[must_use]
pub(super) fn render(group: &HostGroup, hosts: &[BareMetalHost], now: Timestamp, width: usize) -> String {
    let mut page = TextPage { text: String::new(), width };
    let (spec, status) = (&group.spec, &group.status);
    page.field("Name", &group.metadata.name);
    page.field("Hosts", &spec.selector.to_string());
    page.field("Pool", &spec.pool);
    let own = shown_url(&spec.image.url);
    let follows = if own.is_empty() { &spec.image.stream } else { &own };
    let pin = [&spec.image.release, &spec.image.digest].into_iter().find(|pin| !pin.is_empty());
    page.field("Follows", &pin.map_or_else(|| follows.clone(), |pin| format!("{follows}, pinned to {pin}")));
    if let Some(restore) = &spec.restore {
        page.field("Restored", &format!("to entry {}, until spec.restore is taken away", restore.entry));
    }
    page.field("Current", &image(status.current.as_ref()));
    if status.golden != status.current {
        page.field("Golden", &image(status.golden.as_ref()));
    }
    page.field("Previous", &image(status.previous.as_ref()));
    canary(&mut page, group, now);
    conditions(&mut page, &status.conditions, now);
    members(&mut page, group, hosts);
    skipped(&mut page, group);
    history(&mut page, group, now);
    page.text
}

/// Names the image: `41.2 of stable`, or the URL of an image outside all streams.
fn image(image: Option<&ImageReference>) -> String {
    match image {
        None => String::new(),
        Some(image) if image.stream.is_empty() => shown_url(&image.url),
        Some(image) => format!("{} of {}", image.release, image.stream),
    }
}

fn canary(page: &mut TextPage, group: &HostGroup, now: Timestamp) {
    let Some(canary) = &group.status.canary else {
        if group.spec.rollout.mode == RolloutMode::Canary {
            page.field("Canary", &format!("{} hosts try each new image", group.spec.rollout.canaries()));
        }
        return;
    };
    let state = match canary.state {
        CanaryState::Trying => "tried",
        CanaryState::Promoted => "promoted",
        CanaryState::Halted => "halted",
    };
    let hosts: Vec<String> = canary
        .hosts
        .iter()
        .map(|host| format!("{} {}", host.name, if host.running { "runs it" } else { "does not run it yet" }))
        .collect();
    let hosts = if hosts.is_empty() { "no host is ready to try it".to_owned() } else { hosts.join(", ") };
    let since = ago(canary.since, now);
    page.field("Canary", &format!("{} is {state}, since {since}: {hosts}", image(Some(&canary.image))));
    page.field("", &canary.message);
}

fn members(page: &mut TextPage, group: &HostGroup, hosts: &[BareMetalHost]) {
    let members = hosts.iter().filter(|host| group.spec.selector.matches(&host.metadata.labels));
    let named = |host: &BareMetalHost| {
        let image = host.spec.wanted_image()?;
        let known = group.status.history.iter().rev().map(|entry| &entry.image);
        let of_canary = group.status.canary.iter().map(|canary| &canary.image);
        let found = of_canary.chain(known).find(|known| known.digest == image.checksum);
        Some(found.map_or_else(|| shown_url(&image.url), |found| self::image(Some(found))))
    };
    let rows: Vec<Vec<String>> = members
        .map(|host| {
            let image = named(host).unwrap_or_else(|| "none yet".to_owned());
            vec![format!("  {}", table::clean(&host.metadata.name)), get::state(host), table::clean(&image)]
        })
        .collect();
    if !rows.is_empty() {
        page.title("Hosts");
        page.table(&["  NAME", "STATE", "IMAGE"], rows, &[]);
    }
}

fn skipped(page: &mut TextPage, group: &HostGroup) {
    let (told, counts) = (&group.status.skipped_hosts, &group.status.hosts);
    if told.is_empty() {
        return;
    }
    page.title("Hosts that get nothing now");
    for host in told {
        page.item(&format!("  {}: ", host.name), &host.message, 4);
    }
    let all = usize::try_from(counts.waiting.saturating_add(counts.foreign)).unwrap_or(usize::MAX);
    let more = all.saturating_sub(told.len());
    if more > 0 {
        page.line(&format!("  and {more} more"));
    }
}

fn history(page: &mut TextPage, group: &HostGroup, now: Timestamp) {
    if group.status.history.is_empty() {
        return;
    }
    page.title("History (spec.restore.entry names an entry to go back to)");
    let rows: Vec<Vec<String>> = group
        .status
        .history
        .iter()
        .map(|entry| {
            let digest: String = entry.image.digest.chars().take(12).collect();
            let host = if entry.host.is_empty() { "the group" } else { &entry.host };
            let name = image(Some(&entry.image));
            let cells = [host, &name, &digest, &ago(entry.at, now), &entry.by].map(table::clean);
            std::iter::once(format!("  {}", entry.entry)).chain(cells).collect()
        })
        .collect();
    page.table(&["  ENTRY", "WHO", "IMAGE", "DIGEST", "AGO", "BY"], rows, &["DIGEST"]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_says_what_hosts_get_and_why_and_what_to_go_back_to() {
        let image = |release: &str| json!({"stream": "stable", "release": release, "digest": format!("d{release}"), "url": "u"});
        let entry = |number: u32, release: &str, host: &str| {
            let mut entry = image(release);
            for (key, value) in [
                ("entry", json!(number)),
                ("at", json!("2026-01-01T00:00:00Z")),
                ("by", json!("boot image policy")),
                ("host", json!(host)),
            ] {
                entry[key] = value;
            }
            entry
        };
        let group: HostGroup = serde_json::from_value(json!({
            "metadata": {"name": "workers"},
            "spec": {"selector": {"matchLabels": {"role": "worker"}}, "image": {"stream": "stable"}, "pool": "worker",
                     "rollout": {"mode": "canary"}},
            "status": {"current": image("1"), "golden": image("2"),
                       "canary": {"image": image("2"), "state": "Halted", "since": "2026-01-01T00:00:00Z",
                                  "hosts": [{"name": "a", "since": "2026-01-01T00:00:00Z", "running": false}],
                                  "message": "the host a failed with it: no disk"},
                       "hosts": {"total": 4, "waiting": 2, "foreign": 1},
                       "skippedHosts": [{"name": "c", "reason": "OwnImage",
                                         "message": "it has an image that no group gave it: http://i/x"},
                                        {"name": "d", "reason": "NotReady", "message": "it is paused\u{1b}[2J"}],
                       "history": [entry(1, "1", ""), entry(2, "1", "b")]},
        }))
        .unwrap();
        let host = |name: &str, checksum: &str| -> BareMetalHost {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"role": "worker"}},
                                          "spec": {"image": {"url": "http://i/x", "checksum": checksum}}}))
            .unwrap()
        };
        let stranger = BareMetalHost::default();
        let hosts = [host("a", "d2"), host("b", "d1"), host("c", "other"), stranger];
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let page = render(&group, &hosts, now, 100);
        for text in [
            "Hosts:        role=worker",
            "Current:      1 of stable",
            "Golden:       2 of stable",
            "2 of stable is halted",
            "a does not run it yet",
            "the host a failed with it: no disk",
            "  1      the group  1 of stable  d1",
            "Hosts that get nothing now\n  c: it has an image that no group gave it: http://i/x\n  d: it is paused\\u001b[2J",
            "  and 1 more\n",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        let line = |name: &str| page.lines().find(|line| line.starts_with(&format!("  {name} "))).unwrap_or_default();
        assert!(line("a").contains("2 of stable") && line("b").contains("1 of stable"), "{page}");
        assert!(line("c").contains("http://i/x"), "{page}");
    }
}
