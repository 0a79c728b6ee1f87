//! Leaf facts that several crates share: one type, one parser and one table for each.
//!
//! Nothing here knows a packet, a resource kind or a file.

mod address_block;
pub mod arch;
mod dhcp_bounds;
mod mac;
mod shown_url;

pub use address_block::{AddressBlock, AddressBlockError};
pub use arch::{Arch, Firmware};
pub use dhcp_bounds::{POOL_ADDRESSES_MAX, SERVERS_MAX};
pub use mac::{Mac, ParseMacError};
pub use shown_url::{has_user_information, shown_url};
