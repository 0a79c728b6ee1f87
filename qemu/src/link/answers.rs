//! Answers that never arrive: the machine's request is carried, and from then on nothing of its connection. The server
//! has answered and the machine cannot know it, which is the worst moment for a connection to end. Pure.
//!
//! Looked for are requests over TLS 1.3 (RFC 8446, section 5): the machine's first encrypted record that is larger than
//! the end of its handshake can be. A client writes it by itself, so it begins a segment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The first requests to this port, so many, get no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LostAnswers {
    pub port: u16,
    pub count: u32,
}

/// The machine's address and port, and the server's address.
type Flow = ([u8; 4], u16, [u8; 4]);

#[derive(Debug)]
pub(super) struct Answers {
    wanted: LostAnswers,
    dead: BTreeSet<Flow>,
    lost: u32,
}

const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [8, 0];
const TCP: u8 = 6;
const APPLICATION_DATA: u8 = 23;
const RECORD_HEADER_BYTES: usize = 5;
/// A handshake's end has a digest of at most 48 bytes, its type and length, the record's type and a tag.
const FINISHED_BYTES_MAX: usize = 48 + 4 + 1 + 16;

impl Answers {
    pub(super) fn new(wanted: LostAnswers) -> Self {
        Self { wanted, dead: BTreeSet::new(), lost: 0 }
    }

    /// How many requests got no answer so far.
    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    /// Whether a frame is carried.
    pub(super) fn carries(&mut self, from_machine: bool, frame: &[u8]) -> bool {
        let Some((flow, payload)) = segment(self.wanted.port, from_machine, frame) else { return true };
        if self.dead.contains(&flow) {
            return false;
        }
        if from_machine && self.lost < self.wanted.count && has_request(payload) {
            self.lost += 1;
            self.dead.insert(flow);
        }
        true
    }
}

/// The connection that a frame is of, and what it carries of it, where it is one to or from this port.
fn segment(port: u16, from_machine: bool, frame: &[u8]) -> Option<(Flow, &[u8])> {
    let packet = frame.get(ETHERNET_BYTES..)?;
    if frame.get(12..14)? != IPV4 || *packet.get(9)? != TCP {
        return None;
    }
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    // Behind the packet's own length is what Ethernet fills short frames with.
    let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let tcp = packet.get(header_bytes..length.min(packet.len()))?;
    let number = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let address = |at: usize| packet.get(at..at + 4)?.try_into().ok();
    let (source, target) = ((address(12)?, number(0)?), (address(16)?, number(2)?));
    let (machine, server) = if from_machine { (source, target) } else { (target, source) };
    if server.1 != port {
        return None;
    }
    let payload = tcp.get(usize::from(*tcp.get(12)? >> 4) * 4..)?;
    Some(((machine.0, machine.1, server.0), payload))
}

fn has_request(mut payload: &[u8]) -> bool {
    while let Some((header, rest)) = payload.split_at_checked(RECORD_HEADER_BYTES) {
        let bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] == APPLICATION_DATA && bytes > FINISHED_BYTES_MAX {
            return true;
        }
        payload = rest.get(bytes..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: (u8, u16) = (50, 40_000);
    const SERVER: (u8, u16) = (1, 22_623);

    fn frame(from: (u8, u16), to: (u8, u16), payload: &[u8]) -> Vec<u8> {
        let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
        tcp.extend([0; 8]);
        tcp.extend([0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        tcp.extend(payload);
        let length = u16::try_from(20 + tcp.len()).unwrap_or(0).to_be_bytes();
        let mut frame = [&[0; 12][..], &IPV4, &[0x45, 0], &length, &[0, 0, 0, 0, 64, TCP, 0, 0]].concat();
        frame.extend([10, 77, 0, from.0, 10, 77, 0, to.0]);
        frame.extend(tcp);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn record(kind: u8, bytes: u16) -> Vec<u8> {
        [&[kind, 3, 3][..], &bytes.to_be_bytes(), &vec![0xee; usize::from(bytes)]].concat()
    }

    #[test]
    fn a_connection_is_dead_once_its_request_is_through() {
        let mut answers = Answers::new(LostAnswers { port: SERVER.1, count: 1 });
        let mut talk = |machine: (u8, u16), to_server: Vec<u8>| {
            let carried = answers.carries(true, &frame(machine, SERVER, &to_server));
            (carried, answers.carries(false, &frame(SERVER, machine, &record(APPLICATION_DATA, 900))))
        };
        assert_eq!(talk(MACHINE, record(22, 300)), (true, true), "its greeting");
        let end = [record(20, 1), record(APPLICATION_DATA, 69)].concat();
        assert_eq!(talk(MACHINE, end.clone()), (true, true), "its handshake's end");
        assert_eq!(talk(MACHINE, Vec::new()), (true, true), "an acknowledgement");
        assert_eq!(
            talk(MACHINE, record(APPLICATION_DATA, 200)),
            (true, false),
            "the request is carried, its answer not"
        );
        assert_eq!(talk(MACHINE, record(APPLICATION_DATA, 200)), (false, false), "nor is the request again");
        let other = (50, 40_001);
        assert_eq!(talk(other, [end, record(APPLICATION_DATA, 200)].concat()), (true, true), "the next is answered");
        assert_eq!(answers.lost(), 1);
    }

    #[test]
    fn everything_else_passes() {
        let mut answers = Answers::new(LostAnswers { port: 443, count: 9 });
        let request = frame(MACHINE, SERVER, &record(APPLICATION_DATA, 500));
        for length in 0..=request.len() {
            assert!(answers.carries(true, &request[..length]));
        }
        let mut arp = request.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        assert!(answers.carries(true, &arp));
        let here = frame(MACHINE, (1, 443), &record(APPLICATION_DATA, 500));
        for length in 0..=here.len() {
            // Cut anywhere: whatever is made of it, the frame itself is carried.
            assert!(Answers::new(LostAnswers { port: 443, count: 9 }).carries(true, &here[..length]));
        }
    }
}
