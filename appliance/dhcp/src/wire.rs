//! DHCPv4 messages as bytes: the only file that names dhcproto.
//!
//! dhcproto reads and writes the fixed header; the options are read and written here. That is on
//! purpose. In dhcproto 0.15 a received `hlen` above 16 panics, an option 94 of the wrong length
//! panics in debug builds, one malformed option hides all later ones, option overload (52) is not
//! followed, only the first architecture of option 93 survives, an unterminated `file` is lost, the
//! setters of `file` and `sname` panic on long strings, an option 82 that is echoed as raw bytes goes
//! out twice, and replies stay under BOOTP's 300 bytes. So: lengths are checked before it sees a
//! byte, it sees the header only, and every string is capped before it is handed over.
//!
//! It must not know what a message means: no leases, no boot files.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use dhcproto::v4::{Flags, HType, Message, Opcode};
use dhcproto::{Decodable, Decoder, Encodable, Encoder};
use firesteel_facts::Mac;

/// The fixed header and the magic cookie (RFC 2131 §2).
pub(crate) const HEADER_BYTES: usize = 240;
/// No sane client sends more: Ethernet carries 1500, and a datagram reassembled from many fragments
/// is no boot request.
const PACKET_BYTES_MAX: usize = 4096;
/// RFC 1542 §2.1: BOOTP messages have at least 300 octets. Old ROMs and some relays drop shorter ones.
const REPLY_BYTES_MIN: usize = 300;
/// The `file` field holds 128 bytes, of which the last is the terminating NUL.
pub(crate) const FILE_BYTES_MAX: usize = 127;
pub(crate) const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
const CHADDR_BYTES: u8 = 16;
pub(crate) const BOOT_REQUEST: u8 = 1;

/// The option codes that are used here (RFC 2132 unless stated otherwise).
pub mod code {
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DNS: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN_NAME: u8 = 15;
    pub const BROADCAST: u8 = 28;
    pub const NTP: u8 = 42;
    pub const VENDOR_SPECIFIC: u8 = 43;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_ID: u8 = 54;
    pub const PARAMETER_LIST: u8 = 55;
    pub const MESSAGE: u8 = 56;
    pub const MAX_SIZE: u8 = 57;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const VENDOR_CLASS: u8 = 60;
    pub const CLIENT_ID: u8 = 61;
    pub const TFTP_SERVER: u8 = 66;
    pub const BOOT_FILE: u8 = 67;
    /// RFC 3004.
    pub const USER_CLASS: u8 = 77;
    /// RFC 3046.
    pub const RELAY_AGENT: u8 = 82;
    /// RFC 4578 §2.1.
    pub const ARCHITECTURE: u8 = 93;
    /// RFC 4578 §2.2.
    pub const UNDI_VERSION: u8 = 94;
    /// RFC 4578 §2.3.
    pub const MACHINE_UUID: u8 = 97;
    /// iPXE's own encapsulated options (a code that Etherboot registered).
    pub const IPXE: u8 = 175;
}

/// Why bytes are no message for us.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("a message of {0} bytes is shorter than the fixed header")]
    TooShort(usize),
    #[error("a message of {0} bytes is longer than any client sends")]
    TooLong(usize),
    #[error("hardware type {htype} with addresses of {hlen} bytes is not Ethernet")]
    NotEthernet { htype: u8, hlen: u8 },
    #[error("the hardware address {0} cannot belong to one interface")]
    GroupAddress(Mac),
    #[error("no DHCP magic cookie")]
    NoCookie,
    #[error("neither request nor reply")]
    Operation(u8),
    #[error("the header does not parse")]
    Header,
    #[error("writing the message")]
    Encode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DhcpOperation {
    Request,
    Reply,
}

/// RFC 2132 §9.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    Discover,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

impl MessageType {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Discover,
            2 => Self::Offer,
            3 => Self::Request,
            4 => Self::Decline,
            5 => Self::Ack,
            6 => Self::Nak,
            7 => Self::Release,
            8 => Self::Inform,
            _ => return None,
        })
    }

    fn code(self) -> u8 {
        match self {
            Self::Discover => 1,
            Self::Offer => 2,
            Self::Request => 3,
            Self::Decline => 4,
            Self::Ack => 5,
            Self::Nak => 6,
            Self::Release => 7,
            Self::Inform => 8,
        }
    }
}

/// The options of one message, instances of one code joined (RFC 3396).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhcpOptions(BTreeMap<u8, Vec<u8>>);

impl DhcpOptions {
    pub fn get(&self, code: u8) -> Option<&[u8]> {
        self.0.get(&code).map(Vec::as_slice)
    }

    pub fn set(&mut self, code: u8, value: impl Into<Vec<u8>>) {
        self.0.insert(code, value.into());
    }

    pub fn remove(&mut self, code: u8) {
        self.0.remove(&code);
    }

    pub fn message_type(&self) -> Option<MessageType> {
        match self.get(code::MESSAGE_TYPE)? {
            [kind] => MessageType::from_code(*kind),
            _ => None,
        }
    }

    pub fn set_message_type(&mut self, kind: MessageType) {
        self.set(code::MESSAGE_TYPE, [kind.code()]);
    }

    /// The value as one address; `None` also when it has another length.
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.get(code)?).ok().map(Ipv4Addr::from)
    }

    /// The value as a list of addresses; bytes that make no whole address are left out.
    pub fn addresses(&self, code: u8) -> Vec<Ipv4Addr> {
        let (whole, _) = self.get(code).unwrap_or_default().as_chunks::<4>();
        whole.iter().copied().map(Ipv4Addr::from).collect()
    }

    pub fn set_addresses(&mut self, code: u8, addresses: &[Ipv4Addr]) {
        if !addresses.is_empty() {
            self.set(code, addresses.iter().flat_map(|address| address.octets()).collect::<Vec<u8>>());
        }
    }

    pub fn number(&self, code: u8) -> Option<u32> {
        <[u8; 4]>::try_from(self.get(code)?).ok().map(u32::from_be_bytes)
    }

    pub fn set_number(&mut self, code: u8, value: u32) {
        self.set(code, value.to_be_bytes());
    }

    /// The value as text without the NUL that some clients append; control characters make it `None`,
    /// for such text ends up in logs and on terminals.
    pub fn text(&self, code: u8) -> Option<String> {
        let bytes = self.get(code)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        printable(&bytes[..end])
    }
}

/// Text of a client that may be shown to people.
pub(crate) fn printable(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// One DHCPv4 message of an Ethernet client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub operation: DhcpOperation,
    pub hops: u8,
    pub xid: u32,
    pub secs: u16,
    pub broadcast: bool,
    pub ciaddr: Ipv4Addr,
    pub yiaddr: Ipv4Addr,
    pub siaddr: Ipv4Addr,
    pub giaddr: Ipv4Addr,
    pub mac: Mac,
    /// The boot file of the header; empty also where the field carries options (overload).
    pub file: Vec<u8>,
    pub options: DhcpOptions,
}

impl Packet {
    /// An empty message of this client and transaction.
    pub fn new(operation: DhcpOperation, xid: u32, mac: Mac) -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Self {
            operation,
            hops: 0,
            xid,
            secs: 0,
            broadcast: false,
            ciaddr: none,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            mac,
            file: Vec::new(),
            options: DhcpOptions::default(),
        }
    }
}

/// Reads one message. Never panics, whatever the bytes.
pub fn decode(bytes: &[u8]) -> Result<Packet, WireError> {
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(WireError::TooLong(bytes.len()));
    }
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(WireError::TooShort(bytes.len()))?;
    let (htype, hlen) = (header[1], header[2]);
    // Nothing but Ethernet boots on a provisioning VLAN that we serve; and `hlen` above 16 would
    // make dhcproto panic later.
    if htype != 1 || hlen != 6 {
        return Err(WireError::NotEthernet { htype, hlen });
    }
    debug_assert!(hlen <= CHADDR_BYTES);
    if header[236..] != MAGIC_COOKIE {
        return Err(WireError::NoCookie);
    }
    let operation = match header[0] {
        BOOT_REQUEST => DhcpOperation::Request,
        2 => DhcpOperation::Reply,
        other => return Err(WireError::Operation(other)),
    };
    let message = Message::decode(&mut Decoder::new(header)).map_err(|_| WireError::Header)?;
    let mac = Mac(<[u8; 6]>::try_from(message.chaddr()).map_err(|_| WireError::Header)?);
    if !mac.is_unicast() {
        return Err(WireError::GroupAddress(mac));
    }
    let (options, overload) = scan_all(header, rest);
    // Read from the field itself: a name of the full 128 bytes has no terminator.
    let file = if overload & OVERLOAD_FILE == 0 { until_nul(&header[108..236]) } else { Vec::new() };
    Ok(Packet {
        operation,
        hops: message.hops(),
        xid: message.xid(),
        secs: message.secs(),
        broadcast: message.flags().broadcast(),
        ciaddr: message.ciaddr(),
        yiaddr: message.yiaddr(),
        siaddr: message.siaddr(),
        giaddr: message.giaddr(),
        mac,
        file,
        options,
    })
}

const PAD: u8 = 0;
const END: u8 = 255;
const OVERLOAD_FILE: u8 = 1;
const OVERLOAD_SNAME: u8 = 2;

/// The options of all fields that carry some, in the order of RFC 3396 §5, and the overload bits.
pub(crate) fn scan_all(header: &[u8], rest: &[u8]) -> (DhcpOptions, u8) {
    let mut options = DhcpOptions::default();
    scan(rest, &mut options);
    let overload = match options.get(code::OVERLOAD) {
        Some([bits @ 1..=3]) => *bits,
        _ => 0,
    };
    if overload & OVERLOAD_FILE != 0 {
        scan(&header[108..236], &mut options);
    }
    if overload & OVERLOAD_SNAME != 0 {
        scan(&header[44..108], &mut options);
    }
    (options, overload)
}

/// Walks one field; it ends at END, at the field's end, or at an option that runs past it.
fn scan(mut field: &[u8], options: &mut DhcpOptions) {
    loop {
        match field {
            [PAD, rest @ ..] => field = rest,
            [END, ..] | [] | [_] => return,
            [code, length, rest @ ..] => {
                let Some((value, after)) = rest.split_at_checked(usize::from(*length)) else { return };
                options.0.entry(*code).or_default().extend_from_slice(value);
                field = after;
            }
        }
    }
}

fn until_nul(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|byte| *byte != 0).collect()
}

/// Writes one message, padded to 300 bytes, option 82 last (RFC 3046 §2.2).
pub fn encode(packet: &Packet) -> Result<Vec<u8>, WireError> {
    let mut message =
        Message::new_with_id(packet.xid, packet.ciaddr, packet.yiaddr, packet.siaddr, packet.giaddr, &packet.mac.0);
    message
        .set_opcode(match packet.operation {
            DhcpOperation::Request => Opcode::BootRequest,
            DhcpOperation::Reply => Opcode::BootReply,
        })
        .set_htype(HType::Eth)
        .set_hops(packet.hops)
        .set_secs(packet.secs)
        .set_flags(if packet.broadcast { Flags::default().set_broadcast() } else { Flags::default() });
    if !packet.file.is_empty() && packet.file.len() <= FILE_BYTES_MAX {
        message.set_fname(&packet.file);
    }
    let mut bytes = Vec::with_capacity(REPLY_BYTES_MIN);
    message.encode(&mut Encoder::new(&mut bytes)).map_err(|_| WireError::Encode)?;
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    write_options(&packet.options, &mut bytes);
    bytes.resize(bytes.len().max(REPLY_BYTES_MIN), 0);
    Ok(bytes)
}

/// The type first, which old ROMs count on; what the relay added last; all others in order.
fn write_options(options: &DhcpOptions, bytes: &mut Vec<u8>) {
    let mut write = |code: u8| {
        for piece in options.get(code).unwrap_or_default().chunks(usize::from(u8::MAX)) {
            bytes.push(code);
            bytes.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(piece);
        }
    };
    write(code::MESSAGE_TYPE);
    let between = |code: &u8| !matches!(*code, code::MESSAGE_TYPE | code::RELAY_AGENT | PAD | END);
    options.0.keys().copied().filter(between).for_each(&mut write);
    write(code::RELAY_AGENT);
    bytes.push(END);
}

/// The entry for fuzzing: any bytes are read or refused, and what was read survives a second trip.
pub fn check(bytes: &[u8]) {
    let Ok(packet) = decode(bytes) else { return };
    let Ok(written) = encode(&packet) else { return };
    if written.len() <= PACKET_BYTES_MAX {
        let again = decode(&written);
        assert!(again.is_ok(), "what we write must be readable: {again:?}");
    }
}
