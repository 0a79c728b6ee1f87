//! How much one DHCP server hands out. The server holds to it, and an object that asks for more is refused where it is
//! stored.

/// A /16 full of hosts: more do not share one provisioning network, and each costs memory.
pub const POOL_ADDRESSES_MAX: u32 = 65_536;
/// Options of addresses fit one option and leave room in a reply of 548 bytes.
pub const SERVERS_MAX: usize = 8;
