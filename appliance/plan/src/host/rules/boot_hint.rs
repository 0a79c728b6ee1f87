//! Says why a host that boots does not come to its agent, and why its new OS does not report: the usual causes, by how
//! far it came. Pure.
//!
//! ```text
//!   it asks for what needs an agent, and the site boots none ► BMCOnly
//!   its machine booted with another MAC ────────────► WrongBootMAC
//!   a file was not started, or a wrong address asks ► BootStalled, AddressMismatch
//!   silent for a minute since its last stage ───────► NothingHeard, AddressNotTaken, …, AgentNotHeard
//!   the OS silent for minutes ──────────────────────► ConfigNotFetched, NotReported
//! ```
//!
//! A hint is no error and ends nothing: large servers say nothing for minutes. It is shown by a condition as long as it
//! is so, and an event says it once for each attempt and cause.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::requests;
use jiff::{SignedDuration, Timestamp};

use crate::host::model::{
    AnnouncedHints, HostInputs, HostMemory, HostPower, HostState, InstalledSystem, NetbootStage, ReachedStage,
};
use crate::host::rules::{bmc_only, wrong_boot_mac};
use crate::host::turn::{StepDraft, format_duration, later};

/// A host may be heard before its BMC has answered the order to switch it on, which reads the power back.
const HEARD_BEFORE: SignedDuration = SignedDuration::from_secs(15);
/// A text names the longest of these times that has passed, so that it seldom changes.
const SILENCES: [SignedDuration; 4] = [
    SignedDuration::from_mins(5),
    SignedDuration::from_mins(10),
    SignedDuration::from_mins(15),
    SignedDuration::from_hours(1),
];
/// Causes of one attempt that events are recorded for.
const ANNOUNCED_MAX: usize = 16;
/// MACs of the BMC's list that are named.
const MACS_NAMED_MAX: usize = 8;

/// What usually keeps a host from its next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintCause {
    BmcOnly,
    WrongBootMac,
    BootStalled,
    AddressMismatch,
    NothingHeard,
    NoAddress,
    AddressNotTaken,
    NoLoader,
    LoaderFailed,
    LoaderNotFetched,
    LoaderNotStarted,
    WrongBuild,
    ScriptNotFetched,
    FilesNotFetched,
    AgentNotHeard,
    ConfigNotFetched,
    NotReported,
}

impl HintCause {
    /// The reason of its condition.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::BmcOnly => bmc_only::REASON,
            Self::WrongBootMac => wrong_boot_mac::REASON,
            Self::BootStalled => "BootStalled",
            Self::AddressMismatch => "AddressMismatch",
            Self::NothingHeard => "NothingHeard",
            Self::NoAddress => "NoAddress",
            Self::AddressNotTaken => "AddressNotTaken",
            Self::NoLoader => "NoLoader",
            Self::LoaderFailed => "LoaderFailed",
            Self::LoaderNotFetched => "LoaderNotFetched",
            Self::LoaderNotStarted => "LoaderNotStarted",
            Self::WrongBuild => "WrongBuild",
            Self::ScriptNotFetched => "ScriptNotFetched",
            Self::FilesNotFetched => "FilesNotFetched",
            Self::AgentNotHeard => "AgentNotHeard",
            Self::ConfigNotFetched => "ConfigNotFetched",
            Self::NotReported => "NotReported",
        }
    }
}

/// A cause in words.
#[derive(Debug)]
pub(crate) struct BootHint {
    pub(crate) cause: HintCause,
    pub(crate) text: String,
    /// What an event is recorded once for.
    key: String,
}

impl BootHint {
    fn new(cause: HintCause, text: String) -> Self {
        Self { cause, text, key: cause.word().to_owned() }
    }
}

/// Explains why the host has not come to its agent.
pub(crate) fn of_boot(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<BootHint> {
    if let Some(text) = bmc_only::unmet(memory, seen, now) {
        let what = text.split(';').next().unwrap_or_default().to_owned();
        let hint = BootHint::new(HintCause::BmcOnly, text);
        return Some(BootHint { key: format!("{}/{what}", hint.key), ..hint });
    }
    if bmc_only::cause(memory, seen, now).is_some() {
        // None is awaited.
        return None;
    }
    if let Some(wrong) = wrong_boot_mac::find(memory, seen) {
        let hint = BootHint::new(HintCause::WrongBootMac, wrong.text);
        return Some(BootHint { key: format!("{}/{}", hint.key, wrong.mac), ..hint });
    }
    let known = |cause, text: Option<&String>| text.map(|text| BootHint::new(cause, text.clone()));
    known(HintCause::BootStalled, seen.netboot.stalled.as_ref())
        .or_else(|| known(HintCause::AddressMismatch, seen.netboot.mismatch.as_ref()))
        .or_else(|| of_silence(memory, seen, now))
}

/// Explains why the installed OS has not gone on.
pub(crate) fn of_first_boot(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<BootHint> {
    let FirstBootSilence { since, has_config } = first_boot(memory, seen)?;
    let silent = now.duration_since(since);
    if silent < seen.limits.first_boot_hint {
        return None;
    }
    let silent = long(silent, seen.limits.first_boot_hint);
    Some(if has_config {
        let text = format!(
            "the OS fetched its config at {since:.0}, and no unit of it reported for more than {silent}: Ignition may \
             have failed, or the image has no unit that reports; see its console"
        );
        BootHint::new(HintCause::NotReported, text)
    } else {
        let text = format!(
            "the disk was written, and the new OS has not fetched its config for more than {silent} since {since:.0}: \
             the firmware may not boot this disk, or the OS has no network; see its console"
        );
        BootHint::new(HintCause::ConfigNotFetched, text)
    })
}

/// Records an event for each hint that is new in this attempt, and has the host stepped when one is due.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    let (seen, now) = (turn.seen, turn.now);
    turn.memory.on_since = on_since(&turn.memory, seen, now);
    let hints = [of_boot(&turn.memory, seen, now), of_first_boot(&turn.memory, seen, now)];
    hints.into_iter().flatten().for_each(|hint| announce(turn, hint));
    let boot = silence(&turn.memory, seen).map(|silence| later(silence.since, seen.limits.boot_hint));
    let first_boot = first_boot(&turn.memory, seen).map(|silence| later(silence.since, seen.limits.first_boot_hint));
    if let Some(due) = boot.into_iter().chain(first_boot).filter(|due| *due > now).min() {
        turn.wake_by(due);
    }
}

/// Returns since when an installed host is on: one that was off for days begins its first boot when it is switched on.
fn on_since(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<Timestamp> {
    match seen.bmc.power {
        _ if memory.state != HostState::Provisioned => None,
        HostPower::On => memory.on_since.or(Some(now)),
        HostPower::Off => None,
        HostPower::Unknown => memory.on_since,
    }
}

fn announce(turn: &mut StepDraft<'_>, hint: BootHint) {
    let attempt = turn.memory.attempt;
    let known = turn.memory.hints.take().filter(|known| known.attempt == attempt);
    let mut known = known.unwrap_or(AnnouncedHints { attempt, causes: Vec::new() });
    let is_news = known.causes.len() < ANNOUNCED_MAX && !known.causes.contains(&hint.key);
    if is_news {
        known.causes.push(hint.key);
        match hint.cause {
            HintCause::BmcOnly => turn.warn(EventReason::NeedsAgent, hint.text),
            HintCause::WrongBootMac => turn.warn(EventReason::WrongBootMac, hint.text),
            HintCause::BootStalled | HintCause::AddressMismatch | HintCause::NoLoader | HintCause::WrongBuild => {
                turn.warn(EventReason::NetworkBootStalled, hint.text);
            }
            HintCause::ConfigNotFetched | HintCause::NotReported => {
                turn.event(EventReason::FirstBootSilent, hint.text);
            }
            HintCause::NothingHeard
            | HintCause::NoAddress
            | HintCause::AddressNotTaken
            | HintCause::LoaderFailed
            | HintCause::LoaderNotFetched
            | HintCause::LoaderNotStarted
            | HintCause::ScriptNotFetched
            | HintCause::FilesNotFetched
            | HintCause::AgentNotHeard => turn.event(EventReason::NetworkBootSilent, hint.text),
        }
    }
    turn.memory.hints = Some(known);
}

/// A host whose agent is awaited.
struct BootSilence<'a> {
    /// When it was switched on, or came further the last time.
    since: Timestamp,
    reached: Option<&'a ReachedStage>,
}

/// Finds out how far a host came whose agent has not said hello. Nothing is said of one that was not switched on from
/// here and was not heard either.
fn silence<'a>(memory: &HostMemory, seen: &'a HostInputs) -> Option<BootSilence<'a>> {
    let has_agent = seen.agent.as_ref().is_some_and(|agent| agent.attempt == memory.attempt);
    let is_awaited = memory.state.gets_agent() && memory.detached.is_none() && !has_agent;
    // A host that is off is no silent one, and its power is watched.
    if !is_awaited || seen.bmc.power == HostPower::Off {
        return None;
    }
    let has_bmc = seen.host.spec.usable_bmc().is_some();
    let since = match &memory.boot {
        Some(wait) if wait.powered || !has_bmc => wait.since,
        // It may be booted by hand.
        None if memory.state == HostState::Unmanaged && !memory.attempt_spent => memory.since,
        Some(_) | None => return None,
    };
    let earliest = since.checked_sub(HEARD_BEFORE).unwrap_or(Timestamp::MIN);
    let of_this_boot = || seen.netboot.stages.iter().filter(|reached| reached.last_at >= earliest);
    let reached = of_this_boot().max_by_key(|reached| (reached.stage, reached.last_at));
    let Some(furthest) = reached else { return has_bmc.then_some(BootSilence { since, reached }) };
    let came_at =
        of_this_boot().filter(|reached| reached.stage == furthest.stage).map(|reached| reached.first_at).min();
    Some(BootSilence { since: came_at.map_or(since, |at| at.max(since)), reached })
}

fn of_silence(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<BootHint> {
    let BootSilence { since, reached } = silence(memory, seen)?;
    let silent = now.duration_since(since);
    if silent < seen.limits.boot_hint {
        return None;
    }
    let silent = format!("for more than {} since {since:.0}", long(silent, seen.limits.boot_hint));
    let Some(reached) = reached else {
        return Some(BootHint::new(HintCause::NothingHeard, nothing_heard(memory, seen, &silent)));
    };
    let (cause, happened, causes) = usual_cause(reached.stage);
    let detail = if reached.detail.is_empty() || !names_detail(reached.stage) {
        String::new()
    } else {
        format!(" ({})", reached.detail)
    };
    Some(BootHint::new(cause, format!("{happened}{detail}, and has not come further {silent}: {causes}")))
}

/// Whether the detail of a stage says why it is the last one.
fn names_detail(stage: NetbootStage) -> bool {
    match stage {
        NetbootStage::NoAddress | NetbootStage::NoLoader | NetbootStage::LoaderFailed | NetbootStage::WrongBuild => {
            true
        }
        NetbootStage::Offered
        | NetbootStage::Leased
        | NetbootStage::Loader
        | NetbootStage::Ipxe
        | NetbootStage::Script
        | NetbootStage::Kernel
        | NetbootStage::Initramfs => false,
    }
}

/// The usual cause when a host does not get beyond this stage: which it is, what happened, and why.
fn usual_cause(stage: NetbootStage) -> (HintCause, &'static str, &'static str) {
    match stage {
        NetbootStage::NoAddress => {
            (HintCause::NoAddress, "the host got no address from DHCP", "see the range and the leases of the network")
        }
        NetbootStage::Offered => (
            HintCause::AddressNotTaken,
            "the host was offered an address and did not take it",
            "another DHCP server may have been faster, or the answer does not reach the host (VLAN, relay)",
        ),
        NetbootStage::Leased => (
            HintCause::LoaderNotFetched,
            "the host has an address and did not fetch its loader",
            "TFTP (69/udp) may be filtered, or its firmware boots something else: put the network first in its boot \
             order",
        ),
        NetbootStage::NoLoader => (
            HintCause::NoLoader,
            "the host asked for a loader that is not there",
            "its architecture or firmware mode is not served",
        ),
        NetbootStage::LoaderFailed => (
            HintCause::LoaderFailed,
            "the host did not fetch its loader whole",
            "TFTP (69/udp) or HTTP may be filtered, or the firmware gave up",
        ),
        NetbootStage::Loader => (
            HintCause::LoaderNotStarted,
            "the host fetched its loader, which did not come back",
            "Secure Boot refuses an unsigned loader, the machine has another architecture, or the loader failed; see \
             its console",
        ),
        NetbootStage::Ipxe => (
            HintCause::ScriptNotFetched,
            "iPXE runs and did not ask for its script",
            "the switch port may forward late (spanning tree: set it to edge), or HTTP is filtered",
        ),
        NetbootStage::WrongBuild => {
            (HintCause::WrongBuild, "the host runs an iPXE that cannot start the kernel", "see its firmware")
        }
        NetbootStage::Script | NetbootStage::Kernel => (
            HintCause::FilesNotFetched,
            "the host has its script and did not get all files",
            "its memory may be below 512 MiB, or HTTP is cut; see its console",
        ),
        NetbootStage::Initramfs => (
            HintCause::AgentNotHeard,
            "the host has kernel and initramfs, and its agent has not said hello",
            "the driver of its NIC may be missing from the ramdisk (use the set `server`), or 8443/tcp is filtered; see \
             its serial console",
        ),
    }
}

/// Nothing came from the host's MAC: by likelihood the MAC, the cable, the VLAN, the boot order.
fn nothing_heard(memory: &HostMemory, seen: &HostInputs, silent: &str) -> String {
    let macs = if memory.macs.is_empty() { "the host".to_owned() } else { memory.macs.join(" or ") };
    let listed = &seen.bmc.macs;
    let is_listed = |mac: &String| memory.macs.iter().any(|own| own.eq_ignore_ascii_case(mac));
    let another = if listed.is_empty() || listed.iter().any(is_listed) {
        "spec.bootMACAddress may be the MAC of another NIC".to_owned()
    } else {
        let named = listed.iter().take(MACS_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("spec.bootMACAddress may be wrong, since the BMC does not list it (it lists {named})")
    };
    let order = match &memory.bmc.no_override {
        Some(_) => "the boot order, in which the network must come first, since the BMC has no boot override",
        None => "the boot order, in which the network must come first",
    };
    let (missing, elsewhere) = if seen.netboot.is_dhcp_elsewhere {
        // Its DHCP and its loader may have come, and no one here would know.
        (
            "no boot script was asked for",
            "the other DHCP server does not name this appliance's loader, or Secure Boot stops that loader; or ",
        )
    } else {
        ("no DHCP request, no loader, no boot script", "")
    };
    format!(
        "the host is to boot from the network, and nothing was heard from {macs} {silent}: {missing}. Slow firmware \
         needs minutes. If it stays so: {elsewhere}{another}; or it is the cable, the VLAN of the switch port, or {order}"
    )
}

/// An OS that was installed and has not reported that it runs.
struct FirstBootSilence {
    /// When it was handed over, or fetched its config.
    since: Timestamp,
    has_config: bool,
}

/// Finds out how far an installed OS came that is to report itself.
fn first_boot(memory: &HostMemory, seen: &HostInputs) -> Option<FirstBootSilence> {
    let is_due = |applied: &&InstalledSystem| applied.reports_running();
    let applied = memory.applied.as_ref().filter(is_due)?;
    let is_let_alone = memory.state != HostState::Provisioned || memory.detached.is_some();
    let is_held_off = requests(&seen.host.metadata).held_off.is_some();
    // A host with a BMC is known to be on, or nothing is known of it.
    let may_be_off =
        seen.bmc.power == HostPower::Off || (seen.host.spec.usable_bmc().is_some() && seen.bmc.power != HostPower::On);
    if is_let_alone || !seen.host.spec.online || is_held_off || may_be_off {
        return None;
    }
    let instance = Some(&seen.instance).filter(|instance| instance.attempt == applied.attempt);
    if instance.is_some_and(|instance| instance.running_at.is_some() || instance.failed.is_some()) {
        return None;
    }
    let fetched_at = instance.and_then(|instance| instance.config_fetched_at);
    let begun_at = memory.on_since.map_or(applied.at, |on_since| on_since.max(applied.at));
    Some(FirstBootSilence { since: fetched_at.unwrap_or(begun_at), has_config: fetched_at.is_some() })
}

/// The time that a silence has lasted, in steps; `first` is the shortest one.
fn long(silent: SignedDuration, first: SignedDuration) -> String {
    let passed = SILENCES.into_iter().rev().find(|step| silent >= *step);
    format_duration(passed.map_or(first, |step| step.max(first)))
}
