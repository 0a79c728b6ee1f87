//! What a client at one stage of a boot gets next: the boot chain's texts, URLs and tokens.
//!
//! ```text
//! DHCP request ──► first_stage ──► loader by TFTP or HTTP, or, to iPXE, the script's URL
//! script request ─► ScriptRequest ─► (caller finds the BootEntry for the MAC) ─► ipxe::render ─► one script
//!                └► Observation::ask: whether the asker may be the host, and so get a token
//! kernel, initramfs ─► RoutePath, Sealer::open ─► seed_archive + the ramdisk
//! local disk on BIOS ─► RoutePath::DiskProbe ─► disk_probe: 512 bytes of 16-bit code, then sanboot
//! ```
//!
//! Everything here decides and nothing performs: no socket, no clock, no file. The listeners of the appliance and
//! `firesteel_control` call it. Which entry a client gets is the caller's decision; this crate knows no resource kind.
//! Values that come from hosts or users never reach a script unchecked (see [`text`]).

pub mod boot_sighting;
pub mod boot_sightings;
pub mod disk_probe;
pub mod entry;
pub mod features;
pub mod first_stage;
pub mod ipxe;
pub mod observation;
pub mod request;
pub mod route;
pub mod seed;
pub mod text;
pub mod token;

pub use boot_sighting::{BootFetch, GOES_ON_IN, Sighting, SightingStage, StalledBoot};
pub use boot_sightings::Sightings;
pub use disk_probe::{DiskProbe, DiskProbeError};
pub use entry::{BootEntry, Endpoints, HostNetwork};
pub use features::IpxeFeatures;
pub use first_stage::{BootClient, FirstStage, LoaderTransport, UnservedClient, first_stage};
pub use ipxe::{ScriptContext, ScriptError, autoexec, render};
pub use observation::{
    AddressHolder, AskerMismatch, AskerRule, BootAsker, BootFile, BootFileName, BootFileSet, BootScriptRequest,
    BootSeal, Observation, ServedBootFiles, UnseenBoot,
};
pub use request::{InvalidParameter, Platform, RequestError, ScriptRequest};
pub use route::RoutePath;
pub use seed::{SeedError, seed_archive};
pub use text::{KernelArgumentError, KernelArguments};
pub use token::{BootTokenClaims, BootTokenError, NO_EXPIRY, Purpose, SealedToken, Sealer, TokenSealError};
