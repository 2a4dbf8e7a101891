//! Choices drawn from the bytes of an input: nearly valid structures of any bytes.
//!
//! ```text
//! bytes ──▶ Draw ──▶ below(n), pick(words), json(depth), ..
//! ```
//!
//! An input of one byte more or less leads to nearly the same choices, so the edits of a fuzzer
//! change a structure a little. Behind the last byte every choice is the first one, which ends
//! lists and nesting. BOUND: a structure has a few times as many parts as the input has bytes.
//! Upstream: none; the idea is that of `arbitrary`.

use serde_json::{Map, Value};

/// Keys of made objects: few, so that they meet; some need an escape in a pointer.
const KEYS: [&str; 8] = ["a", "b", "c", "list", "a/b", "m~n", "", "0"];

/// A reader of choices.
#[derive(Clone, Debug)]
pub struct Draw<'a> {
    bytes: &'a [u8],
}

impl<'a> Draw<'a> {
    /// Choices of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns whether there are no more bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// A number less than the bound; 0 behind the last byte.
    pub fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        usize::from(*first) % bound.max(1)
    }

    /// True one time in `of`, never behind the last byte.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of.max(2)) == 1
    }

    /// One of these; the first behind the last byte.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A JSON value with few keys and small scalars.
    pub fn json(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Value::from(self.below(4)),
            1 => Value::Null,
            2 => Value::from(self.one_in(2)),
            3 | 4 => Value::from(self.pick(&["", "x", "y", "a/b", "é~", "\u{1f980}\n\""])),
            5 | 6 => {
                let length = self.below(4);
                Value::from(
                    (0..length)
                        .map(|_| self.json(depth - 1))
                        .collect::<Vec<_>>(),
                )
            }
            _ => Value::Object(self.members(depth)),
        }
    }

    /// A JSON object with up to four members.
    pub fn members(&mut self, depth: usize) -> Map<String, Value> {
        let length = self.below(5);
        let depth = depth.saturating_sub(1);
        (0..length)
            .map(|_| (self.pick(&KEYS).to_owned(), self.json(depth)))
            .collect()
    }

    /// A key of made objects.
    pub fn key(&mut self) -> &'static str {
        self.pick(&KEYS)
    }
}

/// The value of a text that is JSON, without numbers that readers may round; else one that is drawn
/// from the bytes.
#[must_use]
pub fn given(bytes: &[u8]) -> Value {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) if is_exact(&value) => value,
        _ => Draw::new(bytes).json(4),
    }
}

/// Returns whether all numbers are whole and small: every reader has them alike.
#[must_use]
pub fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some(),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        _ => true,
    }
}
