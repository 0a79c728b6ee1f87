//! How a disk is attached, as far as it matters for a choice: what a person may unplug, what a BMC pretends to be, and
//! what other hosts reach too are no disks to install on by default. The agent judges that, for its guard as well
//! ([`firesteel_contents::DiskContents::attached`]); of a disk that it says nothing of, the record has to do.

use firesteel_resources::RootDeviceHints;
use firesteel_resources::hardware::{DiskRecord, Transport};

/// Says why the disk is never chosen unless its owner names it; `None` for a disk inside the host.
#[must_use]
pub fn set_apart(disk: &DiskRecord) -> Option<String> {
    let found = disk.contents.as_ref().and_then(|contents| contents.attached.first());
    if let Some(found) = found {
        return Some(found.strip_prefix("it ").unwrap_or(found).to_owned());
    }
    let place = disk.by_path.rsplit('/').next().unwrap_or_default();
    if disk.removable {
        return Some("is removable".to_owned());
    }
    if disk.transport == Transport::Usb || place.contains("-usb-") || place.contains("-usbv2-") {
        return Some("is on USB".to_owned());
    }
    network_of(place).map(|network| format!("is reached by {network}"))
}

/// The network in a disk's place, as udev's `path_id` writes it.
fn network_of(place: &str) -> Option<&'static str> {
    let marks = [("-fc-0x", "Fibre Channel"), ("-iscsi-", "iSCSI"), ("-srp-", "SRP"), ("-nvme-fc-", "NVMe over fc")];
    marks.into_iter().find(|(mark, _)| place.contains(mark)).map(|(_, network)| network)
}

/// Whether the hints mean one disk and no other: size, model and kind may fit several.
#[must_use]
pub fn names_one(hints: &RootDeviceHints) -> bool {
    let names = [&hints.device_name, &hints.serial_number, &hints.wwn, &hints.wwn_with_extension, &hints.hctl];
    names.into_iter().any(|name| !name.is_empty())
}

/// Whether the hints say what the disk is called by its maker.
#[must_use]
pub(super) fn describes(hints: &RootDeviceHints) -> bool {
    !hints.model.is_empty() || !hints.vendor.is_empty()
}

#[cfg(test)]
mod tests {
    use firesteel_contents::DiskContents;

    use super::*;

    #[test]
    fn what_is_set_apart_and_what_is_not() {
        let at = |place: &str| DiskRecord { by_path: format!("/dev/disk/by-path/{place}"), ..DiskRecord::default() };
        let judged = |why: &str| {
            let contents = DiskContents { attached: vec![why.to_owned()], ..DiskContents::default() };
            DiskRecord { contents: Some(Box::new(contents)), ..at("pci-0000:00:1f.2-ata-1") }
        };
        for (disk, word) in [
            (DiskRecord { removable: true, ..at("pci-0000:00:1f.2-ata-1") }, Some("removable")),
            (DiskRecord { transport: Transport::Usb, ..DiskRecord::default() }, Some("USB")),
            (at("pci-0000:00:14.0-usb-0:3.1:1.0-scsi-0:0:0:0"), Some("USB")),
            (
                judged("it is reached by NVMe over tcp, so other hosts may reach it too"),
                Some("is reached by NVMe over tcp"),
            ),
            (judged("it is a BMC's virtual medium (ami virtual hdisk)"), Some("is a BMC's virtual medium")),
            (at("pci-0000:3b:00.0-fc-0x50060e801049cfd1-lun-0"), Some("Fibre Channel")),
            (at("ip-192.0.2.7:3260-iscsi-iqn.2016-04.com.example:disk-lun-1"), Some("iSCSI")),
            (at("pci-0000:5c:00.0-sas-phy0-lun-0"), None),
            (at("pci-0000:04:00.0"), None),
            (at("pci-0000:00:04.0-nvme-1"), None),
        ] {
            let apart = set_apart(&disk);
            assert_eq!(apart.is_some(), word.is_some(), "{disk:?}");
            assert!(apart.is_none_or(|why| why.contains(word.unwrap_or_default())), "{disk:?}");
        }
    }
}
