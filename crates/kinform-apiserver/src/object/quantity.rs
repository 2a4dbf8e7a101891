//! Quantities: amounts with a suffix, as `100m`, `1.5Gi` or `2e3`.
//!
//! ```text
//! text -> Quantity { nano units, format } -> the one text for this amount
//! ```
//!
//! The server writes each amount in one form: without a fraction, with the largest suffix that
//! allows this. Amounts are rounded up to a multiple of 10^-9. The largest amount is 2^63-1 units,
//! and larger ones are reduced to it.
//!
//! Upstream: `kubernetes/apimachinery:pkg/api/resource/quantity.go`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const NANO: u128 = 1_000_000_000;
/// BOUND: the largest amount, in billionths.
const MAX: u128 = 9_223_372_036_854_775_807 * NANO;
/// BOUND: the number of digits that are parsed; further digits count as zeros.
const MAX_DIGITS: usize = 28;

/// An amount of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    is_negative: bool,
    nanos: u128,
    format: Format,
}

impl Default for Quantity {
    /// Zero.
    fn default() -> Self {
        Self::units(0)
    }
}

/// The notation of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1500m`, `2k`
    Decimal,
    /// `1Ki`
    Binary,
    /// `2e3`
    Exponent,
}

/// The reason why a text is not a quantity, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAQuantity(pub(crate) &'static str);

const WRONG_FORMAT: NotAQuantity = NotAQuantity(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
);
const WRONG_SUFFIX: NotAQuantity = NotAQuantity("unable to parse quantity's suffix");

impl Quantity {
    /// Returns a number of units.
    pub(crate) fn units(number: u32) -> Self {
        Self {
            is_negative: false,
            nanos: u128::from(number) * NANO,
            format: Format::Decimal,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.is_negative && self.nanos != 0
    }

    /// Returns whether the amount is a whole number of units.
    pub(crate) fn is_whole(&self) -> bool {
        self.nanos.is_multiple_of(NANO)
    }

    /// Returns the sum, in the format of this quantity, or of the other one if this is zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        let (is_negative, nanos) = match (self.is_negative(), other.is_negative()) {
            (ours, others) if ours == others => (ours, self.nanos.saturating_add(other.nanos)),
            (ours, _) if self.nanos >= other.nanos => (ours, self.nanos - other.nanos),
            (ours, _) => (!ours, other.nanos - self.nanos),
        };
        Self {
            is_negative,
            nanos: nanos.min(MAX),
            format,
        }
    }

    /// Returns the difference, in the format of this quantity.
    pub(crate) fn minus(self, other: Self) -> Self {
        let format = self.format;
        let negated = Self {
            is_negative: !other.is_negative,
            ..other
        };
        Self {
            format,
            ..self.plus(negated)
        }
    }

    /// Returns the ratio of two amounts. The result is approximate, and infinite for a ratio to
    /// zero.
    pub(crate) fn ratio(&self, to: &Self) -> f64 {
        // Amounts above 2^53 billionths lose precision, which no ratio shows.
        self.nanos as f64 / to.nanos as f64
    }

    /// Rounds the amount up to a multiple of a thousandth.
    pub(crate) fn rounded_up_to_milli(self) -> Self {
        let milli = NANO / 1000;
        let nanos = if self.is_negative {
            self.nanos / milli * milli
        } else {
            self.nanos.div_ceil(milli) * milli
        };
        Self { nanos, ..self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (false, false) => self.nanos.cmp(&other.nanos),
            (true, true) => other.nanos.cmp(&self.nanos),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        if text.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let (is_negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let letters = rest
            .bytes()
            .take_while(|letter| b"eEinumkKMGTP".contains(letter))
            .count();
        let tail = rest[letters..].trim_start_matches(['+', '-']);
        let signs = rest.len() - letters - tail.len();
        let has_number = letters > 0 || signs == 0 || !whole.is_empty() || !fraction.is_empty();
        if signs > 1 || !has_number || !tail.bytes().all(|letter| letter.is_ascii_digit()) {
            return Err(WRONG_FORMAT);
        }
        let (format, ten, two) = suffix(rest).ok_or(WRONG_SUFFIX)?;
        let mut mantissa = format!("{whole}{fraction}");
        let kept = mantissa.trim_start_matches('0').len().min(mantissa.len());
        mantissa = mantissa[mantissa.len() - kept..].to_owned();
        let dropped = mantissa.len().saturating_sub(MAX_DIGITS);
        mantissa.truncate(MAX_DIGITS);
        let exponent = i64::from(ten) - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 2)
            + i64::try_from(dropped).unwrap_or(i64::MAX / 2)
            + 9;
        let nanos = scaled(mantissa.parse().unwrap_or(0), exponent, two).min(MAX);
        Ok(Self {
            is_negative,
            nanos,
            format,
        })
    }
}

/// Returns `mantissa * 10^ten * 2^two`, rounded up.
fn scaled(mantissa: u128, ten: i64, two: u32) -> u128 {
    if mantissa == 0 {
        return 0;
    }
    let Some(binary) = mantissa.checked_mul(1 << two) else {
        return MAX;
    };
    let power = u32::try_from(ten.unsigned_abs())
        .ok()
        .and_then(|power| 10_u128.checked_pow(power));
    match (ten >= 0, power) {
        (true, power) => power
            .and_then(|power| binary.checked_mul(power))
            .unwrap_or(MAX),
        (false, power) => power.map_or(1, |power| binary.div_ceil(power)),
    }
}

/// Returns the format, the power of ten and the power of two of a suffix.
fn suffix(text: &str) -> Option<(Format, i32, u32)> {
    let decimal = |ten| Some((Format::Decimal, ten, 0));
    let binary = |two| Some((Format::Binary, 0, two));
    match text {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            Some((Format::Exponent, exponent.parse().ok()?, 0))
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.is_negative {
            f.write_str("-")?;
        }
        if self.format == Format::Binary && self.is_whole() && self.nanos >= 1024 * NANO {
            let (mut number, mut at) = (self.nanos / NANO, 0);
            while number.is_multiple_of(1024) && at < 6 {
                (number, at) = (number / 1024, at + 1);
            }
            return write!(
                f,
                "{number}{}",
                ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][at]
            );
        }
        let (mut number, mut at) = (self.nanos, 0);
        while number.is_multiple_of(1000) && at < 9 {
            (number, at) = (number / 1000, at + 1);
        }
        match (self.format, at) {
            (Format::Exponent, 3) => write!(f, "{number}"),
            (Format::Exponent, at) => {
                write!(f, "{number}e{}", 3 * i64::try_from(at).unwrap_or(0) - 9)
            }
            (_, at) => write!(
                f,
                "{number}{}",
                ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][at]
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_form() {
        // apimachinery: TestQuantityParse, TestQuantityString
        for (given, written) in [
            ("0", "0"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1000k", "1M"),
            ("100000", "100k"),
            ("-5", "-5"),
            ("+5", "5"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e4", "120e3"),
            ("1e-3", "1e-3"),
            ("0.0000000001", "1n"),
            ("9223372036854775808", "9223372036854775807"),
            ("999999999999E", "9223372036854775807"),
            ("00.10", "100m"),
            (".5", "500m"),
            ("5.", "5"),
            ("10Ei", "9223372036854775807"),
        ] {
            assert_eq!(
                given.parse::<Quantity>().unwrap().to_string(),
                written,
                "{given}"
            );
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in [
            "", "a", "1.2.3", "10%", "1 ", " 1", "1m5x", "é", "--1", "1e+-3",
        ] {
            assert_eq!(
                text.parse::<Quantity>().unwrap_err(),
                WRONG_FORMAT,
                "{text}"
            );
        }
        for text in ["1kk", "1K", "1mi", "1e", "1n5"] {
            assert_eq!(
                text.parse::<Quantity>().unwrap_err(),
                WRONG_SUFFIX,
                "{text}"
            );
        }
    }

    #[test]
    fn amounts_are_compared_by_value() {
        let of = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(of("1"), of("1000m"));
        assert!(of("1Ki") > of("1k") && of("-1") < of("0") && of("-2") < of("-1"));
        assert_eq!(of("0.0001").rounded_up_to_milli(), of("1m"));
    }
}
