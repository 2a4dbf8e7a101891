//! Query parameters, converted as upstream converts them.
//!
//! ```text
//! ?watch&limit=5 ──▶ Query ──flag, number, text──▶ options
//! ```
//!
//! The first value of a name counts, and unknown names are ignored. Upstream's conversions are
//! lenient for
//! booleans and strict for numbers.
//!
//! Upstream: `apimachinery:pkg/conversion/queryparams`, `apimachinery:pkg/runtime/conversion.go`.

use std::time::Duration;

use kinform_api::Status;

use crate::object::duration::duration;

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        // BOUND: the head of a request is limited by the connection.
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// All values of a name, in order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of = self.0.iter().filter(move |(known, _)| known == name);
        of.map(|(_, value)| value.as_str())
    }

    /// Returns the text of a parameter, or `None` if it is absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the text of a parameter, empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns the value of a flag: true if it is present, unless it is `false` or `0`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)
            .map(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// Returns a whole number, or 0 if the parameter is absent.
    pub(crate) fn number(&self, name: &str) -> Result<i64, Status> {
        let Some(text) = self.get(name) else {
            return Ok(0);
        };
        text.parse().map_err(|error: std::num::ParseIntError| {
            let why = match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                    "value out of range"
                }
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    /// Returns the deadline that the client requests for an ordinary request.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Status> {
        match self.get("timeout") {
            None | Some("") => Ok(None),
            Some(text) => duration(text).map(Some).ok_or_else(|| {
                Status::bad_request(format!(
                    "invalid timeout specified in the request URL - time: invalid duration {text:?}"
                ))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_lenient_and_numbers_strict() {
        let query = Query::parse(Some("a&b=FALSE&c=0&d=no&limit=x"));
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|name| query.flag(name)),
            [Some(true), Some(false), Some(false), Some(true), None]
        );
        let status = query.number("limit").unwrap_err();
        assert_eq!(
            status.message,
            "strconv.ParseInt: parsing \"x\": invalid syntax"
        );
    }
}
