//! One step of a path: a field, an item of a keyed list, an item of a set, an index of a list.
//!
//! ```text
//! "f:name" "k:{..}" "v:.." "i:0" <──▶ Element ──▶ ".name" "[a=1]" "[=1]" "[0]" in messages
//! ```
//!
//! Elements have upstream's total order: fields, then keys, then values, then indexes. Sets are
//! written in this order.
//!
//! Upstream: `structured-merge-diff:fieldpath/{element,serialize-pe}.go`, `value/value.go`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// One step of a path.
#[derive(Clone, Debug)]
pub(super) enum Element {
    /// A member of a struct or map.
    Field(Box<str>),
    /// The item of a list whose key fields have these values, in the order of their names.
    Key(Vec<(Box<str>, Value)>),
    /// The item of a set.
    Value(Value),
    /// The item at an index. This server assigns no indexes, but stored sets may contain them.
    Index(i64),
}

impl Element {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Returns an item's key: the names and values of the fields that identify it.
    pub(super) fn key<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let mut fields: Vec<(Box<str>, Value)> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), plain(value)))
            .collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields)
    }

    pub(super) fn value(value: &Value) -> Self {
        Self::Value(plain(value.clone()))
    }

    /// Parses a member name of a written set. Returns `None` for an unknown kind of step.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err(format!("{text:?} is no step of a path"));
        };
        let json = |rest: &str| {
            serde_json::from_str::<Value>(rest).map_err(|error| format!("{text:?}: {error}"))
        };
        Ok(Some(match kind {
            "f:" => Self::field(rest),
            "v:" => Self::Value(plain(json(rest)?)),
            "i:" => Self::Index(rest.parse().map_err(|error| format!("{text:?}: {error}"))?),
            "k:" => match json(rest)? {
                Value::Object(fields) => {
                    Self::key(fields.iter().map(|(name, value)| (&**name, value.clone())))
                }
                _ => return Err(format!("{text:?} holds no object")),
            },
            kind if kind.ends_with(':') => return Ok(None),
            _ => return Err(format!("{text:?} is no step of a path")),
        }))
    }

    /// Returns the member name of this step in a written set.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(place) => format!("i:{place}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(&**name)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The format of messages about conflicts.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(place) => write!(f, "[{place}]"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((a, x), (b, y)) in a.iter().zip(b) {
                    let ordering = a.cmp(b).then_with(|| order(x, y));
                    if ordering != Ordering::Equal {
                        return ordering;
                    }
                }
                a.len().cmp(&b.len())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// The order of values: numbers, texts, booleans, lists, maps, null.
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // Items of sets and values of keys are scalars. Only sets that a client invented get here.
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            a.to_string().cmp(&b.to_string())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(a).total_cmp(&float(b))
        }
    }
}

/// Normalizes a value for writing: a number without a fraction has no point.
fn plain(value: Value) -> Value {
    /// Every integer up to this one is exact as a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it has no fraction and fits"
            )]
            Value::from(float as i64)
        }
        _ => value,
    }
}

/// Returns whether two values are equal: `1` and `1.0` are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let one =
                |((a, x), (b, y)): ((&String, &Value), (&String, &Value))| a == b && same(x, y);
            a.len() == b.len() && a.iter().zip(b).all(one)
        }
        (a, b) => a == b,
    }
}
