//! The rules that several states share, one a file: each looks at the step's working copy and changes it.

pub(crate) mod adopt_status;
pub(crate) mod agent;
pub(crate) mod bmc_access;
pub(crate) mod boot_hint;
pub(crate) mod booting;
pub(crate) mod claimants;
pub(crate) mod cleaning;
pub(crate) mod consumer_data;
pub(crate) mod deletion;
pub(crate) mod detached;
pub(crate) mod erasure_end;
pub(crate) mod erasure_grade;
pub(crate) mod freeze;
pub(crate) mod guards;
pub mod identity;
pub(crate) mod inspection;
pub(crate) mod overrides;
pub(crate) mod owner_hardware;
pub(crate) mod path_binding;
pub(crate) mod power;
pub(crate) mod power_cut;
pub(crate) mod power_off;
pub(crate) mod preconditions;
pub(crate) mod reboot;
pub(crate) mod retry;
#[cfg(test)]
mod sample;
pub(crate) mod tombstone;
pub(crate) mod vacancy;
pub mod wrong_boot_mac;
