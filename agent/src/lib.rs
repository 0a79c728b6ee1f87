//! The agent is alone in the ramdisk of a host that the appliance works on.
//!
//! ```text
//! kernel -> init (PID 1) -> worker -> network -> hello -> reports <-> plans -> steps -> leave
//!            supervises      the same binary, killed and replaced without harm
//! ```
//!
//! This crate is PID 1 and its worker. It works with the crates below it, which the lab's programs use without PID 1.
//! Arrows point down:
//!
//! ```text
//! agent ─┬─► steps ──────┬─► clean ─┬─► host ─┐
//!        ├─► linux-host ─┴─► inspect│        ├─► sysfs, os ─► drives
//!        │                     └─► efi ──────┘
//!        └─► netlink, modules, lldp
//! ```
//!
//! Three kinds of code are apart from each other:
//! - decide, pure: [`decider`], the paths of [`network`], `firesteel_lldp`, `firesteel_drives`, most of
//!   `firesteel_clean`, and `disk`, `forms` and `filesystem` of [`firesteel_steps`];
//! - perform: [`firesteel_steps`] on the seam [`firesteel_host::Host`], [`firesteel_linux_host`] behind it,
//!   [`network`], [`lldp_socket`], [`firesteel_modules`], [`firesteel_os`];
//! - wire up: [`init`], [`worker`], [`session`], with `plan_run` for one plan.
//!
//! It runs no shell, calls no tool of the host and executes no program of an image. It knows no kind of the API. It
//! talks to the one appliance whose key the seed pins, and changes only the disk that a plan names.

pub mod appliance;
pub mod console;
pub mod decider;
pub mod init;
pub mod lldp_socket;
pub mod log;
pub mod network;
mod plan_run;
mod program;
pub mod session;
pub mod worker;
pub mod worker_handover;
