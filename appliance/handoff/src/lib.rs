//! What an installed OS is handed: its user data, metadata and network, in every form that images read. The agent
//! recognises on the image which of them it wants, or the image's owner says it.
//!
//! ```text
//! spec.userData ─┐
//! spec.metaData ─┼─ Secrets ─► hand_off_inputs ─► HandOffInputs ─► forms::compose ─► wire::Forms ─► agent
//! spec.networkData                 │                   │        ▲      ├─ cloud: metadata, network of cloud-init
//! annotation firesteel.dev/hand-off┤                   │        │      └─ arguments: network of dracut's first boot
//! spec.handOff of the image's stream┘                  │        │
//!                                  what the planner sees   the host's token, the mark of the disk
//! ```
//!
//! The host's annotation goes before what the stream of its image says; where neither says a form, the image decides.
//!
//! | user data | forms that are offered |
//! |---|---|
//! | Ignition config | boot partition; config drive, for images of platform `openstack`; the boot loader's kernel arguments, where the config server has a port without TLS and the stub leads there alone |
//! | cloud-init's | config drive; NoCloud |
//! | none, but metadata or network data | config drive; NoCloud |
//!
//! Everything is judged before a disk is touched. What no form can hold is an error of the host, and what may keep the
//! OS from coming up is an event. Control reads the Secrets and records the events. The config server asks which kernel
//! arguments a config wants. All of this crate is pure: it knows neither the store nor who asks.
//!
//! [`network_data`] is the network of a host's OS and of its ramdisk, as its owner writes it.

mod arguments;
mod cloud;
mod error;
mod form_origin;
mod forms;
mod hand_off_inputs;
pub mod network_data;
mod origins;
mod promised_files;
#[cfg(test)]
mod tests;

use ring::digest::{SHA256, digest};

pub use error::{HandOffProblem, MetaDataProblem, UserDataProblem};
pub use form_origin::FormOrigin;
pub use forms::{AttemptFiles, compose, file, wanted_arguments};
pub use hand_off_inputs::{HandOffInputs, HandOffReading, HandOffUrls, OsUserData, Referenced, read, with_arguments};
pub use origins::ConfigOrigins;
pub use promised_files::of_plan as promised_by;

/// Checks, for fuzzing, that a network that is understood has words for every reader, and that they are kernel
/// arguments.
pub(crate) fn check_network(document: &serde_json::Value) {
    let (resolvers, search) = (crate::network_data::resolvers(document), crate::network_data::search(document));
    assert_eq!(crate::network_data::resolvers(&crate::network_data::with_vlan_macs(document)), resolvers);
    if let Ok(plan) = crate::network_data::plan_of_os(document) {
        let words = arguments::of(&plan, &resolvers, "host");
        assert!(words.iter().all(|word| firesteel_wire::hand_off::is_argument(word)), "{words:?}");
        assert!(cloud::network_config(&plan, &resolvers, &search).is_object());
    }
}

/// Says whether this is the first warning of it, and notes it. `warned` is the last warning of this process; `kept` is
/// that of the journal. Both are digests.
#[must_use]
pub fn is_news(warned: &mut String, kept: &str, given: &HandOffInputs) -> bool {
    if given.warnings.is_empty() {
        return false;
    }
    let telling = format!("{} {}", given.sha256, given.warnings.join("; "));
    let telling = hex::encode(digest(&SHA256, telling.as_bytes()));
    let is_known = *warned == telling || kept == telling;
    *warned = telling;
    !is_known
}
