//! Drives, volumes and network interfaces, as the BMC names them.
//!
//! A service that has no `Storage`, or names no drive there, may have `SimpleStorage`, which knows no serial numbers.

use tokio::time::Instant;

use super::{PartialMemberList, health};
use crate::client::{RedfishClient, path_of, shown};
use crate::error::Error;
use crate::model::{
    Collection, DurableIdentifier, EthernetInterface, RedfishDrive, RedfishLink, RedfishStorage, RedfishSystem,
    RedfishVolume, SimpleStorage, SimpleStorageDevice, parse_mac,
};

/// Drives of a system that are kept: a storage server has some dozens in itself and as many in a shelf.
pub const DRIVES_MAX: usize = 128;
/// Volumes of a system that are kept.
pub const VOLUMES_MAX: usize = 64;
/// Digits of a durable name: an NAA name has 16 or 32.
const NAME_DIGITS_MAX: usize = 32;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcInterface {
    pub name: String,
    /// Is in lower case, with colons.
    pub mac: String,
    pub mbps: Option<u64>,
    pub has_link: Option<bool>,
}

/// A drive, by the BMC's word alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcDrive {
    pub name: String,
    pub bytes: u64,
    /// `HDD`, `SSD`, `SMR`.
    pub media: Option<String>,
    /// `SATA`, `SAS`, `NVMe` and others.
    pub protocol: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub firmware: Option<String>,
    /// `0x…` for an NAA name, `eui.…` for an EUI-64.
    pub wwn: Option<String>,
    pub health: Option<String>,
}

/// A volume, mostly a RAID set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcVolume {
    pub name: String,
    pub bytes: u64,
    /// `RAID0`, `RAID1` and others.
    pub raid: Option<String>,
    pub wwn: Option<String>,
    pub health: Option<String>,
}

/// Drives and volumes, as far as time and bounds allowed.
#[derive(Debug, Default)]
pub(super) struct StorageReading {
    pub(super) drives: Vec<BmcDrive>,
    pub(super) volumes: Vec<BmcVolume>,
    pub(super) left_out: Vec<String>,
}

impl RedfishClient {
    /// Reads drives and volumes until `until`.
    pub(super) async fn storage(&self, system: &RedfishSystem, until: Instant) -> Result<StorageReading, Error> {
        let controllers: PartialMemberList<RedfishStorage> =
            self.part("storage controllers", system.storage.as_ref(), until).await?;
        let mut seen = StorageReading { left_out: controllers.left_out.into_iter().collect(), ..Default::default() };
        let (mut drives, mut volumes) = (Vec::new(), Vec::new());
        for controller in controllers.members {
            drives.extend(controller.drives.unwrap_or_default().into_iter().take(DRIVES_MAX));
            volumes.extend(self.volume_links(controller.volumes.as_ref(), until).await?.into_iter().take(VOLUMES_MAX));
        }
        let drives = self.members_of("drives", &drives, DRIVES_MAX, until).await?;
        seen.drives = drives.members.iter().map(drive).collect();
        let volumes = self.members_of("volumes", &volumes, VOLUMES_MAX, until).await?;
        seen.volumes = volumes.members.iter().map(volume).collect();
        seen.left_out.extend([drives.left_out, volumes.left_out].into_iter().flatten());
        if seen.drives.is_empty() {
            let simple: PartialMemberList<SimpleStorage> =
                self.part("storage devices", system.simple_storage.as_ref(), until).await?;
            let devices = simple.members.into_iter().flat_map(|simple| simple.devices.unwrap_or_default());
            seen.drives = devices.take(DRIVES_MAX).map(|device| simple_drive(&device)).collect();
            seen.left_out.extend(simple.left_out);
        }
        Ok(seen)
    }

    /// The volumes of one controller; one that shows none has none.
    async fn volume_links(&self, list: Option<&RedfishLink>, until: Instant) -> Result<Vec<RedfishLink>, Error> {
        let Some(path) = path_of(list).filter(|_| Instant::now() < until) else { return Ok(Vec::new()) };
        let list = self.get(&path).await?.json_if_there::<Collection>().unwrap_or_default();
        Ok(list.members.unwrap_or_default())
    }

    /// Reads the network interfaces until `until`.
    pub(super) async fn interfaces(
        &self,
        system: &RedfishSystem,
        until: Instant,
    ) -> Result<PartialMemberList<BmcInterface>, Error> {
        let list = system.ethernet_interfaces.as_ref();
        let found: PartialMemberList<EthernetInterface> = self.part("network interfaces", list, until).await?;
        let members = found.members.iter().filter_map(interface).collect();
        Ok(PartialMemberList { members, left_out: found.left_out })
    }
}

fn interface(seen: &EthernetInterface) -> Option<BmcInterface> {
    let named = [seen.permanent_mac.as_deref(), seen.mac.as_deref()];
    let mac = named.into_iter().flatten().find_map(parse_mac)?;
    Some(BmcInterface {
        name: shown(seen.id.as_deref()).unwrap_or_default(),
        mac: mac.to_string(),
        mbps: seen.speed_mbps.filter(|mbps| *mbps > 0),
        has_link: seen.link_status.as_deref().map(|status| status == "LinkUp"),
    })
}

fn drive(seen: &RedfishDrive) -> BmcDrive {
    BmcDrive {
        name: shown(seen.name.as_deref().or(seen.id.as_deref())).unwrap_or_default(),
        bytes: seen.capacity_bytes.unwrap_or_default(),
        media: shown(seen.media_type.as_deref()),
        protocol: shown(seen.protocol.as_deref()),
        manufacturer: shown(seen.manufacturer.as_deref()),
        model: shown(seen.model.as_deref()),
        serial: shown(seen.serial_number.as_deref()),
        firmware: shown(seen.revision.as_deref()),
        wwn: wwn(seen.identifiers.as_deref().unwrap_or_default()),
        health: health(seen.status.as_ref()),
    }
}

fn volume(seen: &RedfishVolume) -> BmcVolume {
    BmcVolume {
        name: shown(seen.name.as_deref().or(seen.id.as_deref())).unwrap_or_default(),
        bytes: seen.capacity_bytes.unwrap_or_default(),
        raid: shown(seen.raid_type.as_deref()),
        wwn: wwn(seen.identifiers.as_deref().unwrap_or_default()),
        health: health(seen.status.as_ref()),
    }
}

fn simple_drive(seen: &SimpleStorageDevice) -> BmcDrive {
    BmcDrive {
        name: shown(seen.name.as_deref()).unwrap_or_default(),
        bytes: seen.capacity_bytes.unwrap_or_default(),
        manufacturer: shown(seen.manufacturer.as_deref()),
        model: shown(seen.model.as_deref()),
        health: health(seen.status.as_ref()),
        ..BmcDrive::default()
    }
}

/// The first durable name that the kernel knows as well, in its form. Services write the digits with and without a
/// prefix, and with separators.
fn wwn(identifiers: &[DurableIdentifier]) -> Option<String> {
    identifiers.iter().find_map(|identifier| {
        let prefix = match identifier.durable_name_format.as_deref()? {
            "NAA" => "0x",
            "EUI" => "eui.",
            _ => return None,
        };
        let name = identifier.durable_name.as_deref()?.trim().to_ascii_lowercase();
        let digits = ["naa.", "eui.", "0x"].iter().find_map(|known| name.strip_prefix(known)).unwrap_or(&name);
        let digits: String = digits.chars().filter(|char| !matches!(char, ':' | '-')).collect();
        let is_name = (8..=NAME_DIGITS_MAX).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            && digits.bytes().any(|byte| byte != b'0');
        is_name.then(|| format!("{prefix}{digits}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_name_is_shown_in_the_kernels_form_or_not_at_all() {
        let of = |format: &str, name: &str| {
            let (format, name) = (Some(format.to_owned()), Some(name.to_owned()));
            wwn(&[DurableIdentifier { durable_name: name, durable_name_format: format }])
        };
        for (format, name, expected) in [
            ("NAA", "5000C500A1B2C3D4", Some("0x5000c500a1b2c3d4")),
            ("NAA", "naa.5000c500a1b2c3d4", Some("0x5000c500a1b2c3d4")),
            ("NAA", "50:00:C5:00:A1:B2:C3:D4", Some("0x5000c500a1b2c3d4")),
            ("EUI", "eui.0025385b71b0a1c2", Some("eui.0025385b71b0a1c2")),
            ("UUID", "00000000-0000-4000-8000-000000000001", None),
            ("NAA", "0000000000000000", None),
            ("NAA", "drive one", None),
            ("NAA", "5000c500a1b2c3d45000c500a1b2c3d45", None),
            ("NAA", "", None),
        ] {
            assert_eq!(of(format, name).as_deref(), expected, "{format} {name}");
        }
        let second = DurableIdentifier {
            durable_name: Some("5000c500a1b2c3d4".to_owned()),
            durable_name_format: Some("NAA".to_owned()),
        };
        assert!(wwn(&[DurableIdentifier::default(), second]).is_some());
    }

    #[test]
    fn an_interface_without_a_mac_is_none() {
        let seen = EthernetInterface { mac: Some("00:00:00:00:00:00".into()), ..EthernetInterface::default() };
        assert_eq!(interface(&seen), None);
        let both = EthernetInterface {
            mac: Some("02:00:00:00:00:01".into()),
            permanent_mac: Some("52-54-00-AA-00-01".into()),
            link_status: Some("NoLink".into()),
            ..EthernetInterface::default()
        };
        let shown = interface(&both).map(|interface| (interface.mac, interface.has_link));
        assert_eq!(shown, Some(("52:54:00:aa:00:01".to_owned(), Some(false))));
    }
}
