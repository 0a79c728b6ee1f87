//! Rule 8: the hot loop. Where another program writes a set's reference back each time, one of the two must stop.

use serde::{Deserialize, Serialize};

use super::SetKey;

/// Times that the same value is written.
pub const WRITES_MAX: u32 = 3;

/// How often one value was written. Another value begins at zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WriteCount {
    value: String,
    count: u32,
}

impl WriteCount {
    /// Why this value is not written again, if so.
    pub(super) fn refuses(&self, value: &str, what: &str, key: &SetKey) -> Option<String> {
        (self.value == value && self.count >= WRITES_MAX).then(|| {
            format!(
                "its {what} was set {WRITES_MAX} times and each time something else set it back: take {}/{} out of \
                 managedBootImages (or give it the label firesteel.dev/managed-boot-images=false), find and stop the \
                 other writer, and let it be managed again",
                key.namespace, key.name
            )
        })
    }

    /// It is about to be written.
    pub(super) fn count(&mut self, value: &str) {
        if self.value != value {
            *self = Self { value: value.to_owned(), count: 0 };
        }
        self.count += 1;
    }

    /// The newest write did not come about.
    pub(super) fn take_back(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}
