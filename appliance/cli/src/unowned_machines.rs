//! Machines that are not hosts: discovered ones, whose agent has said hello, and those that have not booted so far.

use anyhow::Context as _;
use firesteel_control::UnknownHost;
use firesteel_resources::{BareMetalHost, DiscoveredHost};
use jiff::Timestamp;

use super::client::{default_if_forbidden, warn_and_default};
use super::table::{TableRow, duration};
use super::{ApiClient, get};
use firesteel_appliance::http::UNKNOWN_HOSTS_PATH;

/// All machines that are not hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Strangers {
    pub(super) discovered: Vec<DiscoveredHost>,
    pub(super) booting: Vec<UnknownHost>,
}

impl Strangers {
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(super) async fn read(client: &ApiClient) -> anyhow::Result<Self> {
        let discovered = warn_and_default(default_if_forbidden(get::discovered(client).await))?;
        Ok(Self { discovered, booting: Self::booting(client).await? })
    }

    /// Reads the machines that have not said hello; none where the appliance does not show them.
    ///
    /// # Errors
    /// When the appliance does not answer.
    pub(super) async fn booting(client: &ApiClient) -> anyhow::Result<Vec<UnknownHost>> {
        // An older appliance does not serve this path.
        let booting = default_if_forbidden(client.get_if_there(UNKNOWN_HOSTS_PATH).await)?;
        let booting = booting.and_then(|mut answer| answer.get_mut("items").map(serde_json::Value::take));
        let booting = booting.map(serde_json::from_value).transpose().context("could not read the unknown hosts")?;
        Ok(booting.unwrap_or_default())
    }

    /// Returns a row for each machine in the table of hosts. A discovered machine that boots again shows its last
    /// stage.
    pub(super) fn rows(&self, hosts: &[BareMetalHost], now: Timestamp) -> Vec<TableRow> {
        let row = |mac: &str, state: &str, reason: &str| {
            TableRow::whole([mac, state, "-", "-", reason].map(str::to_owned).to_vec())
        };
        let discovered = self.discovered.iter().map(|machine| {
            let mac = &machine.status.boot_mac;
            let boot = self.boot(mac).filter(|boot| boot.last_seen > machine.status.last_seen);
            let boot = boot.map(|boot| format!("; boots again: {}", how_far(boot, now))).unwrap_or_default();
            let next = match machine.status.host_hint() {
                // First, since the line may be cut.
                Some(hint) => format!("{hint}{boot}"),
                None => {
                    let take = format!("take it with `firesteel adopt {mac} --name NAME`");
                    let known = [what(machine), take].into_iter().filter(|part| !part.is_empty());
                    format!("{}{boot}", known.collect::<Vec<_>>().join("; "))
                }
            };
            row(mac, "discovered", &next)
        });
        let unknown = self.booting.iter().filter(|boot| {
            let is_discovered = self.discovered.iter().any(|machine| same(&machine.status.boot_mac, &boot.mac));
            // It may have become a host between the two lists.
            let is_host = hosts.iter().filter_map(|host| host.spec.boot_mac()).any(|mac| same(&mac, &boot.mac));
            !is_discovered && !is_host
        });
        let unknown = unknown.map(|boot| TableRow {
            may_be_cut: boot.stalled.is_empty(),
            ..row(&boot.mac, state(boot), &how_far(boot, now))
        });
        discovered.chain(unknown).collect()
    }

    /// The boot of the machine with this MAC.
    pub(super) fn boot(&self, mac: &str) -> Option<&UnknownHost> {
        self.booting.iter().find(|boot| same(&boot.mac, mac))
    }
}

/// Tells whether two spellings are of one MAC.
pub(super) fn same(one: &str, other: &str) -> bool {
    match (one.parse::<firesteel_facts::Mac>(), other.parse::<firesteel_facts::Mac>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

pub(super) fn what(machine: &DiscoveredHost) -> String {
    let what = [&machine.status.manufacturer, &machine.status.product, &machine.status.serial];
    what.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The state of an unknown machine whose agent has not said hello.
pub(super) fn state(boot: &UnknownHost) -> &'static str {
    if boot.stalled.is_empty() { "unknown" } else { "stalled" }
}

/// The last stage of a boot, and before it what is wrong with it.
fn how_far(boot: &UnknownHost, now: Timestamp) -> String {
    let ago = duration(now.duration_since(boot.last_seen).as_secs());
    let stage = format!("{}, {ago} ago", boot.stage);
    let parts = [boot.hint.as_str(), &stage, &boot.smbios];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn boot(mac: &str, stage: &str, last_seen: i64) -> UnknownHost {
        UnknownHost { mac: mac.into(), stage: stage.into(), last_seen: at(last_seen), ..UnknownHost::default() }
    }

    fn discovered(mac: &str, last_seen: i64) -> DiscoveredHost {
        let mut machine = DiscoveredHost::default();
        (machine.status.boot_mac, machine.status.last_seen) = (mac.into(), at(last_seen));
        machine
    }

    #[test]
    fn each_machine_has_one_row() {
        let mut stalled = boot("02:00:00:00:00:03", "loader fetched", 10);
        (stalled.stalled, stalled.hint) = ("long".into(), "Secure Boot?".into());
        let strangers = Strangers {
            discovered: vec![discovered("02:00:00:00:00:01", 50), discovered("02:00:00:00:00:02", 50)],
            booting: vec![
                boot("02:00:00:00:00:01", "agent registered", 50),
                boot("02:00:00:00:00:02", "kernel fetched", 70),
                stalled,
                boot("02:00:00:00:00:04", "iPXE runs", 70),
            ],
        };
        let mut host = BareMetalHost::default();
        host.spec.boot_mac_address = "02-00-00-00-00-04".into();
        let rows = strangers.rows(&[host], at(100));
        let shown: Vec<(&str, &str)> = rows.iter().map(|row| (row.cells[0].as_str(), row.cells[1].as_str())).collect();
        let wanted = [
            ("02:00:00:00:00:01", "discovered"),
            ("02:00:00:00:00:02", "discovered"),
            ("02:00:00:00:00:03", "stalled"),
        ];
        assert_eq!(shown, wanted);
        assert!(!rows[0].cells[4].contains("boots again"), "{rows:?}");
        assert!(rows[1].cells[4].contains("boots again: kernel fetched, 30"), "{rows:?}");
        assert!(rows[2].cells[4].starts_with("Secure Boot?; loader fetched, ") && !rows[2].may_be_cut, "{rows:?}");
    }
}
