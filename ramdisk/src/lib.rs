//! Builds what a host boots over the network: Debian's kernel, and an initramfs with the agent as
//! `/init` and the kernel modules that it may need.
//!
//! ```text
//!   kernel .deb ─ deb ─ tar ─► tree ─ closure(sets) ─► modules, index ─┐
//!   firmware .deb ────────────────────────────────────► firmware      ─┤ cpio + zstd ─► initramfs.zst
//!   agent ───────────────────────────────────────────► /init, devices ─┘               vmlinuz
//!                                                                                      manifest.json
//! ```
//!
//! The same inputs give the same bytes, whatever the folder, the user, the umask and the time. The crate needs no
//! privileges, installs no package and runs no foreign program but `apt-get`, which fetches packages.
//! The binary `ramdisk` and the lab call it. It knows nothing of hosts, boot entries or the lab.
//!
//! The initramfs is two archives, one after the other, as the kernel allows: the modules, whose
//! compression takes seconds and which are kept in a cache, and the agent, which changes often.

pub mod apt;
mod assemble;
pub mod cpio;
pub mod deb;
mod digest;
mod expand;
#[cfg(test)]
mod fixture;
mod index;
mod kernel;
pub mod manifest;
pub mod modinfo;
pub mod sets;
pub mod tar;
pub mod tree;

pub use assemble::{BuildError, INITRAMFS_FILE, KERNEL_FILE, MANIFEST_FILE, RamdiskInputs, build};
pub use digest::sha256_hex;
pub use kernel::{KernelError, KernelFlavour, UnpackedKernel, fetch_kernel};
pub use manifest::RamdiskManifest;
pub use sets::ModuleSet;
