//! The neighbours at the other ends of the cables, from the frames up to now. Pure: frames go in, reports to the
//! appliance come out.
//!
//! Any device on a cable can send frames, and there may be several: a switch that passes foreign frames on, a machine
//! that bridges. The first one holds its NIC until its own time is over. So two that alternate, or one that sends
//! something else each time, do not make a report of each frame.

use std::{collections::BTreeMap, time::Duration};

use firesteel_wire::limits::{FIELD_BYTES_MAX, NICS_MAX};
use firesteel_wire::{Neighbour, neighbour, text};

/// However long a neighbour says that it holds: the cable may be in another switch by then.
const HOLD_MAX: Duration = Duration::from_secs(10 * 60);
/// Switches speak each 30 s; what one says in between is no news.
const CHANGE_MIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct NeighbourEntry {
    neighbour: Neighbour,
    /// Times are uptimes.
    until: Duration,
    changed: Duration,
}

/// The neighbour on each NIC, by the NIC's name.
#[derive(Debug, Default)]
pub struct Neighbours(BTreeMap<String, NeighbourEntry>);

impl Neighbours {
    /// Takes a frame from the NIC with this name and address. Describes the sender in words if it is new.
    pub fn record_frame(&mut self, nic: &str, mac: &str, said: crate::LldpNeighbour, now: Duration) -> Option<String> {
        let hold = Duration::from_secs(said.seconds.into()).min(HOLD_MAX);
        let heard = neighbour_record(nic, mac, said);
        match self.0.get_mut(nic) {
            None => {
                // A shutdown frame of a neighbour that was never seen.
                if hold.is_zero() || self.0.len() >= NICS_MAX {
                    return None;
                }
            }
            Some(known) if is_same(&known.neighbour, &heard) => {
                known.until = now + hold;
                let is_new = known.neighbour != heard && now.saturating_sub(known.changed) >= CHANGE_MIN;
                // A shutdown frame carries nothing else.
                if !is_new || hold.is_zero() {
                    return None;
                }
            }
            Some(known) if now < known.until || hold.is_zero() => return None,
            Some(_) => {}
        }
        let words = format!("{} ({}), port {}", heard.switch_name, heard.switch_id, heard.port_id);
        self.0.insert(nic.to_owned(), NeighbourEntry { neighbour: heard, until: now + hold, changed: now });
        Some(words)
    }

    /// What is known, by the NICs' names, as much as a report has room for.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut all: Vec<_> = self.0.values().map(|known| known.neighbour.clone()).collect();
        neighbour::fit(&mut all);
        all
    }
}

fn is_same(one: &Neighbour, other: &Neighbour) -> bool {
    (&one.switch_id, &one.port_id) == (&other.switch_id, &other.port_id)
}

fn neighbour_record(nic: &str, mac: &str, said: crate::LldpNeighbour) -> Neighbour {
    Neighbour {
        nic: text::clean(nic, FIELD_BYTES_MAX),
        mac: text::clean(mac, FIELD_BYTES_MAX),
        switch_id: said.chassis_id,
        port_id: said.port_id,
        port_description: said.port_description,
        switch_name: said.system_name,
        switch_description: said.system_description,
        addresses: said.addresses,
        port_vlan: said.port_vlan,
        vlans: said.vlans,
        aggregated: said.aggregated,
        frame_bytes_max: said.frame_bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(switch: &str, name: &str, seconds: u16) -> crate::LldpNeighbour {
        crate::LldpNeighbour {
            chassis_id: switch.into(),
            port_id: "1".into(),
            system_name: name.into(),
            seconds,
            ..crate::LldpNeighbour::default()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn switches(all: &Neighbours) -> Vec<String> {
        all.neighbours().into_iter().map(|one| format!("{} {} {}", one.nic, one.switch_id, one.switch_name)).collect()
    }

    #[test]
    fn one_neighbour_is_told_once_and_its_changes_now_and_then() {
        let mut all = Neighbours::default();
        let words = all.record_frame("eth0", "m", said("a", "leaf", 120), at(0));
        assert_eq!(words.as_deref(), Some("leaf (a), port 1"));
        assert_eq!(all.record_frame("eth0", "m", said("a", "leaf", 120), at(30)), None, "nothing new");
        assert!(all.record_frame("eth0", "m", said("a", "renamed", 120), at(60)).is_some());
        assert_eq!(all.record_frame("eth0", "m", said("a", "renamed again", 120), at(61)), None, "too soon");
        assert_eq!(switches(&all), ["eth0 a renamed"]);
        assert!(
            all.record_frame("eth0", "m", said("a", "renamed again", 120), at(90)).is_some(),
            "said again, heard then"
        );
    }

    #[test]
    fn the_first_on_a_cable_holds_it_until_its_time_is_over() {
        let mut all = Neighbours::default();
        assert!(all.record_frame("eth0", "m", said("a", "", 120), at(0)).is_some());
        assert_eq!(all.record_frame("eth0", "m", said("b", "", 120), at(60)), None);
        assert_eq!(all.record_frame("eth0", "m", said("a", "", 120), at(100)), None);
        assert_eq!(all.record_frame("eth0", "m", said("b", "", 120), at(219)), None);
        assert!(all.record_frame("eth0", "m", said("b", "", 120), at(220)).is_some(), "the cable was moved");
        assert_eq!(all.record_frame("eth0", "m", said("b", "", 0), at(230)), None, "a good-bye is no news");
        assert_eq!(switches(&all), ["eth0 b "], "and what was heard stays");
        assert!(all.record_frame("eth0", "m", said("c", "", 120), at(231)).is_some(), "but others may come now");
    }

    #[test]
    fn no_time_is_for_ever_and_a_good_bye_alone_is_nothing() {
        let mut all = Neighbours::default();
        assert_eq!(all.record_frame("eth0", "m", said("a", "", 0), at(0)), None);
        assert!(all.record_frame("eth0", "m", said("a", "", u16::MAX), at(0)).is_some());
        assert!(all.record_frame("eth0", "m", said("b", "", 120), HOLD_MAX).is_some());
    }

    #[test]
    fn nics_are_bounded() {
        let mut all = Neighbours::default();
        for number in 0..2 * NICS_MAX {
            all.record_frame(&format!("eth{number:03}"), "m", said("a", "", 120), at(0));
        }
        assert_eq!(all.neighbours().len(), NICS_MAX);
        assert_eq!(all.neighbours()[0].nic, "eth000");
    }
}
