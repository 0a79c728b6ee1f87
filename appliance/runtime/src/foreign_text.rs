//! Texts from hosts, before they are stored or shown.

use firesteel_wire::{limits, text};

/// Bounds a text from a host, and takes out characters that are not seen.
#[must_use]
pub fn field(foreign: &str) -> String {
    shown(foreign, limits::FIELD_BYTES_MAX)
}

/// Does the same to a log line or an error: it is longer than a field, and bounded all the same.
#[must_use]
pub fn line(foreign: &str) -> String {
    shown(foreign, limits::LOG_LINE_BYTES_MAX)
}

fn shown(foreign: &str, bytes_max: usize) -> String {
    let end = foreign.floor_char_boundary(bytes_max);
    foreign[..end].chars().map(|c| if text::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}
