//! Durations as Go writes them ("1h30m0s"), and whole seconds.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// The longest in Go, whose durations are nanoseconds in 64 bits: 292 years.
const NANOSECONDS_MAX: f64 = 9.223_372_036_854_776e18;

/// Whole seconds of a duration; more than fit into 32 bits count as the most that do.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (digits, 0.0_f64);
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..unit].parse().ok()?;
        rest = &rest[unit..];
        let end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    if digits.is_empty() || total > NANOSECONDS_MAX {
        return None;
    }
    // Go counts in whole nanoseconds: 4.1m are 246 s, and not a little less.
    #[allow(clippy::cast_possible_truncation, reason = "whole seconds are meant, and the value is bounded")]
    let seconds = (total.round() / 1e9).min(f64::from(i32::MAX)).trunc() as i64;
    Some(if negative { -seconds } else { seconds })
}

pub(super) fn text(seconds: i64) -> String {
    let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.saturating_abs());
    let (hours, minutes, rest) = (seconds / HOUR, seconds % HOUR / MINUTE, seconds % MINUTE);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("10s", Some(10)),
            ("10m", Some(600)),
            ("1h30m0s", Some(5400)),
            ("1.5h", Some(5400)),
            ("1500ms", Some(1)),
            ("-2s", Some(-2)),
            ("2562047h", Some(i64::from(i32::MAX))),
            ("2562048h", None),
            ("0.001h", Some(3)),
            ("4.1m", Some(246)),
            ("", None),
            ("10", None),
            ("s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("-", None),
        ] {
            assert_eq!(parse(text), seconds, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in -1_000_000..i64::from(i32::MAX)) {
            prop_assert_eq!(parse(&text(seconds)), Some(seconds));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.a-zµ]{0,12}") {
            parse(&text);
        }
    }
}
