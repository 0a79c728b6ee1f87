//! NBD as far as a server needs it: fixed newstyle handshake and simple replies. What a client sends
//! is checked and bounded here; nothing is allocated by a length that it names before that.
//!
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>

use std::io::{self, Read, Write};

use thiserror::Error;

use crate::{DiskCommand, DiskRequest};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Fixed newstyle, and no 124 zeros after an export name.
const HANDSHAKE_FLAGS: u16 = 1 | 2;
const CLIENT_NO_ZEROES: u32 = 2;
/// Flags, flush, FUA, trim, write-zeroes.
const EXPORT_FLAGS: u16 = 1 | 4 | 8 | 32 | 64;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const REPLY_INVALID: u32 = 0x8000_0003;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// A name of 4096 bytes, the longest that the protocol knows, and some requests for information.
const OPTION_BYTES_MAX: u32 = 8 * 1024;
/// A client asks for a handful of options.
const OPTIONS_MAX: usize = 32;
/// The largest that is announced to the client, and as much as QEMU sends.
pub const DATA_BYTES_MAX: u32 = 32 << 20;
/// A multiple of this is asked for.
const BLOCK_BYTES: u32 = 512;

pub const REQUEST_BYTES: usize = 28;

/// Errors as the protocol numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    Io = 5,
    Invalid = 22,
}

#[derive(Debug, Error)]
pub enum NbdError {
    #[error("talking to the client")]
    Io(#[from] io::Error),
    #[error("the client sent {what} that is none")]
    Magic { what: &'static str },
    #[error("an option of {0} bytes")]
    OptionTooLong(u32),
    #[error("more than {OPTIONS_MAX} options")]
    TooManyOptions,
    #[error("a write of {0} bytes")]
    WriteTooLong(u32),
    #[error("the client gave up")]
    Aborted,
}

/// Speaks until the client has the export. Any export name is ours.
pub fn handshake(stream: &mut (impl Read + Write), disk_bytes: u64) -> Result<(), NbdError> {
    let mut hello = Vec::with_capacity(18);
    hello.extend(MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&hello)?;
    let client_flags = u32::from_be_bytes(take(stream)?);
    for _ in 0..OPTIONS_MAX {
        if u64::from_be_bytes(take(stream)?) != OPTION_MAGIC {
            return Err(NbdError::Magic { what: "an option" });
        }
        let option = u32::from_be_bytes(take(stream)?);
        let length = u32::from_be_bytes(take(stream)?);
        if length > OPTION_BYTES_MAX {
            return Err(NbdError::OptionTooLong(length));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPTION_EXPORT_NAME => {
                let mut answer = Vec::from(disk_bytes.to_be_bytes());
                answer.extend(EXPORT_FLAGS.to_be_bytes());
                if client_flags & CLIENT_NO_ZEROES == 0 {
                    answer.extend([0; 124]);
                }
                return Ok(stream.write_all(&answer)?);
            }
            OPTION_GO | OPTION_INFO => {
                if !is_info_request(&data) {
                    reply(stream, option, REPLY_INVALID, &[])?;
                    continue;
                }
                reply(stream, option, REPLY_INFO, &export_info(disk_bytes))?;
                reply(stream, option, REPLY_INFO, &block_size_info())?;
                reply(stream, option, REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(());
                }
            }
            OPTION_ABORT => {
                reply(stream, option, REPLY_ACK, &[])?;
                return Err(NbdError::Aborted);
            }
            // Structured replies, TLS, lists: the client goes on without.
            _ => reply(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
    Err(NbdError::TooManyOptions)
}

/// Length and name, then a count of requests of two bytes each, and nothing behind.
fn is_info_request(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return false };
    let name_bytes = u32::from_be_bytes(*length) as usize;
    let Some(rest) = rest.get(name_bytes..) else { return false };
    let Some((count, rest)) = rest.split_first_chunk::<2>() else { return false };
    rest.len() == usize::from(u16::from_be_bytes(*count)) * 2
}

fn export_info(disk_bytes: u64) -> Vec<u8> {
    let mut info = Vec::from(INFO_EXPORT.to_be_bytes());
    info.extend(disk_bytes.to_be_bytes());
    info.extend(EXPORT_FLAGS.to_be_bytes());
    info
}

fn block_size_info() -> Vec<u8> {
    let mut info = Vec::from(INFO_BLOCK_SIZE.to_be_bytes());
    for bytes in [BLOCK_BYTES, 4096, DATA_BYTES_MAX] {
        info.extend(bytes.to_be_bytes());
    }
    info
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut answer = Vec::from(OPTION_REPLY_MAGIC.to_be_bytes());
    answer.extend(option.to_be_bytes());
    answer.extend(kind.to_be_bytes());
    // Ours are a few bytes long.
    answer.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    answer.extend(data);
    stream.write_all(&answer)
}

fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A request's header, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdRequest {
    pub cookie: u64,
    pub what: NbdMessage,
    /// Data of this length follows the header.
    pub data_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdMessage {
    Request(DiskRequest),
    Disconnect,
    /// A request to refuse; the connection goes on.
    Wrong(ErrorCode),
}

/// Understands a header. An error means that the stream cannot be followed any further.
pub fn parse(header: &[u8; REQUEST_BYTES], disk_bytes: u64) -> Result<NbdRequest, NbdError> {
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    if word(0) != REQUEST_MAGIC {
        return Err(NbdError::Magic { what: "a request" });
    }
    let flags = u16::from_be_bytes([header[4], header[5]]);
    let kind = u16::from_be_bytes([header[6], header[7]]);
    let (cookie, offset, length) = (long(8), long(16), word(24));
    let data_bytes = if kind == 1 { length } else { 0 };
    if data_bytes > DATA_BYTES_MAX {
        return Err(NbdError::WriteTooLong(length));
    }
    let asked = |what| Ok(NbdRequest { cookie, what, data_bytes });
    let command = match kind {
        0 if length > DATA_BYTES_MAX => return asked(NbdMessage::Wrong(ErrorCode::Invalid)),
        0 => DiskCommand::Read,
        1 => DiskCommand::Write,
        2 => return asked(NbdMessage::Disconnect),
        3 => {
            return asked(NbdMessage::Request(DiskRequest {
                command: DiskCommand::Flush,
                offset: 0,
                bytes: 0,
                durable: false,
            }));
        }
        4 | 6 => DiskCommand::Zero,
        _ => return asked(NbdMessage::Wrong(ErrorCode::Invalid)),
    };
    let bytes = u64::from(length);
    if offset.checked_add(bytes).is_none_or(|end| end > disk_bytes) {
        return asked(NbdMessage::Wrong(ErrorCode::Invalid));
    }
    asked(NbdMessage::Request(DiskRequest { command, offset, bytes, durable: flags & 1 == 1 }))
}

/// The header of a simple reply; the data of a read follows.
#[must_use]
pub fn reply_header(cookie: u64, error: Option<ErrorCode>) -> [u8; 16] {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    header[8..].copy_from_slice(&cookie.to_be_bytes());
    header
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 20;

    /// What the client says, and a place for what the server says.
    struct Wire {
        client: io::Cursor<Vec<u8>>,
        server: Vec<u8>,
    }

    impl Wire {
        fn new(client: Vec<u8>) -> Self {
            Self { client: io::Cursor::new(client), server: Vec::new() }
        }
    }

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.client.read(buffer)
        }
    }

    impl Write for Wire {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.server.extend(data);
            Ok(data.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from(OPTION_MAGIC.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        bytes
    }

    fn header(flags: u16, kind: u16, offset: u64, length: u32) -> [u8; REQUEST_BYTES] {
        let mut bytes = Vec::from(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(7_u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.try_into().unwrap()
    }

    #[test]
    fn a_client_that_asks_for_more_than_we_have_goes_on_with_what_we_have() {
        let go = option(OPTION_GO, &[0, 0, 0, 1, b'x', 0, 1, 0, 3]);
        let mut wire = Wire::new([vec![0, 0, 0, 3], option(8, &[]), go].concat());
        handshake(&mut wire, SIZE).unwrap();
        let answers = &wire.server[18..];
        assert_eq!(answers[12..16], REPLY_UNSUPPORTED.to_be_bytes());
        let export = &answers[20 + 20..][..12];
        assert_eq!((&export[..2], &export[2..10]), (&[0, 0][..], &SIZE.to_be_bytes()[..]));
        assert!(wire.server.ends_with(&[0, 0, 0, 1, 0, 0, 0, 0]), "the last answer is no acknowledgement");
    }

    #[test]
    fn lengths_that_a_client_names_are_bounded() {
        let long = |number: u32, length: u32| {
            let mut bytes = option(number, &[]);
            bytes[12..16].copy_from_slice(&length.to_be_bytes());
            Wire::new([vec![0, 0, 0, 3], bytes].concat())
        };
        assert!(matches!(handshake(&mut long(7, u32::MAX), SIZE), Err(NbdError::OptionTooLong(u32::MAX))));
        let endless = Wire::new([vec![0, 0, 0, 3], option(8, &[]).repeat(100)].concat());
        assert!(matches!(handshake(&mut { endless }, SIZE), Err(NbdError::TooManyOptions)));
        assert!(matches!(parse(&header(0, 1, 0, DATA_BYTES_MAX + 1), u64::MAX), Err(NbdError::WriteTooLong(_))));
        let read = parse(&header(0, 0, 0, DATA_BYTES_MAX + 1), u64::MAX).unwrap();
        assert_eq!(read.what, NbdMessage::Wrong(ErrorCode::Invalid));
        let beyond = parse(&header(0, 0, SIZE - 512, 513), SIZE).unwrap();
        assert_eq!(beyond.what, NbdMessage::Wrong(ErrorCode::Invalid));
    }

    #[test]
    fn requests_are_understood() {
        let asked = parse(&header(1, 1, 512, 1024), SIZE).unwrap();
        let request = DiskRequest { command: DiskCommand::Write, offset: 512, bytes: 1024, durable: true };
        assert_eq!(asked, NbdRequest { cookie: 7, what: NbdMessage::Request(request), data_bytes: 1024 });
        assert!(matches!(
            parse(&header(0, 6, 0, 4096), SIZE).unwrap().what,
            NbdMessage::Request(DiskRequest { command: DiskCommand::Zero, bytes: 4096, durable: false, .. })
        ));
        assert_eq!(parse(&header(0, 2, 0, 0), SIZE).unwrap().what, NbdMessage::Disconnect);
        assert_eq!(reply_header(7, Some(ErrorCode::Io))[4..8], [0, 0, 0, 5]);
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(client in prop::collection::vec(any::<u8>(), 0..200), raw: [u8; REQUEST_BYTES]) {
            drop(handshake(&mut Wire::new(client.clone()), SIZE));
            let framed = [vec![0, 0, 0, 3], option(7, &client)].concat();
            drop(handshake(&mut Wire::new(framed), SIZE));
            let mut header = raw;
            header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
            header[6] = 0;
            header[7] %= 8;
            if let Ok(NbdRequest { what: NbdMessage::Request(request), .. }) = parse(&header, SIZE) {
                prop_assert!(request.offset + request.bytes <= SIZE);
            }
        }
    }
}
