//! The address that this appliance put on an interface, kept in the data folder: after a restart it is still the
//! appliance's own to take back. A reboot of the machine takes the address away, and ends the record.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context as _;
use firesteel_netlink::Netlink;
use firesteel_network::KeptAddress;
use serde::{Deserialize, Serialize};

use crate::serve::data_dir::DataDir;

/// The file in the data folder.
const FILE: &str = "put-address.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An address that was put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PutAddress {
    interface: String,
    address: Ipv4Addr,
    prefix_length: u8,
    /// The boot of this machine in which it was put.
    boot_id: String,
}

impl PutAddress {
    fn new(kept: &KeptAddress, prefix_length: u8, boot_id: &str) -> Self {
        let (interface, boot_id) = (kept.link.name.clone(), boot_id.to_owned());
        Self { interface, address: kept.address, prefix_length, boot_id }
    }
}

/// Remembers the address that was put, and takes it from its interface.
#[derive(Debug)]
pub(super) struct PutAddressRecord {
    data: DataDir,
    boot_id: String,
    put: Option<PutAddress>,
}

impl PutAddressRecord {
    /// Opens the record, and takes back an address of an earlier run that is not kept any more.
    pub(super) fn open(data: &DataDir, kept: Option<&KeptAddress>) -> Self {
        let boot_id = std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        let put = std::fs::read(data.path(FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let put = put.filter(|put: &PutAddress| !boot_id.is_empty() && put.boot_id == boot_id);
        let mut record = Self { data: data.clone(), boot_id, put };
        let is_kept =
            |put: &PutAddress| kept.is_some_and(|kept| put.interface == kept.link.name && put.address == kept.address);
        if !record.put.as_ref().is_none_or(is_kept) {
            record.take_back();
        }
        record
    }

    /// Notes that the address was put.
    pub(super) fn note(&mut self, kept: &KeptAddress, prefix_length: u8) {
        let put = PutAddress::new(kept, prefix_length, &self.boot_id);
        let text = serde_json::to_vec(&put).context("could not encode it");
        if let Err(error) = text.and_then(|bytes| self.data.write(FILE, &bytes)) {
            tracing::warn!(
                address = %put.address, error = format!("{error:#}"),
                "could not note the address; after a restart it stays on the interface when it is not wanted any more"
            );
        }
        self.put = Some(put);
    }

    /// Takes an address that was put from its interface.
    pub(super) fn take_back(&mut self) {
        let Some(PutAddress { interface, address, prefix_length, .. }) = self.put.take() else { return };
        let (interface, address) = (interface.as_str(), IpAddr::V4(address));
        match Netlink::open().and_then(|mut netlink| netlink.remove_address(interface, address, prefix_length)) {
            Ok(()) => tracing::info!(interface, %address, "the address is taken from the interface"),
            Err(error) => tracing::warn!(interface, %address, %error, "could not take the address from the interface"),
        }
        if let Err(error) = std::fs::remove_file(self.data.path(FILE)) {
            tracing::debug!(%error, "the record of the address was not there");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_network::services::ServedLink;

    use super::*;

    fn kept(interface: &str) -> KeptAddress {
        let link = ServedLink { name: interface.to_owned(), index: 7 };
        KeptAddress { link, address: Ipv4Addr::new(192, 0, 2, 7), prefix_length: Some(24) }
    }

    #[test]
    fn what_was_put_is_known_after_a_restart_and_not_after_a_reboot() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let mut record = PutAddressRecord::open(&data, Some(&kept("none0")));
        assert_eq!(record.put, None);
        record.note(&kept("none0"), 24);
        let put = record.put.clone();
        assert_eq!(PutAddressRecord::open(&data, Some(&kept("none0"))).put, put);
        assert_eq!(PutAddressRecord::open(&data, Some(&kept("none1"))).put, None, "another one is kept now");
        assert!(!data.path(FILE).exists());
        record.note(&kept("none0"), 24);
        let text = std::fs::read_to_string(data.path(FILE)).unwrap().replace(&record.boot_id, "another-boot");
        std::fs::write(data.path(FILE), text).unwrap();
        assert_eq!(PutAddressRecord::open(&data, Some(&kept("none0"))).put, None);
    }
}
