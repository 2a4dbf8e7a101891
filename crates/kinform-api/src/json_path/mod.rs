//! JSONPath as Kubernetes writes it: the path to values in an object.
//!
//! ```text
//! .spec.ports[?(@.name=="http")].port ──▶ [Member, Member, Where, Member];  object ──▶ values
//! ```
//!
//! Supported are members (`.a`, `['a']`, `.a\.b`), items from the front and the back, slices,
//! unions of either, `[*]` and `.*`, `..` for every depth, and filters that compare two values. A
//! missing member is not an error; an item out of bounds is.
//!
//! BOUND: steps of a path; for a server, values that a path may find on its way, since `..` and
//! `[*]` multiply.
//!
//! Upstream: `client-go:util/jsonpath`.

mod parse;

use std::str::FromStr;

use serde_json::Value;

use self::parse::{Reach, steps};

const MAX_FOUND: usize = 10_000;

/// A path to values in an object.
///
/// ```
/// use kinform_api::JsonPath;
/// use serde_json::json;
///
/// let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
/// let path: JsonPath = "{.spec.containers[*].name}".parse()?;
/// assert_eq!(path.find(&pod)?, [&json!("a"), &json!("b")]);
/// # Ok::<(), kinform_api::JsonPathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

/// A text that is no path, or a path that leads out of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        by: usize,
    },
    /// Each a path of its own.
    Union(Vec<Vec<Self>>),
    Every,
    /// The value itself and everything in it.
    Deep,
    Where(Filter),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    left: Operand,
    /// `None` tests whether the left side exists.
    test: Option<(Test, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    /// A path from the item that is tested.
    Path(Vec<Step>),
    Literal(Value),
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    /// Parses a path. Braces around it and a `$` or `@` before it may be left out.
    fn from_str(path: &str) -> Result<Self, JsonPathError> {
        let path = path.trim();
        let inner = path
            .strip_prefix('{')
            .map_or(path, |inner| inner.trim_end_matches('}'));
        let inner = inner.strip_prefix(['$', '@']).unwrap_or(inner);
        let steps = steps(inner, Reach::Anywhere);
        let wrong = || JsonPathError(format!("{path:?} is not a JSONPath that is supported"));
        steps.map(Self).ok_or_else(wrong)
    }
}

impl JsonPath {
    /// Returns the values that the path leads to, in the order of the object.
    ///
    /// # Errors
    /// An item is out of the bounds of its list, or a value that is no list has an item.
    pub fn find<'a>(&self, object: &'a Value) -> Result<Vec<&'a Value>, JsonPathError> {
        let mut found = vec![object];
        for step in &self.0 {
            found.iter().try_for_each(|value| step.check(value))?;
            found = step.follow_all(&found, usize::MAX);
        }
        Ok(found)
    }

    /// Returns the first value that the path leads to. Only the first 10,000 values on the way are
    /// looked at, so that a stranger's path does not cost more.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(&self.0, object).into_iter().next()
    }
}

fn find<'a>(steps: &[Step], object: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in steps {
        found = step.follow_all(&found, MAX_FOUND);
    }
    found
}

/// The values found so far, and the number of values at which `..` stops.
type Found<'f, 'a> = (&'f mut Vec<&'a Value>, usize);

impl Step {
    /// Refuses an item or a filter of a value that does not have it.
    fn check(&self, value: &Value) -> Result<(), JsonPathError> {
        let length = match (self, value) {
            (Self::Union(paths), value) => {
                let mut first = paths.iter().filter_map(|path| path.first());
                return first.try_for_each(|it| it.check(value));
            }
            (Self::Item(_) | Self::Slice { .. } | Self::Where(_), Value::Array(items)) => {
                items.len()
            }
            (Self::Item(_) | Self::Slice { .. } | Self::Where(_), Value::Null) => return Ok(()),
            (Self::Item(_) | Self::Slice { .. } | Self::Where(_), _) => {
                return Err(JsonPathError(
                    "a value that is no list has no items".to_owned(),
                ));
            }
            _ => return Ok(()),
        };
        match self {
            Self::Item(at) if place(*at, length).is_none_or(|at| at >= length) => {
                let text = format!("array index out of bounds: index {at}, length {length}");
                Err(JsonPathError(text))
            }
            _ => Ok(()),
        }
    }

    /// The values behind the step, of which about `most` are looked for.
    fn follow_all<'a>(&self, values: &[&'a Value], most: usize) -> Vec<&'a Value> {
        let mut found = Vec::new();
        if let Self::Union(paths) = self {
            // The values of one path come before those of the next.
            for path in paths {
                let follow = |from: Vec<_>, step: &Self| step.follow_all(&from, most);
                found.extend(path.iter().fold(values.to_vec(), follow));
                found.truncate(most);
                if found.len() >= most {
                    break;
                }
            }
            return found;
        }
        for value in values {
            self.follow(value, (&mut found, most));
            if found.len() >= most {
                break;
            }
        }
        found
    }

    fn follow<'a>(&self, value: &'a Value, (found, most): Found<'_, 'a>) {
        match self {
            Self::Member(name) => found.extend(value.get(name)),
            Self::Item(at) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                found.extend(place(*at, items.len()).and_then(|at| items.get(at)));
            }
            Self::Slice { from, to, by } => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let bound = |at: Option<i64>, or| at.map_or(or, |at| clamp(at, items.len()));
                let (from, to) = (bound(*from, 0), bound(*to, items.len()));
                found.extend(items.get(from..to).unwrap_or_default().iter().step_by(*by));
            }
            Self::Union(_) => found.extend(self.follow_all(&[value], most)),
            Self::Every => match value {
                Value::Array(items) => found.extend(items),
                Value::Object(members) => found.extend(members.values()),
                _ => {}
            },
            Self::Deep => deep(value, (found, most)),
            Self::Where(filter) => {
                let items = value.as_array().into_iter().flatten();
                found.extend(items.filter(|item| filter.holds(item)));
            }
        }
    }
}

/// Collects the value and all values in it, outer values first.
fn deep<'a>(value: &'a Value, (found, most): Found<'_, 'a>) {
    if found.len() >= most {
        return;
    }
    found.push(value);
    // BOUND: as deep as a stored object, which a parser has limited.
    match value {
        Value::Array(items) => items.iter().for_each(|item| deep(item, (found, most))),
        Value::Object(members) => members.values().for_each(|it| deep(it, (found, most))),
        _ => {}
    }
}

/// The place of an item, counted from the back if it is negative.
fn place(at: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if at < 0 { at + length } else { at }).ok()
}

fn clamp(at: i64, length: usize) -> usize {
    place(at, length).unwrap_or(0).min(length)
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let Some(left) = self.left.value(item) else {
            return false;
        };
        let Some((test, right)) = &self.test else {
            return true;
        };
        let Some(right) = right.value(item) else {
            return false;
        };
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) => left
                .as_f64()
                .zip(right.as_f64())
                .and_then(|(left, right)| left.partial_cmp(&right)),
        };
        match (test, order) {
            (Test::Equal, None) => left == right,
            (Test::NotEqual, None) => left != right,
            (_, None) => false,
            (Test::Equal, Some(order)) => order.is_eq(),
            (Test::NotEqual, Some(order)) => order.is_ne(),
            (Test::Less, Some(order)) => order.is_lt(),
            (Test::LessOrEqual, Some(order)) => order.is_le(),
            (Test::Greater, Some(order)) => order.is_gt(),
            (Test::GreaterOrEqual, Some(order)) => order.is_ge(),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Path(steps) => find(steps, item).into_iter().next(),
            Self::Literal(value) => Some(value),
        }
    }
}

#[cfg(test)]
mod tests;
