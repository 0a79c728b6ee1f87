//! The rules that several states share, one a file: each looks at the step's working copy and changes it.

pub(crate) mod access;
pub(crate) mod agent;
pub(crate) mod booting;
pub(crate) mod checks;
pub(crate) mod claimants;
pub(crate) mod cleaning;
pub(crate) mod cut;
pub(crate) mod detached;
pub(crate) mod guards;
pub mod identity;
pub(crate) mod inspection;
pub(crate) mod moved;
pub(crate) mod off;
pub(crate) mod overrides;
pub(crate) mod paths;
pub(crate) mod power;
pub(crate) mod reboot;
pub(crate) mod restored;
pub(crate) mod supplied;
pub(crate) mod tenancy;
pub(crate) mod tombstone;
pub(crate) mod vacancy;
pub(crate) mod verdict;
pub(crate) mod wiped;
