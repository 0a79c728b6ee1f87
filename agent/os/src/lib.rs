//! Every system call of the agent that the standard library does not offer. The only crate of the
//! agent with `unsafe`; it decides nothing and knows neither plans nor the appliance.

#![allow(unsafe_code, reason = "ioctls have no safe form; each use says why it is sound")]

pub mod assembled;
pub mod block;
pub mod clock;
pub mod confined_folder;
pub mod drive;
pub mod inode;
pub mod ipmi;
pub mod mounts;
pub mod network;
pub mod nvme;
pub mod process;
pub mod xattr;
