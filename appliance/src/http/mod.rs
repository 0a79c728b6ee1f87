//! HTTP and HTTPS: the listeners and what each serves.
//!
//! | listener | module | who calls |
//! |---|---|---|
//! | boot, plain HTTP on the provisioning network | [`boot`] | firmware, iPXE, agents (images) |
//! | agent, HTTPS on the provisioning network | [`agent`] | agents, first-boot units |
//! | config, HTTPS on the provisioning network, and HTTP where it is turned on | [`config`] | Ignition |
//! | API, HTTPS, on loopback by default | [`api`] | people and their tools |
//!
//! [`admin_paths`] has the API's paths that are not Kubernetes objects: most are for the appliance's owner alone. The
//! dry run for a host's disks is for all who may read the host, and the list of unknown machines that boot is for all
//! who may list discovered ones.
//!
//! [`server`] accepts, bounds and times out connections and knows no route; [`connection_table`] decides who gets one
//! ([`client_classes`]: hosts, and [`operators`] have a share), [`connection_admission`] admits clients and makes
//! others yield, [`connection_use`] knows which connection is useful; [`client_pace`] detects slow clients; [`file`]
//! answers ranges, from [`read_buffers`].

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
mod read_buffers;
pub mod server;
mod unknown_hosts;

pub use unknown_hosts::UNKNOWN_HOSTS_PATH;
