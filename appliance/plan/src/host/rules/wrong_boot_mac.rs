//! Says that a host's machine booted with another MAC than `spec.bootMACAddress`. Pure.
//!
//! ```text
//!   the host's BMC: UUID of the system that it drives ─┐
//!                                                      ├─ the same ──► condition and event of the host, which name the
//!   a machine without a host: SMBIOS UUID by its hello ┘               MAC; condition of the DiscoveredHost, so that no
//!                                                                      one adopts it as a second host
//! ```
//!
//! A UUID that two BMCs report is identity for neither: the caller leaves it out. Firmware may swap the bytes of the
//! first three fields, which is the same UUID. Where the host was inspected with this UUID, another serial number is of
//! another machine: mainboards are cloned.

use firesteel_resources::discovered_host::BELONGS_TO_HOST;
use firesteel_resources::{Condition, normal_mac};
use jiff::Timestamp;

use crate::host::model::{DiscoveredMachine, HostInputs, HostMemory, KnownIdentity, usable_serial};
use crate::host::rules::identity::{self, canonical_uuid};

/// The reason of the conditions.
pub(crate) const REASON: &str = "WrongBootMAC";
/// Machines that are named in one text.
const NAMED_MAX: usize = 3;

/// What a host says of the machine that is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrivenSystem {
    /// UUID of the system that its BMC drives, in its canonical spelling ([`canonical_uuid`]).
    pub uuid: String,
    /// What the host is known as, by its inspection.
    pub known: KnownIdentity,
    /// The MAC of `spec.bootMACAddress`; empty where it is not set.
    pub boot_mac: String,
    /// When the host's own agent said hello.
    pub agent_at: Option<Timestamp>,
}

/// Returns what a host says of its machine; nothing where its BMC names no usable UUID.
#[must_use]
pub fn driven_system(memory: &HostMemory, seen: &HostInputs) -> Option<DrivenSystem> {
    seen.host.spec.usable_bmc()?;
    let uuid = canonical_uuid(memory.bmc.system_uuid.as_deref()?)?;
    let known = identity::known(memory.identity.as_ref(), seen.hardware.as_ref(), seen.claim.as_ref());
    let agent_at = seen.agent.as_ref().map(|agent| agent.bound_at);
    Some(DrivenSystem { uuid, known, boot_mac: seen.host.spec.boot_mac().unwrap_or_default(), agent_at })
}

/// Says whether a machine without a host is the one that this host's BMC drives.
#[must_use]
pub fn is_its_machine(system: &DrivenSystem, machine: &DiscoveredMachine) -> bool {
    let is_inspected = canonical_uuid(&system.known.uuid).as_ref() == Some(&system.uuid);
    let serials = (usable_serial(&system.known.serial), usable_serial(&machine.serial));
    let is_clone =
        is_inspected && matches!(&serials, (Some(known), Some(said)) if !known.eq_ignore_ascii_case(said.as_str()));
    canonical_uuid(&machine.uuid).as_ref() == Some(&system.uuid) && !is_clone
}

/// A machine of the host that booted with a MAC which is not the host's.
#[derive(Debug)]
pub(crate) struct WrongBoot {
    /// The MAC of the newest boot.
    pub(crate) mac: String,
    pub(crate) text: String,
}

/// Finds the machines of the host that booted with another MAC, unless the host's own agent came since.
pub(crate) fn find(memory: &HostMemory, seen: &HostInputs) -> Option<WrongBoot> {
    if memory.detached.is_some() || seen.host.metadata.is_deleting() {
        return None;
    }
    let system = driven_system(memory, seen)?;
    let own_at = seen.agent.as_ref().map(|agent| agent.bound_at);
    let is_wrong = |machine: &&DiscoveredMachine| {
        let is_own = normal_mac(&machine.boot_mac).is_none_or(|mac| memory.macs.contains(&mac));
        // What was discovered before the host was created says nothing of the host's boots.
        let is_news = [own_at, seen.host.metadata.creation_timestamp].into_iter().flatten().max();
        !is_own && is_news.is_none_or(|known_at| machine.last_seen > known_at) && is_its_machine(&system, machine)
    };
    let mut machines: Vec<&DiscoveredMachine> = seen.discovered.iter().filter(is_wrong).collect();
    machines.sort_by(|one, other| (other.last_seen, &one.boot_mac).cmp(&(one.last_seen, &other.boot_mac)));
    let newest = *machines.first()?;
    let named = machines.iter().take(NAMED_MAX).map(|machine| machine.boot_mac.as_str()).collect::<Vec<_>>();
    Some(WrongBoot { mac: newest.boot_mac.clone(), text: text(memory, seen, newest, &named.join(" and with ")) })
}

fn text(memory: &HostMemory, seen: &HostInputs, machine: &DiscoveredMachine, macs: &str) -> String {
    let DiscoveredMachine { uuid, boot_mac, .. } = machine;
    let begin = format!("the machine that this host's BMC drives (SMBIOS UUID {uuid}) booted with MAC {macs}");
    if seen.host.spec.boot_mac().is_none() {
        return format!("{begin}, and spec.bootMACAddress is not set: set it to {boot_mac}");
    }
    let own = memory.macs.first().map(String::as_str).unwrap_or_default();
    // The field cannot be changed, and a deletion would have the disks cleaned.
    let correct = if memory.state.has_os() || memory.leaves_data() {
        format!(
            "put the NIC {own} first in the boot order of its firmware; if the machine has no such NIC, \
             spec.bootMACAddress is wrong"
        )
    } else {
        format!(
            "correct spec.bootMACAddress: delete this host, and create it again with {boot_mac}, for the field cannot be \
             changed"
        )
    };
    let other = if has_nic(machine, own) && !memory.state.has_os() && !memory.leaves_data() {
        "; or, since the machine has that NIC too, check its cable and put it first in the boot order".to_owned()
    } else {
        String::new()
    };
    format!("{begin}, not spec.bootMACAddress {own}: {correct}{other}")
}

fn has_nic(machine: &DiscoveredMachine, own: &str) -> bool {
    machine.macs.iter().filter_map(|mac| normal_mac(mac)).any(|mac| mac == own)
}

/// The host whose BMC drives a machine.
#[derive(Clone, Copy, Debug)]
pub struct DrivingHost<'a> {
    /// Namespace and name.
    pub name: &'a str,
    pub system: &'a DrivenSystem,
}

/// Says of a machine without a host whose machine it is. `was_shown`: the machine has this condition.
#[must_use]
pub fn condition(machine: &DiscoveredMachine, owner: Option<DrivingHost<'_>>, was_shown: bool) -> Option<Condition> {
    let none = || was_shown.then(|| Condition::new(BELONGS_TO_HOST, false, "NoHost", ""));
    let Some(DrivingHost { name, system: DrivenSystem { boot_mac: own, agent_at, .. } }) = owner else { return none() };
    let DiscoveredMachine { uuid, boot_mac, last_seen, .. } = machine;
    if normal_mac(boot_mac).is_some_and(|mac| mac == *own) {
        return none();
    }
    let correct = if agent_at.is_some_and(|agent_at| *last_seen <= agent_at) {
        format!("{boot_mac} before the host's own agent came")
    } else if own.is_empty() {
        format!("{boot_mac}: set spec.bootMACAddress of that host to it")
    } else {
        format!("{boot_mac}, not spec.bootMACAddress {own}: correct spec.bootMACAddress of that host")
    };
    let text = format!(
        "this machine is host {name}, whose BMC drives the system with its SMBIOS UUID {uuid}; it booted with MAC \
         {correct}, and do not adopt the machine as a second host"
    );
    Some(Condition::new(BELONGS_TO_HOST, true, REASON, text))
}

#[cfg(test)]
mod tests {
    use firesteel_resources::ConditionStatus;

    use super::*;
    use crate::host::sample::{at, now};

    const UUID: &str = "4c4c4544-0046-3310-8051-b4c04f564432";

    /// What is said of a machine: status and message.
    fn said(boot_mac: &str, own: &str, agent_at: Option<Timestamp>) -> Option<(ConditionStatus, String)> {
        let machine = DiscoveredMachine {
            boot_mac: boot_mac.into(),
            uuid: UUID.into(),
            last_seen: now(),
            ..DiscoveredMachine::default()
        };
        let known = KnownIdentity::default();
        let system = DrivenSystem { uuid: UUID.into(), known, boot_mac: own.into(), agent_at };
        let owner = DrivingHost { name: "default/a", system: &system };
        condition(&machine, Some(owner), false).map(|found| (found.status, found.message))
    }

    #[test]
    fn a_machine_that_is_a_host_says_whose_it_is_and_what_to_correct() {
        let (own, other) = ("52:54:00:00:00:01", "52:54:00:00:00:02");
        let before = format!("booted with MAC {other} before the host's own agent came, and do not adopt");
        let wrong = format!("{other}, not spec.bootMACAddress {own}: correct spec.bootMACAddress of that host");
        let unset = format!("{other}: set spec.bootMACAddress of that host to it");
        for (boot_mac, own, agent_at, part) in [
            (own, own, None, None),
            ("52-54-00-00-00-01", own, None, None),
            (other, own, None, Some(&wrong)),
            (other, own, Some(at(-1)), Some(&wrong)),
            (other, own, Some(now()), Some(&before)),
            (other, own, Some(at(1)), Some(&before)),
            (other, "", None, Some(&unset)),
        ] {
            let found = said(boot_mac, own, agent_at);
            let Some(part) = part else {
                assert_eq!(found, None, "{boot_mac} {own}");
                continue;
            };
            let (status, text) = found.unwrap_or((ConditionStatus::Unknown, String::new()));
            assert_eq!(status, ConditionStatus::True, "{boot_mac} {own} {agent_at:?}");
            assert!(text.contains("this machine is host default/a") && text.contains(UUID), "{text}");
            assert!(text.contains(part.as_str()), "{part}: {text}");
        }
    }

    /// The condition stays, as one that is over, on a machine that had it.
    #[test]
    fn a_machine_of_no_host_says_so_where_it_was_one_before() {
        let machine = DiscoveredMachine::default();
        let shown = |was_shown| condition(&machine, None, was_shown).map(|found| (found.status, found.reason));
        assert_eq!((shown(false), shown(true)), (None, Some((ConditionStatus::False, "NoHost".to_owned()))));
    }
}
