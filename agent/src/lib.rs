//! The agent: alone in the ramdisk of a host that the appliance works on.
//!
//! ```text
//! kernel -> init (PID 1) -> worker -> network -> hello -> reports <-> plans -> steps -> leave
//!            supervises      the same binary, killed and replaced without harm
//! ```
//!
//! Three kinds of code, apart from each other:
//! - decide, pure: [`decide`], [`disk`], [`boot_entry`], [`filesystem`], [`hand_off`], [`lldp`], [`neighbours`], the
//!   parsers of [`inspect`], most of [`clean`];
//! - perform, on the [`host::Host`] seam: [`steps`], [`machine`], [`network`], [`listen`], [`modules`], [`os`];
//! - wire up: [`init`], [`worker`], [`session`], with `plan_run` for one plan.
//!
//! It runs no shell, calls no tool of the host and executes no program of an image. It talks to the
//! one appliance whose key the seed pins, and changes only the disk that a plan names.

pub mod appliance;
pub mod console;
pub mod decide;
pub mod handover;
pub mod init;
pub mod listen;
pub mod log;
pub mod network;
mod plan_run;
mod program;
pub mod session;
pub mod worker;
