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

use std::str::FromStr;

use serde_json::Value;

const MAX_STEPS: usize = 64;
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

/// The values that were found, and their number at which `..` ends.
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
            Self::Union(paths) => {
                paths
                    .iter()
                    .for_each(|path| found.extend(find(path, value)));
            }
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

/// Limits the steps that a path may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    /// BOUND: a filter contains neither a filter nor `..`, which would be evaluated again for each
    /// item of each item.
    Members,
}

fn steps(path: &str, reach: Reach) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return None;
        }
        let (step, after) = step(rest, reach)?;
        steps.push(step);
        rest = after;
    }
    Some(steps)
}

/// Parses the first step of a path. Returns it with the rest.
fn step(path: &str, reach: Reach) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix("..") {
        if reach == Reach::Members {
            return None;
        }
        // A member without its dot, or a bracket, must follow.
        let member = rest.find(|letter: char| letter != '.')? == 0 && !rest.starts_with('[');
        let after = if member { &path[1..] } else { rest };
        return Some((Step::Deep, after));
    }
    if let Some(rest) = path.strip_prefix('.') {
        // `.[0]` is the same as `[0]`.
        if rest.starts_with('[') {
            return step(rest, reach);
        }
        let (name, after) = member(rest)?;
        let step = match name.as_str() {
            "*" => Step::Every,
            _ => Step::Member(name),
        };
        return Some((step, after));
    }
    let inside = path.strip_prefix('[')?;
    let end = closing(inside)?;
    let (inside, rest) = (inside[..end].trim(), &inside[end + 1..]);
    let step = match inside.strip_prefix('?') {
        _ if inside == "*" => Step::Every,
        Some(_) if reach == Reach::Members => return None,
        Some(filter) => Step::Where(filter_of(filter.trim())?),
        None => {
            let parts: Option<Vec<Vec<Step>>> = split(inside)?
                .into_iter()
                .map(|part| bracket(part.trim()))
                .collect();
            match parts?.as_mut_slice() {
                [path] if path.len() == 1 => path.remove(0),
                paths => Step::Union(paths.iter_mut().map(std::mem::take).collect()),
            }
        }
    };
    Some((step, rest))
}

/// The name at the beginning of a path, in which a backslash hides dots.
fn member(path: &str) -> Option<(String, &str)> {
    let (mut name, mut letters) = (String::new(), path.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (!name.is_empty()).then(|| (name, &path[at..])),
            '\\' => name.push(letters.next()?.1),
            letter => name.push(letter),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// Returns the position where the bracket that is open at the beginning closes.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote, mut is_hidden) = (1, None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if std::mem::take(&mut is_hidden) => {}
            (_, '\\') => is_hidden = true,
            (Some(ending), letter) if letter == ending => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => open += 1,
            (None, ']') => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits a text at the commas outside of quotes.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut quote) = (Vec::new(), 0, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ',') => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    (quote.is_none() && parts.len() <= MAX_STEPS).then_some(parts)
}

/// A part between brackets: `0`, `1:2`, `'metadata.name'`, `"a.b/c"`.
fn bracket(text: &str) -> Option<Vec<Step>> {
    // Single quotes hold a path, in which a backslash hides dots; double quotes hold one name.
    if let Some(inside) = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')) {
        return dotted(inside);
    }
    if let Some(name) = unquoted(text) {
        return Some(vec![Step::Member(name)]);
    }
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let parts: Vec<&str> = text.split(':').collect();
    let step = match parts.as_slice() {
        [at] => Step::Item(at.parse().ok()?),
        [from, to] => Step::Slice {
            from: number(from)?,
            to: number(to)?,
            by: 1,
        },
        [from, to, by] => Step::Slice {
            from: number(from)?,
            to: number(to)?,
            by: usize::try_from(number(by)?.unwrap_or(1))
                .ok()
                .filter(|by| *by > 0)?,
        },
        _ => return None,
    };
    Some(vec![step])
}

/// Members between dots, without brackets.
fn dotted(text: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    loop {
        let (name, after) = member(rest)?;
        steps.push(Step::Member(name));
        if after.is_empty() || steps.len() == MAX_STEPS {
            return after.is_empty().then_some(steps);
        }
        rest = after.strip_prefix('.')?;
    }
}

/// A filter with its parentheses: `(@.type=="Ready")`.
fn filter_of(text: &str) -> Option<Filter> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::NotEqual),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let text = text.strip_prefix('(')?.strip_suffix(')')?;
    // The first test outside of quotes.
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(ending), letter) if letter == ending => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            _ => {}
        }
        let here = TESTS.iter().find(|(word, _)| text[at..].starts_with(word));
        if let (None, Some((word, test))) = (quote, here) {
            let right = operand(text[at + word.len()..].trim())?;
            return Some(Filter {
                left: operand(text[..at].trim())?,
                test: Some((*test, right)),
            });
        }
    }
    let left = operand(text.trim())?;
    Some(Filter { left, test: None })
}

fn operand(text: &str) -> Option<Operand> {
    if let Some(path) = text.strip_prefix('@') {
        return steps(path, Reach::Members).map(Operand::Path);
    }
    let literal = match unquoted(text) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(text).ok()?,
    };
    Some(Operand::Literal(literal))
}

/// Returns the text between quotes. A backslash escapes the next letter.
fn unquoted(text: &str) -> Option<String> {
    let inside = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    let inside = inside('"').or_else(|| inside('\''))?;
    let (mut plain, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next()?,
            letter => letter,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // client-go: util/jsonpath; the values are what a real server showed for such columns
    #[test]
    fn paths_lead_where_upstreams_lead() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "lab"}},
            "spec": {"i": 5, "n": 7, "list": [
                {"name": "a", "v": 1}, {"name": "b", "v": "two"}, {"name": "c", "v": null, "deep": "x"},
            ]},
        });
        for (path, expected) in [
            (".spec.i", Some(json!(5))),
            ("{.spec.i}", Some(json!(5))),
            ("$.spec.i", Some(json!(5))),
            (".spec.list[*].name", Some(json!("a"))),
            (".spec.list[?(@.name==\"b\")].v", Some(json!("two"))),
            (".spec.list[?(@.name == 'b')].v", Some(json!("two"))),
            (".spec.list[?(@.name!=\"a\")].name", Some(json!("b"))),
            (".spec.list[?(@.v>=1)].name", Some(json!("a"))),
            (".spec.list[?(@.deep)].name", Some(json!("c"))),
            (".spec.list[?(@.name==\"]\")].v", None),
            (".spec.list[1:].name", Some(json!("b"))),
            (".spec.list[0:2].v", Some(json!(1))),
            (".spec.list[::2].name", Some(json!("a"))),
            (".spec.list[-1].name", Some(json!("c"))),
            (".spec.list[-9].name", None),
            (".spec.list[9].name", None),
            (".metadata.labels.a\\.b/c", Some(json!("lab"))),
            (".metadata.labels['a\\.b/c']", Some(json!("lab"))),
            (".metadata.labels[\"a.b/c\"]", Some(json!("lab"))),
            ("..deep", Some(json!("x"))),
            ("..list[1].name", Some(json!("b"))),
            (".spec['i','n']", Some(json!(5))),
            ("['spec.i']", Some(json!(5))),
            ("['spec..i']", None),
            ("['nope.i','spec.n']", Some(json!(7))),
            (".spec.list[2,0].name", Some(json!("c"))),
            (".spec.*", Some(json!(5))),
            (".spec.nope", None),
            (".spec.list[x]", None),
            (".spec.list[0", None),
            (".spec.list[::0]", None),
            (".spec..", None),
            (".", None),
            ("spec.i", None),
            (".spec.list[?(@.x==)]", None),
            (".spec.list[?@.x]", None),
        ] {
            let read = path.parse::<JsonPath>().ok();
            let found = read.and_then(|path| path.first(&object).cloned());
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn what_a_path_may_find_is_bounded() {
        let wide = Value::from(vec![json!([1]); 50_000]);
        assert!(
            find(&steps("..*..*..*", Reach::Anywhere).unwrap(), &wide).len()
                <= 2 * MAX_FOUND + 50_000
        );
        assert!(".a".repeat(MAX_STEPS + 1).parse::<JsonPath>().is_err());
        let nested = format!(".a{}.a{}", "[?(@".repeat(5000), ")]".repeat(5000));
        for text in [
            nested.as_str(),
            ".[?(@..a)]",
            "[",
            "[?",
            "[?(",
            "['",
            "[']",
            "..",
            "...",
            "[]",
            ".\\",
            "[?()]",
            "[,]",
        ] {
            let read = text.parse::<JsonPath>().ok();
            assert_eq!(read.and_then(|path| path.first(&wide)), None, "{text}");
        }
    }

    // client-go: util/jsonpath, evalArray and evalFilter
    #[test]
    fn a_path_out_of_a_list_is_an_error_and_a_missing_member_is_not() {
        let object = json!({"list": [{"a": 1}, {"a": 2}], "text": "x", "nil": null});
        for (path, expected) in [
            ("{.list[*].a}", Ok(2)),
            ("{@.list[-1].a}", Ok(1)),
            ("{.nope.a}", Ok(0)),
            ("{.nope[0]}", Ok(0)),
            ("{.nil[0]}", Ok(0)),
            (
                "{.list[2]}",
                Err("array index out of bounds: index 2, length 2"),
            ),
            (
                "{.list[0,-3]}",
                Err("array index out of bounds: index -3, length 2"),
            ),
            ("{.text[0]}", Err("a value that is no list has no items")),
            (
                "{.text[?(@.a)]}",
                Err("a value that is no list has no items"),
            ),
        ] {
            let found = path
                .parse::<JsonPath>()
                .unwrap()
                .find(&object)
                .map(|it| it.len());
            let expected = expected.map_err(|it: &str| JsonPathError(it.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
        let many = json!({"items": vec![json!(1); MAX_FOUND + 5]});
        let all: JsonPath = "{.items[*]}".parse().unwrap();
        assert_eq!(all.find(&many).unwrap().len(), MAX_FOUND + 5);
        assert!(
            "{.list[}"
                .parse::<JsonPath>()
                .unwrap_err()
                .to_string()
                .contains(".list[")
        );
    }
}
