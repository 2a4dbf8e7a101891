//! Reads a pattern in Go's syntax.
//!
//! ```text
//! pattern ──letter by letter──▶ stack of groups of pieces ──▶ Hir | error in Go's words
//! ```
//!
//! Groups capture no text: a match is all that callers ask for.
//!
//! INVARIANT: a piece is complete in itself. Flags are applied where a piece is made, so none
//! reaches beyond its piece.
//!
//! BOUND: 256 levels; 1,000 copies of a piece, repetitions of repetitions multiplied.
//!
//! Upstream: `go:regexp/syntax/parse.go`.

use regex_syntax::hir::{Class, ClassUnicode, Dot, Hir, Look, Repetition};

use super::class::{Case, Classes, before};
use super::{error, too_large};

/// The most copies of a piece that repetitions may ask for.
const MAX_COPIES: u32 = 1000;
/// BOUND: the levels of a pattern. The compiler of programs recurses.
const MAX_HEIGHT: u32 = 256;

#[derive(Clone, Copy, Debug)]
struct Flags {
    case: Case,
    /// `^` and `$` match at lines.
    is_multi_line: bool,
    /// `.` matches a line feed.
    dot_matches_lines: bool,
    /// Repetitions prefer fewer copies.
    is_lazy: bool,
}

/// A part of the pattern.
#[derive(Debug)]
struct Piece {
    tree: Hir,
    height: u32,
    /// The most copies of an inner piece that repetitions ask for.
    copies: u32,
}

/// A group that is not closed.
#[derive(Debug, Default)]
struct Group {
    alternatives: Vec<Piece>,
    pieces: Vec<Piece>,
    /// Letters after the pieces. The last one is the argument of a repetition.
    letters: String,
}

#[derive(Debug)]
struct Parser<'p> {
    pattern: &'p str,
    flags: Flags,
    classes: Classes,
    group: Group,
    /// The groups around the current one, with the flags to restore.
    around: Vec<(Group, Flags)>,
}

/// Parses a pattern.
///
/// # Errors
/// The first mistake, in Go's words.
pub(super) fn parse(pattern: &str) -> Result<Hir, String> {
    let mut parser = Parser {
        pattern,
        flags: Flags {
            case: Case::Exact,
            is_multi_line: false,
            dot_matches_lines: false,
            is_lazy: false,
        },
        classes: Classes::default(),
        group: Group::default(),
        around: Vec::new(),
    };
    let mut rest = pattern;
    let mut last_repetition = None;
    while !rest.is_empty() {
        let start = rest;
        let (after, is_repetition) = match parser.repetition(rest, last_repetition)? {
            Some(after) => (after, true),
            None => (parser.piece(rest)?, false),
        };
        rest = after;
        last_repetition = is_repetition.then_some(start);
    }
    if !parser.around.is_empty() {
        return Err(error("missing closing )", pattern));
    }
    let group = std::mem::take(&mut parser.group);
    parser.closed(group).map(|piece| piece.tree)
}

impl<'p> Parser<'p> {
    /// Reads a repetition and applies it to the piece before it. Text that is no repetition
    /// remains.
    fn repetition(
        &mut self,
        text: &'p str,
        last: Option<&'p str>,
    ) -> Result<Option<&'p str>, String> {
        let (least, most, mut after) = match text.as_bytes() {
            [b'*', ..] => (0, None, &text[1..]),
            [b'+', ..] => (1, None, &text[1..]),
            [b'?', ..] => (0, Some(1), &text[1..]),
            [b'{', ..] => {
                let Some((least, most, after)) = bounds(text) else {
                    return Ok(None);
                };
                let is_too_large = |count: u32| count > MAX_COPIES;
                if is_too_large(least)
                    || most.is_some_and(|most| is_too_large(most) || least > most)
                {
                    return Err(error("invalid repeat count", before(text, after)));
                }
                (least, most, after)
            }
            _ => return Ok(None),
        };
        let mut is_lazy = self.flags.is_lazy;
        if let Some(rest) = after.strip_prefix('?') {
            after = rest;
            is_lazy = !is_lazy;
        }
        if let Some(last) = last {
            let what = "invalid nested repetition operator";
            return Err(error(what, before(last, after)));
        }
        let Some(piece) = self.take_last() else {
            let what = "missing argument to repetition operator";
            return Err(error(what, before(text, after)));
        };
        let mut copies = piece.copies;
        if text.starts_with('{') {
            copies = match most.unwrap_or(least) {
                0 if most.is_some() => 1,
                count => copies.saturating_mul(count.max(1)),
            };
            if most.unwrap_or(least) >= 2 && copies > MAX_COPIES {
                return Err(error("invalid repeat count", before(text, after)));
            }
        }
        self.push(Piece {
            tree: Hir::repetition(Repetition {
                min: least,
                max: most,
                greedy: !is_lazy,
                sub: Box::new(piece.tree),
            }),
            height: piece.height + 1,
            copies,
        })?;
        Ok(Some(after))
    }

    /// Reads a piece, a part of a group's frame or a change of flags; returns the rest.
    fn piece(&mut self, text: &'p str) -> Result<&'p str, String> {
        let flags = self.flags;
        let Some(letter) = text.chars().next() else {
            return Ok(text);
        };
        let rest = &text[letter.len_utf8()..];
        match letter {
            '(' if rest.starts_with('?') => return self.special_group(text),
            '(' => self.open(flags),
            '|' => {
                let alternative = self.concatenated()?;
                self.group.alternatives.push(alternative);
            }
            ')' => self.close()?,
            '^' if flags.is_multi_line => self.look(Look::StartLF)?,
            '^' => self.look(Look::Start)?,
            '$' if flags.is_multi_line => self.look(Look::EndLF)?,
            '$' => self.look(Look::End)?,
            '.' if flags.dot_matches_lines => self.leaf(Hir::dot(Dot::AnyChar))?,
            '.' => self.leaf(Hir::dot(Dot::AnyCharExceptLF))?,
            '[' => {
                let (class, rest) = self.classes.bracketed(text, flags.case)?;
                self.class(class)?;
                return Ok(rest);
            }
            '\\' => return self.escaped(text),
            letter => self.letter(letter)?,
        }
        Ok(rest)
    }

    /// Reads what begins with a backslash.
    fn escaped(&mut self, text: &'p str) -> Result<&'p str, String> {
        let rest = text.get(2..).unwrap_or_default();
        match text.as_bytes().get(1) {
            Some(b'A') => self.look(Look::Start)?,
            Some(b'z') => self.look(Look::End)?,
            Some(b'b') => self.look(Look::WordAscii)?,
            Some(b'B') => self.look(Look::WordAsciiNegate)?,
            Some(b'Q') => {
                let (quoted, rest) = rest.split_once(r"\E").unwrap_or((rest, ""));
                for letter in quoted.chars() {
                    self.letter(letter)?;
                }
                return Ok(rest);
            }
            _ => {
                if let Some((class, rest)) = self.classes.escaped(text, self.flags.case)? {
                    self.class(class)?;
                    return Ok(rest);
                }
                let (code, rest) = escape(text)?;
                match char::from_u32(code) {
                    Some(letter) => self.letter(letter)?,
                    // No text has a surrogate.
                    None => self.leaf(Hir::fail())?,
                }
                return Ok(rest);
            }
        }
        Ok(rest)
    }

    /// Reads a group that begins with `(?`, or a change of flags.
    fn special_group(&mut self, text: &'p str) -> Result<&'p str, String> {
        let named = text
            .strip_prefix("(?P<")
            .or_else(|| text.strip_prefix("(?<"));
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            const BAD_NAME: &str = "invalid named capture";
            let Some((name, rest)) = named.split_once('>') else {
                return Err(error(BAD_NAME, text));
            };
            let is_inner = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_inner) {
                return Err(error(BAD_NAME, before(text, rest)));
            }
            self.open(self.flags);
            return Ok(rest);
        }
        let mut flags = self.flags;
        let (mut is_set, mut has_flag) = (true, false);
        let mut letters = text[2..].chars();
        while let Some(letter) = letters.next() {
            match letter {
                'i' if is_set => flags.case = Case::Folded,
                'i' => flags.case = Case::Exact,
                'm' => flags.is_multi_line = is_set,
                's' => flags.dot_matches_lines = is_set,
                'U' => flags.is_lazy = is_set,
                '-' if is_set => {
                    (is_set, has_flag) = (false, false);
                    continue;
                }
                ':' | ')' if is_set || has_flag => {
                    if letter == ':' {
                        self.open(self.flags);
                    }
                    self.flags = flags;
                    return Ok(letters.as_str());
                }
                _ => break,
            }
            has_flag = true;
        }
        let what = "invalid or unsupported Perl syntax";
        Err(error(what, before(text, letters.as_str())))
    }

    fn open(&mut self, flags: Flags) {
        let group = std::mem::take(&mut self.group);
        self.around.push((group, flags));
    }

    fn close(&mut self) -> Result<(), String> {
        let Some((around, flags)) = self.around.pop() else {
            return Err(error("unexpected )", self.pattern));
        };
        let group = std::mem::replace(&mut self.group, around);
        let piece = self.closed(group)?;
        self.flags = flags;
        self.push(piece)
    }

    /// Returns a complete group as a piece.
    fn closed(&mut self, group: Group) -> Result<Piece, String> {
        let around = std::mem::replace(&mut self.group, group);
        let last = self.concatenated()?;
        let mut group = std::mem::replace(&mut self.group, around);
        group.alternatives.push(last);
        self.joined(group.alternatives, Hir::alternation)
    }

    /// Takes the pieces since the last `|` as one.
    fn concatenated(&mut self) -> Result<Piece, String> {
        self.end_letters();
        let pieces = std::mem::take(&mut self.group.pieces);
        self.joined(pieces, Hir::concat)
    }

    fn joined(&self, mut pieces: Vec<Piece>, join: fn(Vec<Hir>) -> Hir) -> Result<Piece, String> {
        if pieces.len() == 1
            && let Some(piece) = pieces.pop()
        {
            return Ok(piece);
        }
        let highest = pieces.iter().map(|piece| piece.height).max();
        let piece = Piece {
            height: highest.unwrap_or_default() + 1,
            copies: pieces.iter().map(|piece| piece.copies).max().unwrap_or(1),
            tree: join(pieces.into_iter().map(|piece| piece.tree).collect()),
        };
        self.checked(piece)
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        if self.flags.case == Case::Exact {
            self.group.letters.push(letter);
            return Ok(());
        }
        let class = self
            .classes
            .folded(letter)
            .map_err(|_| too_large(self.pattern))?;
        self.class(class)
    }

    fn class(&mut self, class: ClassUnicode) -> Result<(), String> {
        self.leaf(Hir::class(Class::Unicode(class)))
    }

    fn look(&mut self, look: Look) -> Result<(), String> {
        self.leaf(Hir::look(look))
    }

    fn leaf(&mut self, tree: Hir) -> Result<(), String> {
        self.push(Piece {
            tree,
            height: 1,
            copies: 1,
        })
    }

    fn push(&mut self, piece: Piece) -> Result<(), String> {
        let piece = self.checked(piece)?;
        self.end_letters();
        self.group.pieces.push(piece);
        Ok(())
    }

    fn checked(&self, piece: Piece) -> Result<Piece, String> {
        match piece.height > MAX_HEIGHT {
            true => Err(error("expression nests too deeply", self.pattern)),
            false => Ok(piece),
        }
    }

    /// Makes a piece of the letters after the pieces.
    fn end_letters(&mut self) {
        if !self.group.letters.is_empty() {
            let letters = std::mem::take(&mut self.group.letters);
            self.group.pieces.push(Piece {
                tree: Hir::literal(letters.into_bytes()),
                height: 1,
                copies: 1,
            });
        }
    }

    /// Takes the piece that a repetition repeats: of letters the last one.
    fn take_last(&mut self) -> Option<Piece> {
        let Some(letter) = self.group.letters.pop() else {
            return self.group.pieces.pop();
        };
        self.end_letters();
        Some(Piece {
            tree: Hir::literal(letter.to_string().into_bytes()),
            height: 1,
            copies: 1,
        })
    }
}

/// Reads `{2}`, `{2,}` or `{2,5}`. Any other text is no repetition. Numbers beyond `u32` are its
/// largest.
fn bounds(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (least, rest) = count(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, Some(least), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, None, rest));
    }
    let (most, rest) = count(rest)?;
    Some((least, Some(most), rest.strip_prefix('}')?))
}

/// Reads a number without leading zeros.
fn count(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}

/// Reads the escape of a letter; returns its code point and the rest.
pub(super) fn escape(text: &str) -> Result<(u32, &str), String> {
    let mut letters = text[1..].chars();
    let Some(letter) = letters.next() else {
        return Err(error("trailing backslash at end of expression", ""));
    };
    let rest = letters.as_str();
    let code = match letter {
        'a' => Some((0x07, rest)),
        'f' => Some((0x0c, rest)),
        'n' => Some((0x0a, rest)),
        'r' => Some((0x0d, rest)),
        't' => Some((0x09, rest)),
        'v' => Some((0x0b, rest)),
        '0'..='7' => octal(&text[1..]),
        'x' => return hexadecimal(text, rest),
        sign if sign.is_ascii() && !sign.is_ascii_alphanumeric() => Some((u32::from(sign), rest)),
        _ => None,
    };
    code.ok_or_else(|| bad_escape(text, rest))
}

fn bad_escape(text: &str, rest: &str) -> String {
    error("invalid escape sequence", before(text, rest))
}

/// Reads up to three octal digits. One digit that is not zero would be a backreference.
fn octal(digits: &str) -> Option<(u32, &str)> {
    let is_digit = |letter: &char| letter.is_digit(8);
    let count = digits.chars().take(3).take_while(is_digit).count();
    let (digits, rest) = digits.split_at(count);
    if count == 1 && digits != "0" {
        return None;
    }
    Some((u32::from_str_radix(digits, 8).ok()?, rest))
}

/// Reads `\x7F` or `\x{10FFFF}`, of which `rest` follows the `x`.
fn hexadecimal<'p>(text: &'p str, rest: &'p str) -> Result<(u32, &'p str), String> {
    let mut letters = rest.chars();
    let Some(first) = letters.next() else {
        return Err(bad_escape(text, rest));
    };
    if first != '{' {
        let high = first.to_digit(16);
        let Some(second) = letters.next() else {
            return Err(bad_escape(text, ""));
        };
        let code = high.zip(second.to_digit(16));
        let code = code.map(|(high, low)| high * 16 + low);
        return code
            .map(|code| (code, letters.as_str()))
            .ok_or_else(|| bad_escape(text, letters.as_str()));
    }
    let (mut code, mut digits) = (0_u32, 0);
    for letter in letters.by_ref() {
        match letter.to_digit(16) {
            Some(digit) => code = code * 16 + digit,
            None if letter == '}' && digits > 0 => return Ok((code, letters.as_str())),
            None => break,
        }
        digits += 1;
        if code > u32::from(char::MAX) {
            break;
        }
    }
    Err(bad_escape(text, letters.as_str()))
}
