//! `resourceVersion`: the position of a list or a watch in a server's history.
//!
//! ```text
//! "" (unset) │ "0" (any) │ decimal ──▶ compare, where both are positive decimals
//! ```
//!
//! Opaque unless compared, and never assumed to fit a number: a server's version returns to it
//! byte for byte. Order is upstream's rule of 1.35: decimal, no leading zero, any length,
//! by length and then by text. Upstream: `apimachinery:pkg/util/resourceversion`.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Noun};

/// A version as a server wrote it, or as a client requests it.
///
/// Upstream: the string `ObjectMeta.ResourceVersion`.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(String);

impl ResourceVersion {
    /// No version: the most recent state, read consistently.
    pub const UNSET: Self = Self(String::new());

    /// A version with this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// `"0"`: any state that the server has at hand.
    #[must_use]
    pub fn zero() -> Self {
        Self::new("0")
    }

    /// The text, as the server wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether there is no version.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this is `"0"`, any version.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == "0"
    }

    /// The number, if it is a positive decimal without a leading zero that fits.
    #[must_use]
    pub fn parsed(&self) -> Option<u64> {
        check(&self.0).ok()?.parse().ok()
    }

    /// Compares two versions of one resource; the newer one is the greater.
    ///
    /// # Errors
    /// One of them is not a positive decimal without a leading zero.
    ///
    /// Upstream: `resourceversion.CompareResourceVersion`.
    pub fn compare(&self, other: &Self) -> Result<Ordering, Error> {
        let (left, right) = (check(&self.0)?, check(&other.0)?);
        Ok(left.len().cmp(&right.len()).then_with(|| left.cmp(right)))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<u64> for ResourceVersion {
    fn from(revision: u64) -> Self {
        Self(revision.to_string())
    }
}

impl From<ResourceVersion> for String {
    fn from(version: ResourceVersion) -> Self {
        version.0
    }
}

impl PartialEq<str> for ResourceVersion {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for ResourceVersion {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

fn check(text: &str) -> Result<&str, Error> {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'1'..=b'9') if bytes.iter().all(u8::is_ascii_digit) => Ok(text),
        _ => Err(Error::new(
            Noun::ResourceVersion,
            format!("resource version is not well formed: {text}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compare(a: &str, b: &str) -> Option<Ordering> {
        ResourceVersion::from(a).compare(&b.into()).ok()
    }

    #[test]
    fn versions_compare_by_length_then_text() {
        // apimachinery: TestCompareResourceVersion
        use Ordering::{Equal, Greater, Less};
        assert_eq!(compare("1", "1"), Some(Equal));
        assert_eq!(compare("9", "10"), Some(Less));
        assert_eq!(
            compare("99999999999999999999999999", "18446744073709551615"),
            Some(Greater)
        );
        for bad in ["", "0", "01", "-1", "+1", "1a", " 1", "1.0", "٣"] {
            assert_eq!(compare(bad, "1"), None, "{bad:?}");
            assert_eq!(compare("1", bad), None, "{bad:?}");
            assert_eq!(ResourceVersion::from(bad).parsed(), None, "{bad:?}");
        }
    }

    #[test]
    fn a_version_that_does_not_fit_a_number_is_kept_and_compared() {
        let big = ResourceVersion::from("18446744073709551616");
        assert_eq!(big.parsed(), None);
        assert_eq!(
            compare(big.as_str(), "18446744073709551615"),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn unset_and_zero_are_questions() {
        assert!(ResourceVersion::UNSET.is_unset() && !ResourceVersion::UNSET.is_zero());
        assert!(ResourceVersion::zero().is_zero() && !ResourceVersion::zero().is_unset());
    }

    proptest! {
        #[test]
        fn order_is_that_of_numbers(a in 1u64.., b in 1u64..) {
            prop_assert_eq!(compare(&a.to_string(), &b.to_string()), Some(a.cmp(&b)));
            prop_assert_eq!(ResourceVersion::from(a).parsed(), Some(a));
        }
    }
}
