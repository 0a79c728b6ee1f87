//! What names a disk, and how its size is written.

use serde::{Deserialize, Serialize};

/// What names one disk across boots: a WWN, or serial number with model and size. Every field that
/// is not empty must match before anything destructive runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskIdentity {
    /// The WWN, with its extension where there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    pub size_bytes: u64,
    /// The path, where the owner named a disk without identity by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by_path: String,
}

impl std::fmt::Display for DiskIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = [("model", &self.model), ("serial", &self.serial), ("wwn", &self.wwn), ("path", &self.by_path)];
        for (name, value) in named {
            if !value.is_empty() {
                write!(f, "{name} {value}, ")?;
            }
        }
        f.write_str(&size_text(self.size_bytes))
    }
}

impl DiskIdentity {
    /// Whether the place alone tells the disk from others.
    #[must_use]
    pub fn is_by_path(&self) -> bool {
        !self.by_path.is_empty()
    }

    /// Says which of its names tells it from others.
    #[must_use]
    pub fn named_by(&self) -> &'static str {
        match (self.is_by_path(), self.wwn.is_empty()) {
            (true, _) => "path and size, for it has no WWN or serial number of its own",
            (false, false) => "WWN",
            (false, true) => "serial number, model and size",
        }
    }
}

/// `10.7 GB`, in powers of ten as disks are sold.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000_000) / 100_000_000;
    format!("{}.{} GB", tenths / 10, tenths % 10)
}
