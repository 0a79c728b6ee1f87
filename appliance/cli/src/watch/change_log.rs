//! A fleet as lines for a file or a pipe: one for each change, with its date, time and zone. Pure.

use std::collections::BTreeMap;

use super::super::table::clean;
use super::fleet::{ApplianceLink, FleetChange, FleetModel, WatchMoment};
use super::fleet_view::{HostRow, halts, row};

/// The words behind a number that counts time.
const TIME_UNITS: [&str; 4] = ["s", "min", "minutes", "h"];

/// What was written last.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// The part of each host's line that counts as a change.
    hosts: BTreeMap<String, String>,
    halts: BTreeMap<String, String>,
    notes: Vec<String>,
    is_lost: bool,
}

impl ChangeLog {
    /// Returns the lines that say what changed.
    pub(super) fn lines(&mut self, fleet: &FleetModel, change: &FleetChange, moment: &WatchMoment) -> Vec<String> {
        let mut lines = if change.is_fleet { self.of_fleet(fleet, moment) } else { Vec::new() };
        lines.extend(change.hosts.iter().filter_map(|name| self.of_host(fleet, name, moment)));
        lines.into_iter().map(|text| stamped(&text, moment)).collect()
    }

    fn of_fleet(&mut self, fleet: &FleetModel, moment: &WatchMoment) -> Vec<String> {
        let mut lines = Vec::new();
        match &fleet.link {
            ApplianceLink::Lost { why, .. } if !self.is_lost => {
                lines.push(format!("NO ANSWER from the appliance, and it is tried again: {}", clean(why)));
                self.is_lost = true;
            }
            ApplianceLink::Up | ApplianceLink::Back { .. } if self.is_lost => {
                lines.push("the appliance answers again".to_owned());
                self.is_lost = false;
            }
            ApplianceLink::Opening | ApplianceLink::Up | ApplianceLink::Lost { .. } | ApplianceLink::Back { .. } => {}
        }
        let notes: Vec<String> = fleet.notes.iter().map(|note| clean(note)).collect();
        lines.extend(notes.iter().filter(|note| !self.notes.contains(note)).cloned());
        self.notes = notes;
        let now: BTreeMap<String, String> =
            halts(fleet, moment).into_iter().map(|halt| (halt.name, halt.text)).collect();
        lines.extend(
            now.iter().filter(|(name, text)| self.halts.get(*name) != Some(text)).map(|(_, text)| text.clone()),
        );
        let is_over = |name: &&String| !now.contains_key(*name);
        lines.extend(self.halts.keys().filter(is_over).map(|name| format!("the halt {name} is over")));
        self.halts = now;
        lines
    }

    fn of_host(&mut self, fleet: &FleetModel, name: &str, moment: &WatchMoment) -> Option<String> {
        let Some(host) = fleet.host(name) else {
            self.hosts.remove(name)?;
            return Some(format!("{}: gone", clean(name)));
        };
        let row = row(host, fleet.is_up(), moment);
        let key = key(&row);
        if self.hosts.get(name) == Some(&key) {
            return None;
        }
        self.hosts.insert(name.to_owned(), key);
        Some(line(&row))
    }
}

/// Puts date, time and zone before a line.
pub(super) fn stamped(text: &str, moment: &WatchMoment) -> String {
    format!("{} {text}", moment.at.strftime("%Y-%m-%d %H:%M:%S%:z"))
}

fn line(HostRow { name, state, done, rate, left, text, .. }: &HostRow) -> String {
    let rate = if rate.is_empty() { String::new() } else { format!("{rate} MB/s") };
    let left = if left.is_empty() { String::new() } else { format!("{left} left") };
    let parts = [state, done, &rate, &left, text];
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("{name}: {}", parts.join(", "))
}

/// The part of a row that counts as a change: its state, each tenth of a step, and its text without the time that
/// passes.
fn key(HostRow { state, done, text, .. }: &HostRow) -> String {
    let tenth = done.trim_end_matches('%').parse::<u8>().map(|percent| percent / 10).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.iter().enumerate().map(|(index, word)| {
        let next = words.get(index + 1).map(|next| next.trim_matches(|letter: char| !letter.is_alphanumeric()));
        let is_time =
            word.bytes().all(|byte| byte.is_ascii_digit()) && next.is_some_and(|next| TIME_UNITS.contains(&next));
        if is_time { "some" } else { word }
    });
    format!("{state}/{tenth}/{}", plain.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fleet::{FleetEvent, FleetKind, FleetObject};
    use super::super::testing::{after, halt, host, listed, reason, writing};
    use super::*;

    struct LoggedFleet {
        fleet: FleetModel,
        log: ChangeLog,
    }

    impl LoggedFleet {
        fn take(&mut self, event: FleetEvent, second: u64) -> Vec<String> {
            let change = self.fleet.take(event, &after(second));
            self.log.lines(&self.fleet, &change, &after(second))
        }

        fn object(&mut self, object: FleetObject, second: u64) -> Vec<String> {
            self.take(FleetEvent::Present(object), second)
        }
    }

    fn start() -> LoggedFleet {
        let mut logged = LoggedFleet { fleet: FleetModel::new("default", &[]), log: ChangeLog::default() };
        let objects = vec![host("a", "provisioning", json!({})), host("b", "available", json!({})), writing("a", 40)];
        let lines = logged.take(listed(objects), 0);
        let expected = [
            "2026-03-01 14:02:11+00:00 a: provisioning, 40%, 118.2 MB/s, 27s left, write-image: writing",
            "2026-03-01 14:02:11+00:00 b: available",
        ];
        assert_eq!(lines, expected);
        logged
    }

    /// The local time stood there without a date, and a line came with each report.
    #[test]
    fn a_change_is_a_line() {
        let mut logged = start();
        let nothing: [&str; 0] = [];
        assert_eq!(logged.object(host("b", "available", json!({})), 1), nothing);
        assert_eq!(logged.object(writing("a", 49), 2), nothing, "the same tenth");
        assert_eq!(logged.object(writing("a", 51), 3).len(), 1);
        assert_eq!(logged.object(reason("b", "waits for its agent for 35 min, and for 2 disks"), 4).len(), 1);
        assert_eq!(logged.object(reason("b", "waits for its agent for 36 min, and for 2 disks"), 5), nothing);
        assert_eq!(logged.object(reason("b", "waits for its agent for 36 min, and for 3 disks"), 6).len(), 1);
        let gone = FleetEvent::Gone { kind: FleetKind::Hosts, name: "b".into() };
        assert_eq!(logged.take(gone.clone(), 7), ["2026-03-01 14:02:18+00:00 b: gone"]);
        assert_eq!(logged.take(gone, 8), nothing);
    }

    #[test]
    fn a_restart_and_a_halt_are_lines() {
        let mut logged = start();
        let lost = logged.take(FleetEvent::Lost("connection refused".into()), 1);
        assert_eq!(
            lost,
            ["2026-03-01 14:02:12+00:00 NO ANSWER from the appliance, and it is tried again: connection refused"]
        );
        assert!(logged.take(FleetEvent::Lost("connection refused".into()), 2).is_empty());
        let there = vec![host("a", "provisioning", json!({})), host("b", "provisioning", json!({})), writing("a", 40)];
        let back = logged.take(listed(there), 3);
        assert_eq!(
            back,
            ["2026-03-01 14:02:14+00:00 the appliance answers again", "2026-03-01 14:02:14+00:00 b: provisioning"]
        );
        let halted = logged.object(halt("fleet", "why"), 4);
        assert!(
            halted.len() == 1 && halted[0].contains("HALTED by ann since 2026-03-01 13:58:02+00:00: why"),
            "{halted:?}"
        );
        let over = logged.take(FleetEvent::Gone { kind: FleetKind::Halts, name: "fleet".into() }, 5);
        assert_eq!(over, ["2026-03-01 14:02:16+00:00 the halt fleet is over"]);
    }
}
