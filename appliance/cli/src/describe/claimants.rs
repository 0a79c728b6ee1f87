//! The machines that claim to be one host, and those that are known not to be.

use firesteel_plan::journal::stored_memory;
use firesteel_resources::{HostJournal, host_journal::Claimant};
use jiff::Timestamp;

use super::{TextPage, ago};
use crate::table;

pub(super) fn render(page: &mut TextPage, journal: &HostJournal, now: Timestamp) {
    let Ok(Some(memory)) = stored_memory(&journal.status) else { return };
    let claimed = memory.claimants.iter().flat_map(|claims| {
        claims.all().map(|machine| {
            let is_old = machine.attempt != claims.attempt;
            let what = if machine.key == claims.first.key {
                "bound to this attempt".to_owned()
            } else if is_old {
                format!("claims it, with the token of attempt {}", machine.attempt)
            } else {
                "claims it, too".to_owned()
            };
            row(machine, now, what)
        })
    });
    let named = memory.intruders.iter().map(|known| row(&known.machine, now, format!("not this host: {}", known.why)));
    let rows: Vec<Vec<String>> = claimed.chain(named).collect();
    if rows.is_empty() {
        return;
    }
    page.title("Claimants");
    page.table(&["  KEY", "MAC", "ADDRESS", "FIRST HEARD", "WHAT"], rows, &["FIRST HEARD"]);
    if let Some(claims) = &memory.claimants {
        let text = match &claims.person {
            Some(why) => format!(
                "a person decides until {:.0} (`firesteel choose-agent HOST --key KEY` or `--none`), because {why}",
                claims.until
            ),
            None => "the BMC switches the host off, which tells them apart".to_owned(),
        };
        page.item("  ", &text, 2);
    }
}

fn row(machine: &Claimant, now: Timestamp, what: String) -> Vec<String> {
    vec![
        format!("  {}", table::clean(machine.short_key())),
        table::clean(&machine.mac),
        table::clean(&machine.address),
        format!("{} ago", ago(machine.first_at, now)),
        table::clean(&what),
    ]
}

#[cfg(test)]
mod tests {
    use firesteel_resources::BareMetalHost;
    use serde_json::json;

    use super::super::render;
    use super::*;

    #[test]
    fn each_claimant_is_shown_with_its_key_mac_address_and_time() {
        let machine = |key: &str, attempt: u64, address: &str| {
            let at = Timestamp::UNIX_EPOCH;
            json!({"key": key.repeat(32), "attempt": attempt, "mac": "52:54:00:00:00:01", "address": address, "firstAt": at})
        };
        let mut journal = HostJournal::default();
        let page = |journal: &HostJournal| render(&BareMetalHost::default(), journal, Timestamp::UNIX_EPOCH, 200);
        assert!(!page(&journal).contains("Claimants"));
        let mut named = machine("cc", 2, "192.0.2.3");
        named["namedAt"] = json!(Timestamp::UNIX_EPOCH);
        named["why"] = json!("it reported while the BMC showed the host off");
        journal.status.memory = json!({
            "attempt": 3,
            "claimants": {
                "since": Timestamp::UNIX_EPOCH, "attempt": 3, "first": machine("aa", 3, "192.0.2.1"),
                "others": [machine("bb", 2, "192.0.2.2")], "until": Timestamp::UNIX_EPOCH,
                "person": "there is no BMC that could switch the host off",
            },
            "intruders": [named],
        });
        let text = page(&journal);
        for part in [
            &*"aa".repeat(8),
            &*"bb".repeat(8),
            &*"cc".repeat(8),
            "52:54:00:00:00:01",
            "192.0.2.1",
            "192.0.2.2",
            "bound to this attempt",
            "with the token of attempt 2",
            "not this host",
            "--none",
            "there is no BMC",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(&"aa".repeat(9)), "16 digits: {text}");
    }
}
