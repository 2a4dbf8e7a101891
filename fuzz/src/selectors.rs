//! Label and field selectors: two readings, two evaluations, and the same text again.
//!
//! ```text
//! bytes ─┬─ as text ──▶ parse ──▶ print ──▶ parse: the same, and it selects the same
//!        └─ drawn ──▶ requirements, printed in many ways ──▶ parse: these, and they select what they say
//! ```
//!
//! The evaluators here are written from the documentation of selectors, not from the code.
//! Upstream: `apimachinery:pkg/labels`, whose own fuzz target only parses.

use std::collections::BTreeMap;

use kinform_api::selector::{FieldOperator, FieldSelector, LabelOperator, LabelSelector};

use crate::draw::Draw;
use crate::shape::Shape;

/// Pieces of selectors.
pub const WORDS: &[&[u8]] = &[
    b"in",
    b"notin",
    b" in (",
    b" notin (",
    b"(",
    b")",
    b",",
    b"!",
    b"=",
    b"==",
    b"!=",
    b">",
    b"<",
    b"a.b/c",
    b"app",
    b"1",
    b"-1",
    b"9223372036854775808",
    b"\\",
    b"\\,",
    b"\\=",
    b"metadata.name",
    b" ",
    b"\t",
    b"\0",
    b"()",
    b",,",
    b"\xc3\xa9",
];

const KEYS: [&str; 8] = ["a", "b", "in", "notin", "a.b/c", "x-1", "A_b", "n"];
const VALUES: [&str; 8] = ["x", "y", "", "1", "-0", "17", "in", "9223372036854775807"];

/// Reads the bytes as selectors.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let text = String::from_utf8_lossy(bytes);
    labels_of_text(&text, &mut shape);
    fields_of_text(&text, &mut shape);
    let mut draw = Draw::new(bytes);
    drawn_labels(&mut draw, &mut shape);
    drawn_fields(&mut draw, &mut shape);
    shape
}

fn labels_of_text(text: &str, shape: &mut Shape) {
    let selector = match text.parse::<LabelSelector>() {
        Ok(selector) => selector,
        Err(why) => return shape.text(&why.to_string()),
    };
    for requirement in selector.requirements() {
        shape.saw((requirement.operator(), requirement.values().len()));
    }
    let printed = selector.to_string();
    let again: LabelSelector = printed.parse().expect("what is printed is a selector");
    assert_eq!(again, selector, "{printed}");
    assert_eq!(again.to_string(), printed);
    let wants: Vec<Want> = selector
        .requirements()
        .iter()
        .map(|it| Want {
            key: it.key().to_owned(),
            operator: it.operator(),
            values: it.values().to_vec(),
        })
        .collect();
    for seed in 0..4 {
        // Labels that the selector names, mostly with its own values.
        let labels: BTreeMap<String, String> = wants
            .iter()
            .enumerate()
            .filter(|(at, _)| (seed + at) % 4 != 3)
            .map(|(at, want)| {
                let value = want.values.get((seed + at) % 3).cloned();
                (want.key.clone(), value.unwrap_or_else(|| "5".to_owned()))
            })
            .collect();
        selects_as_written(&selector, &wants, &labels);
    }
}

/// A requirement, as this file understands it.
#[derive(Debug)]
struct Want {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

impl Want {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = labels.get(&self.key);
        let listed = has.is_some_and(|has| self.values.contains(has));
        let number = |text: &str| -> Option<i128> {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            let number: i128 = text.parse().ok().filter(|_| is_number)?;
            (i128::from(i64::MIN)..=i128::from(i64::MAX))
                .contains(&number)
                .then_some(number)
        };
        let compared = has
            .and_then(|has| number(has))
            .zip(self.values.first().and_then(|it| number(it)));
        match self.operator {
            LabelOperator::Exists => has.is_some(),
            LabelOperator::DoesNotExist => has.is_none(),
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => listed,
            LabelOperator::NotIn | LabelOperator::NotEquals => !listed,
            LabelOperator::GreaterThan => compared.is_some_and(|(has, bound)| has > bound),
            LabelOperator::LessThan => compared.is_some_and(|(has, bound)| has < bound),
        }
    }

    /// One of the texts that mean this.
    fn text(&self, draw: &mut Draw<'_>) -> String {
        let space = |draw: &mut Draw<'_>| draw.pick(&["", " ", "\t", "\r\n", "  "]);
        let (key, one) = (&self.key, self.values.first().map_or("", String::as_str));
        let (before, within, after) = (space(draw), space(draw), space(draw));
        let operator = match self.operator {
            LabelOperator::Exists => return format!("{before}{key}{after}"),
            LabelOperator::DoesNotExist => return format!("{before}!{within}{key}{after}"),
            LabelOperator::In | LabelOperator::NotIn => {
                let word = if self.operator == LabelOperator::In {
                    "in"
                } else {
                    "notin"
                };
                let values = self.values.join(&format!("{within},{after}"));
                return format!("{before}{key} {word} ({within}{values}{after}){within}");
            }
            LabelOperator::Equals => "=",
            LabelOperator::DoubleEquals => "==",
            LabelOperator::NotEquals => "!=",
            LabelOperator::GreaterThan => ">",
            LabelOperator::LessThan => "<",
        };
        format!("{before}{key}{within}{operator}{after}{one}")
    }
}

fn drawn_labels(draw: &mut Draw<'_>, shape: &mut Shape) {
    const OPERATORS: [LabelOperator; 9] = [
        LabelOperator::Exists,
        LabelOperator::DoesNotExist,
        LabelOperator::Equals,
        LabelOperator::DoubleEquals,
        LabelOperator::NotEquals,
        LabelOperator::In,
        LabelOperator::NotIn,
        LabelOperator::GreaterThan,
        LabelOperator::LessThan,
    ];
    let length = 1 + draw.below(4);
    let wants: Vec<Want> = (0..length)
        .map(|_| {
            let (key, operator) = (draw.pick(&KEYS).to_owned(), draw.pick(&OPERATORS));
            let values = match operator {
                LabelOperator::Exists | LabelOperator::DoesNotExist => Vec::new(),
                LabelOperator::In | LabelOperator::NotIn => {
                    let length = 1 + draw.below(3);
                    let values = (0..length).map(|_| draw.pick(&VALUES).to_owned());
                    // Two empty values at the end have no text, as upstream reads them.
                    let mut values: Vec<String> = values.collect();
                    values.sort_unstable();
                    values.dedup();
                    values
                }
                LabelOperator::GreaterThan | LabelOperator::LessThan => {
                    vec![
                        draw.pick(&["0", "17", "-5", "9223372036854775807"])
                            .to_owned(),
                    ]
                }
                _ => vec![draw.pick(&VALUES).to_owned()],
            };
            Want {
                key,
                operator,
                values,
            }
        })
        .collect();
    let texts: Vec<String> = wants.iter().map(|want| want.text(draw)).collect();
    let text = texts.join(",");
    // `-0` is no label value, and that is all that can be wrong here.
    let is_valid = !wants
        .iter()
        .any(|want| want.values.iter().any(|it| it.starts_with('-')));
    shape.saw((wants.len(), is_valid));
    let selector = match text.parse::<LabelSelector>() {
        Ok(selector) => selector,
        Err(why) => {
            assert!(!is_valid, "{text:?}: {why}");
            return;
        }
    };
    assert!(is_valid, "{text:?}");
    for requirement in selector.requirements() {
        shape.saw(requirement.operator());
    }
    assert_eq!(selector.requirements().len(), wants.len());
    for _ in 0..4 {
        let length = draw.below(5);
        let labels = (0..length)
            .map(|_| (draw.pick(&KEYS).to_owned(), draw.pick(&VALUES).to_owned()))
            .collect();
        selects_as_written(&selector, &wants, &labels);
    }
}

fn selects_as_written(selector: &LabelSelector, wants: &[Want], labels: &BTreeMap<String, String>) {
    let expected = wants.iter().all(|want| want.holds(labels));
    assert_eq!(
        selector.matches(|key| labels.get(key)),
        expected,
        "{selector} of {labels:?}"
    );
    for (key, value) in labels {
        if let Some(exact) = selector.exact(key) {
            assert!(
                exact == value || !expected,
                "{selector} selects {key}={value}"
            );
        }
    }
}

fn fields_of_text(text: &str, shape: &mut Shape) {
    let selector = match text.parse::<FieldSelector>() {
        Ok(selector) => selector,
        Err(why) => return shape.text(&why.to_string()),
    };
    shape.count(selector.terms().len());
    let printed = selector.to_string();
    let again: FieldSelector = printed.parse().expect("what is printed is a selector");
    let mut terms: Vec<_> = selector.terms().to_vec();
    let mut same: Vec<_> = again.terms().to_vec();
    // The order is that of the texts, and `==` is printed as `=`.
    terms.sort_by_key(ToString::to_string);
    same.sort_by_key(ToString::to_string);
    assert_eq!(terms, same, "{printed}");
}

fn drawn_fields(draw: &mut Draw<'_>, shape: &mut Shape) {
    let length = draw.below(4);
    let terms: Vec<(&str, bool, String)> = (0..length)
        .map(|_| {
            let field = draw.pick(&["metadata.name", "status.phase", "a", "x!y"]);
            let (is_equal, length) = (!draw.one_in(2), draw.below(4));
            let value = (0..length)
                .map(|_| draw.pick(&["a", ",", "=", "\\", "!", "é", " "]))
                .collect();
            (field, is_equal, value)
        })
        .collect();
    let texts: Vec<String> = terms
        .iter()
        .map(|(field, is_equal, value)| {
            let value = value
                .replace('\\', "\\\\")
                .replace(',', "\\,")
                .replace('=', "\\=");
            let operator = match is_equal {
                true => draw.pick(&["=", "=="]),
                false => "!=",
            };
            format!("{field}{operator}{value}")
        })
        .collect();
    let selector: FieldSelector = texts.join(",").parse().expect("it is well written");
    shape.saw(selector.terms().len());
    for _ in 0..3 {
        let values: [&str; 4] = std::array::from_fn(|_| draw.pick(&["", "a", ",", "a="]));
        let field = |name: &str| match name {
            "metadata.name" => Some(values[0]),
            "status.phase" => Some(values[1]),
            "a" => Some(values[2]),
            _ => None,
        };
        let holds = |(name, is_equal, value): &(&str, bool, String)| {
            (field(name).unwrap_or_default() == value) == *is_equal
        };
        assert_eq!(
            selector.matches(field),
            terms.iter().all(holds),
            "{selector}"
        );
    }
    for term in selector
        .terms()
        .iter()
        .filter(|term| term.operator == FieldOperator::Equals)
    {
        assert!(selector.exact(&term.field).is_some());
    }
}
