//! Label selectors: `app in (a,b),tier=web,!canary,weight>5`.
//!
//! ```text
//! text ──label_parse──▶ LabelSelector ──matches(look-up)──▶ yes │ no
//!                             └──print──▶ text (sorted by key)
//! ```
//!
//! Requirements are joined by commas and all must hold. Every requirement is validated when it is
//! made, so a server accepts each one. Cost of matching: one look-up a requirement, one comparison
//! a value.
//! Upstream: `apimachinery:pkg/labels/selector.go`.

use std::fmt::{self, Write};

use crate::error::{Error, Noun};
use crate::field_error::{FieldError, ShownValue, aggregate};
use crate::names::{label_key_errors, label_value_errors};
use crate::quote::quote;

/// A conjunction of requirements over labels; the empty one selects everything.
///
/// Parses and prints as upstream's; printing and parsing again gives the same selector.
///
/// Upstream: `labels.Selector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    // INVARIANT: sorted by key.
    requirements: Vec<Requirement>,
}

/// One requirement of a [`LabelSelector`].
///
/// Upstream: `labels.Requirement`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: LabelOperator,
    // INVARIANT: the number that the operator takes; sorted and distinct.
    values: Vec<String>,
}

/// The comparison of a label with values.
///
/// Upstream: `selection.Operator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// `!key`: the label is missing.
    DoesNotExist,
    /// `key=value`.
    Equals,
    /// `key==value`.
    DoubleEquals,
    /// `key in (a,b)`.
    In,
    /// `key!=value`, also if it is missing.
    NotEquals,
    /// `key notin (a,b)`, also if it is missing.
    NotIn,
    /// `key`: the label exists.
    Exists,
    /// `key>5`: the label is a larger whole number.
    GreaterThan,
    /// `key<5`: the label is a smaller whole number.
    LessThan,
}

impl LabelSelector {
    /// A selector of requirements, in any order.
    #[must_use]
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether an object is selected, given its labels.
    pub fn matches<V: AsRef<str>>(&self, mut look_up: impl FnMut(&str) -> Option<V>) -> bool {
        self.requirements
            .iter()
            .all(|r| r.matches(look_up(&r.key).as_ref().map(V::as_ref)))
    }

    /// The value that the first requirement of a label demands, if there is one.
    ///
    /// Upstream: `RequiresExactMatch`.
    #[must_use]
    pub fn exact(&self, key: &str) -> Option<&str> {
        use LabelOperator::{DoubleEquals, Equals, In};
        let first = self.requirements.iter().find(|r| r.key == key)?;
        match (first.operator, first.values.as_slice()) {
            (Equals | DoubleEquals | In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Requirement {
    /// A requirement.
    ///
    /// # Errors
    /// The key or a value is invalid, or the operator takes another number of values, or whole
    /// numbers; the message is upstream's.
    ///
    /// Upstream: `labels.NewRequirement`.
    pub fn new<S: Into<String>>(
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = S>,
    ) -> Result<Self, Error> {
        let key = key.into();
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        values.sort_unstable();
        values.dedup();
        let mut errors = Vec::new();
        let wrong = label_key_errors(&key);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("key", &key, wrong.join("; ")));
        }
        check_values(operator, &values, &mut errors);
        for (i, value) in values.iter().enumerate() {
            let wrong = label_value_errors(value);
            if !wrong.is_empty() {
                let field = format!("values[{i}][{key}]");
                errors.push(FieldError::invalid(field, value, wrong.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Self {
                key,
                operator,
                values,
            })
        } else {
            Err(Error::new(Noun::LabelSelector, aggregate(&errors)))
        }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The comparison.
    #[must_use]
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// The values that it is compared with: sorted, distinct.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns whether a label fulfils this; `None` is an object that lacks it.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        use LabelOperator as Op;
        let listed = |label: &str| self.values.iter().any(|v| v == label);
        match (self.operator, label) {
            (Op::Exists, label) => label.is_some(),
            (Op::DoesNotExist, label) => label.is_none(),
            (Op::NotIn | Op::NotEquals, None) => true,
            (Op::NotIn | Op::NotEquals, Some(label)) => !listed(label),
            (_, None) => false,
            (Op::In | Op::Equals | Op::DoubleEquals, Some(label)) => listed(label),
            (Op::GreaterThan | Op::LessThan, Some(label)) => {
                let bound = self.values.first().and_then(|v| whole(v));
                match (whole(label), bound) {
                    (Some(label), Some(bound)) if self.operator == Op::LessThan => label < bound,
                    (Some(label), Some(bound)) => label > bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_char(',')?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LabelOperator as Op;
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Op::DoesNotExist => write!(f, "!{key}"),
            Op::Exists => f.write_str(key),
            Op::Equals => write!(f, "{key}={values}"),
            Op::DoubleEquals => write!(f, "{key}=={values}"),
            Op::NotEquals => write!(f, "{key}!={values}"),
            Op::In => write!(f, "{key} in ({values})"),
            Op::NotIn => write!(f, "{key} notin ({values})"),
            Op::GreaterThan => write!(f, "{key}>{values}"),
            Op::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Checks the number of values for the operator, and that it compares whole numbers.
fn check_values(operator: LabelOperator, values: &[String], errors: &mut Vec<FieldError>) {
    use LabelOperator as Op;
    let (fits, detail) = match operator {
        Op::In | Op::NotIn => (
            !values.is_empty(),
            "for 'in', 'notin' operators, values set can't be empty",
        ),
        Op::Equals | Op::DoubleEquals | Op::NotEquals => (
            values.len() == 1,
            "exact-match compatibility requires one single value",
        ),
        Op::Exists | Op::DoesNotExist => (
            values.is_empty(),
            "values set must be empty for exists and does not exist",
        ),
        Op::GreaterThan | Op::LessThan => (
            values.len() == 1,
            "for 'Gt', 'Lt' operators, exactly one value is required",
        ),
    };
    if !fits {
        let shown: Vec<String> = values.iter().map(|v| quote(v)).collect();
        let shown = ShownValue::raw(format!("[{}]", shown.join(",")));
        errors.push(FieldError::invalid("values", shown, detail));
    }
    if matches!(operator, Op::GreaterThan | Op::LessThan) {
        for (i, value) in values
            .iter()
            .enumerate()
            .filter(|(_, v)| whole(v).is_none())
        {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{i}]"), value, detail));
        }
    }
}

/// Go's `ParseInt(.., 10, 64)`, which accepts the same texts as Rust's `parse`.
fn whole(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[track_caller]
    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let parsed: LabelSelector = selector.parse().unwrap();
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        assert_eq!(
            parsed.matches(|k| labels.get(k)),
            expected,
            "{selector} on {labels:?}"
        );
    }

    #[test]
    fn selectors_match_as_upstream() {
        // apimachinery: TestSelectorMatches, TestSetSelectorParser
        let (xy, xyzw) = ([("x", "y")], [("x", "y"), ("z", "w")]);
        check("", &xy, true);
        check("x=y", &xy, true);
        check("x=y,z=w", &xyzw, true);
        check("x!=y,z!=w", &[("x", "z"), ("z", "a")], true);
        check("notin=in", &[("notin", "in")], true);
        check("x", &[("x", "z")], true);
        check("!x", &[("y", "z")], true);
        check("x>1", &[("x", "2")], true);
        check("x<1", &[("x", "0")], true);
        check("x=z", &[], false);
        check("x=y", &[("x", "z")], false);
        check("x=y,z=w", &[("x", "w"), ("z", "w")], false);
        check("x!=y,z!=w", &xyzw, false);
        check("x", &[("y", "z")], false);
        check("!x", &[("x", "z")], false);
        check("x>1", &[("x", "0")], false);
        check("x>1", &[("x", "many")], false);
        check("x<1", &[], false);
        check("x notin (a)", &[], true);
        check("x!=a", &[], true);
        check("x in (,a)", &[("x", "")], true);
    }

    #[test]
    fn requirements_are_checked_when_made() {
        // apimachinery: TestRequirementConstructor
        use LabelOperator as Op;
        let none: [&str; 0] = [];
        let text = |r: Result<Requirement, Error>| r.unwrap_err().to_string();
        assert_eq!(
            text(Requirement::new("x", Op::In, none)),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            text(Requirement::new("x", Op::Equals, ["a", "b"])),
            "values: Invalid value: [\"a\",\"b\"]: exact-match compatibility requires one single value"
        );
        assert_eq!(
            text(Requirement::new("x", Op::GreaterThan, ["a"])),
            "values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer"
        );
        assert!(Requirement::new("x", Op::Exists, none).is_ok());
        assert!(Requirement::new("x", Op::Exists, ["a"]).is_err());
        assert!(Requirement::new("-", Op::Exists, none).is_err());
        assert!(
            Requirement::new("x", Op::NotIn, ["a", "a"])
                .unwrap()
                .values()
                .len()
                == 1
        );
    }

    #[test]
    fn an_exact_value_is_found() {
        // apimachinery: TestRequiresExactMatch
        for (selector, expected) in [
            ("key=value", Some("value")),
            ("key in (value)", Some("value")),
            ("key in (value,value2)", None),
            ("key!=value", None),
            ("key", None),
            ("key2=value", None),
        ] {
            let parsed: LabelSelector = selector.parse().unwrap();
            assert_eq!(parsed.exact("key"), expected, "{selector}");
        }
    }

    fn requirement() -> impl Strategy<Value = Requirement> {
        use LabelOperator as Op;
        const OPERATORS: [Op; 9] = [
            Op::DoesNotExist,
            Op::Equals,
            Op::DoubleEquals,
            Op::In,
            Op::NotEquals,
            Op::NotIn,
            Op::Exists,
            Op::GreaterThan,
            Op::LessThan,
        ];
        let values = prop::collection::btree_set("(in|notin|[a-c]|)", 1..4);
        let key = "(in|notin|[a-c]|a\\.b/c)";
        (
            key,
            prop::sample::select(OPERATORS.to_vec()),
            values,
            0i64..9,
        )
            .prop_map(|(key, operator, values, number)| {
                let values: Vec<String> = match operator {
                    Op::DoesNotExist | Op::Exists => Vec::new(),
                    Op::In | Op::NotIn => values.into_iter().collect(),
                    Op::GreaterThan | Op::LessThan => vec![number.to_string()],
                    _ => values.into_iter().take(1).collect(),
                };
                Requirement::new(key, operator, values).unwrap()
            })
    }

    proptest! {
        #[test]
        fn printing_and_parsing_again_is_the_same(rs in prop::collection::vec(requirement(), 0..5)) {
            let selector = LabelSelector::new(rs);
            prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
        }

        #[test]
        fn matching_agrees_with_the_plain_meaning(
            r in requirement(), label in prop::option::of("(in|[a-c]|[0-9]|)")
        ) {
            use LabelOperator as Op;
            let label = label.as_deref();
            let listed = label.is_some_and(|l| r.values().iter().any(|v| v == l));
            let order = label.and_then(|l| l.parse::<i64>().ok())
                .zip(r.values().first().and_then(|v| v.parse().ok())).map(|(l, v)| l.cmp(&v));
            let expected = match r.operator() {
                Op::Exists => label.is_some(),
                Op::DoesNotExist => label.is_none(),
                Op::In | Op::Equals | Op::DoubleEquals => listed,
                Op::NotIn | Op::NotEquals => !listed,
                Op::GreaterThan => order == Some(std::cmp::Ordering::Greater),
                Op::LessThan => order == Some(std::cmp::Ordering::Less),
            };
            prop_assert_eq!(r.matches(label), expected);
        }
    }
}
