//! Ways to the BMC from within: types 38 and 42 (DSP0134, sections 7.39 and 7.43; DSP0270, section 8).

use std::net::{Ipv4Addr, Ipv6Addr};

use firesteel_wire::limits::{FIELD_BYTES_MAX, MANAGEMENT_MAX};
use firesteel_wire::parts::ManagementInterface;
use firesteel_wire::text;

use super::{Structure, structures};

const IPMI: u8 = 38;
const HOST_INTERFACE: u8 = 42;
/// Interface type of a network between host and BMC.
const NETWORK: u8 = 0x40;
/// Protocol "Redfish over IP".
const REDFISH: u8 = 4;

/// Reads the interfaces in the table's order, the first few.
#[must_use]
pub fn interfaces(table: &[u8]) -> Vec<ManagementInterface> {
    let found = structures(table).flat_map(|structure| match structure.kind {
        IPMI => vec![ipmi(&structure)],
        HOST_INTERFACE if structure.byte(0x04) == Some(NETWORK) => redfish(&structure),
        _ => Vec::new(),
    });
    found.take(MANAGEMENT_MAX).collect()
}

fn ipmi(structure: &Structure<'_>) -> ManagementInterface {
    let interface = match structure.byte(0x04).unwrap_or(0) {
        1 => "KCS".to_owned(),
        2 => "SMIC".to_owned(),
        3 => "BT".to_owned(),
        4 => "SSIF".to_owned(),
        other => other.to_string(),
    };
    // A digit in each half of the byte.
    let version = structure.byte(0x05).map_or_else(String::new, |bcd| format!("{}.{}", bcd >> 4, bcd & 0x0f));
    ManagementInterface::Ipmi { interface, version }
}

/// Every Redfish service behind one host interface.
fn redfish(structure: &Structure<'_>) -> Vec<ManagementInterface> {
    let Some(device_bytes) = structure.byte(0x05).map(usize::from) else { return Vec::new() };
    let count = structure.byte(0x06 + device_bytes).unwrap_or(0);
    let mut at = 0x07 + device_bytes;
    let mut found = Vec::new();
    for _ in 0..count {
        let (Some(kind), Some(length)) = (structure.byte(at), structure.byte(at + 1)) else { break };
        let Some(record) = structure.bytes(at + 2, usize::from(length)) else { break };
        if kind == REDFISH {
            found.extend(service(record));
        }
        at += 2 + usize::from(length);
    }
    found
}

/// The protocol record of DSP0270, table 3.
fn service(record: &[u8]) -> Option<ManagementInterface> {
    let &format = record.get(51)?;
    let bytes: [u8; 16] = record.get(52..68)?.try_into().ok()?;
    let port = u16::from_le_bytes(record.get(84..86)?.try_into().ok()?);
    let vlan = u32::from_le_bytes(record.get(86..90)?.try_into().ok()?);
    let address = match format {
        1 => {
            let [a, b, c, d, ..] = bytes;
            Some(Ipv4Addr::new(a, b, c, d)).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string())
        }
        2 => Some(Ipv6Addr::from(bytes)).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()),
        _ => None,
    };
    let hostname = record.get(91..).unwrap_or_default();
    let hostname = &hostname[..hostname.len().min(record.get(90).copied().map_or(0, usize::from))];
    let end = hostname.iter().position(|&byte| byte == 0).unwrap_or(hostname.len());
    Some(ManagementInterface::Redfish {
        address: address.unwrap_or_default(),
        port,
        vlan: u16::try_from(vlan).ok().filter(|&vlan| vlan < 4095).unwrap_or(0),
        hostname: text::clean(&String::from_utf8_lossy(&hostname[..end]), FIELD_BYTES_MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::structure;

    fn record(format: u8, address: &[u8], hostname: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 91];
        record[51] = format;
        record[52..52 + address.len()].copy_from_slice(address);
        record[84..86].copy_from_slice(&443_u16.to_le_bytes());
        record[86..90].copy_from_slice(&7_u32.to_le_bytes());
        record[90] = 200;
        record.extend_from_slice(hostname);
        record
    }

    fn host_interface(records: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![NETWORK, 2, 4, 0, u8::try_from(records.len()).unwrap_or(9)];
        for record in records {
            body.extend([REDFISH, u8::try_from(record.len()).unwrap_or(255)]);
            body.extend(record);
        }
        structure(HOST_INTERFACE, u8::try_from(4 + body.len()).unwrap_or(255), &[(4, &body)], &[])
    }

    #[test]
    fn ipmi_and_redfish() {
        let table = [
            structure(IPMI, 0x12, &[(4, &[1, 0x20])], &[]),
            host_interface(&[record(1, &[169, 254, 95, 118], b"bmc\x1b[1m\0rest")]),
            host_interface(&[record(2, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], b"")]),
        ]
        .concat();
        let redfish = |address: &str, hostname: &str| ManagementInterface::Redfish {
            address: address.into(),
            port: 443,
            vlan: 7,
            hostname: hostname.into(),
        };
        let ipmi = ManagementInterface::Ipmi { interface: "KCS".into(), version: "2.0".into() };
        assert_eq!(interfaces(&table), [ipmi, redfish("169.254.95.118", "bmc [1m"), redfish("fe80::1", "")]);
    }

    #[test]
    fn records_that_are_too_short_or_point_outside_are_none() {
        assert_eq!(interfaces(&host_interface(&[vec![0; 60]])), []);
        let mut outside = host_interface(&[record(1, &[10, 0, 0, 1], b"")]);
        outside[10] = 250;
        assert_eq!(interfaces(&outside), [], "longer than its structure");
        assert_eq!(interfaces(&structure(HOST_INTERFACE, 6, &[(4, &[NETWORK, 255])], &[])), []);
        let many = structure(IPMI, 6, &[(4, &[9, 0x15])], &[]).repeat(100);
        assert_eq!(interfaces(&many).len(), MANAGEMENT_MAX);
        let odd = ManagementInterface::Ipmi { interface: "9".into(), version: "1.5".into() };
        assert_eq!(interfaces(&many)[0], odd);
    }
}
