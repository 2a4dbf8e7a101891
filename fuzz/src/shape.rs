//! The kind of reading that an input led to: coarse, so that similar inputs have the same shape.
//!
//! ```text
//! refusals (without positions), kinds of parts, counts (by powers of two) ──▶ a number
//! ```
//!
//! It replaces the coverage that a nightly compiler counts: the driver keeps inputs with a new
//! shape.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// The kind of a reading, as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(pub u64);

impl Shape {
    /// One more thing that was seen.
    pub fn saw(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.0, what).hash(&mut hasher);
        self.0 = hasher.finish();
    }

    /// A text, without the numbers in it.
    pub fn text(&mut self, text: &str) {
        // BOUND: long texts differ in their beginnings.
        let text: String = text
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(160)
            .collect();
        self.saw(text);
    }

    /// The form of a text: its signs, with each run of letters or digits as one.
    pub fn form(&mut self, text: &str) {
        let mut form = String::new();
        // BOUND: long texts differ in their beginnings.
        for letter in text.chars().take(400) {
            let kind = match letter {
                letter if letter.is_alphanumeric() => 'a',
                letter if letter.is_whitespace() => ' ',
                letter => letter,
            };
            if !form.ends_with(kind) && form.len() < 60 {
                form.push(kind);
            }
        }
        self.saw(form);
    }

    /// Adds a count, rounded to a power of two.
    pub fn count(&mut self, count: usize) {
        self.saw(usize::BITS - count.leading_zeros());
    }
}
