//! The text of ranges in a request: `shardSelector`.
//!
//! ```text
//! field + Ranges ──▶ shardRange(object.metadata.uid, '0x..', '0x..') || ..   or None above 4 KiB
//! text ──parse──▶ field + Ranges   or SelectorError { at, .. }
//! text ──parse_terms──▶ field + [ShardRange], in their order ──terms_text──▶ the server's echo
//! ```
//!
//! Bounds have 16 lower-case hexadecimal digits; only 2^64 has 17. All ranges of a selector name one
//! field. The server reads the text as CEL and allows calls, `||`, parentheses and blanks; so does
//! this parser, with strings in either quotes and without escapes. Positions are bytes.
//!
//! Upstream counterpart: `apiserver:pkg/sharding/parser.go`.

use super::range::{Ranges, ShardRange, TOP};

/// BOUND: bytes of a selector that is sent: with more, a request line could be too long for a
/// server or a proxy on the way.
pub const MAX_SELECTOR_BYTES: usize = 4 << 10;
/// BOUND: parentheses inside of each other.
const MAX_DEPTH: usize = 32;

/// The field whose hash decides the shard of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `object.metadata.namespace`: an object and those that it owns are in one shard.
    Namespace,
    /// `object.metadata.uid`.
    Uid,
}

impl ShardField {
    /// The path of the field in a selector.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Namespace => "object.metadata.namespace",
            Self::Uid => "object.metadata.uid",
        }
    }

    fn of_path(path: &str) -> Option<Self> {
        [Self::Namespace, Self::Uid]
            .into_iter()
            .find(|field| field.path() == path)
    }
}

/// Returns the selector for these hashes of a field. Returns `None` if none is sent: for all
/// hashes, for an empty set, and where it would be longer than 4 KiB.
#[must_use]
pub fn selector(field: ShardField, ranges: &Ranges) -> Option<String> {
    if ranges.is_empty() || *ranges == Ranges::all() {
        return None;
    }
    let text = terms_text(field, ranges.as_slice());
    (text.len() <= MAX_SELECTOR_BYTES).then_some(text)
}

/// Returns the text of these ranges in this order, as a server echoes them.
#[must_use]
pub fn terms_text(field: ShardField, ranges: &[ShardRange]) -> String {
    let term = |range: &ShardRange| {
        let (path, start, end) = (field.path(), range.start(), range.end());
        format!("shardRange({path}, '{start:#018x}', '{end:#018x}')")
    };
    let terms: Vec<String> = ranges.iter().map(term).collect();
    terms.join(" || ")
}

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid shard selector at byte {at}: {kind}")]
pub struct SelectorError {
    /// The byte at which it goes wrong.
    pub at: usize,
    /// The rule that is broken.
    pub kind: SelectorErrorKind,
}

/// The rule that a text breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorErrorKind {
    /// Nothing but blanks.
    #[error("it is empty; leave the parameter out for all objects")]
    Empty,
    /// Something else stands here.
    #[error("expected {expected}")]
    Expected {
        /// The text or the kind of token that is needed.
        expected: &'static str,
    },
    /// Another field than uid or namespace.
    #[error("field {path:?} is not supported: object.metadata.uid or object.metadata.namespace")]
    Field {
        /// The path.
        path: String,
    },
    /// Two fields in one selector.
    #[error("all ranges must use one field")]
    TwoFields,
    /// A bound of another form.
    #[error(
        "a bound is 0x and 16 lower-case hexadecimal digits, or 0x10000000000000000: {bound:?}"
    )]
    Bound {
        /// The text.
        bound: String,
    },
    /// The start is not below the end.
    #[error("the start of a range must be less than its end")]
    Order,
    /// Too many parentheses.
    #[error("too many parentheses")]
    Depth,
}

/// Parses a selector.
///
/// # Errors
/// The first rule that the text breaks, with its position.
pub fn parse(text: &str) -> Result<(ShardField, Ranges), SelectorError> {
    let (field, ranges) = parse_terms(text)?;
    Ok((field, ranges.into_iter().collect()))
}

/// Parses a selector into its ranges, in the order in which they are written.
///
/// # Errors
/// The first rule that the text breaks, with its position.
pub fn parse_terms(text: &str) -> Result<(ShardField, Vec<ShardRange>), SelectorError> {
    let mut parser = Parser {
        text,
        at: 0,
        field: None,
        ranges: Vec::new(),
    };
    parser.skip_blanks();
    if parser.rest().is_empty() {
        return Err(parser.error(SelectorErrorKind::Empty));
    }
    parser.alternatives(0)?;
    if !parser.rest().is_empty() {
        return Err(parser.expected("|| or the end"));
    }
    let field = parser.field.ok_or_else(|| parser.expected(CALL))?;
    Ok((field, parser.ranges))
}

const CALL: &str = "shardRange(field, start, end)";

struct Parser<'a> {
    text: &'a str,
    at: usize,
    field: Option<ShardField>,
    ranges: Vec<ShardRange>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len()
            - rest
                .trim_start_matches([' ', '\t', '\n', '\r', '\x0c'])
                .len();
    }

    fn error(&self, kind: SelectorErrorKind) -> SelectorError {
        SelectorError { at: self.at, kind }
    }

    fn expected(&self, expected: &'static str) -> SelectorError {
        self.error(SelectorErrorKind::Expected { expected })
    }

    /// Takes this token and the blanks after it, if it is next.
    fn take(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
            self.skip_blanks();
        }
        is_next
    }

    fn need(&mut self, token: &'static str) -> Result<(), SelectorError> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.expected(token)),
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<(), SelectorError> {
        loop {
            self.operand(depth)?;
            if !self.take("||") {
                return Ok(());
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Result<(), SelectorError> {
        if depth == MAX_DEPTH {
            return Err(self.error(SelectorErrorKind::Depth));
        }
        if self.take("(") {
            self.alternatives(depth + 1)?;
            return self.need(")");
        }
        let begin = self.at;
        if self.name() != "shardRange" {
            self.at = begin;
            return Err(self.expected(CALL));
        }
        self.need("(")?;
        self.path()?;
        self.need(",")?;
        let start = self.bound()?;
        self.need(",")?;
        let at = self.at;
        let end = self.bound()?;
        let range = u64::try_from(start)
            .ok()
            .and_then(|start| ShardRange::new(start, end));
        let range = range.ok_or(SelectorError {
            at,
            kind: SelectorErrorKind::Order,
        })?;
        self.ranges.push(range);
        self.need(")")
    }

    /// An identifier, empty if there is none, and the blanks after it.
    fn name(&mut self) -> &'a str {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.len() - rest.trim_start_matches(is_part).len();
        self.at += length;
        self.skip_blanks();
        &rest[..length]
    }

    fn path(&mut self) -> Result<(), SelectorError> {
        let begin = self.at;
        let mut path = self.name().to_owned();
        if path.is_empty() {
            return Err(self.expected("a field, as object.metadata.uid"));
        }
        while self.take(".") {
            path.push('.');
            path.push_str(self.name());
        }
        let Some(field) = ShardField::of_path(&path) else {
            let kind = SelectorErrorKind::Field { path };
            return Err(SelectorError { at: begin, kind });
        };
        if self
            .field
            .replace(field)
            .is_some_and(|before| before != field)
        {
            let kind = SelectorErrorKind::TwoFields;
            return Err(SelectorError { at: begin, kind });
        }
        Ok(())
    }

    fn bound(&mut self) -> Result<u128, SelectorError> {
        let begin = self.at;
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let text = quote.and_then(|quote| rest[1..].split_once(quote));
        let (Some((bound, _)), false) = (text, self.is_raw_end(text)) else {
            return Err(self.expected("a string, as '0x0000000000000000'"));
        };
        self.at += bound.len() + 2;
        self.skip_blanks();
        hexadecimal(bound).ok_or_else(|| SelectorError {
            at: begin,
            kind: SelectorErrorKind::Bound {
                bound: bound.chars().take(40).collect(),
            },
        })
    }

    /// Returns whether a string goes over the end of a line, which CEL's do not.
    fn is_raw_end(&self, text: Option<(&str, &str)>) -> bool {
        text.is_some_and(|(bound, _)| bound.contains(['\n', '\r']))
    }
}

/// The number of a bound.
fn hexadecimal(bound: &str) -> Option<u128> {
    let digits = bound.strip_prefix("0x")?;
    if digits == "10000000000000000" {
        return Some(TOP);
    }
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = digits.len() == 16 && digits.bytes().all(is_digit);
    is_valid.then(|| u128::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of equal parts of all hashes.
    fn part(at: u128, count: u128) -> ShardRange {
        let start = |at: u128| (at * TOP).div_ceil(count);
        ShardRange::new(u64::try_from(start(at)).unwrap(), start(at + 1)).unwrap()
    }

    #[test]
    fn the_text_is_the_one_that_a_real_server_echoes() {
        let half = |at| Ranges::from(part(at, 2));
        let table = [
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
            "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
        ];
        for (at, expected) in (0..).zip(table) {
            let text = selector(ShardField::Uid, &half(at));
            assert_eq!(text.as_deref(), Some(expected));
            assert_eq!(parse(expected), Ok((ShardField::Uid, half(at))));
        }
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let ranges: Ranges = [3, 4, 9, 63].map(|at| part(at, 64)).into_iter().collect();
        let text = selector(ShardField::Namespace, &ranges).unwrap();
        assert_eq!(text.matches("||").count(), 2);
        assert_eq!(parse(&text), Ok((ShardField::Namespace, ranges)));
    }

    #[test]
    fn neither_everything_nor_nothing_nor_a_long_text_is_sent() {
        assert_eq!(selector(ShardField::Uid, &Ranges::all()), None);
        assert_eq!(selector(ShardField::Uid, &Ranges::none()), None);
        let every_second =
            |count: u128| -> Ranges { (0..count).map(|at| part(2 * at, 1_000)).collect() };
        let longest = selector(ShardField::Uid, &every_second(51)).unwrap();
        assert!(longest.len() <= MAX_SELECTOR_BYTES, "{}", longest.len());
        assert_eq!(selector(ShardField::Uid, &every_second(53)), None);
    }

    #[test]
    fn blanks_parentheses_and_either_quotes_are_read() {
        let low = "'0x0000000000000000'";
        let text = format!(
            " ( shardRange ( object . metadata.uid,{low},\"0x0000000000000001\" ) )\n|| (shardRange(object.metadata.uid, '0x0000000000000001', '0x0000000000000002'))"
        );
        let expected = Ranges::from(ShardRange::new(0, 2).unwrap());
        assert_eq!(parse(&text), Ok((ShardField::Uid, expected)));
    }

    #[test]
    fn terms_keep_their_order_and_are_written_again_as_they_were() {
        let ranges = [part(1, 2), part(0, 2), part(1, 2)];
        let text = terms_text(ShardField::Uid, &ranges);
        assert_eq!(parse_terms(&text), Ok((ShardField::Uid, Vec::from(ranges))));
        assert_eq!(parse(&text), Ok((ShardField::Uid, Ranges::all())));
    }

    #[test]
    fn other_texts_are_refused_where_they_go_wrong() {
        let zero = "'0x0000000000000000'";
        let one = "'0x0000000000000001'";
        let call =
            |field: &str, start: &str, end: &str| format!("shardRange({field}, {start}, {end})");
        let uid = |start: &str, end: &str| call("object.metadata.uid", start, end);
        let good = uid(zero, one);
        let end = good.len();
        let table = [
            (String::new(), 0, "empty"),
            ("  ".to_owned(), 2, "empty"),
            ("'x'".to_owned(), 0, "expected shardRange("),
            ("size(object)".to_owned(), 0, "expected shardRange("),
            (
                format!("{good} && {good}"),
                end + 1,
                "expected || or the end",
            ),
            (format!("{good} ||"), end + 3, "expected shardRange("),
            (format!("({good}"), end + 1, "expected )"),
            (
                "shardRange(object.metadata.uid)".to_owned(),
                30,
                "expected ,",
            ),
            (call("object.metadata.name", zero, one), 11, "not supported"),
            (call("uid", zero, one), 11, "not supported"),
            (call("", zero, one), 11, "expected a field"),
            (uid("0", one), 32, "expected a string"),
            (uid("'0x0000000000000000", "1"), 32, "expected a string"),
            (uid("'0000000000000000'", one), 32, "a bound is"),
            (uid("'0x0'", one), 32, "a bound is"),
            (uid("'0x000000000000000A'", one), 32, "a bound is"),
            (uid(zero, "'0x10000000000000001'"), 54, "a bound is"),
            (uid(one, one), 54, "less than its end"),
            (uid("'0x10000000000000000'", one), 55, "less than its end"),
            (
                format!("{good} || {}", call("object.metadata.namespace", zero, one)),
                end + 15,
                "one field",
            ),
            ("(".repeat(40), 32, "parentheses"),
        ];
        for (text, at, expected) in table {
            let error = parse(&text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text:?}: {error}");
            assert_eq!(error.at, at, "{text:?}: {error}");
        }
    }
}
