//! Boot entries of UEFI firmware. This crate is pure, except [`variables`], which reads and writes efivarfs.
//!
//! ```text
//! firesteel_sysfs::location ─► device_path ─► load_option ─► variables (Boot####, BootOrder)
//!                                                 order ────────┘
//! ```
//!
//! `firesteel_inspect` reads which entry was started, and a step of `firesteel_steps` makes one. The caller says which
//! disk an entry leads to; this crate does not know why.

pub mod device_path;
pub mod load_option;
pub mod order;
pub mod variables;
