//! A validated value as a shortcut for one of the same shape: compares equal bytes, validates
//! leaves that differ.
//!
//! ```text
//! a bracket opens ─▶ Walk::open ─▶ All: where it closes, by the template
//!                               ├─ Begin: how far it matches the template, the brackets open there
//!                               └─ Nothing: its members are validated
//! ```
//!
//! The values inside a value are compared with those inside its counterpart: the k-th bracketed
//! value with the k-th.
//!
//! Upstream: none. Complexity: linear; wasted comparisons read at most eight times a template's
//! bytes, and an item's once.

use smallvec::SmallVec;

use super::shortcut::{Shortcut, Sound};
use super::template::{Bracket, Like, Template};
use crate::wire::scan::Stops;

/// BOUND: wasted comparisons read at most this many times the template's size. Nested values are
/// compared again once a level; replicas are not that deep. The last one may read the whole item.
const TIMES_IN_VAIN: usize = 8;

/// The place in a template that corresponds to the place that is being validated.
pub(in crate::wire) struct Walk<'a> {
    template: &'a Template,
    /// The template's bracket with which the next bracketed value is compared, if it is below
    /// `limit`.
    next: u32,
    limit: u32,
    /// For each open value, `next` and `limit` after its end.
    outer: SmallVec<[(u32, u32); 16]>,
    pub(in crate::wire) compared: usize,
    /// The number of bytes that may still be read in comparisons that are wasted.
    left_in_vain: usize,
}

impl<'a> Walk<'a> {
    pub(in crate::wire) fn along(template: &'a Template) -> Self {
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

impl Walk<'_> {
    /// Compares the values inside these brackets with those inside `met`.
    fn descend(&mut self, met: Bracket) {
        self.outer.push((met.next, self.limit));
        (self.next, self.limit) = (self.next + 1, met.next);
    }

    /// Moves to a place inside of the next value; returns the number of brackets that are open
    /// there, and which of them are objects.
    #[inline(never)]
    fn enter(&mut self, place: usize) -> (u32, u128) {
        let (mut levels, mut objects) = (0, 0);
        while let Some(met) = self.template.brackets.get(self.next as usize)
            && self.next < self.limit
            && (met.start as usize) < place
        {
            if met.end as usize <= place {
                self.next = met.next;
                continue;
            }
            let is_object = self.template.text.get(met.start as usize) == Some(&b'{');
            (levels, objects) = (levels + 1, objects << 1 | u128::from(is_object));
            self.descend(*met);
        }
        (levels, objects)
    }
}

impl Shortcut for Walk<'_> {
    #[inline(always)]
    fn open(&mut self, stops: &mut Stops<'_>, at: usize) -> Sound {
        let met = self.template.brackets.get(self.next as usize);
        let is_worth_it =
            |met: &&Bracket| self.next < self.limit && self.left_in_vain >= met.length();
        let Some(met) = met.filter(is_worth_it) else {
            self.outer.push((self.next, self.limit));
            self.limit = self.next;
            return Sound::Nothing;
        };
        match self.template.follow(stops, at, *met) {
            Like::All { end, compared } => {
                self.next = met.next;
                self.compared += compared;
                Sound::All(end)
            }
            Like::Begin {
                at,
                at_template,
                compared,
            } => {
                self.compared += compared;
                let (levels, objects) = self.enter(at_template);
                Sound::Begin {
                    at,
                    levels,
                    objects,
                }
            }
            Like::Nothing { read } => {
                // Its inner values are compared again, level by level.
                let in_vain = read.max(met.length());
                self.left_in_vain = self.left_in_vain.saturating_sub(in_vain);
                self.descend(*met);
                Sound::Nothing
            }
        }
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
    use crate::wire::json::validate;

    #[test]
    fn what_differs_at_its_end_is_not_compared_at_each_level() {
        let deep = |last: &str| {
            let (open, close) = ("[".repeat(100), "]".repeat(100));
            format!("{{\"a\":{open}\"{}\",{last}{close}}}", "x".repeat(9_000))
        };
        let mut template = Template::default();
        template.learn(deep("1").as_bytes());
        let other = deep("[]");
        let mut walk = Walk::along(&template);
        let end = validate::value_with(&mut Stops::new(other.as_bytes()), 0, 1, &mut walk);
        assert_eq!(end, Ok(other.len()));
        assert!(walk.left_in_vain < 9_000, "{}", walk.left_in_vain);
    }

    #[test]
    fn what_is_longer_than_all_templates_is_read_in_vain_once() {
        let deep = |inside: &str| {
            let (open, close) = ("[".repeat(100), "]".repeat(100));
            format!("{open}{inside}{close}")
        };
        let mut template = Template::default();
        template.learn(deep(r#""",0"#).as_bytes());
        let other = deep(&format!(r#""{}","""#, "x".repeat(90_000)));
        let mut walk = Walk::along(&template);
        let end = validate::value_with(&mut Stops::new(other.as_bytes()), 0, 1, &mut walk);
        assert_eq!(end, Ok(other.len()));
        assert_eq!(walk.left_in_vain, 0);
    }
}
