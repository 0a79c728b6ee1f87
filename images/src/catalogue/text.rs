//! Texts of foreign documents (S1-2.2) before people's eyes and in statuses and labels.

/// Names of architectures, platforms, formats, parts, releases and streams; the longest published one has 24.
const NAME_CHARS_MAX: usize = 128;
const SHOWN_CHARS_MAX: usize = 60;

/// Whether this can stand in a status, a label and a log as it is.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_CHARS_MAX
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
}

/// The start of a foreign text, with nothing in it that moves a cursor or begins a line.
pub(crate) fn shown(text: &str) -> String {
    let mut start: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        start.push('…');
    }
    start
}
