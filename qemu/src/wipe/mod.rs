//! Disks wiped by the agent's own steps in a virtual machine, and read from outside.
//!
//! ```text
//! disks (raw files, filled or planted here) -> guest (kernel, drivers, the program `wipe-guest`) -> lines on the
//! console: what each step said -> judged here, and the files read byte by byte
//! ```
//!
//! The machine has no network and no appliance: what is shown is what the agent does to drives that it talks to
//! through a real kernel. It must not know how an erasure is done.

mod bench;
mod disks;
mod foreign_disks;
mod full;
mod guest;

pub use bench::bench;
pub use foreign_disks::foreign_disks;
pub use full::full;
