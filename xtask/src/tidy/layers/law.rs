//! An order of a crate's rooms, and the imports against it.
//!
//! ```text
//! Law { crate, order of rooms } + map of its imports ──▶ rooms without a place, imports that climb
//! ```
//!
//! A file counts once for each room that it may not import, at its first such line.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ceilings::Counted;
use super::super::finding::Finding;
use crate::map::{Map, node};

/// The name of the rule.
pub(super) const RULE: &str = "layers";

/// The rooms of one crate, and the rooms that each may import.
#[derive(Debug)]
pub(super) struct Law {
    /// The crate that it orders.
    pub(super) package: &'static str,
    /// The name of its ceiling.
    pub(super) key: &'static str,
    /// The order.
    pub(super) order: Order,
}

/// An order of rooms.
#[derive(Debug)]
pub(super) enum Order {
    /// Each room imports the rooms named here, and their imports.
    Above(&'static [(&'static str, &'static [&'static str])]),
    /// Each room imports rooms of lower ranks; the lowest rank is first.
    Ranks(&'static [&'static [&'static str]]),
    /// As ranks; rooms of one rank may import each other, but not in a circle.
    Tiers(&'static [&'static [&'static str]]),
}

impl Order {
    fn has(&self, room: &str) -> bool {
        match self {
            Self::Above(rooms) => rooms.iter().any(|(name, _)| *name == room),
            Self::Ranks(ranks) | Self::Tiers(ranks) => rank(ranks, room).is_some(),
        }
    }

    /// Returns whether a room that has a place may import another.
    fn allows(&self, from: &str, to: &str) -> bool {
        match self {
            Self::Above(rooms) => {
                let below = rooms.iter().find(|(name, _)| *name == from);
                let below = below.map_or(&[][..], |(_, below)| below);
                below
                    .iter()
                    .any(|room| *room == to || self.allows(room, to))
            }
            Self::Ranks(ranks) => rank(ranks, to) < rank(ranks, from),
            Self::Tiers(ranks) => rank(ranks, to) <= rank(ranks, from),
        }
    }
}

fn rank(ranks: &[&[&str]], room: &str) -> Option<usize> {
    ranks.iter().position(|rooms| rooms.contains(&room))
}

impl Law {
    /// The findings for one crate.
    pub(super) fn check(&self, map: &Map<'_>) -> Vec<Counted> {
        let mut found = Vec::new();
        let mut push = |file: &str, line: usize, message: String| {
            let path = format!("{}/src/{file}", map.folder);
            let finding = Finding {
                path,
                line,
                rule: RULE,
                message,
            };
            found.push(Counted::new(self.key, finding));
        };
        let mut rooms: BTreeMap<&str, &str> = BTreeMap::new();
        for file in &map.files {
            if let Some(room) = node(file, "") {
                rooms.entry(room).or_insert(file);
            }
        }
        for (room, file) in rooms.iter().filter(|(room, _)| !self.order.has(room)) {
            push(
                file,
                1,
                format!("{room} has no place among the rooms of {}", self.package),
            );
        }
        let mut seen = BTreeSet::new();
        for reference in &map.references {
            let ends = (node(reference.from, ""), node(reference.to, ""));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let is_lawful =
                self.order.has(from) && self.order.has(to) && self.order.allows(from, to);
            if from != to && !is_lawful && seen.insert((reference.from, to)) {
                let line = map.line(reference);
                push(reference.from, line, format!("{from} is not above {to}"));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::maps;
    use crate::text::file::File;

    /// Checks the findings for one file that imports from rooms of its crate.
    #[track_caller]
    fn check(order: Order, code: &str, expected: &[&str]) {
        let law = Law {
            package: "x",
            key: "layers.x",
            order,
        };
        let file = |path: &str, text: &str| File {
            path: format!("crates/x/src/{path}"),
            text: text.to_owned(),
        };
        let files = [
            file(
                "lib.rs",
                "mod low; mod left; mod right; mod high; use right::f; mod root_item {}",
            ),
            file("low.rs", "pub fn f() {}"),
            file(
                "left/mod.rs",
                "pub fn f() {} pub fn g() {} #[cfg(test)] mod tests { use crate::high::f; }",
            ),
            file("right.rs", code),
            file("high.rs", "pub fn f() {}"),
        ];
        let maps = maps(&files);
        let found: Vec<String> = law
            .check(&maps[0])
            .into_iter()
            .map(|c| c.finding.message)
            .collect();
        assert_eq!(found, expected, "{code}");
    }

    const ABOVE: Order = Order::Above(&[
        ("low", &[]),
        ("left", &["low"]),
        ("right", &["left"]),
        ("high", &["right"]),
    ]);
    const RANKS: Order = Order::Ranks(&[&["low"], &["left", "right"], &["high"]]);
    const TIERS: Order = Order::Tiers(&[&["low"], &["left", "right"], &["high"]]);

    #[test]
    fn rooms_import_downwards() {
        for order in [|| ABOVE, || RANKS, || TIERS] {
            check(order(), "use crate::low::f;", &[]);
            check(
                order(),
                "use crate::high::f; fn g() { super::high::f() }",
                &["right is not above high"],
            );
            check(order(), "use crate::root_item;", &[]);
        }
    }

    #[test]
    fn sideways_is_against_ranks_alone() {
        let code = "use crate::left::{f, g};";
        check(ABOVE, code, &[]);
        check(TIERS, code, &[]);
        check(RANKS, code, &["right is not above left"]);
    }

    #[test]
    fn a_room_without_a_place_is_a_finding_and_so_is_each_of_its_imports() {
        let order = Order::Ranks(&[&["low"], &["left"], &["high"]]);
        let expected = [
            "right has no place among the rooms of x",
            "right is not above low",
        ];
        check(order, "use crate::low::f;", &expected);
    }
}
