//! Every system call of the agent that the standard library does not offer. It is the only crate of the agent with
//! `unsafe`. It decides nothing and knows neither plans nor the appliance. All crates of the agent that touch the
//! machine call it.

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
