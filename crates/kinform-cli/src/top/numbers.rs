//! Numbers as people read them.
//!
//! ```text
//! count, bytes, milliseconds, Rate, Latency ─▶ text
//! ```
//!
//! Upstream counterpart: the functions of the inspector's page.

use kinform_operator::inspect::{Latency, Rate};

const NONE: &str = "–";

/// A count with thousands apart.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in decimal units.
pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64)
}

fn scaled(mut count: f64) -> String {
    let mut unit = "B";
    for larger in ["KB", "MB", "GB", "TB"] {
        if count < 1000.0 {
            break;
        }
        (count, unit) = (count / 1000.0, larger);
    }
    match unit != "B" && count < 100.0 {
        true => format!("{count:.1} {unit}"),
        false => format!("{count:.0} {unit}"),
    }
}

/// A duration in milliseconds.
pub(crate) fn ms(time: Option<f64>) -> String {
    let Some(time) = time else {
        return NONE.to_owned();
    };
    let seconds = time / 1000.0;
    let minutes = (seconds / 60.0).floor();
    match time {
        ..1.0 => format!("{time:.2} ms"),
        ..10.0 => format!("{time:.1} ms"),
        ..1000.0 => format!("{time:.0} ms"),
        ..120_000.0 => format!("{seconds:.1} s"),
        _ if minutes < 120.0 => format!("{minutes:.0} min"),
        _ => format!(
            "{:.0} h {:.0} min",
            (minutes / 60.0).floor(),
            minutes % 60.0
        ),
    }
}

/// Events a second.
pub(super) fn rate(rate: &Rate) -> String {
    match rate.per_second {
        None => NONE.to_owned(),
        Some(slow) if slow < 10.0 => format!("{slow:.1}/s"),
        Some(fast) => format!("{}/s", number(fast.round() as u64)),
    }
}

/// Bytes a second.
pub(super) fn byte_rate(rate: &Rate) -> String {
    match rate.per_second {
        None => NONE.to_owned(),
        Some(count) => format!("{}/s", scaled(count)),
    }
}

/// Median and 99th percentile.
pub(super) fn latency(latency: &Latency) -> String {
    match latency.count {
        0 => NONE.to_owned(),
        _ => format!("p50 {} p99 {}", ms(latency.p50_ms), ms(latency.p99_ms)),
    }
}

/// The time of day of a time as in RFC 3339, to the second.
pub(super) fn clock(time: &str) -> String {
    let of_day = time.split_once('T').map_or(NONE, |(_, of_day)| of_day);
    of_day.chars().take(8).collect()
}

/// A share of 1 as a bar of ten letters.
pub(super) fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * 10.0).round() as usize;
    "█".repeat(full) + &"·".repeat(10 - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        for (text, expected) in [
            (number(0), "0"),
            (number(999), "999"),
            (number(1_234_567), "1,234,567"),
            (bytes(999), "999 B"),
            (bytes(1_500), "1.5 KB"),
            (bytes(123_456_789), "123 MB"),
            (ms(None), "–"),
            (ms(Some(0.25)), "0.25 ms"),
            (ms(Some(3.24)), "3.2 ms"),
            (ms(Some(250.0)), "250 ms"),
            (ms(Some(90_000.0)), "90.0 s"),
            (ms(Some(3_600_000.0)), "60 min"),
            (ms(Some(9_000_000.0)), "2 h 30 min"),
            (clock("2026-01-02T03:04:05.678Z"), "03:04:05"),
            (clock("?"), "–"),
            (bar(0.26), "███·······"),
            (bar(7.0), "██████████"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
