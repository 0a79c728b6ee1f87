//! Serial over LAN (section 15): what a host's serial port says, in packets of their own within a session. One direction: a
//! program that only listens acknowledges what comes, and sends no characters.
//!
//! ```text
//! from the BMC   number │ acknowledged │ count │ status  │ characters…
//! to the BMC     0      │ number       │ count │ 0
//! ```
//!
//! A packet whose acknowledgement was lost comes again with its number; numbers go from 1 to 15 and begin again.

use super::command::{self, IpmiReply, completion};
use super::packet::Bad;

const HEAD_BYTES: usize = 4;
/// Characters in one packet (a count is a byte).
pub const CHARACTERS_MAX: usize = 255;
const NUMBER: u8 = 0x0f;

/// What the status of a packet of the BMC says (table 15-2).
mod status {
    /// The BMC has thrown characters away.
    pub(super) const OVERRUN: u8 = 0x08;
    /// The BMC ends it.
    pub(super) const DEACTIVATED: u8 = 0x10;
}

/// What a packet brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SolPacket {
    /// Bytes of the serial port, not yet heard before.
    pub characters: Vec<u8>,
    /// What is to be sent back.
    pub answer: Option<[u8; 4]>,
    /// Some are missing before these.
    pub is_lossy: bool,
    /// Nothing more will come.
    pub has_ended: bool,
}

/// The console's side of one activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Console {
    /// Number of the last packet; zero before the first.
    last: u8,
}

impl Console {
    /// A packet from the BMC.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, payload: &[u8]) -> Result<SolPacket, Bad> {
        let Some((&[number, _, _, told], characters)) = payload.split_first_chunk::<HEAD_BYTES>() else {
            return Err("its console packet is cut off");
        };
        if characters.len() > CHARACTERS_MAX {
            return Err("its console packet has more characters than there is a count for");
        }
        let number = number & NUMBER;
        let mut heard = SolPacket {
            is_lossy: told & status::OVERRUN != 0,
            has_ended: told & status::DEACTIVATED != 0,
            ..SolPacket::default()
        };
        // Zero is for packets that tell something and bring nothing.
        if number == 0 {
            return Ok(heard);
        }
        let count = u8::try_from(characters.len()).unwrap_or(u8::MAX);
        heard.answer = Some([0, number, count, 0]);
        // A repetition: its acknowledgement was lost.
        if number != self.last {
            self.last = number;
            heard.characters = characters.to_vec();
        }
        Ok(heard)
    }
}

/// What became of the wish to hear a serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleSet {
    Listening,
    /// Somebody else listens, or as many as the BMC has places for.
    Taken,
    /// The BMC offers none, or none that is heard from here, and will not by itself: why, in words.
    NotOffered {
        why: String,
    },
}

/// What a BMC answers to [`command::activate_console`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activation {
    /// It speaks at this UDP port.
    At(u16),
    Not(ConsoleSet),
    /// Nothing that says anything about its console: [`IpmiReply::accepted`] tells what.
    Unclear,
}

/// Reads the answer by its completion code (table 24-2).
#[must_use]
pub fn activation(reply: &IpmiReply) -> Activation {
    let not = |why: &str| {
        let why = format!("{why}, completion code {:#04x}", reply.completion);
        Activation::Not(ConsoleSet::NotOffered { why })
    };
    match reply.completion {
        completion::DONE => command::console_port(&reply.data).map_or(Activation::Unclear, Activation::At),
        0x80 | 0x82 => Activation::Not(ConsoleSet::Taken),
        0x81 => not("it is switched off in the BMC"),
        0x83 | 0x84 => not("the BMC has none that is encrypted"),
        completion::INVALID_COMMAND | 0xc2 | 0xc9 | completion::INVALID_FIELD => not("the BMC has none"),
        0xd4 => not("the BMC's user may not listen to it"),
        _ => Activation::Unclear,
    }
}

/// What a serial port said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleData {
    pub characters: Vec<u8>,
    /// Some before these, or among them, are missing.
    pub is_lossy: bool,
}

/// A packet with characters, as a BMC sends it.
#[must_use]
pub fn packet(number: u8, characters: &[u8]) -> Vec<u8> {
    [&[number & NUMBER, 0, 0, 0], characters].concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_packet_is_heard_once_and_acknowledged_each_time() {
        let mut console = Console::default();
        let first = console.take(&packet(1, b"login: ")).unwrap();
        assert_eq!((first.characters.as_slice(), first.answer), (&b"login: "[..], Some([0, 1, 7, 0])));
        let again = console.take(&packet(1, b"login: ")).unwrap();
        assert_eq!((again.characters.as_slice(), again.answer), (&b""[..], Some([0, 1, 7, 0])));
        for number in (2..=15).chain(1..=3) {
            assert_eq!(console.take(&packet(number, &[number])).unwrap().characters, [number]);
        }
    }

    #[test]
    fn what_a_bmc_tells_is_heard() {
        let mut console = Console::default();
        let told = |console: &mut Console, status: u8| console.take(&[0, 0, 0, status]).unwrap();
        assert_eq!(told(&mut console, 0), SolPacket::default());
        assert!(told(&mut console, 0x08).is_lossy);
        let end = told(&mut console, 0x10);
        assert!(end.has_ended && end.answer.is_none());
        assert!(console.take(&[1, 0, 0]).is_err());
        assert!(console.take(&[0; 260]).is_err());
    }

    #[test]
    fn a_bmc_without_a_console_is_told_from_one_that_is_busy_with_it() {
        let answer =
            |completion: u8| activation(&IpmiReply { completion, data: vec![0, 0, 0, 0, 0xff, 0, 0xff, 0, 0x6f, 2] });
        assert_eq!(answer(0), Activation::At(623));
        assert_eq!(activation(&IpmiReply { completion: 0, data: vec![0; 9] }), Activation::Unclear);
        for code in [0x80, 0x82] {
            assert_eq!(answer(code), Activation::Not(ConsoleSet::Taken), "{code:02x}");
        }
        for (code, why) in [
            (0x81, "it is switched off in the BMC, completion code 0x81"),
            (0x83, "the BMC has none that is encrypted, completion code 0x83"),
            (0xc1, "the BMC has none, completion code 0xc1"),
            (0xd4, "the BMC's user may not listen to it, completion code 0xd4"),
        ] {
            assert_eq!(answer(code), Activation::Not(ConsoleSet::NotOffered { why: why.to_owned() }), "{code:02x}");
        }
        for code in [0xc0, 0xc3, 0xd5, 0xff] {
            assert_eq!(answer(code), Activation::Unclear, "{code:02x}: it may be another time");
        }
    }

    proptest! {
        #[test]
        fn no_packet_panics(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut console = Console::default();
            for packet in packets {
                if let Ok(heard) = console.take(&packet) {
                    prop_assert!(heard.characters.len() <= CHARACTERS_MAX);
                }
            }
        }
    }
}
