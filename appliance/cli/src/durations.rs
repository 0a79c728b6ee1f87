//! Spans of time as flags have them: `30s`, `10m`, `1h30m`. Pure.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;

/// Reads a span of time, which may be negative.
///
/// # Errors
/// When the text is no span of time.
pub(super) fn any(text: &str) -> anyhow::Result<SignedDuration> {
    // kubectl takes a plain zero.
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    text.parse()
        .ok()
        .with_context(|| format!("{text:?} is no span of time: write it with its units, as in 30s, 10m or 1h30m"))
}

/// Reads a span of time from zero on.
///
/// # Errors
/// When the text is no span of time, or a negative one.
pub(super) fn positive(text: &str) -> anyhow::Result<SignedDuration> {
    let span = any(text)?;
    ensure!(!span.is_negative(), "a span of time from now on cannot be negative");
    Ok(span)
}

/// Reads the time that a command waits at most, which is longer than nothing.
///
/// # Errors
/// When the text is no span of time, or not above zero.
pub(super) fn limit(text: &str) -> anyhow::Result<Duration> {
    let span = any(text)?;
    ensure!(span.is_positive(), "the time must be longer than nothing, as 90s, 30m or 1h30m are");
    Ok(span.unsigned_abs())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_kubectl_writes_them() {
        for (text, seconds) in
            [("30s", 30), ("10m", 600), ("1h30m", 5400), ("2h", 7200), ("0", 0), ("0s", 0), ("-1s", -1)]
        {
            assert_eq!(any(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "10", "soon", "1x"] {
            assert!(any(text).unwrap_err().to_string().contains("with its units"), "{text}");
        }
        assert!(positive("-1s").is_err());
        assert_eq!(limit("1m30s").unwrap(), Duration::from_secs(90));
        for text in ["0", "0s", "-5s"] {
            assert!(limit(text).unwrap_err().to_string().contains("longer than nothing"), "{text}");
        }
    }
}
