//! What a switch says of itself and of the port that a NIC is plugged into: frames of the Link Layer Discovery Protocol
//! (IEEE 802.1AB-2016, chapters 8 and 9, annexes D and F). This crate is pure and knows no socket: a frame goes in; a
//! neighbour comes out, or the reason why there is none. The listener of `firesteel_agent` receives the frames, and
//! [`neighbours`] keeps their senders.
//!
//! ```text
//! 01:80:c2:00:00:0e | sender | [VLAN tag] | 88cc | chassis id, port id, time to live, … , end
//!                                                  each: 7 bits of type, 9 bits of length, value
//! ```
//!
//! Anyone on the cable can send such a frame. Texts are cleaned and lists are bounded. A frame whose
//! lengths are wrong is dropped whole, as the standard demands, because nothing in it can be trusted then. A field that
//! is only odd, such as an impossible VLAN, is skipped.

pub mod neighbours;

use std::net::{Ipv4Addr, Ipv6Addr};

use firesteel_wire::limits::{FIELD_BYTES_MAX, NEIGHBOUR_ADDRESSES_MAX, VLANS_MAX};
use firesteel_wire::{InventoryVlan, text};

/// Larger than any Ethernet frame, jumbo ones too.
pub const FRAME_BYTES_MAX: usize = 9216;
/// Most addresses that are kept of a switch.
pub const ADDRESSES_MAX: usize = NEIGHBOUR_ADDRESSES_MAX;

pub const ETHERTYPE: u16 = 0x88cc;
/// Where frames go to (section 7.1): the next bridge of any kind, the next that is no relay of two ports,
/// the next of a customer.
pub const GROUPS: [[u8; 6]; 3] =
    [[0x01, 0x80, 0xc2, 0, 0, 0x0e], [0x01, 0x80, 0xc2, 0, 0, 0x03], [0x01, 0x80, 0xc2, 0, 0, 0x00]];
/// Tags of customers' and providers' VLANs.
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Two MAC addresses stand before it.
const ETHERTYPE_OFFSET: usize = 12;

const END: u8 = 0;
const CHASSIS_ID: u8 = 1;
const PORT_ID: u8 = 2;
const TIME_TO_LIVE: u8 = 3;
const PORT_DESCRIPTION: u8 = 4;
const SYSTEM_NAME: u8 = 5;
const SYSTEM_DESCRIPTION: u8 = 6;
const MANAGEMENT_ADDRESS: u8 = 8;
const ORGANISATION: u8 = 127;

const IEEE_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
const IEEE_802_3: [u8; 3] = [0x00, 0x12, 0x0f];

/// Who is at the other end of the cable. Empty or 0 is what was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LldpNeighbour {
    /// A MAC address with colons, an IP address, or a text, by what the switch chose.
    pub chassis_id: String,
    pub port_id: String,
    /// Seconds for which this holds; with 0 the neighbour says good-bye.
    pub seconds: u16,
    pub port_description: String,
    pub system_name: String,
    pub system_description: String,
    pub addresses: Vec<String>,
    /// VLAN of frames without a tag.
    pub port_vlan: u16,
    /// VLANs of the port that have a name, by number.
    pub vlans: Vec<InventoryVlan>,
    /// The port is one of several in an aggregation right now.
    pub aggregated: bool,
    /// Largest frame in bytes.
    pub frame_bytes_max: u16,
}

/// Why a frame describes no neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LldpError {
    #[error("it is not an LLDP frame")]
    OtherProtocol,
    #[error("the frame is {0} bytes long, more than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    #[error("a value of type {0} reaches beyond the frame")]
    Cut(u8),
    #[error("it does not begin with chassis, port and time to live, each once")]
    Order,
    #[error("the value of type {0} is shorter or longer than it can be")]
    Length(u8),
}

/// Reads an Ethernet frame, with or without a VLAN tag.
///
/// # Errors
/// When the frame is of another protocol, or breaks the rules for all of its values.
pub fn parse(frame: &[u8]) -> Result<LldpNeighbour, LldpError> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(LldpError::TooLong(frame.len()));
    }
    let mut neighbour = LldpNeighbour::default();
    for (place, value) in LldpTlvs(payload(frame)?).enumerate() {
        let (kind, value) = value?;
        let mandatory = [CHASSIS_ID, PORT_ID, TIME_TO_LIVE];
        if mandatory.get(place).is_some_and(|wanted| *wanted != kind) || (place > 2 && mandatory.contains(&kind)) {
            return Err(LldpError::Order);
        }
        neighbour.add(kind, value)?;
    }
    // The values before the end may have been too few.
    if neighbour.chassis_id.is_empty() || neighbour.port_id.is_empty() || LldpTlvs(payload(frame)?).nth(2).is_none() {
        return Err(LldpError::Order);
    }
    neighbour.vlans.sort_by_key(|vlan| vlan.id);
    Ok(neighbour)
}

fn payload(frame: &[u8]) -> Result<&[u8], LldpError> {
    let mut rest = frame.get(ETHERTYPE_OFFSET..).ok_or(LldpError::OtherProtocol)?;
    // At most one tag inside another.
    for _ in 0..3 {
        let (&kind, after) = rest.split_first_chunk::<2>().ok_or(LldpError::OtherProtocol)?;
        match u16::from_be_bytes(kind) {
            ETHERTYPE => return Ok(after),
            tag if VLAN_TAGS.contains(&tag) => rest = after.get(2..).ok_or(LldpError::OtherProtocol)?,
            _ => break,
        }
    }
    Err(LldpError::OtherProtocol)
}

/// The values of a frame up to its end, with their types. A fault is the last one.
#[derive(Clone, Debug)]
struct LldpTlvs<'a>(&'a [u8]);

impl<'a> Iterator for LldpTlvs<'a> {
    type Item = Result<(u8, &'a [u8]), LldpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&[high, low], after) = self.0.split_first_chunk::<2>()?;
        let (kind, length) = (high >> 1, usize::from(u16::from_be_bytes([high & 1, low])));
        self.0 = &[];
        if kind == END {
            return None;
        }
        Some(after.split_at_checked(length).ok_or(LldpError::Cut(kind)).map(|(value, rest)| {
            self.0 = rest;
            (kind, value)
        }))
    }
}

impl LldpNeighbour {
    fn add(&mut self, kind: u8, value: &[u8]) -> Result<(), LldpError> {
        match kind {
            CHASSIS_ID => self.chassis_id = id(value, 4, 5).ok_or(LldpError::Length(kind))?,
            PORT_ID => self.port_id = id(value, 3, 4).ok_or(LldpError::Length(kind))?,
            TIME_TO_LIVE => self.seconds = number(value).ok_or(LldpError::Length(kind))?,
            PORT_DESCRIPTION => self.port_description = printable_text(value),
            SYSTEM_NAME => self.system_name = printable_text(value),
            SYSTEM_DESCRIPTION => self.system_description = printable_text(value),
            MANAGEMENT_ADDRESS if self.addresses.len() < ADDRESSES_MAX => {
                // Its length counts the family, too.
                let address = value.split_first().and_then(|(&length, rest)| rest.get(..usize::from(length)));
                self.addresses.extend(address.and_then(network_address));
            }
            ORGANISATION => {
                if let Some((organisation, [kind, value @ ..])) = value.split_first_chunk::<3>() {
                    self.add_organisation(*organisation, *kind, value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Annexes D (802.1) and F (802.3); what is shorter than it should be is passed over.
    fn add_organisation(&mut self, organisation: [u8; 3], kind: u8, value: &[u8]) {
        match (organisation, kind) {
            (IEEE_802_1, 1) => self.port_vlan = number(value).filter(|id| is_vlan(*id)).unwrap_or(0),
            (IEEE_802_1, 3) => {
                if let Some(vlan) = named_vlan(value)
                    && self.vlans.len() < VLANS_MAX
                    && self.vlans.iter().all(|known| known.id != vlan.id)
                {
                    self.vlans.push(vlan);
                }
            }
            // The second bit of the status: it is aggregated now, not only able to be.
            (IEEE_802_1, 7) | (IEEE_802_3, 3) => {
                self.aggregated = value.first().is_some_and(|status| status & 2 != 0) || self.aggregated;
            }
            (IEEE_802_3, 4) => self.frame_bytes_max = number(value).unwrap_or(0),
            _ => {}
        }
    }
}

/// A number of two bytes at the value's start.
fn number(value: &[u8]) -> Option<u16> {
    value.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn is_vlan(id: u16) -> bool {
    (1..4095).contains(&id)
}

fn named_vlan(value: &[u8]) -> Option<InventoryVlan> {
    let id = number(value).filter(|id| is_vlan(*id))?;
    let name = value.get(3..3 + usize::from(*value.get(2)?))?;
    Some(InventoryVlan { id, name: printable_text(name) })
}

/// The value of a chassis or port id: one byte that says what it is, then 1 to 255 bytes. Which kinds
/// are MAC and network addresses differs between the two.
fn id(value: &[u8], mac_kind: u8, network_kind: u8) -> Option<String> {
    let (&kind, value) = value.split_first()?;
    if value.is_empty() || value.len() > 255 {
        return None;
    }
    let as_address = if kind == mac_kind && value.len() == 6 {
        Some(value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"))
    } else if kind == network_kind {
        network_address(value)
    } else {
        None
    };
    // An invisible text, or an address of an odd length, must still differ from others.
    let text = as_address.unwrap_or_else(|| printable_text(value));
    let is_text = !text.is_empty() && !text.contains('\u{fffd}');
    Some(if is_text { text } else { text::clean(&hex::encode(value), FIELD_BYTES_MAX) })
}

/// An address behind its family (IANA address family numbers).
fn network_address(value: &[u8]) -> Option<String> {
    match value.split_first()? {
        (1, address) => Some(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).to_string()),
        (2, address) => Some(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).to_string()),
        _ => None,
    }
}

fn printable_text(value: &[u8]) -> String {
    text::clean(&String::from_utf8_lossy(value), FIELD_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn value(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap();
        [&(u16::from(kind) << 9 | length).to_be_bytes()[..], bytes].concat()
    }

    fn frame(tags: &[u8], values: &[Vec<u8>]) -> Vec<u8> {
        let head = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x52, 0x54, 0, 0, 0, 9];
        [&head[..], tags, &[0x88, 0xcc], &values.concat()].concat()
    }

    fn mandatory() -> Vec<Vec<u8>> {
        vec![
            value(CHASSIS_ID, &[4, 0x00, 0x1c, 0x73, 0xaa, 0xbb, 0xcc]),
            value(PORT_ID, b"\x05Ethernet17/1"),
            value(TIME_TO_LIVE, &[0, 120]),
        ]
    }

    fn with(more: &[Vec<u8>]) -> Vec<u8> {
        frame(&[], &[mandatory(), more.to_vec()].concat())
    }

    #[test]
    fn a_switch() {
        let organisation = |organisation: [u8; 3], kind: u8, bytes: &[u8]| {
            value(ORGANISATION, &[&organisation[..], &[kind], bytes].concat())
        };
        let bytes = with(&[
            value(PORT_DESCRIPTION, b"to rack 4 host 7"),
            value(SYSTEM_NAME, b"leaf-4a.example"),
            value(SYSTEM_DESCRIPTION, b"Switch OS 4.30\x1b[2J\nline two"),
            value(7, &[0, 20, 0, 20]),
            value(MANAGEMENT_ADDRESS, &[5, 1, 10, 0, 0, 4, 2, 0, 0, 0, 1, 0]),
            value(MANAGEMENT_ADDRESS, &[200, 1, 10, 0, 0, 4]),
            organisation(IEEE_802_1, 1, &[0, 100]),
            organisation(IEEE_802_1, 3, &[0, 200, 3, b'p', b'x', b'e']),
            organisation(IEEE_802_1, 3, &[0, 100, 4, b'b', b'o', b'o', b't']),
            organisation(IEEE_802_1, 3, &[0, 200, 1, b'x']),
            organisation(IEEE_802_1, 3, &[0xff, 0xff, 1, b'x']),
            organisation(IEEE_802_1, 3, &[0, 9, 200, b'x']),
            organisation(IEEE_802_1, 7, &[3, 0, 0, 0, 1]),
            organisation(IEEE_802_3, 4, &[0x24, 0x00]),
            organisation([1, 2, 3], 1, &[]),
            value(ORGANISATION, &[0, 0x80]),
            value(END, &[]),
            value(SYSTEM_NAME, b"behind the end"),
        ]);
        let vlan = |id: u16, name: &str| InventoryVlan { id, name: name.into() };
        let expected = LldpNeighbour {
            chassis_id: "00:1c:73:aa:bb:cc".into(),
            port_id: "Ethernet17/1".into(),
            seconds: 120,
            port_description: "to rack 4 host 7".into(),
            system_name: "leaf-4a.example".into(),
            system_description: "Switch OS 4.30 [2J line two".into(),
            addresses: vec!["10.0.0.4".into()],
            port_vlan: 100,
            vlans: vec![vlan(100, "boot"), vlan(200, "pxe")],
            aggregated: true,
            frame_bytes_max: 9216,
        };
        assert_eq!(parse(&bytes), Ok(expected));
    }

    #[test]
    fn tags_and_kinds_of_ids() {
        assert_eq!(parse(&frame(&[0x81, 0, 0, 5], &mandatory())).unwrap().seconds, 120);
        assert_eq!(parse(&frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &mandatory())).unwrap().seconds, 120);
        let of = |chassis: &[u8]| {
            let values = [value(CHASSIS_ID, chassis), value(PORT_ID, b"\x07p"), value(TIME_TO_LIVE, &[0, 0])];
            parse(&frame(&[], &values)).map(|neighbour| neighbour.chassis_id)
        };
        assert_eq!(of(&[5, 1, 192, 0, 2, 7]).unwrap(), "192.0.2.7");
        assert_eq!(of(&[5, 2, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap(), "fe80::1");
        assert_eq!(of(b"\x07 rack\x1b[31m").unwrap(), "rack [31m");
        assert_eq!(of(&[7, 0, 0]).unwrap(), "0000", "nothing that is seen");
        assert_eq!(of(&[4, 0xff, 0xfe]).unwrap(), "fffe", "no MAC address");
        assert_eq!(of(&[7]), Err(LldpError::Length(CHASSIS_ID)));
        assert_eq!(of(&[]), Err(LldpError::Length(CHASSIS_ID)));
    }

    #[test]
    fn frames_that_lie_are_dropped_whole() {
        let [chassis, port, time] = <[Vec<u8>; 3]>::try_from(mandatory()).unwrap();
        let orders: [&[&Vec<u8>]; 6] = [
            &[],
            &[&chassis, &port],
            &[&port, &chassis, &time],
            &[&chassis, &time, &port],
            &[&chassis, &port, &time, &time],
            &[&chassis, &port, &time, &chassis],
        ];
        for order in orders {
            let values: Vec<_> = order.iter().map(|value| (*value).clone()).collect();
            assert_eq!(parse(&frame(&[], &values)), Err(LldpError::Order), "{values:?}");
        }
        assert_eq!(parse(&with(&[vec![SYSTEM_NAME << 1 | 1, 0xff, b'x']])), Err(LldpError::Cut(SYSTEM_NAME)));
        assert_eq!(parse(&with(&[value(TIME_TO_LIVE, &[1])])), Err(LldpError::Order));
        assert_eq!(parse(&frame(&[0x08, 0x00], &mandatory())), Err(LldpError::OtherProtocol));
        assert_eq!(parse(&frame(&[0x81, 0, 0, 5].repeat(3), &mandatory())), Err(LldpError::OtherProtocol));
        assert_eq!(parse(&[]), Err(LldpError::OtherProtocol));
        assert_eq!(parse(&vec![0; FRAME_BYTES_MAX + 1]), Err(LldpError::TooLong(FRAME_BYTES_MAX + 1)));
    }

    #[test]
    fn lists_are_bounded() {
        let vlan = |id: u16| value(ORGANISATION, &[&IEEE_802_1[..], &[3], &id.to_be_bytes(), &[0]].concat());
        let address = |last: u8| value(MANAGEMENT_ADDRESS, &[5, 1, 10, 0, 0, last]);
        let more: Vec<_> = (1..500).map(vlan).chain((0..100).map(address)).collect();
        let neighbour = parse(&with(&more)).unwrap();
        assert_eq!((neighbour.vlans.len(), neighbour.addresses.len()), (VLANS_MAX, ADDRESSES_MAX));
    }

    proptest! {
        #[test]
        fn any_frame_is_survived(bytes in proptest::collection::vec(0u8.., 0..600)) {
            drop(parse(&bytes));
            let values = [&with(&[])[..], &bytes].concat();
            if let Ok(neighbour) = parse(&values) {
                prop_assert_eq!(neighbour.seconds, 120);
                for text in [&neighbour.system_name, &neighbour.system_description, &neighbour.port_description] {
                    prop_assert!(text.len() <= FIELD_BYTES_MAX && !text.chars().any(text::is_hidden));
                }
            }
        }
    }
}
