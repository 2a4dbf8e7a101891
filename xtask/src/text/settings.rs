//! `tidy.toml` as entries: as much of TOML as is needed here.
//!
//! ```text
//! [section]
//! "key" = "reason"  │  "key" = 12     ──▶ Entry { section, key, value, line }
//! ```
//!
//! A line of another form is an error of its own, and so is an empty text.

use super::file::File;

/// Path of the file.
pub(crate) const PATH: &str = "tidy.toml";

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The section that it is in.
    pub(crate) section: &'a str,
    /// The text before the sign.
    pub(crate) key: &'a str,
    /// The text or number after it.
    pub(crate) value: Value<'a>,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// The value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Text in quotes.
    Text(&'a str),
    /// A number.
    Number(usize),
}

/// Reads the file among a repository's files; no entries where it is missing.
///
/// # Errors
/// A line that is not understood.
pub(crate) fn entries(files: &[File]) -> Result<Vec<Entry<'_>>, String> {
    let file = files.iter().find(|file| file.path == PATH);
    parse(file.map_or("", |file| &file.text))
}

/// Reads the text of the file.
///
/// # Errors
/// A line that is not understood.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry<'_>>, String> {
    let mut entries = Vec::new();
    let mut section = "";
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name;
            continue;
        }
        let entry = text.split_once('=').and_then(|(key, value)| {
            let (key, value) = (unquote(key)?, self::value(value.trim())?);
            (!section.is_empty()).then_some(Entry {
                section,
                key,
                value,
                line,
            })
        });
        let form = "expected \"key\" = \"reason\" or \"key\" = number in a section";
        entries.push(entry.ok_or_else(|| format!("{PATH}:{line}: {form}"))?);
    }
    Ok(entries)
}

fn value(text: &str) -> Option<Value<'_>> {
    if let Ok(number) = text.parse() {
        return Some(Value::Number(number));
    }
    let text = unquote(text)?;
    (!text.is_empty()).then_some(Value::Text(text))
}

fn unquote(text: &str) -> Option<&str> {
    text.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_texts_and_numbers_in_sections() {
        let entries =
            parse("# why\n[size]\n\"a.rs\" = \"a table\"\n\n[ceilings]\n\"b\" = 12\n").unwrap();
        let first = Entry {
            section: "size",
            key: "a.rs",
            value: Value::Text("a table"),
            line: 3,
        };
        let second = Entry {
            section: "ceilings",
            key: "b",
            value: Value::Number(12),
            line: 6,
        };
        assert_eq!(entries, [first, second]);
    }

    #[test]
    fn other_lines_are_errors() {
        for bad in [
            "\"a.rs\" = \"x\"",
            "[size]\n\"a.rs\" = \"\"",
            "[size]\na.rs = x",
            "[size]\n\"a\"",
            "[ceilings]\n\"a\" = -1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
