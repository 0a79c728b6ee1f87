//! Which image the group and each of its hosts had, since when and by whom (S1.26). Bounded: of the group the newest
//! entries stay, of hosts each one's newest. Of a group of more hosts than there is room for, the rest is not noted
//! here; what a host has it says itself.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_resources::host_group::{HISTORY_MAX, HOST_HISTORY_MAX, HistoryEntry, HostGroupStatus, ImageReference};
use jiff::Timestamp;

use super::{GroupHostStage, GroupInputs, target::GroupTarget};

/// The author of a change that no person asks for by name.
pub const POLICY: &str = "boot image policy";
/// The author for a host that had the image before it was in this group: its owner, or another group, gave it.
const FOUND: &str = "found with it";

/// The group comes to an image.
pub(super) fn promote(image: &ImageReference, by: &str, now: Timestamp, status: &mut HostGroupStatus) {
    status.previous = status.current.replace(image.clone());
    add(image, by, "", now, status);
}

/// Whether the group was at this image once.
pub(super) fn was_promoted(image: &ImageReference, status: &HostGroupStatus) -> bool {
    status.history.iter().any(|entry| entry.host.is_empty() && entry.image == *image)
}

/// Hosts that are found with an image that they did not have before.
pub(super) fn note_hosts(seen: &GroupInputs<'_>, target: &GroupTarget, status: &mut HostGroupStatus) {
    // The newest entry of each host: one pass, for there may be many hosts.
    let mut newest: BTreeMap<String, ImageReference> = BTreeMap::new();
    for entry in status.history.iter().filter(|entry| !entry.host.is_empty()) {
        newest.insert(entry.host.clone(), entry.image.clone());
    }
    // An entry of a host must find room until it changes: otherwise each step would add it again.
    let with_entry = seen.hosts.iter().filter(|host| newest.contains_key(&host.name)).count();
    let mut room = HOST_HISTORY_MAX.saturating_sub(with_entry + 1);
    for host in seen.hosts {
        let image = match &host.stage {
            GroupHostStage::Installing(image)
            | GroupHostStage::Provisioned(image)
            | GroupHostStage::Running(image)
            | GroupHostStage::Failed { image, is_on_disk: true, .. } => image,
            GroupHostStage::ToInstall
            | GroupHostStage::Failed { is_on_disk: false, .. }
            | GroupHostStage::Foreign(_) => continue,
        };
        match newest.get(&host.name) {
            Some(known) if known == image => continue,
            Some(_) => {}
            None if room == 0 => continue,
            None => room -= 1,
        }
        let by = brought_by(image, target, status);
        add(image, &by, &host.name, seen.now, status);
    }
}

/// Who brought an image onto a host of the group.
fn brought_by(image: &ImageReference, target: &GroupTarget, status: &HostGroupStatus) -> String {
    let group = status.history.iter().rev().find(|entry| entry.host.is_empty() && entry.image == *image);
    let is_tried = status.canary.as_ref().is_some_and(|canary| canary.image == *image);
    match (group, target) {
        (Some(entry), _) => entry.by.clone(),
        (None, GroupTarget::Image { image: wanted, by, .. }) if is_tried && wanted == image => {
            format!("{by}, as a canary")
        }
        (None, GroupTarget::Image { .. } | GroupTarget::Unknown(_) | GroupTarget::Wrong(_)) => FOUND.to_owned(),
    }
}

fn add(image: &ImageReference, by: &str, host: &str, now: Timestamp, status: &mut HostGroupStatus) {
    // A group that changed each second would take a century to get here.
    status.last_entry = status.last_entry.saturating_add(1);
    let (entry, image) = (status.last_entry, image.clone());
    status.history.push(HistoryEntry { entry, image, at: now, by: by.to_owned(), host: host.to_owned() });
}

/// Keeps the bounds. An entry that the group is restored to stays.
pub(super) fn trim(seen: &GroupInputs<'_>, status: &mut HostGroupStatus) {
    let kept = seen.group.spec.restore.map(|restore| restore.entry);
    let of_group = |entry: &HistoryEntry| entry.host.is_empty();
    let of_host = |entry: &HistoryEntry| !entry.host.is_empty();
    let history = &mut status.history;
    shorten(history, HISTORY_MAX, kept, of_group, |_| true);
    // Of hosts that are gone first, then what is not a host's newest, then the oldest.
    let present: BTreeSet<&str> = seen.hosts.iter().map(|host| host.name.as_str()).collect();
    shorten(history, HOST_HISTORY_MAX, kept, of_host, |entry| !present.contains(entry.host.as_str()));
    let newest: BTreeMap<String, u32> = history.iter().map(|entry| (entry.host.clone(), entry.entry)).collect();
    shorten(history, HOST_HISTORY_MAX, kept, of_host, |entry| newest.get(&entry.host) != Some(&entry.entry));
    shorten(history, HOST_HISTORY_MAX, kept, of_host, |_| true);
}

/// Drops the oldest entries of one sort that may go, until there are no more than `most`.
fn shorten(
    history: &mut Vec<HistoryEntry>,
    most: usize,
    kept: Option<u32>,
    is_of: impl Fn(&HistoryEntry) -> bool,
    may_go: impl Fn(&HistoryEntry) -> bool,
) {
    let mut excess = history.iter().filter(|entry| is_of(entry)).count().saturating_sub(most);
    history.retain(|entry| {
        let goes = excess > 0 && is_of(entry) && may_go(entry) && Some(entry.entry) != kept;
        excess -= usize::from(goes);
        !goes
    });
}
