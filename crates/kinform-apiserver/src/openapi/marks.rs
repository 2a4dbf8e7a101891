//! Properties of built-in fields that the table of types lacks: required or not, and known values.
//!
//! ```text
//! marks.txt ──parsed once──▶ (type, field) ──▶ Mark
//! ```
//!
//! By the table, a field is required if its JSON always contains it. Upstream's comments override
//! this for some ninety fields and list the values of a hundred more. Both are data, and the tests
//! compare them with a recorded document.
//!
//! Upstream: the markers `+optional`, `+required` and `+enum` of `kubernetes/api`.

use std::collections::HashMap;
use std::sync::OnceLock;

use kinform_schema::{Field, Type};

static DATA: &str = include_str!("marks.txt");

/// The properties of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    required: Option<bool>,
    /// The known values, if upstream lists them.
    pub(super) values: Vec<&'static str>,
}

type Key = (&'static str, &'static str, &'static str);

/// Returns whether a field is required.
pub(super) fn is_required(of: &Type, field: &Field) -> bool {
    let by_table = !field.omits_empty() && !field.is_pointer();
    mark(of, field)
        .and_then(|mark| mark.required)
        .unwrap_or(by_table)
}

/// Returns the mark of a field of a type.
pub(super) fn mark(of: &Type, field: &Field) -> Option<&'static Mark> {
    static MARKS: OnceLock<HashMap<Key, Mark>> = OnceLock::new();
    let marks = MARKS.get_or_init(|| parse(DATA));
    marks.get(&(of.package(), of.name(), field.name()))
}

fn parse(data: &'static str) -> HashMap<Key, Mark> {
    let (mut marks, mut package, mut name) = (HashMap::new(), "", "");
    for line in data.lines() {
        if let Some(rest) = line.strip_prefix("T ") {
            (package, name) = rest.split_once(' ').unwrap_or((rest, ""));
        } else if let Some(rest) = line.strip_prefix('.') {
            let (rest, values) = match rest.split_once(" =") {
                Some((rest, values)) => (rest, values.split('|').collect()),
                None => (rest, Vec::new()),
            };
            let (field, required) = rest.split_once(' ').unwrap_or((rest, ""));
            let required = (!required.is_empty()).then_some(required == "!");
            marks.insert((package, name, field), Mark { required, values });
        }
    }
    marks
}
