//! Which machines boot from the network and how far each came: the table of [`firesteel_boot::Sightings`], shared.
//!
//! It is fed with the events of DHCP, TFTP and HTTP and with the agents' hellos, and read by the API and by the steps
//! of hosts. Nothing of it is stored: after a restart of the appliance machines appear with their next request.

use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_boot::{Sighting, SightingStage, Sightings, StalledBoot, ipxe::wrong_build};
use firesteel_facts::Mac;
use firesteel_plan::host::{NetbootInputs, NetbootStage, ReachedStage};
use firesteel_runtime::lock;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{DhcpRequestSource, NetworkEvent};

/// A machine that is no host, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnknownHost {
    /// Such as `52:54:00:12:34:56`.
    pub mac: String,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// The last stage that it reached, in words.
    pub stage: String,
    /// The loader or kernel that it fetched and that nothing came of, with likely causes; else empty.
    pub stalled: String,
    /// The stall in so few words that they fit a line of a table.
    pub hint: String,
    /// What its SMBIOS holds that is no text; mostly empty.
    pub smbios: String,
}

/// The table, shared by its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct BootWatch {
    table: Arc<Mutex<Sightings>>,
    pub(crate) changed: Arc<Notify>,
}

impl BootWatch {
    /// Takes in an event of a machine; whether a stall that was reported is over by it.
    pub(crate) fn note(&self, mac: Mac, event: &NetworkEvent, is_host: bool, now: Timestamp) -> bool {
        let Some(stage) = stage(event, is_host) else { return false };
        let mut table = self.lock();
        let is_awaited = matches!(stage, SightingStage::Loader { .. } | SightingStage::Kernel);
        let is_over = table.note(mac, stage, is_host, now);
        if let NetworkEvent::Script { odd, .. } = event {
            table.note_odd(mac, odd.clone());
        }
        drop(table);
        if is_awaited {
            self.changed.notify_one();
        }
        is_over
    }

    /// The agent of this machine said hello; whether a stall that was reported is over by it.
    pub(crate) fn registered(&self, mac: Mac, is_host: bool, now: Timestamp) -> bool {
        let mut table = self.lock();
        // Whose boot was not seen, by another DHCP server, is known by the agent itself.
        table.get(mac).is_some() && table.note(mac, SightingStage::Agent, is_host, now)
    }

    /// What the steps of a host with these MACs may look at.
    pub(crate) fn seen(&self, macs: &[Mac], now: Timestamp) -> NetbootInputs {
        let table = self.lock();
        let newest = macs.iter().filter_map(|mac| table.get(*mac)).max_by_key(|seen| seen.at);
        newest.map_or_else(NetbootInputs::default, |seen| NetbootInputs {
            stage: seen.stage.to_string(),
            at: Some(seen.at),
            stalled: seen.stall(now).map(ToString::to_string),
            mismatch: None,
            stages: reached(seen).into_iter().collect(),
            is_dhcp_elsewhere: false,
        })
    }

    /// The machines that are no hosts, the one that was heard last first.
    pub(crate) fn unknown(&self, now: Timestamp, is_owned: impl Fn(&Mac) -> bool) -> Vec<UnknownHost> {
        let table = self.lock();
        let strangers = table.iter().filter(|(mac, _)| !is_owned(mac));
        let mut unknown: Vec<UnknownHost> = strangers
            .map(|(mac, seen)| UnknownHost {
                mac: mac.to_string(),
                first_seen: seen.first_at,
                last_seen: seen.at,
                stage: seen.stage.to_string(),
                stalled: seen.stall(now).map(ToString::to_string).unwrap_or_default(),
                hint: seen.stall(now).map(StalledBoot::hint).unwrap_or_default(),
                smbios: seen.odd.clone(),
            })
            .collect();
        unknown.sort_by(|one, other| (other.last_seen, &one.mac).cmp(&(one.last_seen, &other.mac)));
        unknown
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Sightings> {
        lock(&self.table)
    }
}

/// The stage of a boot that was seen last, in the planner's words; none where the agent came, or an asker may be another
/// machine.
fn reached(seen: &Sighting) -> Option<ReachedStage> {
    let (stage, detail) = match &seen.stage {
        SightingStage::Offered(_) => (NetbootStage::Offered, ""),
        SightingStage::Leased(_) => (NetbootStage::Leased, ""),
        SightingStage::Refused(why) => (NetbootStage::NoAddress, why.as_str()),
        SightingStage::NoLoader(why) => (NetbootStage::NoLoader, why.as_str()),
        SightingStage::LoaderFailed(why) => (NetbootStage::LoaderFailed, why.as_str()),
        SightingStage::Loader { .. } => (NetbootStage::Loader, ""),
        SightingStage::Ipxe => (NetbootStage::Ipxe, ""),
        SightingStage::Script { .. } => (NetbootStage::Script, ""),
        SightingStage::WrongBuild(why) => (NetbootStage::WrongBuild, why.as_str()),
        SightingStage::Kernel => (NetbootStage::Kernel, ""),
        SightingStage::Initramfs => (NetbootStage::Initramfs, ""),
        SightingStage::AddressMismatch(_) | SightingStage::Agent => return None,
    };
    Some(ReachedStage { stage, first_at: seen.at, last_at: seen.at, detail: detail.to_owned() })
}

/// The stage that an event stands for; none where it says nothing of a boot.
fn stage(event: &NetworkEvent, is_host: bool) -> Option<SightingStage> {
    let of_dhcp = |asker: &DhcpRequestSource, stage: SightingStage| match asker {
        DhcpRequestSource::Firmware => Some(stage),
        DhcpRequestSource::Ipxe => Some(SightingStage::Ipxe),
        // The agent says hello next, and an OS has booted from elsewhere.
        DhcpRequestSource::System => None,
    };
    match event {
        NetworkEvent::DhcpOffer { address, asker, .. } => of_dhcp(asker, SightingStage::Offered(*address)),
        NetworkEvent::DhcpAck { address, asker, .. } => of_dhcp(asker, SightingStage::Leased(*address)),
        NetworkEvent::DhcpNak { reason, asker } => of_dhcp(asker, SightingStage::Refused(reason.clone())),
        NetworkEvent::NoLoader { reason } => Some(SightingStage::NoLoader(reason.clone())),
        // iPXE asks for it by itself, from where it was loaded.
        NetworkEvent::Loader { file, .. } if file == AUTOEXEC => Some(SightingStage::Ipxe),
        NetworkEvent::Loader { file, via, .. } => Some(SightingStage::Loader { file: file.clone(), via }),
        NetworkEvent::LoaderFailed { .. } => Some(SightingStage::LoaderFailed(event.detail())),
        NetworkEvent::Script { is_uefi, .. } => Some(SightingStage::Script { is_uefi: *is_uefi }),
        // Of a host it says that another machine may have asked, which is no stage of the host's boot.
        NetworkEvent::AddressMismatch { text } => (!is_host).then(|| SightingStage::AddressMismatch(text.clone())),
        NetworkEvent::WrongBuild { buildarch } => Some(SightingStage::WrongBuild(wrong_build(buildarch))),
        NetworkEvent::Kernel { .. } => Some(SightingStage::Kernel),
        NetworkEvent::Initramfs { .. } => Some(SightingStage::Initramfs),
        NetworkEvent::BootStalled { .. }
        | NetworkEvent::DhcpDecline { .. }
        | NetworkEvent::ScriptWaits { .. }
        | NetworkEvent::NoDisk => None,
    }
}

/// The name of iPXE's own first script.
const AUTOEXEC: &str = "autoexec.ipxe";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    const ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 77, 0, 100);
    const MAC: Mac = Mac([0x52, 0x54, 0, 0x77, 9, 1]);

    fn offer(asker: DhcpRequestSource) -> NetworkEvent {
        NetworkEvent::DhcpOffer { address: ADDRESS, client: String::new(), asker }
    }

    fn loader(file: &str) -> NetworkEvent {
        NetworkEvent::Loader { file: file.into(), bytes: 1, via: "tftp" }
    }

    /// S0.26: each stage on the way to the agent, in its order.
    #[test]
    fn the_last_stage_of_an_unknown_machine_is_shown() {
        let watch = BootWatch::default();
        let stages: [(NetworkEvent, &str); 6] = [
            (offer(DhcpRequestSource::Firmware), "DHCP offered 10.77.0.100"),
            (loader("undionly.kpxe"), "loader undionly.kpxe fetched by TFTP"),
            (offer(DhcpRequestSource::Ipxe), "iPXE runs"),
            (NetworkEvent::Script { bytes: 1, is_uefi: false, odd: String::new() }, "boot script fetched"),
            (NetworkEvent::Kernel { bytes: 1 }, "kernel fetched"),
            (NetworkEvent::Initramfs { bytes: 1 }, "initramfs fetched"),
        ];
        for (event, words) in stages {
            watch.note(MAC, &event, false, at(0));
            assert_eq!(watch.unknown(at(1), |_| false)[0].stage, words);
            assert_eq!(watch.seen(&[MAC], at(1)).stage, words);
        }
        watch.registered(MAC, false, at(2));
        assert_eq!(watch.unknown(at(2), |_| false)[0].stage, "agent registered");
        assert!(watch.unknown(at(2), |mac| *mac == MAC).is_empty(), "it is a host");
    }

    #[test]
    fn an_os_that_wants_an_address_is_no_boot() {
        let watch = BootWatch::default();
        watch.note(MAC, &offer(DhcpRequestSource::System), false, at(0));
        assert!(watch.unknown(at(0), |_| false).is_empty());
        watch.note(MAC, &loader("snponly.efi"), false, at(0));
        watch.note(MAC, &offer(DhcpRequestSource::System), false, at(50));
        let shown = &watch.unknown(at(90), |_| false)[0];
        assert!(shown.stalled.contains("Secure Boot"), "the disk's OS booted instead: {shown:?}");
        assert_eq!(watch.seen(&[MAC], at(90)).stalled.as_ref(), Some(&shown.stalled));
        watch.note(MAC, &loader("autoexec.ipxe"), false, at(91));
        assert_eq!(watch.seen(&[MAC], at(1000)).stalled, None);
    }

    #[test]
    fn what_smbios_holds_is_shown_with_the_machine() {
        let watch = BootWatch::default();
        watch.note(MAC, &NetworkEvent::Script { bytes: 1, is_uefi: false, odd: r"serial \xff".into() }, false, at(0));
        assert_eq!(watch.unknown(at(0), |_| false)[0].smbios, r"serial \xff");
    }
}
