//! Numbers as Go reads and writes them.
//!
//! ```text
//! 1e3, 2.0 ──whole_numbers──▶ 1000, 2          1.5, 1e30 stay
//! ```
//!
//! Upstream decodes a number without a fraction as a whole one, wherever its notation came from.
//!
//! Upstream: `apimachinery:pkg/util/json`, `sigs.k8s.io/yaml`.

use serde_json::Value;

/// A number without a fraction that fits 64 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked before"
)]
pub(crate) fn whole_number(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number)).then_some(number as i64)
}

/// Writes numbers without a fraction as whole ones.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole_number) {
                *value = Value::from(whole);
            }
        }
        // BOUND: the recursion is as deep as the value, which the parser limits.
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_without_a_fraction_are_whole() {
        let mut value = json!({"a": [1e3, 1.5, -2.0, 1e15], "b": 1e30, "c": 7});
        whole_numbers(&mut value);
        let text = r#"{"a":[1000,1.5,-2,1000000000000000],"b":1e+30,"c":7}"#;
        assert_eq!(value.to_string(), text);
    }
}
