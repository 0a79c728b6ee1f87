//! Bytes to packets and back: the only file that names the codec (tftpd's `Packet`).
//!
//! The codec fails a whole request for one option with a value that is no number, where RFC 2347
//! section 2 says to leave that option out; it wants UTF-8 names; and it bounds nothing. So a
//! request is split here first, its name made plain, unknown and unusable options dropped, and
//! only that goes to the codec. Everything else is checked for its length before. DATA, four
//! bytes and a slice, is written here directly: the codec would copy each block twice.

use tftpd::{ErrorCode, OptionType, Packet, TransferOption};

use crate::path::normalise;

/// A request is one packet of at most 512 bytes (RFC 2347 section 2).
pub(crate) const REQUEST_BYTES_MAX: usize = 512;
/// Nothing that a client sends during a transfer is longer.
pub const DATAGRAM_BYTES_MAX: usize = 1024;
pub(crate) const BLKSIZE_DEFAULT: u16 = 512;
pub(crate) const BLKSIZE_MIN: u64 = 8;
/// RFC 2348.
pub(crate) const BLKSIZE_MAX: u16 = 65464;
/// RFC 7440 allows 65535. A window is sent at once: 64 blocks of 1468 bytes are what a NIC's ring takes,
/// and beyond 32 nothing got faster where it was measured.
pub(crate) const WINDOWSIZE_MAX: u16 = 64;
/// A window has to fit what the client's socket takes at once (212 kB with overhead on Linux, less in
/// ROMs): with blocks of 64 kB a larger one is lost again and again, a timeout each time.
pub(crate) const WINDOW_BYTES_MAX: u32 = 96 * 1024;
/// RFC 2349 allows 255 seconds, and who agrees to so many sends a lost block again after so many. curl asks for 5 or 6
/// whatever the link: a mebibyte with 1 % loss took it minutes. A longer one is left out of the answer (RFC 2347
/// section 2), and the transfer's own clock counts.
pub(crate) const TIMEOUT_MAX_S: u64 = 2;
/// The longest error text of a client in events.
const ERROR_TEXT_CHARS_MAX: usize = 80;
/// Longest decimal that is read: more digits are no option's value.
const DIGITS_MAX: usize = 10;

/// A read request, made plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TftpReadRequest {
    pub(crate) path: String,
    pub(crate) options: TftpRequestedOptions,
}

/// Options as the client asked for them; an option that was no number, or unknown, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TftpRequestedOptions {
    pub(crate) blksize: Option<u64>,
    pub(crate) tsize: Option<u64>,
    pub(crate) timeout_s: Option<u64>,
    pub(crate) windowsize: Option<u64>,
}

/// What server and client agree on; `None` was not asked for, or not usable, and is left out of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    pub blksize: Option<u16>,
    pub tsize: Option<u64>,
    pub timeout_s: Option<u8>,
    pub windowsize: Option<u16>,
}

impl TftpRequestedOptions {
    /// RFC 2348, 2349, 7440: a server answers with the same or a smaller value, or leaves the option out.
    pub(crate) fn negotiate(self, file_bytes: u64, blksize_max: u16) -> Negotiated {
        let at_most = |value: u64, max: u16| u16::try_from(value).unwrap_or(u16::MAX).min(max);
        let blksize = self.blksize.filter(|value| *value >= BLKSIZE_MIN).map(|value| at_most(value, blksize_max));
        let blocks_max = WINDOW_BYTES_MAX / u32::from(blksize.unwrap_or(BLKSIZE_DEFAULT));
        let windowsize_max = u16::try_from(blocks_max).unwrap_or(u16::MAX).clamp(1, WINDOWSIZE_MAX);
        Negotiated {
            blksize,
            tsize: self.tsize.map(|_| file_bytes),
            timeout_s: self
                .timeout_s
                .filter(|value| (1..=TIMEOUT_MAX_S).contains(value))
                .and_then(|value| u8::try_from(value).ok()),
            windowsize: self.windowsize.filter(|value| *value >= 1).map(|value| at_most(value, windowsize_max)),
        }
    }
}

impl Negotiated {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What arrives at port 69.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TftpDatagram {
    Read(TftpReadRequest),
    /// A request that gets this refusal.
    Refuse(TftpRefusal),
    /// No request: to be dropped, since an answer could go round in circles.
    Noise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TftpRefusal {
    Write,
    Mode,
    Path,
    NotFound,
    Busy,
}

impl TftpRefusal {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Write => "this server is read-only",
            Self::Mode => "only mode octet is served",
            Self::Path => "not a usable file name",
            Self::NotFound => "no such file here",
            Self::Busy => "too many transfers, try again",
        }
    }

    fn code(self) -> ErrorCode {
        match self {
            Self::Write => ErrorCode::AccessViolation,
            Self::Mode => ErrorCode::IllegalOperation,
            Self::Path | Self::NotFound => ErrorCode::FileNotFound,
            Self::Busy => ErrorCode::NotDefined,
        }
    }
}

/// What a client sends during a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TftpReply {
    Ack(u16),
    /// The client ends the transfer.
    Abort(String),
    Noise,
}

const OPCODE_RRQ: u8 = 1;
const OPCODE_WRQ: u8 = 2;
const OPCODE_DATA: u8 = 3;
const OPCODE_ACK: u8 = 4;
const OPCODE_ERROR: u8 = 5;

pub(crate) fn parse_request(packet: &[u8]) -> TftpDatagram {
    if packet.len() > REQUEST_BYTES_MAX {
        return TftpDatagram::Noise;
    }
    let fields = match packet {
        [0, OPCODE_RRQ, fields @ ..] => fields,
        [0, OPCODE_WRQ, ..] => return TftpDatagram::Refuse(TftpRefusal::Write),
        _ => return TftpDatagram::Noise,
    };
    // Some ROMs leave the last NUL out; what follows the last one is taken as a field as well.
    let mut fields = fields.split(|byte| *byte == 0);
    let (Some(name), Some(mode)) = (fields.next(), fields.next()) else {
        return TftpDatagram::Noise;
    };
    if !mode.eq_ignore_ascii_case(b"octet") {
        // netascii would need every line end changed; serving it as octet would hand out a file
        // whose digest is right on one client and wrong on the next.
        return TftpDatagram::Refuse(TftpRefusal::Mode);
    }
    let Some(path) = normalise(name) else {
        return TftpDatagram::Refuse(TftpRefusal::Path);
    };
    let mut plain = [&[0, OPCODE_RRQ], path.as_bytes(), b"\0octet\0"].concat();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let known = [&b"blksize"[..], b"tsize", b"timeout", b"windowsize"];
        let is_number = (1..=DIGITS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        if is_number && known.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            plain.extend([name, b"\0", value, b"\0"].concat());
        }
    }
    match Packet::deserialize(&plain) {
        Ok(Packet::Rrq { filename, options, .. }) => {
            TftpDatagram::Read(TftpReadRequest { path: filename, options: first_of_each(&options) })
        }
        Ok(_) | Err(_) => TftpDatagram::Noise,
    }
}

fn first_of_each(options: &[TransferOption]) -> TftpRequestedOptions {
    let first = |wanted: OptionType| options.iter().find(|option| option.option == wanted).map(|option| option.value);
    TftpRequestedOptions {
        blksize: first(OptionType::BlockSize),
        tsize: first(OptionType::TransferSize),
        timeout_s: first(OptionType::Timeout),
        windowsize: first(OptionType::WindowSize),
    }
}

pub(crate) fn parse_reply(packet: &[u8]) -> TftpReply {
    let plausible = match packet {
        [0, OPCODE_ACK, _, _, ..] | [0, OPCODE_ERROR, _, _, ..] => packet.len() <= DATAGRAM_BYTES_MAX,
        _ => false,
    };
    if !plausible {
        return TftpReply::Noise;
    }
    match Packet::deserialize(packet) {
        Ok(Packet::Ack(block)) => TftpReply::Ack(block),
        Ok(Packet::Error { code, msg }) => TftpReply::Abort(plain_text(&format!("{code}: {msg}"))),
        // An error with a code that the codec does not know ends the transfer as well.
        Err(_) if packet[1] == OPCODE_ERROR => TftpReply::Abort("unknown error code".to_owned()),
        Ok(_) | Err(_) => TftpReply::Noise,
    }
}

fn plain_text(text: &str) -> String {
    text.chars().take(ERROR_TEXT_CHARS_MAX).map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

pub(crate) fn refusal(refusal: TftpRefusal) -> Vec<u8> {
    error(refusal.code(), refusal.text())
}

/// The last packet of a transfer that the server gives up.
pub(crate) fn gave_up() -> Vec<u8> {
    error(ErrorCode::NotDefined, "no acknowledgement in time")
}

fn error(code: ErrorCode, text: &str) -> Vec<u8> {
    let packet = Packet::Error { code, msg: text.to_owned() };
    packet.serialize().unwrap_or_default()
}

pub(crate) fn oack(negotiated: &Negotiated) -> Vec<u8> {
    let option = |option: OptionType, value: u64| TransferOption { option, value };
    let options = [
        negotiated.tsize.map(|value| option(OptionType::TransferSize, value)),
        negotiated.blksize.map(|value| option(OptionType::BlockSize, value.into())),
        negotiated.timeout_s.map(|value| option(OptionType::Timeout, value.into())),
        negotiated.windowsize.map(|value| option(OptionType::WindowSize, value.into())),
    ];
    Packet::Oack(options.into_iter().flatten().collect()).serialize().unwrap_or_default()
}

/// Encodes into `packet`, which is cleared first: one allocation serves a whole transfer.
pub(crate) fn write_data(block: u16, data: &[u8], packet: &mut Vec<u8>) {
    packet.clear();
    packet.extend_from_slice(&[0, OPCODE_DATA]);
    packet.extend_from_slice(&block.to_be_bytes());
    packet.extend_from_slice(data);
}

/// Reads `packet` in both roles, for fuzzing.
pub fn check(packet: &[u8]) {
    if let TftpDatagram::Read(request) = parse_request(packet) {
        assert_eq!(normalise(request.path.as_bytes()).as_deref(), Some(request.path.as_str()));
        let negotiated = request.options.negotiate(1, 1468);
        assert!(negotiated.blksize.is_none_or(|value| (8..=1468).contains(&value)));
        assert!(negotiated.windowsize.is_none_or(|value| (1..=WINDOWSIZE_MAX).contains(&value)));
    }
    if let TftpReply::Abort(text) = parse_reply(packet) {
        assert!(text.len() <= ERROR_TEXT_CHARS_MAX);
    }
}

#[cfg(test)]
#[allow(clippy::wildcard_enum_match_arm, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(fields: &[&str]) -> TftpDatagram {
        let mut packet = vec![0, OPCODE_RRQ];
        for field in fields {
            packet.extend_from_slice(field.as_bytes());
            packet.push(0);
        }
        parse_request(&packet)
    }

    fn asked(options: &[&str]) -> TftpRequestedOptions {
        match read(&[&["a", "octet"], options].concat()) {
            TftpDatagram::Read(request) => request.options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_all_options_in_any_case() {
        let options = asked(&["BlkSize", "1468", "tsize", "0", "timeout", "3", "windowsize", "8", "multicast", ""]);
        assert_eq!(
            options,
            TftpRequestedOptions { blksize: Some(1468), tsize: Some(0), timeout_s: Some(3), windowsize: Some(8) }
        );
    }

    /// The codec alone fails such a request, and the client gets no file because of one option.
    #[test]
    fn an_option_that_is_no_number_is_left_out() {
        for value in ["abc", "", "-1", "+5", "1e3", " 8", "99999999999999999999999"] {
            let options = asked(&["blksize", value, "tsize", "0"]);
            assert_eq!(options, TftpRequestedOptions { tsize: Some(0), ..TftpRequestedOptions::default() }, "{value}");
        }
    }

    #[test]
    fn repeated_and_incomplete_options_do_no_harm() {
        assert_eq!(asked(&["blksize", "600", "blksize", "8"]).blksize, Some(600));
        assert_eq!(asked(&["blksize"]).blksize, None);
        assert_eq!(parse_request(b"\0\x01a\0octet"), read(&["a", "octet"]), "without the last NUL");
    }

    #[test]
    fn values_out_of_range_are_reduced_or_left_out() {
        let negotiate = |options: &[&str]| asked(options).negotiate(5, 1468);
        assert_eq!(negotiate(&["blksize", "65464"]).blksize, Some(1468));
        assert_eq!(negotiate(&["blksize", "9999999"]).blksize, Some(1468));
        assert_eq!(negotiate(&["blksize", "7"]).blksize, None);
        assert_eq!(negotiate(&["windowsize", "65535"]).windowsize, Some(WINDOWSIZE_MAX));
        assert_eq!(negotiate(&["windowsize", "0"]).windowsize, None);
        assert_eq!(negotiate(&["windowsize", "64", "blksize", "1468"]).windowsize, Some(WINDOWSIZE_MAX));
        assert_eq!(asked(&["windowsize", "16", "blksize", "65464"]).negotiate(5, BLKSIZE_MAX).windowsize, Some(1));
        assert_eq!(negotiate(&["timeout", "0"]).timeout_s, None);
        assert_eq!(negotiate(&["timeout", "255"]).timeout_s, None);
        assert_eq!((negotiate(&["timeout", "2"]).timeout_s, negotiate(&["timeout", "3"]).timeout_s), (Some(2), None));
        assert!(negotiate(&["timeout", "6"]).is_empty(), "nothing to agree on: data comes at once");
        assert_eq!(negotiate(&["tsize", "0"]).tsize, Some(5));
        assert!(negotiate(&[]).is_empty());
    }

    #[test]
    fn writes_modes_and_paths_are_refused() {
        assert_eq!(parse_request(b"\0\x02a\0octet\0"), TftpDatagram::Refuse(TftpRefusal::Write));
        assert_eq!(read(&["a", "netascii"]), TftpDatagram::Refuse(TftpRefusal::Mode));
        assert_eq!(read(&["../a", "octet"]), TftpDatagram::Refuse(TftpRefusal::Path));
        assert_eq!(read(&["a"]), TftpDatagram::Refuse(TftpRefusal::Mode));
        assert_eq!(refusal(TftpRefusal::NotFound), b"\0\x05\0\x01no such file here\0");
    }

    #[test]
    fn what_is_no_request_is_dropped() {
        for packet in
            [&b""[..], b"\0", b"\0\x01", b"\0\x03\0\x01x", b"\0\x04\0\0", b"\0\x05\0\0x\0", b"\x01\x01a\0octet\0"]
        {
            assert_eq!(parse_request(packet), TftpDatagram::Noise, "{packet:?}");
        }
        let long = [&b"\0\x01a\0octet\0"[..], &[b'x'; REQUEST_BYTES_MAX]].concat();
        assert_eq!(parse_request(&long), TftpDatagram::Noise);
    }

    #[test]
    fn replies_are_acknowledgements_or_errors() {
        assert_eq!(parse_reply(b"\0\x04\x12\x34"), TftpReply::Ack(0x1234));
        assert_eq!(parse_reply(b"\0\x04\x12"), TftpReply::Noise);
        assert_eq!(parse_reply(b"\0\x05\0\x08\x1b[2J\0"), TftpReply::Abort("Refused option: ?[2J".into()));
        assert_eq!(parse_reply(b"\0\x05\0\x63x\0"), TftpReply::Abort("unknown error code".into()));
        assert_eq!(parse_reply(b"\0\x05\0\0"), TftpReply::Abort("Not Defined: (no message)".into()));
    }

    #[test]
    fn data_is_what_the_codec_would_write() {
        let mut packet = vec![9; 9];
        write_data(0xfffe, b"abc", &mut packet);
        let codec = Packet::Data { block_num: 0xfffe, data: b"abc".to_vec() };
        assert_eq!(Ok(packet), codec.serialize());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(packet in prop::collection::vec(any::<u8>(), 0..600)) {
            check(&packet);
        }

        #[test]
        fn near_requests_do_not_panic(opcode in 0u8..8, fields in prop::collection::vec("[a-z0-9/.\\\\-]{0,12}", 0..9)) {
            let mut packet = vec![0, opcode];
            packet.extend(fields.join("\0").bytes());
            check(&packet);
        }
    }
}
