//! Quantities of resources as thousandths, so that they add up exactly.
//!
//! ```text
//! "250m" → 250        "2" → 2000        "1Gi" → 1073741824000        "1e3" → 1000000
//! 250 → "250m"        2000 → "2"        1073741824000, binary → "1Gi"
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/api/resource`. The server has validated what is read here.

use std::num::IntErrorKind;

// BOUND: the greatest quantity, as upstream: 2^63-1. The sum of all that a cluster has fits as well.
const MOST: i128 = i64::MAX as i128 * 1000;

/// The quantity in thousandths, rounded up; 0 if it cannot be parsed.
pub(crate) fn milli(text: &str) -> i128 {
    parsed(text).unwrap_or(0)
}

/// The quantity in thousandths, rounded up; `None` if it cannot be parsed.
pub(crate) fn parsed(text: &str) -> Option<i128> {
    let digits = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (factor, divisor) = scale(suffix)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // BOUND: nine digits after the point, as upstream: smaller parts cannot be stored.
    let part = &part[..part.len().min(9)];
    let value = match format!("{whole}{part}").parse::<i128>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => i128::MAX,
        Err(error) if *error.kind() == IntErrorKind::NegOverflow => i128::MIN,
        value => value.ok()?,
    };
    let decimals = 10_i128.pow(u32::try_from(part.len()).unwrap_or(0));
    let below = decimals.saturating_mul(divisor);
    let above = value.saturating_mul(factor).saturating_mul(1000);
    let rounded = above.div_euclid(below) + i128::from(above.rem_euclid(below) != 0);
    Some(rounded.clamp(-MOST, MOST))
}

/// The suffixes that a quantity is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suffixes {
    /// `m`, `k`, `M` ..
    Decimal,
    /// `Ki`, `Mi` .., for whole numbers from 1024.
    Binary,
}

/// A quantity of thousandths as text, with the greatest suffix that keeps it whole.
pub(crate) fn printed(milli: i64, suffixes: Suffixes) -> String {
    let is_binary =
        suffixes == Suffixes::Binary && milli % 1000 == 0 && milli.unsigned_abs() >= 1024 * 1000;
    let (mut number, step, suffixes): (i64, i64, &[&str]) = match is_binary {
        true => (
            milli / 1000,
            1024,
            &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        ),
        false => (milli, 1000, &["m", "", "k", "M", "G", "T", "P"]),
    };
    let mut at = 0;
    while number % step == 0 && at + 1 < suffixes.len() && number != 0 {
        (number, at) = (number / step, at + 1);
    }
    match number {
        0 => "0".to_owned(),
        number => format!("{number}{}", suffixes[at]),
    }
}

/// The factor and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    // `E` and `Ei` are no exponents.
    let exponent = suffix.strip_prefix(['e', 'E']);
    if let Some(power) = exponent.filter(|power| !matches!(*power, "" | "i")) {
        let power: i32 = power.parse().ok()?;
        let ten = 10_i128.saturating_pow(power.unsigned_abs());
        return Some(if power < 0 { (1, ten) } else { (ten, 1) });
    }
    let thousand = |power: u32| 1000_i128.pow(power);
    let binary = |power: u32| 1024_i128.pow(power);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, thousand(3)),
        "u" => (1, thousand(2)),
        "m" => (1, thousand(1)),
        "k" => (thousand(1), 1),
        "M" => (thousand(2), 1),
        "G" => (thousand(3), 1),
        "T" => (thousand(4), 1),
        "P" => (thousand(5), 1),
        "E" => (thousand(6), 1),
        "Ki" => (binary(1), 1),
        "Mi" => (binary(2), 1),
        "Gi" => (binary(3), 1),
        "Ti" => (binary(4), 1),
        "Pi" => (binary(5), 1),
        "Ei" => (binary(6), 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_thousandths() {
        let check = |text: &str, expected: i128| assert_eq!(milli(text), expected, "{text}");
        check("0", 0);
        check("250m", 250);
        check("2", 2000);
        check("0.5", 500);
        check("1.5Gi", 1024 * 1024 * 1024 * 1500);
        check("1k", 1_000_000);
        check("1E", 1_000_000_000_000_000_000_000);
        check("1Ei", 1_152_921_504_606_846_976_000);
        check("1e3", 1_000_000);
        check("100e-2", 1000);
        check("1n", 1);
        check("x", 0);
        check("1x", 0);
        check("", 0);
    }

    // apimachinery: TestQuantityParse
    #[test]
    fn quantities_beyond_what_can_be_stored_are_the_greatest_or_the_smallest() {
        let check = |text: &str, expected: i128| assert_eq!(milli(text), expected, "{text}");
        check("9223372036854775807", MOST);
        check("9223372036854775808", MOST);
        check("-9223372036854775809", -MOST);
        check("8Ei", MOST);
        check("99999999999999999999999999999999999999Ei", MOST);
        check("9999999999999999999999999999999999999999", MOST);
        check("-9999999999999999999999999999999999999999", -MOST);
        check("1e38", MOST);
        check("1e99", MOST);
        check("0e99", 0);
        check("1.0e-38", 1);
        check("1.000000000e-99", 1);
        check("0.0e-38", 0);
        check("1e-2147483648", 1);
        check("1e2147483648", 0);
    }

    // apimachinery: TestQuantityString
    #[test]
    fn thousandths_are_printed_as_quantities() {
        let check = |milli: i64, decimal: &str, binary: &str| {
            assert_eq!(printed(milli, Suffixes::Decimal), decimal);
            assert_eq!(printed(milli, Suffixes::Binary), binary);
        };
        check(0, "0", "0");
        check(250, "250m", "250m");
        check(1500, "1500m", "1500m");
        check(2000, "2", "2");
        check(100_000, "100", "100");
        check(2_000_000, "2k", "2000");
        check(1_024_000, "1024", "1Ki");
        check(104_857_600_000, "104857600", "100Mi");
        check(1_025_001, "1025001m", "1025001m");
    }
}
