//! The provisioning network as a live object: what a Provisioning object asks for, which services that starts and
//! stops, and what is said of it.
//!
//! ```text
//! Provisioning ─┐
//! settings ─────┼─► plan_services ─► ServicePlan ─┬─► service_steps(running, wanted) ─► start, adjust, stop
//! interfaces ───┘        │                        │                                        │
//!                        └─► ServiceFault ──┐     └─► AddressKeeper ─► ARP probes, put      ▼
//!                                           ├─► SyncReason ─► sync_conditions ◄── ServiceHealth
//! ```
//!
//! All but [`controller`] and its writer of status decides and does not perform. The appliance owns the sockets.
//!
//! | module | decides |
//! |---|---|
//! | [`services`] | which services an object asks for (upstream's table), and on which interface |
//! | [`service_steps`] | what an edit starts, adjusts and stops |
//! | [`service_health`] | whether a service is up, late or keeps crashing, and when it is tried again |
//! | [`conditions`] | the five conditions of each reason |
//! | [`address_keeper`] | when the address is probed, put on the interface and put back (RFC 5227) |
//! | [`arp`] | the packets of that |
//! | [`os_image`] | when the OS image is fetched, tried again, and what it replaced goes |
//! | `version_change` | how another version of the program is said |
//! | [`sync`] | one turn of it all: intent, steps, report |
//! | [`controller`] | nothing: it follows the object, does the steps and writes what is said |

pub mod address_keeper;
pub mod arp;
pub mod bmc_only;
pub mod conditions;
pub mod controller;
pub mod os_image;
pub mod service_health;
pub mod service_steps;
pub mod services;
mod status_writer;
pub mod sync;
mod version_change;

pub use address_keeper::{AddressKeeper, AddressState, KeeperOutput};
pub use arp::{ARP_BYTES, ArpError, ArpOperation, ArpPacket};
pub use bmc_only::BmcOnlyCause;
pub use conditions::{SyncReason, sync_conditions};
pub use controller::{NetworkController, NetworkControllerConfig, NetworkServices, NetworkSurroundings};
pub use os_image::{OsImageKeeper, OsImageOutcome, OsImageReport, OsImageState, OsImageStep};
pub use service_health::{ServiceFailure, ServiceHealth, ServiceState};
pub use service_steps::{ServiceStep, service_steps};
pub use services::{
    DhcpPlan, InterfaceFacts, KeptAddress, NetworkSettings, SensorPlan, ServiceFault, ServiceName, ServicePlan,
    ServicePlanInput, TftpPlan, plan_services,
};
pub use sync::{FinalizerStep, NetworkSync, SyncInput, SyncReport};
