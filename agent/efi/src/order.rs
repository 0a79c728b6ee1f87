//! The boot order after a write: the network entry that booted this host stays first, so that the
//! appliance keeps deciding what the host boots; our entry is what it falls through to. Pure.

use super::{device_path, load_option::LoadOption};

/// Our entries are known by the start of their description.
pub const OWN_PREFIX: &str = "Firesteel";

/// One `Boot####` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootVariable {
    pub number: u16,
    pub option: LoadOption,
}

impl BootVariable {
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.option.description.starts_with(OWN_PREFIX)
    }

    #[must_use]
    pub fn is_network(&self) -> bool {
        device_path::is_network(&self.option.path)
    }
}

/// What to do with the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootOrderChange {
    /// Entries of ours for earlier installations.
    pub remove: Vec<u16>,
    pub number: u16,
    pub order: Vec<u16>,
}

/// Plans the change. `None`: every one of the 65536 numbers is taken.
#[must_use]
pub fn change(entries: &[BootVariable], order: &[u16], current: Option<u16>) -> Option<BootOrderChange> {
    let own: Vec<u16> = entries.iter().filter(|entry| entry.is_own()).map(|entry| entry.number).collect();
    // Numbers that the order names without a variable behind them are not taken either: firmware
    // may still bring such an entry back.
    let taken = |number: &u16| {
        (order.contains(number) || entries.iter().any(|entry| entry.number == *number)) && !own.contains(number)
    };
    let number = (0..=u16::MAX).find(|number| !taken(number))?;
    let is_network =
        |number: &u16| entries.iter().any(|entry| entry.number == *number && entry.is_network() && !entry.is_own());
    let network = current.filter(&is_network).or_else(|| order.iter().copied().find(is_network));
    let mut new_order: Vec<u16> = network.into_iter().chain([number]).collect();
    for &other in order {
        if !new_order.contains(&other) && !own.contains(&other) {
            new_order.push(other);
        }
    }
    let remove = own.into_iter().filter(|&old| old != number).collect();
    Some(BootOrderChange { remove, number, order: new_order })
}

/// The value of `BootOrder`, and back.
#[must_use]
pub fn encode(order: &[u16]) -> Vec<u8> {
    order.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[must_use]
pub fn text(order: &[u16]) -> String {
    order.iter().map(|number| format!("{number:04X}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn entry(number: u16, description: &str, network: bool) -> BootVariable {
        let path = if network { vec![3, 11, 4, 0, 0x7f, 0xff, 4, 0] } else { vec![0x7f, 0xff, 4, 0] };
        BootVariable { number, option: LoadOption { description: description.into(), path } }
    }

    #[test]
    fn network_first_then_ours_then_the_rest() {
        let entries =
            [entry(0, "UiApp", false), entry(1, "UEFI disk", false), entry(2, "PXE", true), entry(5, "PXE 2", true)];
        let change = change(&entries, &[0, 1, 2, 5], Some(5)).unwrap();
        assert_eq!((change.number, change.remove, change.order), (3, vec![], vec![5, 3, 0, 1, 2]));
    }

    #[test]
    fn older_entries_of_ours_go_and_their_number_is_used_again() {
        let entries = [entry(0, "Firesteel lab-1", false), entry(2, "PXE", true), entry(4, "Firesteel lab-1", false)];
        let change = change(&entries, &[2, 4, 0, 9], Some(2)).unwrap();
        assert_eq!((change.number, change.remove, change.order), (0, vec![4], vec![2, 0, 9]));
    }

    #[test]
    fn without_a_network_entry_ours_is_first() {
        let change = change(&[entry(1, "disk", false)], &[1], Some(1)).unwrap();
        assert_eq!(change.order, [0, 1]);
    }

    #[test]
    fn a_one_time_boot_still_keeps_the_network_first() {
        // Booted once by a setting of the BMC: BootCurrent is an entry that is no network entry.
        let entries = [entry(1, "disk", false), entry(2, "PXE", true)];
        assert_eq!(change(&entries, &[1, 2], Some(1)).unwrap().order, [2, 0, 1]);
    }

    proptest! {
        /// No entry of others is lost or doubled, and ours stands once.
        #[test]
        fn every_foreign_entry_stays(order in proptest::collection::vec(0u16..20, 0..12), current in 0u16..20) {
            let mut unique = order.clone();
            unique.sort_unstable();
            unique.dedup();
            let entries: Vec<_> = unique.iter().map(|&n| entry(n, if n % 3 == 0 { "Firesteel x" } else { "x" }, n % 2 == 0)).collect();
            let change = change(&entries, &order, Some(current)).unwrap();
            for number in unique.iter().filter(|&&n| n % 3 != 0) {
                prop_assert_eq!(change.order.iter().filter(|n| *n == number).count(), 1);
            }
            prop_assert_eq!(change.order.iter().filter(|n| **n == change.number).count(), 1);
            prop_assert!(change.remove.iter().all(|n| !change.order.contains(n)));
        }
    }
}
