//! What the kernel shows of this host in sysfs and procfs: readers of single files, and of what both an inspection and
//! an erasure must know. Every reader takes the roots as a value, so that tests can give it recorded trees of other
//! machines. All crates of the agent that look at hardware call it.
//!
//! ```text
//! attribute, names, … ─┬─► location ─┬─► by_path ─┐
//!                      │             ├─► attach   │ which commands a disk takes
//!                      │       vpd ──┴────────────┴─► disks: whole disks with every stable identity
//!                      └─► nics: interfaces by their hardware addresses
//! ```
//!
//! Texts come from firmware and drives, which anyone may have written. An attribute is cut, and control characters are
//! removed, before it leaves this crate. It opens nothing for writing and knows no plan.

pub mod attach;
pub mod by_path;
pub mod disks;
pub mod location;
pub mod nics;
pub mod vpd;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use firesteel_wire::text::field;

/// Largest attribute or table that is read; `/proc/cpuinfo` of 1024 CPUs is about 1.5 MB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where the kernel's filesystems are mounted.
#[derive(Clone, Debug)]
pub struct Roots {
    pub sys: PathBuf,
    pub proc: PathBuf,
    pub dev: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into() }
    }
}

/// The bytes of a kernel file, or `None` where it is missing or the driver refuses.
#[must_use]
pub fn bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The whole text of a kernel file, without the limit of a field.
#[must_use]
pub fn text(path: &Path) -> String {
    bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// A one-line attribute; empty where there is none.
#[must_use]
pub fn attribute(path: &Path) -> String {
    field(&text(path))
}

/// A one-line attribute that is a decimal number.
#[must_use]
pub fn number(path: &Path) -> Option<u64> {
    attribute(path).parse().ok()
}

/// Whether an attribute is there and says 1.
#[must_use]
pub fn flag(path: &Path) -> bool {
    attribute(path) == "1"
}

/// Names in a folder, sorted; empty where it cannot be read.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The last component of where a link points.
#[must_use]
pub fn link_name(link: &Path) -> String {
    fs::read_link(link)
        .ok()
        .and_then(|target| target.file_name().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_default()
}
