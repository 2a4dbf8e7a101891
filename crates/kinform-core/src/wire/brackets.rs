//! What bracketed values of one list have in common: walked beside those of an item before, compared, not checked.
//!
//! ```text
//! member of an item, of the same place in one before ─▶ Values::end ─▶ its end │ Fault, as of each alone
//!                     └─ brackets of the template, in order: start, end, what is behind all that is inside
//! ```
//!
//! A value in brackets ends where equal bytes end, and is as sound as they are: so where a value opens at the same place
//! of the template and goes on with the same bytes, the walk goes on behind it. What differs is checked, and what is in
//! it meets what is in its counterpart; the k-th value in brackets meets the k-th.
//!
//! INVARIANT: a template was found to be sound with as many levels around it as what is compared with it.
//! BOUND: four templates a list, of 32 KiB and 2,048 brackets each. Upstream: none.
//! Complexity: linear; a byte is compared at most eight times before it is checked.

use smallvec::SmallVec;

use super::json::{self, Fault, space, string};
use super::scan::Stops;
use super::serving::{Serving, Turn};

/// BOUND: members of an item that are remembered; those of a kind are fewer.
const MOST_MEMBERS: usize = 4;
/// BOUND: bytes of a template.
const MOST_BYTES: usize = 32 << 10;
/// BOUND: brackets of a template.
const MOST_BRACKETS: usize = 2 << 10;
/// BOUND: how often the bytes of a template are compared in vain, once a level at most; replicas are not that deep.
const TIMES_IN_VAIN: usize = 8;
/// The levels around a member of an item.
const DEPTH: u32 = 1;

/// What walks beside a value that is checked, and may know what is in some brackets.
pub(super) trait Beside {
    /// A bracket opens at `at`, and not for nothing: where it closes, if what is in it is known to be sound.
    fn open(&mut self, bytes: &[u8], at: usize) -> Option<usize>;

    /// A bracket closed that was not known.
    fn close(&mut self);
}

/// Nothing is known.
pub(super) struct Alone;

impl Beside for Alone {
    #[inline(always)]
    fn open(&mut self, _: &[u8], _: usize) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn close(&mut self) {}
}

/// The members of the items before. The default remembers nothing.
#[derive(Debug, Default)]
pub(super) struct Values {
    members: Vec<(Template, Serving)>,
    most: usize,
}

/// A value that was checked.
#[derive(Debug, Default)]
struct Template {
    text: Vec<u8>,
    brackets: Vec<Bracket>,
}

/// A value in brackets, unless it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bracket {
    start: u32,
    end: u32,
    /// The first one that begins behind it.
    next: u32,
}

impl Bracket {
    fn length(self) -> usize {
        (self.end - self.start) as usize
    }
}

impl Values {
    /// For items that are alike.
    pub(super) fn new() -> Self {
        Self {
            most: MOST_MEMBERS,
            ..Self::default()
        }
    }

    /// Checks the value at `at` of an item's member, the item's `number`th; returns the position after it.
    pub(super) fn end(
        &mut self,
        stops: &mut Stops<'_>,
        at: usize,
        number: usize,
    ) -> Result<usize, Fault> {
        let bytes = stops.bytes();
        let is_bracketed = matches!(bytes.get(at), Some(b'{' | b'['));
        if !is_bracketed || number >= self.most {
            return json::value(stops, at, DEPTH);
        }
        if self.members.len() <= number {
            self.members.resize_with(number + 1, Default::default);
        }
        let (template, serving) = &mut self.members[number];
        let (end, learns) = match serving.turn() {
            Turn::Compare => {
                let mut walk = Walk::beside(template);
                let end = json::value_beside(stops, at, DEPTH, &mut walk)?;
                (end, serving.served(walk.compared, end - at))
            }
            turn => (json::value(stops, at, DEPTH)?, turn == Turn::AloneAndLearn),
        };
        if learns {
            template.learn(&bytes[at..end]);
        }
        Ok(end)
    }
}

impl Template {
    /// Takes a value that is sound; one that is too large is like nothing.
    fn learn(&mut self, text: &[u8]) {
        self.text.clear();
        self.brackets.clear();
        if text.len() <= MOST_BYTES {
            self.text.extend_from_slice(text);
            if self.read().is_none() {
                self.brackets.clear();
            }
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut stops = Stops::new(&self.text);
        let mut open: SmallVec<[usize; 16]> = SmallVec::new();
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'"' => at = string(&mut stops, at).ok()?.0,
                b'{' | b'[' => {
                    let start = at as u32;
                    at = space(&self.text, at + 1);
                    // `{` and `}`, `[` and `]` are two apart.
                    if self.text.get(at) == Some(&(byte + 2)) {
                        at += 1;
                        continue;
                    }
                    if self.brackets.len() == MOST_BRACKETS {
                        return None;
                    }
                    open.push(self.brackets.len());
                    let (end, next) = (start, 0);
                    self.brackets.push(Bracket { start, end, next });
                }
                b'}' | b']' => {
                    at += 1;
                    let next = self.brackets.len() as u32;
                    let closed = self.brackets.get_mut(open.pop()?)?;
                    (closed.end, closed.next) = (at as u32, next);
                }
                _ => at += 1,
            }
        }
        open.is_empty().then_some(())
    }
}

/// The place in a template that is beside the place that is checked.
struct Walk<'a> {
    template: &'a Template,
    /// What the next value in brackets meets, if that is less than `limit`.
    next: u32,
    limit: u32,
    /// Where the walk goes on behind each value that is open.
    outer: SmallVec<[(u32, u32); 16]>,
    compared: usize,
    /// How many bytes may still be compared that turn out to differ.
    left_in_vain: usize,
}

impl<'a> Walk<'a> {
    fn beside(template: &'a Template) -> Self {
        Self {
            template,
            next: 0,
            limit: template.brackets.len() as u32,
            outer: SmallVec::new(),
            compared: 0,
            left_in_vain: TIMES_IN_VAIN * template.text.len(),
        }
    }
}

impl Beside for Walk<'_> {
    #[inline(always)]
    fn open(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let met = self.template.brackets.get(self.next as usize);
        let is_worth_it =
            |met: &&Bracket| self.next < self.limit && self.left_in_vain >= met.length();
        let Some(met) = met.filter(is_worth_it) else {
            self.outer.push((self.next, self.limit));
            self.limit = self.next;
            return None;
        };
        let known = &self.template.text[met.start as usize..met.end as usize];
        if bytes[at..].starts_with(known) {
            self.next = met.next;
            self.compared += known.len();
            return Some(at + known.len());
        }
        // What is in it is compared again, level by level.
        self.left_in_vain -= known.len();
        self.outer.push((met.next, self.limit));
        (self.next, self.limit) = (self.next + 1, met.next);
        None
    }

    #[inline(always)]
    fn close(&mut self) {
        if let Some(outer) = self.outer.pop() {
            (self.next, self.limit) = outer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each value ends where it would alone, or is broken there; how many bytes were compared at most.
    fn check<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
        let mut values = Values::new();
        let mut best = 0;
        for text in texts {
            let bytes = text.as_bytes();
            let alone = json::value(&mut Stops::new(bytes), 0, DEPTH);
            let found = values.end(&mut Stops::new(bytes), 0, 0);
            assert_eq!(found, alone, "{text}");
            if let Some((template, serving)) = values.members.first() {
                best = best.max(serving.best);
                for bracket in &template.brackets {
                    let known = &template.text[bracket.start as usize..bracket.end as usize];
                    let end = json::value(&mut Stops::new(known), 0, DEPTH);
                    assert_eq!(end, Ok(known.len()), "{text}");
                }
            }
        }
        best
    }

    const ONE: &str = r#"{"a":{"b":[1,{"c":"x}"},[]],"d":{}},"e":[ {"f":null} , {"g":"\"]"}],"h":{"i":{"j":"k"}}}"#;

    #[test]
    fn what_is_the_same_is_compared_and_what_differs_is_checked() {
        let other = ONE.replace("null", "true");
        // All but what holds the word.
        let same = r#"{"b":[1,{"c":"x}"},[]],"d":{}}{"g":"\"]"}{"i":{"j":"k"}}"#;
        assert_eq!(check([ONE, &other]), same.len());
        assert_eq!(check([ONE, ONE]), ONE.len());
        let more = ONE.replace(r#""e":["#, r#""e":[[7],"#);
        let fewer = ONE.replace(r#" , {"g":"\"]"}"#, "");
        check([ONE, &more, &fewer, ONE, &fewer, &more, &more]);
        check(["[1]", ONE, "{}", "7", "\"a\"", "", ONE, "[[[", ONE]);
    }

    #[test]
    fn a_neighbour_with_any_byte_changed_is_what_it_is_alone() {
        for at in 0..ONE.len() {
            for byte in [
                " ", "\"", "{", "}", "[", "]", ",", ":", "\\", "0", "x", "\u{1}",
            ] {
                let changed = [&ONE[..at], byte, &ONE[at + 1..]].concat();
                let more = [&ONE[..at], byte, &ONE[at..]].concat();
                check([ONE, &changed, ONE, &more, &ONE[..at], ONE]);
            }
        }
    }

    #[test]
    fn nesting_is_limited_beside_a_template_as_without() {
        let nested = |depth: usize, inside: &str| {
            let (open, close) = (r#"{"a":["#.repeat(depth), "]}".repeat(depth));
            format!("{open}{inside}{close}")
        };
        let texts: Vec<_> = (61..67)
            .flat_map(|depth| {
                ["[1]", "[2]", "{\"b\":[1]}", "3"].map(|inside| nested(depth, inside))
            })
            .collect();
        check(texts.iter().map(|text| &**text));
        check(texts.iter().rev().map(|text| &**text));
    }

    #[test]
    fn of_a_list_few_members_are_remembered_and_none_that_is_large() {
        let mut values = Values::new();
        let large = format!("[\"{}\"]", "x".repeat(MOST_BYTES));
        let many = format!("[{}1]", "[1],".repeat(MOST_BRACKETS));
        for (number, text) in [&*large, &many, ONE, ONE, ONE, ONE].into_iter().enumerate() {
            let stops = &mut Stops::new(text.as_bytes());
            assert_eq!(values.end(stops, 0, number), Ok(text.len()));
        }
        let remembered: Vec<_> = values
            .members
            .iter()
            .map(|(template, _)| template.brackets.len())
            .collect();
        assert_eq!(remembered, [0, 0, 9, 9]);
        assert_eq!(
            Values::default().end(&mut Stops::new(b"[[1]]"), 0, 0),
            Ok(5)
        );
    }

    #[test]
    fn what_differs_at_its_end_is_not_compared_at_each_level() {
        let deep = |last: &str| {
            let (open, close) = ("[".repeat(100), "]".repeat(100));
            format!("{{\"a\":{open}\"{}\",{last}{close}}}", "x".repeat(9_000))
        };
        let mut template = Template::default();
        template.learn(deep("1").as_bytes());
        let other = deep("2");
        let mut walk = Walk::beside(&template);
        let end = json::value_beside(&mut Stops::new(other.as_bytes()), 0, DEPTH, &mut walk);
        assert_eq!(end, Ok(other.len()));
        assert!(walk.left_in_vain < 9_000, "{}", walk.left_in_vain);
    }

    proptest! {
        #[test]
        fn values_end_where_they_would_alone(
            texts in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::sample::select(vec![
                        r#"{"a":1,"#, r#""b":[1,2],"#, r#""b":[1,3],"#, r#""c":{"d":[{"e":"f"}]},"#, r#""c":{"d":[{"e":7}]},"#,
                        r#""g":{"#, r#""h":["#, "],", "},", r#""i":{"j":{}}"#, r#""i":null"#, "}", "]", "{", "[", "[[],[1]]", ",",
                    ]),
                    0..9,
                ),
                1..8,
            ),
        ) {
            let texts: Vec<_> = texts.iter().map(|pieces| format!("{{\"0\":[0],{}}}", pieces.concat())).collect();
            check(texts.iter().map(|text| &**text));
        }
    }
}
