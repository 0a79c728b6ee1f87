//! Boot image streams: each [`BootImageStream`](firesteel_resources::BootImageStream) is followed, and what it
//! names is brought into the store, verified and stamped (S1-2.2, S1-11; S1.5, S1.6, S1.25).
//!
//! ```text
//! URL, file, ConfigMap ──► offer ──► releases ──► status ──► wanted ──► Depot::fetch ──► verified ──► stamped
//!      (Depot, core)      (what is   (new, super-   ▲                        │
//!                          wanted)    seded, taken   └── stream_status (conditions, progress)
//!                                     back)                                  │
//! hosts, groups, sets, streams ──► references ──► Depot::make_room ◄── length is known, or a quota
//! ```
//!
//! `offer`, `releases`, `references`, `download_speed` and `stream_status` decide, and are pure. [`StreamController`]
//! follows the objects and runs one `follower` for each stream, so that none holds up the others; a follower asks the
//! source and fetches at the same time. Network and disk are the [`Depot`]'s, which the process brings. The appliance
//! starts it, also without a control loop: an appliance that serves its API alone keeps images, too, for bundles. This
//! crate knows no state of a host.
//!
//! [`StreamIndex`] is what other controllers see of all this: the images that streams have, as far as their status
//! says.

mod catalogue;
mod controller;
mod depot;
mod download_speed;
mod follower;
mod make_room;
mod offer;
pub mod references;
mod releases;
mod stream_record;
mod stream_status;

pub use catalogue::StreamIndex;
pub use controller::{Forget, StreamController, StreamControllerConfig};
pub use depot::{
    Depot, DepotArtifact, DepotError, DepotFailure, Doing, FreedRoom, ImageName, InUse, MetadataSource, Referrers, Tell,
};
