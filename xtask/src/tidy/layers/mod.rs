//! The order of imports: of crates by their manifests, of the rooms of a crate by the map of its imports.
//!
//! ```text
//! manifest ──crates──▶ findings        map of a crate ──core │ apiserver │ shell──▶ counted findings
//! source ──clocks──▶ findings
//! ```
//!
//! A room is a top-level module of a crate. A law orders the rooms of one crate; a room without a
//! place in it is a finding, as is each file that imports against it. Findings count against the
//! law's ceiling in `tidy.toml`. The crate's root may import every room.

mod apiserver;
mod clocks;
mod core;
mod crates;
mod shell;

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::ceilings::Counted;
use crate::map::{Map, node};

pub(crate) use clocks::check as check_clocks;
pub(crate) use crates::{allowed, check_manifest, packages};

const RULE: &str = "layers";

/// The rooms of one crate, and the rooms that each may import.
#[derive(Debug)]
struct Law {
    /// The crate that it orders.
    package: &'static str,
    /// The name of its ceiling.
    key: &'static str,
    /// The order.
    order: Order,
}

/// An order of rooms.
#[derive(Debug)]
enum Order {
    /// Each room imports the rooms named here, and what those import.
    Above(&'static [(&'static str, &'static [&'static str])]),
    /// Each room imports rooms of lower ranks; the lowest rank is first.
    Ranks(&'static [&'static [&'static str]]),
    /// As ranks; rooms of one rank may import each other, but not in a circle.
    Tiers(&'static [&'static [&'static str]]),
}

const LAWS: [&Law; 3] = [&core::LAW, &apiserver::LAW, &shell::LAW];

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

/// Checks a crate's rooms against its law, if it has one.
pub(crate) fn check_map(map: &Map<'_>) -> Vec<Counted> {
    let law = LAWS.iter().find(|law| law.package == map.package());
    law.map_or_else(Vec::new, |law| law.check(map))
}

impl Law {
    fn check(&self, map: &Map<'_>) -> Vec<Counted> {
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
    use super::super::File;
    use super::*;
    use crate::map::maps;

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

    #[test]
    fn each_law_orders_each_room_once() {
        for law in LAWS {
            let mut rooms: Vec<&str> = match &law.order {
                Order::Above(rooms) => rooms.iter().map(|(room, _)| *room).collect(),
                Order::Ranks(ranks) | Order::Tiers(ranks) => ranks.concat(),
            };
            let count = rooms.len();
            rooms.sort_unstable();
            rooms.dedup();
            assert_eq!(rooms.len(), count, "{}", law.key);
        }
    }
}
