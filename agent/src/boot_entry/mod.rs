//! UEFI boot entries: device paths, load options and the boot order. Pure, except `variables`,
//! which reads and writes efivarfs.

pub mod device_path;
pub mod load_option;
pub mod order;
pub mod variables;
