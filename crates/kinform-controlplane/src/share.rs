//! Numbers of pods that are stated as such, or as a percentage.
//!
//! ```text
//! 2 | "25%", of 10, rounding → 2 | 2 or 3
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/util/intstr` (`GetScaledValueFromIntOrPercent`).

use serde_json::Value;

/// The direction in which a percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// A number, or a percentage of `of`; 0 if it is absent.
pub(crate) fn share(value: Option<&Value>, of: i64, rounding: Rounding) -> i64 {
    match value {
        Some(Value::String(text)) => {
            let percent = text.trim_end_matches('%').parse::<i64>().unwrap_or(0);
            let product = percent.saturating_mul(of);
            match rounding {
                Rounding::Up => product.saturating_add(99) / 100,
                Rounding::Down => product / 100,
            }
        }
        Some(number) => number.as_i64().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_and_numbers_kept() {
        let check = |value: Value, expected: (i64, i64)| {
            let of = |rounding| share(Some(&value), 10, rounding);
            assert_eq!((of(Rounding::Down), of(Rounding::Up)), expected, "{value}");
        };
        check(json!(3), (3, 3));
        check(json!("25%"), (2, 3));
        check(json!("100%"), (10, 10));
        check(json!("x"), (0, 0));
        assert_eq!(share(None, 10, Rounding::Up), 0);
    }
}
