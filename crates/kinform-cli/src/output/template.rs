//! `-o jsonpath=TEMPLATE`: text with paths in braces, as kubectl prints it.
//!
//! ```text
//! "{range .items[*]}{.metadata.name}{'\n'}{end}" ──▶ Template;  object ──▶ text
//! ```
//!
//! The values of a path are separated by a blank; an object or a list is printed as JSON. A missing
//! member prints nothing, an item out of bounds is an error.
//!
//! Upstream counterpart: `client-go:util/jsonpath`.

use std::str::FromStr;

use kinform_api::{JsonPath, JsonPathError};
use serde_json::Value;

/// BOUND: ranges within ranges.
const MAX_RANGES: usize = 32;

/// A template that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Path(JsonPath),
    Range(JsonPath, Vec<Self>),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(
                "the template is empty; a path is in braces, as {.metadata.name}".to_owned(),
            );
        }
        // The ranges that are open, innermost last, with the pieces around each.
        let mut open: Vec<(JsonPath, Vec<Piece>)> = Vec::new();
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(start) = rest.find('{') {
            if start > 0 {
                pieces.push(Piece::Text(rest[..start].to_owned()));
            }
            let inside = &rest[start + 1..];
            let end = closing(inside).ok_or_else(|| format!("unclosed action in {text:?}"))?;
            let action = inside[..end].trim();
            match action
                .strip_prefix("range")
                .filter(|path| !path.starts_with(char::is_alphanumeric))
            {
                Some(_) if open.len() == MAX_RANGES => {
                    return Err(format!("more than {MAX_RANGES} ranges within ranges"));
                }
                Some(path) => open.push((parse_path(path)?, std::mem::take(&mut pieces))),
                None if action == "end" => {
                    let (path, before) = open.pop().ok_or("not in range, nothing to end")?;
                    let inner = std::mem::replace(&mut pieces, before);
                    pieces.push(Piece::Range(path, inner));
                }
                None if action.starts_with(['"', '\'']) => {
                    pieces.push(Piece::Text(unquoted(action)?));
                }
                None => pieces.push(Piece::Path(parse_path(action)?)),
            }
            rest = &inside[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        match open.is_empty() {
            true => Ok(Self(pieces)),
            false => Err(format!("a {{range}} without its {{end}} in {text:?}")),
        }
    }
}

fn parse_path(text: &str) -> Result<JsonPath, String> {
    text.parse()
        .map_err(|error: JsonPathError| error.to_string())
}

/// The position of the brace that closes an action, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut is_hidden) = (None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if std::mem::take(&mut is_hidden) => {}
            (_, '\\') => is_hidden = true,
            (Some(ending), letter) if letter == ending => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '}') => return Some(at),
            _ => {}
        }
    }
    None
}

/// Text in quotes, with the escapes of a Go string.
fn unquoted(quoted: &str) -> Result<String, String> {
    let wrong = || format!("unquote string {quoted} error invalid syntax");
    let quote = &quoted[..1];
    let inside = quoted[1..].strip_suffix(quote).ok_or_else(wrong)?;
    let (mut text, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let escape = letters.next().ok_or_else(wrong)?;
        let mut code = |digits: usize| {
            let hex: String = letters.by_ref().take(digits).collect();
            let is_whole = hex.len() == digits;
            let code = u32::from_str_radix(&hex, 16).ok().filter(|_| is_whole);
            code.and_then(char::from_u32).ok_or_else(wrong)
        };
        text.push(match escape {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => code(2)?,
            'u' => code(4)?,
            'U' => code(8)?,
            same @ ('\\' | '"' | '\'') => same,
            _ => return Err(wrong()),
        });
    }
    Ok(text)
}

impl Template {
    /// Prints an object.
    ///
    /// # Errors
    /// A path leads out of a list.
    pub(crate) fn print(&self, object: &Value) -> Result<String, JsonPathError> {
        let mut text = String::new();
        print(&self.0, object, &mut text)?;
        Ok(text)
    }
}

// BOUND: as deep as ranges are in ranges.
fn print(pieces: &[Piece], object: &Value, text: &mut String) -> Result<(), JsonPathError> {
    for piece in pieces {
        match piece {
            Piece::Text(words) => text.push_str(words),
            Piece::Path(path) => {
                for (place, value) in path.find(object)?.into_iter().enumerate() {
                    if place > 0 {
                        text.push(' ');
                    }
                    text.push_str(&plain(value));
                }
            }
            Piece::Range(path, pieces) => {
                for value in path.find(object)? {
                    print(pieces, value, text)?;
                }
            }
        }
    }
    Ok(())
}

/// A value as text: a string without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // client-go: TestStructInput, TestRange, TestKubernetes
    #[test]
    fn templates_print_as_kubectl_prints_them() {
        let list = json!({"kind": "List", "items": [
            {"metadata": {"name": "127.0.0.1", "labels": {"a.b/c": "x"}}, "status": {
                "capacity": {"cpu": "4"},
                "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
            {"metadata": {"name": "127.0.0.2"}, "status": {
                "capacity": {"cpu": "8"},
                "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.2"},
                              {"type": "another", "address": "127.0.0.3"}]}},
        ]});
        for (template, expected) in [
            ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
            ("{.items[0].metadata.labels.a\\.b/c}", "x"),
            ("{.items[0].metadata.labels['a\\.b/c']}", "x"),
            (
                "{.items[*].status.addresses[?(@.type==\"another\")].address}",
                "127.0.0.3",
            ),
            (
                "{.items[*]['metadata.name', 'status.capacity']}",
                "127.0.0.1 127.0.0.2 {\"cpu\":\"4\"} {\"cpu\":\"8\"}",
            ),
            (
                "{range .items[*]}{.metadata.name}{\"\\n\"}{end}",
                "127.0.0.1\n127.0.0.2\n",
            ),
            (
                "{range .items[*]}[{.metadata.name}: {range .status.addresses[*]}{.address},{end}]{end}",
                "[127.0.0.1: 127.0.0.1,][127.0.0.2: 127.0.0.2,127.0.0.3,]",
            ),
            (
                "{range .items[1:]}{@.metadata.name}{'\\t}'}{end}.",
                "127.0.0.2\t}.",
            ),
            ("{range .nope[*]}x{end}", ""),
            ("kind is {.kind}", "kind is List"),
            ("{.items[1].status.capacity}", "{\"cpu\":\"8\"}"),
            ("{$.kind}{.missing}", "List"),
            ("{..name}", "127.0.0.1 127.0.0.2"),
            (".kind", ".kind"),
            ("{\"\\x41\\u00e9\"}", "A\u{e9}"),
        ] {
            let parsed: Template = template.parse().unwrap();
            assert_eq!(parsed.print(&list).unwrap(), expected, "{template}");
        }
        let out: Template = "{.items[2].metadata.name}".parse().unwrap();
        assert!(
            out.print(&list)
                .unwrap_err()
                .to_string()
                .contains("out of bounds")
        );
    }

    #[test]
    fn templates_that_do_not_parse_are_named() {
        for (template, expected) in [
            ("", "empty"),
            ("{.a", "unclosed action"),
            ("{end}", "nothing to end"),
            ("{range .a[*]}", "without its {end}"),
            ("{\"a}", "unclosed action"),
            ("{\"a\\q\"}", "unquote string"),
            ("{.a[}", "not a JSONPath"),
            ("{unknown}", "not a JSONPath"),
            (&"{range .a[*]}".repeat(40), "ranges within ranges"),
        ] {
            let error = template.parse::<Template>().unwrap_err();
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
