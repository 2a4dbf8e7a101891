//! The time that an API server grants a call, from its query.
//!
//! ```text
//! ?timeout=10s → 10 s − margin → the reply is a 504 before the server gives up
//! ```
//!
//! Upstream counterpart: none; a Go handler learns of the end by its connection.

use std::time::Duration;

/// The time of a call without a timeout: the default of a webhook configuration.
const DEFAULT: Duration = Duration::from_secs(10);
/// BOUND: the longest time that a webhook configuration can ask for.
const LONGEST: Duration = Duration::from_secs(30);
/// BOUND: the time for a reply on its way; a tenth of a shorter timeout.
const MARGIN: Duration = Duration::from_millis(500);

/// Returns the time for an answer, from the query of the request.
pub(super) fn time_for(query: Option<&str>) -> Duration {
    let pairs = query.unwrap_or_default().split('&');
    let given = pairs
        .filter_map(|pair| pair.strip_prefix("timeout="))
        .next();
    let timeout = given.and_then(parse).unwrap_or(DEFAULT).min(LONGEST);
    timeout - MARGIN.min(timeout / 10)
}

/// Parses a duration as Go prints it, such as `1m30s` or `500ms`; `None` if it is malformed or zero.
fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let one = match &rest[..unit] {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        total = total.checked_add(one.checked_mul(number)?)?;
        rest = &rest[unit..];
    }
    Some(total).filter(|total| !total.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_query_less_a_margin() {
        for (query, millis) in [
            (None, 9_500),
            (Some(""), 9_500),
            (Some("timeout=10s"), 9_500),
            (Some("timeout=1s"), 900),
            (Some("timeout=500ms"), 450),
            (Some("timeout=0m2s"), 1_800),
            (Some("timeout=1m0s"), 29_500),
            (Some("a=b&timeout=5s"), 4_500),
            // Nonsense has the default.
            (Some("timeout=0s"), 9_500),
            (Some("timeout="), 9_500),
            (Some("timeout=-1s"), 9_500),
            (Some("timeout=5"), 9_500),
            (Some("timeout=5x"), 9_500),
            (Some("timeout=99999999999s"), 9_500),
            (Some("timeout=4294967295h4294967295h"), 29_500),
            (Some("timeout=ß"), 9_500),
        ] {
            assert_eq!(time_for(query), Duration::from_millis(millis), "{query:?}");
        }
    }
}
