//! Character classes: `[a-z]`, `[[:alpha:]]`, `\d`, `\pL`.
//!
//! ```text
//! text at a class + folding -> class, rest of the text | error
//! ```
//!
//! A class has no set operators: `&&`, `--`, `~~` and a nested `[` are letters of it.
//!
//! Upstream: `go:regexp/syntax` (`parseClass`, `parseNamedClass`, `parsePerlClassEscape`,
//! `parseUnicodeClass`).

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::parse::escape;
use super::{TOO_LARGE, error, unicode};

/// States whether letters match in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Folded,
}

/// A class that was read, and the text after it.
type Read<'p> = (ClassUnicode, &'p str);
type ClassRead<'p> = Result<Read<'p>, String>;

const BAD_CLASS: &str = "invalid character class range";
const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const DIGIT: &[(char, char)] = &[('0', '9')];
const POSIX: [(&str, &[(char, char)]); 14] = [
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("ascii", &[('\0', '\x7f')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\x1f'), ('\x7f', '\x7f')]),
    ("digit", DIGIT),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", &[('\t', '\r'), (' ', ' ')]),
    ("upper", &[('A', 'Z')]),
    ("word", WORD),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

/// Reads classes, within a budget for all classes of a pattern.
#[derive(Debug)]
pub(super) struct Classes {
    /// BOUND: a range costs 1, and looking up the other case of 64 letters as much.
    left: usize,
}

impl Default for Classes {
    fn default() -> Self {
        Self { left: 1 << 18 }
    }
}

impl Classes {
    /// Reads a class in brackets.
    pub(super) fn bracketed<'p>(&mut self, text: &'p str, case: Case) -> ClassRead<'p> {
        let inner = &text[1..];
        let (is_negated, mut rest) = match inner.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, inner),
        };
        let (mut plain, mut groups) = (Vec::new(), Vec::new());
        let mut is_first = true;
        while is_first || !rest.starts_with(']') {
            is_first = false;
            if let Some((class, after)) = self.group(rest, case)? {
                groups.extend_from_slice(class.ranges());
                rest = after;
                continue;
            }
            let start = rest;
            let (low, after) = letter(rest, text)?;
            let mut high = low;
            rest = after;
            if rest.starts_with('-') && rest.len() >= 2 && !rest.starts_with("-]") {
                (high, rest) = letter(&rest[1..], text)?;
                if high < low {
                    return Err(error(BAD_CLASS, before(start, rest)));
                }
            }
            plain.extend(range(low, high));
        }
        let mut class = ClassUnicode::new(plain);
        self.fold(&mut class, case, text)?;
        class.union(&ClassUnicode::new(groups));
        if is_negated {
            class.negate();
        }
        Ok((class, &rest[1..]))
    }

    /// Reads a class that may also be a part of one in brackets: `[:alpha:]`, `\pL`, `\d`.
    fn group<'p>(&mut self, text: &'p str, case: Case) -> Result<Option<Read<'p>>, String> {
        if let Some(named) = text.strip_prefix("[:")
            && let Some((name, rest)) = named.split_once(":]")
        {
            let (is_negated, plain) = match name.strip_prefix('^') {
                Some(plain) => (true, plain),
                None => (false, name),
            };
            let Some((_, ranges)) = POSIX.iter().find(|(known, _)| *known == plain) else {
                return Err(error(BAD_CLASS, before(text, rest)));
            };
            let mut class = of(ranges);
            self.fold(&mut class, case, text)?;
            if is_negated {
                class.negate();
            }
            return Ok(Some((class, rest)));
        }
        self.escaped(text, case)
    }

    /// Reads a class that is an escape: `\pL`, `\d`.
    pub(super) fn escaped<'p>(
        &mut self,
        text: &'p str,
        case: Case,
    ) -> Result<Option<Read<'p>>, String> {
        let mut letters = text.chars();
        let (Some('\\'), Some(kind)) = (letters.next(), letters.next()) else {
            return Ok(None);
        };
        let ranges: &[(char, char)] = match kind.to_ascii_lowercase() {
            'd' => DIGIT,
            's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
            'w' => WORD,
            'p' => return self.property(text, case).map(Some),
            _ => return Ok(None),
        };
        let mut class = of(ranges);
        self.fold(&mut class, case, text)?;
        if kind.is_ascii_uppercase() {
            class.negate();
        }
        Ok(Some((class, letters.as_str())))
    }

    /// Reads `\pN`, `\p{Greek}`, `\p{^Greek}` or `\PN`.
    fn property<'p>(&mut self, text: &'p str, case: Case) -> ClassRead<'p> {
        let after = &text[2..];
        let (name, rest) = if let Some(inner) = after.strip_prefix('{') {
            let Some(parts) = inner.split_once('}') else {
                return Err(error(BAD_CLASS, text));
            };
            parts
        } else {
            let length = after.chars().next().map_or(0, char::len_utf8);
            after.split_at(length)
        };
        let (is_inverse, plain) = match name.strip_prefix('^') {
            Some(plain) => (true, plain),
            None => (false, name),
        };
        let Some(mut class) = unicode::named(plain) else {
            return Err(error(BAD_CLASS, before(text, rest)));
        };
        self.fold(&mut class, case, text)?;
        if is_inverse != text.starts_with(r"\P") {
            class.negate();
        }
        Ok((class, rest))
    }

    /// Adds the letters of the other case, and takes the cost of a class.
    fn fold(&mut self, class: &mut ClassUnicode, case: Case, text: &str) -> Result<(), String> {
        let mut cost = 1 + class.ranges().len();
        if case == Case::Folded {
            cost += class.iter().map(|range| range.len()).sum::<usize>() / 64;
        }
        let left = self.left.checked_sub(cost);
        self.left = left.ok_or_else(|| error(TOO_LARGE, text))?;
        if case == Case::Folded {
            class.case_fold_simple();
        }
        Ok(())
    }

    /// Returns the class of a letter and its other cases.
    pub(super) fn folded(&mut self, letter: char) -> Result<ClassUnicode, String> {
        let mut class = of(&[(letter, letter)]);
        self.fold(&mut class, Case::Folded, "")?;
        Ok(class)
    }
}

/// Reads a letter of a class.
fn letter<'p>(text: &'p str, class: &str) -> Result<(u32, &'p str), String> {
    match text.chars().next() {
        None => Err(error("missing closing ]", class)),
        Some('\\') => escape(text),
        Some(letter) => Ok((u32::from(letter), &text[letter.len_utf8()..])),
    }
}

/// Returns the class of these ranges.
fn of(ranges: &[(char, char)]) -> ClassUnicode {
    let ranges = ranges.iter();
    ClassUnicode::new(ranges.map(|(first, last)| ClassUnicodeRange::new(*first, *last)))
}

/// Returns the range between two code points. Surrogates are left out: no text has them.
pub(super) fn range(low: u32, high: u32) -> Option<ClassUnicodeRange> {
    const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;
    let low = if SURROGATES.contains(&low) {
        0xe000
    } else {
        low
    };
    let high = if SURROGATES.contains(&high) {
        0xd7ff
    } else {
        high
    };
    let (first, last) = (char::from_u32(low)?, char::from_u32(high)?);
    (first <= last).then(|| ClassUnicodeRange::new(first, last))
}

/// Returns a text up to where its rest begins.
pub(super) fn before<'p>(text: &'p str, rest: &str) -> &'p str {
    &text[..text.len() - rest.len()]
}
