//! The previous item of a list: members that are equal to its members are compared, not validated.
//!
//! ```text
//! managedFields, a member ─▶ that of the previous item (Template) ─▶ its end │ Fault, as validated
//!                               └─ the item replaces it when it no longer serves (Serving)
//! ```
//!
//! Objects of a list are alike: replicas have the same fields, and differ in names and times. Lists
//! come in the order of keys, in which replicas are neighbours, so one item is remembered, not
//! several. managedFields are compared as a whole; other members are compared level by level,
//! wherever they are equal.
//!
//! BOUND: four members and managedFields. Upstream: none.

use super::template::{Like, Template};
use super::validate::{self, Fault};
use super::walk::Walk;
use crate::wire::scan::Stops;
use crate::wire::serving::{Serving, Turn};

/// BOUND: members of an item that are remembered; most kinds have fewer.
const MOST_MEMBERS: usize = 4;
/// The nesting depth of an item's members.
const DEPTH: u32 = 1;
/// The nesting depth of managedFields.
const MANAGED_DEPTH: u32 = 2;

/// Values of previous items. The default remembers none.
#[derive(Debug, Default)]
pub(crate) struct PreviousItem {
    managed: Remembered,
    members: Vec<Remembered>,
    most: usize,
}

/// A value of a previous item, and the record of its comparisons.
#[derive(Debug, Default)]
struct Remembered {
    template: Template,
    serving: Serving,
}

impl PreviousItem {
    /// Returns a memory for items that are alike, as those of a list.
    pub(crate) fn new() -> Self {
        Self {
            most: MOST_MEMBERS,
            ..Self::default()
        }
    }

    /// Checks the managedFields at `at` by comparison with those of a previous item; returns the
    /// position after them. They must be nested `MANAGED_DEPTH` deep.
    pub(in crate::wire) fn managed_fields(
        &mut self,
        stops: &mut Stops<'_>,
        at: usize,
    ) -> Result<usize, Fault> {
        let bytes = stops.bytes();
        if self.most == 0 {
            return validate::value(stops, at, MANAGED_DEPTH);
        }
        let Remembered { template, serving } = &mut self.managed;
        let turn = serving.turn();
        let like = match turn {
            Turn::Compare => template.follow_all(stops, at),
            Turn::Alone | Turn::AloneAndLearn => Like::Nothing { read: 0 },
        };
        let (end, compared) = match like {
            Like::All { end, compared } => (end, compared),
            Like::Begin { .. } | Like::Nothing { .. } => {
                (validate::value(stops, at, MANAGED_DEPTH)?, 0)
            }
        };
        let learns = match turn {
            Turn::Compare => serving.served(compared, end - at),
            turn => turn == Turn::AloneAndLearn,
        };
        if learns {
            template.learn(&bytes[at..end]);
        }
        Ok(end)
    }

    /// Checks the value at `at` of the item's member with this number; returns the position after
    /// it.
    pub(in crate::wire) fn member(
        &mut self,
        stops: &mut Stops<'_>,
        at: usize,
        number: usize,
    ) -> Result<usize, Fault> {
        let bytes = stops.bytes();
        let is_bracketed = matches!(bytes.get(at), Some(b'{' | b'['));
        if !is_bracketed || number >= self.most {
            return validate::value(stops, at, DEPTH);
        }
        if self.members.len() <= number {
            self.members.resize_with(number + 1, Default::default);
        }
        let Remembered { template, serving } = &mut self.members[number];
        let (end, learns) = match serving.turn() {
            Turn::Compare => {
                let mut walk = Walk::along(template);
                let end = validate::value_with(stops, at, DEPTH, &mut walk)?;
                (end, serving.served(walk.compared, end - at))
            }
            turn => (
                validate::value(stops, at, DEPTH)?,
                turn == Turn::AloneAndLearn,
            ),
        };
        if learns {
            template.learn(&bytes[at..end]);
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::{MOST_BRACKETS, MOST_BYTES};
    use super::*;
    use crate::wire::scan::BLOCK;
    use proptest::prelude::*;

    /// Each value has the end or the fault that it has alone; returns the most bytes that were
    /// compared.
    fn check<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
        let mut previous = PreviousItem::new();
        let mut best = 0;
        for text in texts {
            let bytes = text.as_bytes();
            let alone = validate::value(&mut Stops::new(bytes), 0, DEPTH);
            let found = previous.member(&mut Stops::new(bytes), 0, 0);
            assert_eq!(found, alone, "{text}");
            if let Some(Remembered { template, serving }) = previous.members.first() {
                best = best.max(serving.best);
                for bracket in &template.brackets {
                    let known = &template.text[bracket.start as usize..bracket.end as usize];
                    let end = validate::value(&mut Stops::new(known), 0, DEPTH);
                    assert_eq!(end, Ok(known.len()), "{text}");
                }
            }
        }
        best
    }

    const ONE: &str = r#"{"a":{"b":[1,{"c":"x}"},[]],"d":{}},"e":[ {"f":null} , {"g":"\"]"},{ },[ ]],"h":{"i":{"j":"k"}}}"#;

    #[test]
    fn what_is_the_same_is_compared_and_what_differs_is_checked() {
        let other = ONE.replace("null", "true");
        assert_eq!(check([ONE, &other]), ONE.len() - "null".len());
        // All but the values around the one that differs.
        let other = ONE.replace("null", "[]");
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
    fn nesting_is_limited_with_a_template_as_without() {
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
        let mut previous = PreviousItem::new();
        let large = format!("[\"{}\"]", "x".repeat(MOST_BYTES));
        let many = format!("[{}1]", "[1],".repeat(MOST_BRACKETS));
        for (number, text) in [&*large, &many, ONE, ONE, ONE, ONE].into_iter().enumerate() {
            let stops = &mut Stops::new(text.as_bytes());
            assert_eq!(previous.member(stops, 0, number), Ok(text.len()));
        }
        let remembered = previous.members.iter();
        let remembered: Vec<_> = remembered
            .map(|remembered| remembered.template.brackets.len())
            .collect();
        assert_eq!(remembered, [0, 0, 9, 9]);
        assert_eq!(
            PreviousItem::default().member(&mut Stops::new(b"[[1]]"), 0, 0),
            Ok(5)
        );
    }

    proptest! {
        #[test]
        fn values_end_where_they_would_alone(
            texts in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::sample::select(vec![
                        r#"{"a":1,"#, r#""b":[1,2],"#, r#""b":[1,3],"#, r#""c":{"d":[{"e":"f"}]},"#, r#""c":{"d":[{"e":7}]},"#,
                        r#""g":{"#, r#""h":["#, "{ }", "[ ]", "{ ", "[ ", "],", "},", r#""i":{"j":{}}"#, r#""i":null"#, "}", "]", "{", "[", "[[],[1]]", ",",
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

    /// managedFields end where the validator says; returns the most bytes of them that were
    /// compared.
    fn check_managed<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
        let mut previous = PreviousItem::new();
        for text in texts {
            let bytes = text.as_bytes();
            let found = previous.managed_fields(&mut Stops::new(bytes), 0);
            let alone = validate::value(&mut Stops::new(bytes), 0, MANAGED_DEPTH);
            assert_eq!(found, alone, "{text}");
        }
        previous.managed.serving.best
    }

    /// A piece that fills a block: `#` is replaced by as many letters as are missing.
    fn block(piece: &str) -> String {
        let missing = BLOCK + 1 - piece.len();
        piece.replacen('#', &"x".repeat(missing), 1)
    }

    #[test]
    fn managed_fields_that_are_alike_are_compared_and_others_are_checked() {
        let entry = |manager: &str, key: &str| {
            let ready = r#"{"f:status":{"k:{\"type\":\"Ready\"}":{".":{},"f:x":{}}}}"#;
            format!(r#"{{"manager":"{manager}","time":"{key}","fieldsV1":{ready}}}"#)
        };
        let (one, two) = (entry("kubelet", "noon"), entry("scheduler", "midnight"));
        let array = |entries: &[&String]| {
            let entries: Vec<_> = entries.iter().map(|entry| &***entry).collect();
            format!("[{}]", entries.join(","))
        };
        let (same, other) = (array(&[&one, &one]), array(&[&two, &one]));
        let differs = "\"kubelet\"noon\"".len();
        assert_eq!(check_managed([&*same, &other]), same.len() - differs - 1);
        let (fewer, escaped) = (array(&[&one]), same.replace("Ready", "\\n"));
        let (loose, scalar) = (same.replace(',', ", "), same.replace("{},", "7,"));
        let broken = [
            same.replace("Ready", "\\q"),
            same.replace("noon", "\t"),
            same.replace("Ready\\\"}", "Ready\\"),
        ];
        for text in [&fewer, &escaped, &loose, &scalar]
            .into_iter()
            .chain(&broken)
        {
            check_managed([&*same, text, &same, text, text, text, &other, &same]);
            check_managed([&**text, &same, &same]);
            for at in 0..text.len() {
                check_managed([&*same, &text[..at]]);
            }
        }
    }

    proptest! {
        #[test]
        fn managed_fields_end_where_they_would_alone(
            arrays in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::sample::select(vec![
                        r##"{"a":"#"},"##, r##"{"b":"#"},"##, r##"{"a":{"#":{}"##, r##"},"b":["#"]},"##, r##"["#","##,
                        r##""#"],"##, r##"["a",{"#":"##, r##"{}},"#","##, r##"x#"##, r##"#","##, r##"#\"##, r##"\"#"##,
                        r##""#":"##, r##"}#"##, r##"]#"##, r##"{},"#","##, r##""a","#"]"##, r##""a":"#"}]"##,
                    ]),
                    0..6,
                ),
                1..8,
            ),
        ) {
            let begin = |pieces: &Vec<&str>| format!("[{}", &pieces.iter().copied().map(block).collect::<String>());
            let texts: Vec<_> = arrays.iter().map(begin).collect();
            check_managed(texts.iter().map(|text| &**text));
        }
    }
}
