//! Boot entries of UEFI firmware. Pure, except [`variables`], which reads and writes efivarfs.
//!
//! ```text
//! firesteel_sysfs::location ─► device_path ─► load_option ─► variables (Boot####, BootOrder)
//!                                                 order ────────┘
//! ```
//!
//! An inspection reads which entry was started, a plan's step makes one. Which disk it leads to is not decided here.

pub mod device_path;
pub mod load_option;
pub mod order;
pub mod variables;
