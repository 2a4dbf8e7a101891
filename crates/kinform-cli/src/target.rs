//! The condition that `wait --for` names, and whether an object meets it.
//!
//! ```text
//! create │ delete │ condition=NAME[=VALUE] │ jsonpath={PATH}[=VALUE] ──▶ Target        object ──▶ met | not yet
//! ```
//!
//! Pure. A status that describes an older generation of the object does not count.
//!
//! Upstream counterpart: `kubectl:pkg/cmd/wait` (`condition.go`, `json.go`).

use std::str::FromStr;

use kinform_api::JsonPath;
use serde_json::Value;

/// A condition of an object.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The object exists.
    Create,
    /// The object is gone.
    Delete,
    /// A condition of the status has this value.
    Condition { name: String, value: String },
    /// A path leads to this value, or to any.
    JsonPath {
        path: JsonPath,
        value: Option<String>,
    },
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let folded = text.to_lowercase();
        if folded == "create" || folded == "delete" {
            return Ok(match &*folded {
                "create" => Self::Create,
                _ => Self::Delete,
            });
        }
        if let Some(condition) = text.strip_prefix("condition=") {
            let (name, value) = condition.split_once('=').unwrap_or((condition, "true"));
            return match name {
                "" => Err("condition= needs a name, as condition=Ready".to_owned()),
                _ => Ok(Self::Condition {
                    name: name.to_owned(),
                    value: unquoted(value).to_owned(),
                }),
            };
        }
        if let Some(path) = text.strip_prefix("jsonpath=") {
            return of_path(path);
        }
        if text.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Err("this --for takes a condition; --timeout is the time to wait".to_owned());
        }
        Err(
            "expected create, delete, condition=NAME[=VALUE] or jsonpath='{PATH}'[=VALUE]"
                .to_owned(),
        )
    }
}

/// A value without the quotes that a shell left.
fn unquoted(text: &str) -> &str {
    text.trim_matches(['\'', '"'])
}

fn of_path(text: &str) -> Result<Target, String> {
    let text = unquoted(text);
    let (path, value) = match text.strip_prefix('{') {
        Some(inside) => {
            let end = closing(inside).ok_or_else(|| format!("{text:?}: a }} is missing"))?;
            let rest = unquoted(&inside[end + 1..]);
            match rest.strip_prefix('=') {
                Some(value) => (&inside[..end], Some(value)),
                None if rest.is_empty() => (&inside[..end], None),
                None => return Err(format!("{rest:?} after the path: =VALUE expected")),
            }
        }
        None => match equals(text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        },
    };
    let value = value.map(unquoted);
    if value == Some("") {
        return Err("a value is missing after =".to_owned());
    }
    let path = match path.starts_with(['.', '[', '$', '@']) {
        true => path.parse(),
        false => format!(".{path}").parse(),
    };
    Ok(Target::JsonPath {
        path: path.map_err(|error: kinform_api::JsonPathError| error.to_string())?,
        value: value.map(str::to_owned),
    })
}

/// The place of the brace that ends a path: not one in quotes.
fn closing(text: &str) -> Option<usize> {
    outside(text, |letter, _| letter == '}')
}

/// The place of the sign that separates a path without braces from its value: not one in a filter.
fn equals(text: &str) -> Option<usize> {
    outside(text, |letter, depth| letter == '=' && depth == 0)
}

/// The first letter outside of quotes that is wanted, with the number of brackets that are open.
fn outside(text: &str, is_wanted: impl Fn(char, usize) -> bool) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_usize);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (Some(_), _) => {}
            (None, letter) if is_wanted(letter, depth) => return Some(at),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

impl Target {
    /// Returns whether an object that exists meets the condition.
    ///
    /// # Errors
    /// A path leads to several values, to a list or to an object: waiting would not end.
    pub(crate) fn is_met_by(&self, object: &Value) -> Result<bool, String> {
        match self {
            Self::Create => Ok(true),
            Self::Delete => Ok(false),
            Self::Condition { name, value } => Ok(has_condition(object, name, value)),
            Self::JsonPath { path, value } => {
                // An item that is not there yet is no mistake.
                let Ok(found) = path.find(object) else {
                    return Ok(false);
                };
                match (found.as_slice(), value) {
                    ([], _) => Ok(false),
                    ([_, _, ..], _) => Err("the path leads to more than one value".to_owned()),
                    ([_], None) => Ok(true),
                    ([Value::Object(_) | Value::Array(_)], Some(_)) => Err(
                        "the path leads to a list or an object, which has no value to compare"
                            .to_owned(),
                    ),
                    ([found], Some(value)) => Ok(plain(found).trim() == value.trim()),
                }
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn has_condition(object: &Value, name: &str, value: &str) -> bool {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let fold = |text: Option<&Value>| text.and_then(Value::as_str).map(str::to_lowercase);
    let named = conditions.into_iter().flatten().find(|condition| {
        fold(condition.get("type")) == Some(name.to_lowercase())
            && condition.get("status").is_some()
    });
    let Some(condition) = named else { return false };
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64);
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    let observed = observed.or_else(|| {
        object
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64)
    });
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return false;
    }
    fold(condition.get("status")) == Some(value.to_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, object: &Value, expected: Option<bool>) {
        let met = text.parse::<Target>().unwrap().is_met_by(object).ok();
        assert_eq!(met, expected, "{text} {object}");
    }

    // kubectl: TestWaitForCondition, TestWaitForJSONPathCondition
    #[test]
    fn conditions_are_met_as_kubectl_says() {
        let pod = json!({"metadata": {"generation": 2}, "status": {"phase": "Running",
            "replicas": 3, "list": ["a", "b"], "observedGeneration": 2, "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Old", "status": "True", "observedGeneration": 1},
                {"type": "Empty"}]}});
        for (text, expected) in [
            ("create", Some(true)),
            ("delete", Some(false)),
            ("condition=Ready", Some(true)),
            ("condition=ready=TRUE", Some(true)),
            ("condition=Ready=false", Some(false)),
            ("condition=Old", Some(false)),
            ("condition=Empty", Some(false)),
            ("condition=Absent", Some(false)),
            ("jsonpath={.status.phase}=Running", Some(true)),
            ("jsonpath='{.status.phase}'='Running'", Some(true)),
            ("jsonpath={.status.phase}=Pending", Some(false)),
            ("jsonpath={.status.phase}", Some(true)),
            ("jsonpath=.status.replicas=3", Some(true)),
            ("jsonpath=status.replicas=3", Some(true)),
            ("jsonpath={.status.absent}", Some(false)),
            ("jsonpath={.status.list[9]}=a", Some(false)),
            ("jsonpath={.status.list[*]}=a", None),
            ("jsonpath={.status.list}=a", None),
            ("jsonpath={.status.list}", Some(true)),
            (
                r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}=True"#,
                Some(true),
            ),
            (
                r#"jsonpath=.status.conditions[?(@.type=="Ready")].status=True"#,
                Some(true),
            ),
        ] {
            check(text, &pod, expected);
        }
        let older = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2,
            "conditions": [{"type": "Ready", "status": "True"}]}});
        check("condition=Ready", &older, Some(false));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in [
            "",
            "ready",
            "30s",
            "condition=",
            "jsonpath=",
            "jsonpath={.a",
            "jsonpath={.a}b",
            "jsonpath={.a}=",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
