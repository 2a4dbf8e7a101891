//! Durations as Go writes them.
//!
//! ```text
//! "1m30s", "-1.5s", "0" ──seconds──▶ 90, -1.5, 0 ──duration──▶ Duration (if it is not negative)
//! ```
//!
//! Timeouts in queries, fault rules, and values of custom resources share this parser.
//!
//! Upstream: Go's `time.ParseDuration`.

use std::time::Duration;

/// BOUND: Go counts nanoseconds in 63 bits.
const MOST_SECONDS: f64 = 9_223_372_036.0;

/// Returns the seconds of a duration, or `None` if the text is not a duration.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[end..];
    }
    (total < MOST_SECONDS).then_some(sign * total)
}

/// Returns a duration to wait for, or `None` if the text is negative or not a duration.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [
            ("1m30s", Some(90_000)),
            ("2.5s", Some(2500)),
            ("0", Some(0)),
            ("10ms", Some(10)),
            ("abc", None),
            ("5", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("1s-", None),
            ("h", None),
            ("1x", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("9999999h", None),
        ] {
            assert_eq!(duration(text).map(|d| d.as_millis()), millis, "{text}");
        }
        assert_eq!(seconds("-1.5s"), Some(-1.5));
        assert_eq!(seconds("1h30m"), Some(5400.0));
    }
}
