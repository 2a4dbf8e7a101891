//! Quantities of resources as thousandths, so that they add up exactly.
//!
//! ```text
//! "250m" → 250        "2" → 2000        "1Gi" → 1073741824000        "1e3" → 1000000
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/api/resource`. The server has validated what is read here.

/// The quantity in thousandths, rounded up; 0 if it cannot be read.
pub(crate) fn milli(text: &str) -> i128 {
    let digits = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let Some((factor, divisor)) = scale(suffix) else {
        return 0;
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // BOUND: nine digits after the point, as upstream: smaller parts cannot be stored.
    let part = &part[..part.len().min(9)];
    let Ok(value) = format!("{whole}{part}").parse::<i128>() else {
        return 0;
    };
    let decimals = 10_i128.pow(u32::try_from(part.len()).unwrap_or(0));
    let below = decimals * divisor;
    let above = value.saturating_mul(factor).saturating_mul(1000);
    above.div_euclid(below) + i128::from(above.rem_euclid(below) != 0)
}

/// The factor and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let exponent = suffix.strip_prefix(['e', 'E']);
    if let Some(power) = exponent.filter(|power| !power.is_empty()) {
        let power: i32 = power.parse().ok()?;
        let ten = 10_i128.checked_pow(power.unsigned_abs())?;
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
        check("1e3", 1_000_000);
        check("100e-2", 1000);
        check("1n", 1);
        check("x", 0);
        check("1x", 0);
        check("", 0);
        check("99999999999999999999999999999999999999", i128::MAX);
        check("1e99", 0);
    }
}
