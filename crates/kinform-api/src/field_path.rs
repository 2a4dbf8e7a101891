//! Paths to fields of objects: `spec.nodeName`, `metadata.labels['a.b/c']`.
//!
//! ```text
//! "spec.containers[*].image" ──parse──▶ [Field spec] [Field containers] [Each] [Field image]
//! ```
//!
//! ```text
//! path = [ "." ] name { "." name | "[" ( "*" | number | quoted ) "]" }
//! name = letters, digits, "_", "-", "$"      quoted = 'text' or "text", \ escapes
//! ```
//!
//! A path does not state whether a type has such a field. A path is short and its depth bounded, so
//! walking one needs no recursion limit of its own. Parsing is linear.
//! Upstream: the subset of `client-go:util/jsonpath` that names places and no more.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::error::{Error, Noun};

// BOUND: the depth limit of the JSON parser.
const SEGMENTS_MAX: usize = 128;

/// A path to fields of an object; never empty.
///
/// Prints in its shortest form; printing and parsing again gives the same path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    // INVARIANT: 1 to `SEGMENTS_MAX`.
    segments: Vec<PathSegment>,
}

/// One step of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathSegment {
    /// A field of an object, or a key of a map.
    Field(String),
    /// Every element of a list.
    Each,
    /// One element of a list, from 0.
    Index(usize),
}

impl FieldPath {
    /// A path of segments.
    ///
    /// # Errors
    /// There are no segments, or more than 128.
    pub fn new(segments: impl IntoIterator<Item = PathSegment>) -> Result<Self, Error> {
        let segments: Vec<_> = segments.into_iter().take(SEGMENTS_MAX + 1).collect();
        match segments.len() {
            0 => Err(path_error("a field path is empty")),
            1..=SEGMENTS_MAX => Ok(Self { segments }),
            _ => Err(path_error("a field path has more than 128 segments")),
        }
    }

    /// The segments.
    #[must_use]
    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }
}

impl FromStr for FieldPath {
    type Err = Error;

    /// Parses a path; a leading dot is fine.
    ///
    /// # Errors
    /// The text is not a path; the message states the position of the fault.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut rest = text.strip_prefix('.').unwrap_or(text);
        let mut segments = Vec::new();
        while segments.len() <= SEGMENTS_MAX && (segments.is_empty() || !rest.is_empty()) {
            let parsed = match rest.strip_prefix('[') {
                Some(inside) => bracket(inside),
                None if segments.is_empty() => name(rest),
                None => rest.strip_prefix('.').and_then(name),
            };
            let Some((segment, after)) = parsed else {
                let at = text.len() - rest.len();
                let message = format!(
                    "field path {text:?} is not understood at byte {at}: expected .name, ['key'], [*] or [0]"
                );
                return Err(path_error(message));
            };
            segments.push(segment);
            rest = after;
        }
        Self::new(segments)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            match segment {
                PathSegment::Each => f.write_str("[*]")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
                PathSegment::Field(field) if !is_name(field) => write_quoted(f, field)?,
                PathSegment::Field(field) if i == 0 => f.write_str(field)?,
                PathSegment::Field(field) => write!(f, ".{field}")?,
            }
        }
        Ok(())
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$')
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_name_char)
}

fn name(text: &str) -> Option<(PathSegment, &str)> {
    let end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
    let (field, rest) = text.split_at(end);
    (!field.is_empty()).then(|| (PathSegment::Field(field.to_owned()), rest))
}

/// Parses the text after an opening bracket, up to and including the closing one.
fn bracket(text: &str) -> Option<(PathSegment, &str)> {
    if let Some(rest) = text.strip_prefix("*]") {
        return Some((PathSegment::Each, rest));
    }
    match text.chars().next()? {
        quote @ ('\'' | '"') => {
            let (field, rest) = quoted(&text[1..], quote)?;
            Some((PathSegment::Field(field), rest.strip_prefix(']')?))
        }
        '0'..='9' => {
            let (digits, rest) = text.split_once(']')?;
            let index = digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok())??;
            Some((PathSegment::Index(index), rest))
        }
        _ => None,
    }
}

/// A text up to its closing quote, unescaped, and the rest.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => field.push(chars.next()?.1),
            c if c == quote => return Some((field, &text[at + 1..])),
            c => field.push(c),
        }
    }
    None
}

fn write_quoted(f: &mut fmt::Formatter<'_>, field: &str) -> fmt::Result {
    f.write_str("['")?;
    for c in field.chars() {
        if matches!(c, '\'' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_str("']")
}

fn path_error(message: impl Into<Box<str>>) -> Error {
    Error::new(Noun::FieldPath, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(name: &str) -> PathSegment {
        PathSegment::Field(name.to_owned())
    }

    #[track_caller]
    fn check(text: &str, segments: &[PathSegment], printed: &str) {
        let path: FieldPath = text.parse().unwrap();
        assert_eq!(
            (path.segments(), path.to_string().as_str()),
            (segments, printed)
        );
    }

    #[test]
    fn paths_parse_and_print() {
        check(
            "spec.nodeName",
            &[field("spec"), field("nodeName")],
            "spec.nodeName",
        );
        check(".spec", &[field("spec")], "spec");
        let labels = [field("metadata"), field("labels"), field("a.b/c")];
        check(
            "metadata.labels['a.b/c']",
            &labels,
            "metadata.labels['a.b/c']",
        );
        check(
            "metadata.labels[\"a.b/c\"]",
            &labels,
            "metadata.labels['a.b/c']",
        );
        let image = [
            field("spec"),
            field("containers"),
            PathSegment::Each,
            field("image"),
        ];
        check(
            "spec.containers[*].image",
            &image,
            "spec.containers[*].image",
        );
        check(
            "a[0][1]",
            &[field("a"), PathSegment::Index(0), PathSegment::Index(1)],
            "a[0][1]",
        );
        check("a['b']", &[field("a"), field("b")], "a.b");
        check("['a']['']", &[field("a"), field("")], "a['']");
        check(r"a['\'\\']", &[field("a"), field("'\\")], r"a['\'\\']");
        check("$a-b_c", &[field("$a-b_c")], "$a-b_c");
    }

    #[test]
    fn wrong_paths_say_where() {
        for (text, at) in [
            ("", 0),
            (".", 1),
            ("..a", 1),
            ("a.", 1),
            ("a..b", 1),
            ("a b", 1),
            ("a[", 1),
            ("a[]", 1),
            ("a[x]", 1),
            ("a['x]", 1),
            ("a['x'", 1),
            ("a[-1]", 1),
            ("a[1x]", 1),
            ("a[*", 1),
            ("é", 0),
            ("a[99999999999999999999999]", 1),
            ("a.[*]", 1),
            ("a['\\", 1),
        ] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert!(error.is_field_path());
            assert!(
                error.to_string().contains(&format!("at byte {at}:")),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(vec!["a"; 128].join(".").parse::<FieldPath>().is_ok());
        assert!(vec!["a"; 129].join(".").parse::<FieldPath>().is_err());
        assert!("a".to_owned().parse::<FieldPath>().is_ok());
        assert!(
            ("a".to_owned() + &"[*]".repeat(100_000))
                .parse::<FieldPath>()
                .is_err()
        );
        assert!(FieldPath::new([]).is_err());
    }

    proptest! {
        #[test]
        fn printing_and_parsing_again_is_the_same(segments in prop::collection::vec(prop_oneof![
            "[a-c.'\\\\\"\\[\\]é/]{0,4}".prop_map(PathSegment::Field),
            Just(PathSegment::Each),
            (0usize..99).prop_map(PathSegment::Index),
        ], 1..6)) {
            let path = FieldPath::new(segments).unwrap();
            prop_assert_eq!(path.to_string().parse::<FieldPath>().unwrap(), path);
        }

        #[test]
        fn any_text_parses_or_fails(text in "[ab.'\"\\\\\\[\\]*0é]{0,12}") {
            if let Ok(path) = text.parse::<FieldPath>() {
                prop_assert_eq!(path.to_string().parse::<FieldPath>().unwrap(), path);
            }
        }
    }
}
