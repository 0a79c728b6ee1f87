//! RMCP datagrams, the session header in both its versions, and IPMI's messages.
//!
//! ```text
//! RMCP    06 00 FF 07
//! 1.5     00 │ sequence ×4 │ session ×4 │ length │ message                      (before a session, one command only)
//! 2.0     06 │ type │ session ×4 │ sequence ×4 │ length ×2 │ payload │ FF… │ pad length │ 07 │ code
//! message to │ function │ sum │ from │ sequence │ command │ data… │ sum
//! ```
//!
//! In a payload's type the bits 80 and 40 say "encrypted" and "authenticated"; the end from FF on is
//! there for authenticated ones alone, and the code covers all from 06 to 07. Numbers are little
//! endian. Both directions are here: a fake BMC speaks the same language.

use super::suite::{IpmiSessionKeys, is_same};

/// Longer ones are not IPMI's: the largest message (a FRU read, a SOL packet) has some 300 bytes.
pub const DATAGRAM_BYTES_MAX: usize = 1024;

const RMCP: [u8; 4] = [0x06, 0x00, 0xff, 0x07];
const FORMAT_V15: u8 = 0;
const FORMAT_V20: u8 = 6;
const ENCRYPTED: u8 = 0x80;
const AUTHENTICATED: u8 = 0x40;
const NEXT_HEADER: u8 = 0x07;

/// Types of payloads (section 13.27.3).
pub mod payload {
    pub const MESSAGE: u8 = 0x00;
    pub const SOL: u8 = 0x01;
    pub const OPEN_REQUEST: u8 = 0x10;
    pub const OPEN_ANSWER: u8 = 0x11;
    pub const RAKP_1: u8 = 0x12;
    pub const RAKP_2: u8 = 0x13;
    pub const RAKP_3: u8 = 0x14;
    pub const RAKP_4: u8 = 0x15;
}

/// Why a datagram is not read any further.
pub type Bad = &'static str;

/// A datagram as far as it can be read without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpmiFrame<'a> {
    /// Version 1.5 without authentication: what comes before a session.
    Bare { message: &'a [u8] },
    /// Version 2.0 outside a session.
    Plain { payload_type: u8, payload: &'a [u8] },
    /// Version 2.0 in a session: see [`open`].
    Sealed { session: u32, sequence: u32 },
    /// Version 2.0 in a session, with output of a serial port: see [`open_console`].
    Console { session: u32, sequence: u32 },
}

/// Reads what is around a payload.
///
/// # Errors
/// What is wrong with it.
pub fn frame(datagram: &[u8]) -> Result<IpmiFrame<'_>, Bad> {
    if datagram.len() > DATAGRAM_BYTES_MAX {
        return Err("it is longer than a datagram of IPMI");
    }
    let Some((header, rest)) = datagram.split_first_chunk::<4>() else { return Err("it is cut off") };
    // The sequence of RMCP and the bit for its ACK are none of IPMI's business.
    if header[0] != RMCP[0] || header[3] != RMCP[3] {
        return Err("it is not RMCP with IPMI in it");
    }
    match rest.first() {
        Some(&FORMAT_V15) => {
            let (length, message) = rest.get(9..).and_then(<[u8]>::split_first).ok_or("it is cut off")?;
            // Some pad short datagrams at the end.
            message.get(..usize::from(*length)).map(|message| IpmiFrame::Bare { message }).ok_or("it is cut off")
        }
        Some(&FORMAT_V20) => frame_v20(rest),
        Some(_) | None => Err("its authentication is neither none nor RMCP+"),
    }
}

fn frame_v20(bytes: &[u8]) -> Result<IpmiFrame<'_>, Bad> {
    let head = IpmiPacketHead::read(bytes)?;
    if head.payload_type & AUTHENTICATED != 0 {
        return match head.payload_type & !AUTHENTICATED & !ENCRYPTED {
            payload::MESSAGE => Ok(IpmiFrame::Sealed { session: head.session, sequence: head.sequence }),
            payload::SOL => Ok(IpmiFrame::Console { session: head.session, sequence: head.sequence }),
            _ => Err("its payload is of another type"),
        };
    }
    if head.payload_type & ENCRYPTED != 0 || head.session != 0 {
        return Err("it is not authenticated");
    }
    Ok(IpmiFrame::Plain { payload_type: head.payload_type, payload: head.payload })
}

struct IpmiPacketHead<'a> {
    payload_type: u8,
    session: u32,
    sequence: u32,
    payload: &'a [u8],
    /// The offset behind the payload.
    end: usize,
}

impl<'a> IpmiPacketHead<'a> {
    const BYTES: usize = 12;

    /// Reads a head, which begins with 06.
    fn read(bytes: &'a [u8]) -> Result<Self, Bad> {
        let Some((head, rest)) = bytes.split_first_chunk::<{ IpmiPacketHead::BYTES }>() else {
            return Err("it is cut off");
        };
        let [_, payload_type, a, b, c, d, e, f, g, h, low, high] = *head;
        let length = usize::from(u16::from_le_bytes([low, high]));
        Ok(Self {
            payload_type,
            session: u32::from_le_bytes([a, b, c, d]),
            sequence: u32::from_le_bytes([e, f, g, h]),
            payload: rest.get(..length).ok_or("it is cut off")?,
            end: Self::BYTES + length,
        })
    }
}

/// The message in a [`IpmiFrame::Sealed`], where the code is right.
///
/// # Errors
/// What is wrong with it.
pub fn open(datagram: &[u8], keys: &IpmiSessionKeys) -> Result<Vec<u8>, Bad> {
    open_as(payload::MESSAGE, datagram, keys)
}

/// Opens a [`IpmiFrame::Console`].
///
/// # Errors
/// What is wrong with it.
pub fn open_console(datagram: &[u8], keys: &IpmiSessionKeys) -> Result<Vec<u8>, Bad> {
    open_as(payload::SOL, datagram, keys)
}

fn open_as(payload_type: u8, datagram: &[u8], keys: &IpmiSessionKeys) -> Result<Vec<u8>, Bad> {
    let bytes = datagram.get(RMCP.len()..).ok_or("it is cut off")?;
    let head = IpmiPacketHead::read(bytes)?;
    if head.payload_type != ENCRYPTED | AUTHENTICATED | payload_type {
        return Err("it is not both encrypted and authenticated");
    }
    let signed = bytes.len().checked_sub(keys.suite().code_bytes()).ok_or("it is cut off")?;
    let (signed, code) = bytes.split_at(signed);
    let [padding @ .., padding_length, NEXT_HEADER] = signed.get(head.end..).ok_or("it is cut off")? else {
        return Err("its trailer is not one");
    };
    if padding.len() != usize::from(*padding_length) {
        return Err("its padding is not as long as it says");
    }
    if !is_same(&keys.code(signed), code) {
        return Err("its integrity code is wrong");
    }
    keys.decrypt(head.payload).ok_or("it cannot be decrypted")
}

/// A message before a session.
#[must_use]
pub fn bare(message: &[u8]) -> Vec<u8> {
    let length = u8::try_from(message.len()).unwrap_or(u8::MAX);
    [&RMCP[..], &[FORMAT_V15, 0, 0, 0, 0, 0, 0, 0, 0, length], message].concat()
}

/// A payload of the set-up.
#[must_use]
pub fn encode_plain(payload_type: u8, payload: &[u8]) -> Vec<u8> {
    [&RMCP[..], &head(payload_type, 0, 0, payload.len()), payload].concat()
}

/// A message in a session. `iv` must be fresh, and `sequence` the next one.
#[must_use]
pub fn sealed(message: &[u8], keys: &IpmiSessionKeys, session: u32, sequence: u32, iv: [u8; 16]) -> Vec<u8> {
    sealed_as(payload::MESSAGE, message, keys, session, sequence, iv)
}

/// A packet of a serial port in a session (see [`super::sol`]).
#[must_use]
pub fn sealed_console(text: &[u8], keys: &IpmiSessionKeys, session: u32, sequence: u32, iv: [u8; 16]) -> Vec<u8> {
    sealed_as(payload::SOL, text, keys, session, sequence, iv)
}

fn sealed_as(
    payload_type: u8,
    plain: &[u8],
    keys: &IpmiSessionKeys,
    session: u32,
    sequence: u32,
    iv: [u8; 16],
) -> Vec<u8> {
    let encrypted = keys.encrypt(plain, iv);
    let mut signed = head(ENCRYPTED | AUTHENTICATED | payload_type, session, sequence, encrypted.len()).to_vec();
    signed.extend(encrypted);
    let padding = (4 - (signed.len() + 2) % 4) % 4;
    signed.extend(std::iter::repeat_n(0xff, padding));
    signed.extend([padding.to_le_bytes()[0], NEXT_HEADER]);
    let code = keys.code(&signed);
    [&RMCP[..], &signed, &code].concat()
}

fn head(payload_type: u8, session: u32, sequence: u32, length: usize) -> [u8; IpmiPacketHead::BYTES] {
    let [a, b, c, d] = session.to_le_bytes();
    let [e, f, g, h] = sequence.to_le_bytes();
    let [low, high] = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
    [FORMAT_V20, payload_type, a, b, c, d, e, f, g, h, low, high]
}

/// A request, or an answer: that has the function plus one, and a completion code before its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpmiMessage {
    pub to: u8,
    pub function: u8,
    pub from: u8,
    /// 0 to 63: what ties an answer to its request.
    pub sequence: u8,
    pub command: u8,
    pub data: Vec<u8>,
}

/// Addresses on the wire: a BMC, and a program that asks it from afar (section 5.5).
pub const BMC: u8 = 0x20;
pub const CONSOLE: u8 = 0x81;

impl IpmiMessage {
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, Bad> {
        let [to, function, sum, from, sequence, command, data @ .., last] = bytes else {
            return Err("its message is cut off");
        };
        let sum_of = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        let second = [&[*from, *sequence, *command][..], data].concat();
        if sum_of(&[*to, *function, *sum]) != 0 || sum_of(&second).wrapping_add(*last) != 0 {
            return Err("a sum in its message is wrong");
        }
        Ok(Self {
            to: *to,
            function: function >> 2,
            from: *from,
            sequence: sequence >> 2,
            command: *command,
            data: data.to_vec(),
        })
    }

    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let sum_of = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        let first = [self.to, self.function << 2];
        let second = [&[self.from, self.sequence << 2, self.command][..], &self.data].concat();
        [&first[..], &[sum_of(&first)], &second, &[sum_of(&second)]].concat()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::super::suite::{Numbers, Suite};
    use super::*;

    fn keys(suite: Suite) -> IpmiSessionKeys {
        let numbers = Numbers {
            suite,
            console_id: 1,
            bmc_id: 2,
            console_random: [3; 16],
            bmc_random: [4; 16],
            bmc_guid: [5; 16],
            role: 0x14,
            name: b"admin".to_vec(),
        };
        numbers.keys(b"secret").0
    }

    fn message() -> IpmiMessage {
        IpmiMessage { to: BMC, function: 6, from: CONSOLE, sequence: 5, command: 1, data: vec![1, 2, 3] }
    }

    /// Get Channel Authentication Capabilities as ipmitool sends it: for this channel, as an administrator.
    #[test]
    fn the_first_request_is_as_everybody_sends_it() {
        let message = IpmiMessage { command: 0x38, data: vec![0x8e, 0x04], sequence: 0, ..message() };
        let wire = bare(&message.write());
        let expected = [
            0x06, 0x00, 0xff, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x09, 0x20, 0x18, 0xc8, 0x81, 0x00, 0x38, 0x8e, 0x04,
            0xb5,
        ];
        assert_eq!(wire, expected);
        assert_eq!(frame(&wire), Ok(IpmiFrame::Bare { message: &expected[14..] }));
        assert_eq!(IpmiMessage::read(&expected[14..]), Ok(message));
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused() {
        for suite in Suite::ALL {
            let keys = keys(suite);
            let wire = sealed(&message().write(), &keys, 7, 9, [8; 16]);
            assert_eq!((wire.len() - suite.code_bytes()) % 4, 0, "the code covers whole words");
            assert_eq!(frame(&wire), Ok(IpmiFrame::Sealed { session: 7, sequence: 9 }));
            assert_eq!(open(&wire, &keys), Ok(message().write()));
            for at in RMCP.len()..wire.len() {
                let mut wire = wire.clone();
                wire[at] ^= 1;
                assert!(open(&wire, &keys).is_err(), "byte {at}");
            }
            for length in 0..wire.len() {
                assert!(open(&wire[..length], &keys).is_err(), "{length} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), v20 in any::<bool>()) {
            let framed = [&RMCP[..], &[if v20 { FORMAT_V20 } else { FORMAT_V15 }], &bytes].concat();
            for bytes in [&bytes, &framed] {
                let _ = frame(bytes);
                drop(open(bytes, &keys(Suite::Sha256)));
                drop(IpmiMessage::read(bytes));
            }
        }

        #[test]
        fn messages_come_back(data in prop::collection::vec(any::<u8>(), 0..40), sequence in 0u8..64) {
            let message = IpmiMessage { data, sequence, ..message() };
            prop_assert_eq!(IpmiMessage::read(&message.write()), Ok(message));
        }
    }
}
