//! Numbers of bytes as Kubernetes writes quantities.
//!
//! ```text
//! "64Mi" → 67108864        "1.5G" → 1500000000        "500000" → 500000
//! ```
//!
//! Upstream counterpart: `apimachinery:pkg/api/resource` (`ParseQuantity`), of which these are the suffixes of
//! memory; exponents are not read.

/// Parses a number of bytes, at least one.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let refused = || format!("{text:?} is not a number of bytes as 64Mi, 1.5Gi or 500M");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(digits.unwrap_or(text.len()));
    let factor: u128 = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1000 * 1000,
        "G" => 1000 * 1000 * 1000,
        "T" => 1000 * 1000 * 1000 * 1000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(refused()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // BOUND: nine digits after the point, as upstream.
    if part.len() > 9 {
        return Err(refused());
    }
    let value: u128 = format!("{whole}{part}").parse().map_err(|_| refused())?;
    let of_one = 10_u128.pow(part.len() as u32);
    let bytes = value.checked_mul(factor).ok_or_else(refused)? / of_one;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_has_the_suffixes_of_memory() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        };
        check("64Mi", Some(64 << 20));
        check("1.5Gi", Some(3 << 29));
        check("500000", Some(500_000));
        check("2k", Some(2_000));
        check("1.25M", Some(1_250_000));
        check("1G", Some(1_000_000_000));
        check(".5Ti", Some(1 << 39));
        for text in [
            "",
            "0",
            "Mi",
            "-1",
            "64mi",
            "1e3",
            "1.2.3Mi",
            "64 Mi",
            "100m",
            "0.1",
            "99999999999999999999Ti",
            "1.0000000001Gi",
        ] {
            check(text, None);
        }
    }
}
