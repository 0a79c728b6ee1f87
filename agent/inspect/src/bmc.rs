//! Where the BMC is on its own network, by what it reports to this host (IPMI 2.0, sections 22.24 and 23.2).

use std::net::{Ipv4Addr, Ipv6Addr};

use firesteel_wire::{limits::BMC_NETWORKS_MAX, parts::BmcNetwork};

use super::Probe;

const APPLICATION: u8 = 0x06;
const TRANSPORT: u8 = 0x0c;
const GET_CHANNEL_INFO: u8 = 0x42;
const GET_LAN_CONFIGURATION: u8 = 0x02;
/// Channel medium type "802.3 LAN".
const LAN: u8 = 4;
/// Channels that a board may use as it likes.
const CHANNELS: std::ops::RangeInclusive<u8> = 1..=11;

/// Parameters of a LAN channel (table 23-4).
const IP_ADDRESS: u8 = 3;
const MAC_ADDRESS: u8 = 5;
const SUBNET_MASK: u8 = 6;
const VLAN: u8 = 20;
const IPV6_STATIC: u8 = 56;
const IPV6_DYNAMIC: u8 = 59;
/// Addresses of one kind that are asked for; boards have up to 16, most of them empty.
const IPV6_SETS: u8 = 4;

/// Reads every network of the BMC, up to the first request without an answer.
#[must_use]
pub fn read(probe: &dyn Probe) -> Vec<BmcNetwork> {
    let mut found = Vec::new();
    for channel in CHANNELS {
        let Some(information) = probe.ipmi(APPLICATION, GET_CHANNEL_INFO, &[channel]) else { break };
        if completed(&information).and_then(|data| data.get(1)).is_some_and(|medium| medium & 0x7f == LAN) {
            found.push(network(probe, channel));
        }
        if found.len() >= BMC_NETWORKS_MAX {
            break;
        }
    }
    found
}

/// The data of an answer whose completion code says that all is well.
fn completed(answer: &[u8]) -> Option<&[u8]> {
    answer.split_first().filter(|(code, _)| **code == 0).map(|(_, data)| data)
}

fn network(probe: &dyn Probe, channel: u8) -> BmcNetwork {
    let get = |parameter: u8, set: u8| {
        let answer = probe.ipmi(TRANSPORT, GET_LAN_CONFIGURATION, &[channel, parameter, set, 0])?;
        // Behind the parameter's revision.
        completed(&answer)?.get(1..).map(<[u8]>::to_vec)
    };
    let four = |parameter: u8| get(parameter, 0).and_then(|data| data.first_chunk::<4>().copied());
    let address = four(IP_ADDRESS).map(Ipv4Addr::from).filter(|address| !address.is_unspecified());
    let mask = four(SUBNET_MASK).map(u32::from_be_bytes);
    let mac = get(MAC_ADDRESS, 0).and_then(|data| data.first_chunk::<6>().copied()).filter(|mac| *mac != [0; 6]);
    // The highest bit says that the number counts.
    let vlan = get(VLAN, 0).and_then(|data| data.first_chunk().map(|two| u16::from_le_bytes(*two)));
    let vlan = vlan.filter(|vlan| vlan & 0x8000 != 0).map_or(0, |vlan| vlan & 0x0fff);
    let mut ipv6 = Vec::new();
    for parameter in [IPV6_STATIC, IPV6_DYNAMIC] {
        // Firmware without IPv6 refuses the first request.
        ipv6.extend((0..IPV6_SETS).map_while(|set| get(parameter, set)).filter_map(|data| ipv6_address(&data)));
    }
    ipv6.sort();
    ipv6.dedup();
    BmcNetwork {
        channel,
        mac: mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")).unwrap_or_default(),
        ipv4: address.map(|address| address.to_string()).unwrap_or_default(),
        prefix_bits: mask.filter(|_| address.is_some()).map_or(0, u32::leading_ones),
        vlan,
        ipv6,
    }
}

/// Reads set, source, address, prefix and status; the address is in use where the status is 0.
fn ipv6_address(data: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = data.get(2..18)?.try_into().ok()?;
    let address = Ipv6Addr::from(bytes);
    (data.get(19) == Some(&0) && !address.is_unspecified()).then(|| format!("{address}/{}", data[18]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Answers;

    fn answers(rows: &[(&[u8], &[u8])]) -> Answers {
        let rows = rows.iter().map(|(asked, answer)| (asked.to_vec(), answer.to_vec()));
        Answers { ipmi: rows.collect(), ..Answers::default() }
    }

    #[test]
    fn a_bmc_with_one_network() {
        let mut v6 = vec![0, 0x11, 0, 0x80, 0xfd, 0];
        v6.extend([0; 13]);
        v6.extend([7, 64, 0]);
        let found = read(&answers(&[
            // Channel 1 is a LAN, 2 a serial port, and there is no other.
            (&[6, 0x42, 1], &[0, 1, 4, 1, 0x80]),
            (&[6, 0x42, 2], &[0, 2, 5, 5, 0x40]),
            (&[6, 0x42, 3], &[0xcc]),
            (&[12, 2, 1, 3, 0, 0], &[0, 0x11, 10, 0, 0, 7]),
            (&[12, 2, 1, 5, 0, 0], &[0, 0x11, 0x00, 0x25, 0x90, 1, 2, 3]),
            (&[12, 2, 1, 6, 0, 0], &[0, 0x11, 255, 255, 254, 0]),
            (&[12, 2, 1, 20, 0, 0], &[0, 0x11, 0x64, 0x80]),
            (&[12, 2, 1, 56, 0, 0], &v6),
            (&[12, 2, 1, 56, 1, 0], &[0x80]),
        ]));
        let expected = BmcNetwork {
            channel: 1,
            mac: "00:25:90:01:02:03".into(),
            ipv4: "10.0.0.7".into(),
            prefix_bits: 23,
            vlan: 100,
            ipv6: vec!["fd00::7/64".into()],
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_bmc_that_says_nothing_of_use() {
        assert_eq!(read(&answers(&[])), []);
        let lan: &[u8] = &[0, 1, 4];
        let cut: Vec<(Vec<u8>, Vec<u8>)> = (1..=11).map(|channel| (vec![6, 0x42, channel], lan.to_vec())).collect();
        let rows: Vec<(&[u8], &[u8])> = cut.iter().map(|(asked, answer)| (&**asked, &**answer)).collect();
        let found = read(&answers(&rows));
        assert_eq!(found.len(), BMC_NETWORKS_MAX);
        assert_eq!(found[0], BmcNetwork { channel: 1, ..BmcNetwork::default() });
        let short: [(&[u8], &[u8]); 3] =
            [(&[6, 0x42, 1], lan), (&[12, 2, 1, 3, 0, 0], &[0, 0x11, 10]), (&[12, 2, 1, 56, 0, 0], &[0; 9])];
        assert_eq!(read(&answers(&short))[0], BmcNetwork { channel: 1, ..BmcNetwork::default() });
    }
}
