//! HTTP and HTTPS: the listeners and what each serves.
//!
//! | listener | module | who calls |
//! |---|---|---|
//! | boot, plain HTTP on the provisioning network | [`boot`] | firmware, iPXE, agents (images) |
//! | agent, HTTPS on the provisioning network | [`agent`] | agents, first-boot units |
//! | config, HTTPS on the provisioning network, and HTTP where it is turned on | [`config`] | Ignition |
//! | API, HTTPS on loopback unless told otherwise | [`api`] | people and their tools |
//!
//! [`admin_paths`] has the API's paths that are no Kubernetes' objects: for the appliance's owner alone, but for the
//! dry run of what would happen to a host's disks, for all who may read the host, and the
//! unknown machines that boot, for all who may list those that are discovered.
//!
//! [`server`] accepts, bounds and times out connections and knows no route; [`connection_table`] says who gets one
//! ([`client_classes`] hosts and [`operators`] have a share), [`connection_admission`] lets in and has others go,
//! [`connection_use`] knows who is of use; [`client_pace`] says who is too slow; [`file`] answers ranges.

pub mod admin_paths;
pub mod agent;
pub mod api;
pub mod bearer;
pub mod body;
pub mod boot;
pub mod boot_files;
pub mod client_classes;
pub mod client_pace;
pub mod config;
pub mod connection_admission;
pub mod connection_table;
pub mod connection_use;
mod dry_run;
pub mod file;
pub mod frames;
pub mod h2_activity;
pub mod images;
pub mod operators;
pub mod server;
mod unknown_hosts;

pub use unknown_hosts::UNKNOWN_HOSTS_PATH;
