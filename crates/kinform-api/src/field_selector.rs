//! Field selectors: `metadata.name=x,status.phase!=Running`.
//!
//! ```text
//! text ──parse──▶ FieldSelector ──matches(look-up)──▶ yes │ no
//!                       └──print──▶ text (escaped, sorted)
//! ```
//!
//! Terms are joined by commas and all must hold. A backslash escapes `\`, `,` and `=` in values;
//! names are taken as they are. A field that an object lacks is the empty string. The server
//! decides which fields exist. Cost of matching: one look-up a term.
//! Upstream: `apimachinery:pkg/fields/selector.go`.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::error::{Error, Noun};

/// A conjunction of equalities and inequalities over named fields; the empty one selects all.
///
/// Parses and prints as upstream's; printing and parsing again gives the same selector.
///
/// Upstream: `fields.Selector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One term of a [`FieldSelector`].
///
/// Upstream: `fields.Requirement`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// The field.
    pub field: String,
    /// The comparison: equal or unequal.
    pub operator: FieldOperator,
    /// The value, unescaped.
    pub value: String,
}

/// The comparison of a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

impl FieldSelector {
    /// The terms, in the order of their text.
    #[must_use]
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether an object is selected, given its fields. A missing field is the empty
    /// string.
    pub fn matches<V: AsRef<str>>(&self, mut look_up: impl FnMut(&str) -> Option<V>) -> bool {
        self.terms.iter().all(|term| {
            let found = look_up(&term.field);
            let equal = found.as_ref().map_or("", V::as_ref) == term.value;
            equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// The value that a term requires of a field, if there is such a term.
    ///
    /// Upstream: `RequiresExactMatch`.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        let equals = |t: &&FieldTerm| t.operator == FieldOperator::Equals && t.field == field;
        self.terms.iter().find(equals).map(|t| t.value.as_str())
    }
}

impl FromStr for FieldSelector {
    type Err = Error;

    /// Parses a selector.
    ///
    /// # Errors
    /// A term without an operator, or a wrong escape; the message is upstream's.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = split_terms(text);
        parts.retain(|part| !part.is_empty());
        parts.sort_unstable();
        let terms = parts.into_iter().map(|part| parse_term(text, part));
        let mut terms = terms.collect::<Result<Vec<_>, _>>()?;
        // Upstream drops a term that names nothing.
        terms.retain(|term| !term.field.is_empty() || !term.value.is_empty());
        Ok(Self { terms })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_char(',')?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let cuts = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cuts
    })
    .collect()
}

/// Splits at the first operator; names have no escapes.
fn parse_term(whole: &str, term: &str) -> Result<FieldTerm, Error> {
    let Some((left, right)) = term.split_once('=') else {
        let message = format!("invalid selector: '{whole}'; can't understand '{term}'");
        return Err(selector_error(message));
    };
    let (field, operator, value) = match left.strip_suffix('!') {
        Some(field) => (field, FieldOperator::NotEquals, right),
        None => (
            left,
            FieldOperator::Equals,
            right.strip_prefix('=').unwrap_or(right),
        ),
    };
    Ok(FieldTerm {
        field: field.to_owned(),
        operator,
        value: unescape(value)?,
    })
}

fn unescape(value: &str) -> Result<String, Error> {
    let wrong = |sequence: &str| {
        selector_error(format!(
            "invalid field selector: invalid escape sequence: {sequence}"
        ))
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(wrong(&format!("\\{c}"))),
                None => return Err(wrong("\\")),
            },
            // Upstream prints the code point's number.
            ',' | '=' => {
                return Err(selector_error(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn selector_error(message: String) -> Error {
    Error::new(Noun::FieldSelector, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, printed: Result<&str, &str>) {
        let parsed = text.parse::<FieldSelector>();
        let shown = parsed
            .as_ref()
            .map(ToString::to_string)
            .map_err(ToString::to_string);
        assert_eq!(
            shown,
            printed.map(String::from).map_err(String::from),
            "{text:?}"
        );
    }

    #[test]
    fn selectors_parse_as_upstream() {
        // apimachinery: TestSelectorParse, TestSplitTerms, TestEscapeValue
        check("", Ok(""));
        check(",,", Ok(""));
        check("x=a,y=b,z=c", Ok("x=a,y=b,z=c"));
        check("z==c,x!=a", Ok("x!=a,z=c"));
        check(
            "x=a||y=b",
            Err("invalid field selector: unescaped character in value: 61"),
        );
        check(
            "x==a==b",
            Err("invalid field selector: unescaped character in value: 61"),
        );
        check(
            "x=a!=b",
            Err("invalid field selector: unescaped character in value: 61"),
        );
        check("x!=", Ok("x!="));
        check("x=", Ok("x="));
        check("=x", Ok("=x"));
        check("=,!=,a=b", Ok("a=b"));
        check("a!b=c", Ok("a!b=c"));
        check(r"x=a\,b\=c\\", Ok(r"x=a\,b\=c\\"));
        check(
            r"x=a\b",
            Err(r"invalid field selector: invalid escape sequence: \b"),
        );
        check(
            r"x=a\",
            Err(r"invalid field selector: invalid escape sequence: \"),
        );
        check(
            "abc",
            Err("invalid selector: 'abc'; can't understand 'abc'"),
        );
        check(
            "a=b,abc",
            Err("invalid selector: 'a=b,abc'; can't understand 'abc'"),
        );
        check(
            "a!b",
            Err("invalid selector: 'a!b'; can't understand 'a!b'"),
        );
    }

    #[test]
    fn a_missing_field_is_the_empty_string() {
        // apimachinery: TestSelectorMatches
        let has = |text: &str| {
            text.parse::<FieldSelector>()
                .unwrap()
                .matches(|f| (f == "x").then_some("1"))
        };
        for yes in ["", "x=1", "x==1", "x!=2", "y=", "y!=1", "x=1,y="] {
            assert!(has(yes), "{yes}");
        }
        for no in ["x=", "x=2", "x!=1", "y!=", "x=1,y=1"] {
            assert!(!has(no), "{no}");
        }
    }

    #[test]
    fn an_exact_value_is_found() {
        let selector: FieldSelector = "metadata.name=a,x!=b".parse().unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("x"), None);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_again_is_the_same(
            terms in prop::collection::vec(("[a-z.]{1,5}", any::<bool>(), "[a-c,=!\\\\é ]{0,5}"), 0..5)
        ) {
            let mut selector = FieldSelector {
                terms: terms.into_iter().map(|(field, equal, value)| FieldTerm {
                    field, value,
                    operator: if equal { FieldOperator::Equals } else { FieldOperator::NotEquals },
                }).collect(),
            };
            selector.terms.sort_by_key(ToString::to_string);
            prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
        }

        #[test]
        fn any_text_parses_or_fails(text in "[ab=!,\\\\é]{0,12}") {
            if let Ok(selector) = text.parse::<FieldSelector>() {
                let again: FieldSelector = selector.to_string().parse().unwrap();
                let look = |f: &str| Some(f.to_owned());
                prop_assert_eq!(selector.matches(look), again.matches(look));
            }
        }
    }
}
