//! Leaf facts that several crates share: one type, one parser and one table for each. Crates of the appliance, of the
//! agent and of images use them.
//!
//! Nothing here knows a packet, a resource kind or a file.

mod address_block;
pub mod arch;
mod architecture;
pub mod bmc_address;
mod dhcp_bounds;
mod digest;
mod disk;
mod event_reason;
mod guid;
mod hardware;
mod mac;
mod shown_url;
mod token_bucket;
mod work_hold;

pub use address_block::{AddressBlock, AddressBlockError, is_network_end, parse_network};
pub use arch::{Arch, FirmwareInterface};
pub use architecture::{Architecture, UnknownArchitecture};
pub use dhcp_bounds::{POOL_ADDRESSES_MAX, SERVERS_MAX};
pub use digest::{Hasher, ParseDigestError, Sha256};
pub use disk::{DiskIdentity, size_text};
pub use event_reason::EventReason;
pub use guid::{Guid, ParseGuidError};
pub use hardware::{FirmwareMode, FormatErase, Grade, HiddenArea, SanitizeMethod, Transport};
pub use mac::{Mac, ParseMacError};
pub use shown_url::{has_user_information, shown_url};
pub use token_bucket::{BucketLimits, TokenBucket};
pub use work_hold::WorkHold;
