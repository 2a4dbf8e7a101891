//! The order of imports: of crates by their manifests, of the rooms of a crate by the map of its
//! imports.
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
mod law;
mod shell;

use super::ceilings::Counted;
use crate::map::Map;
use law::Law;

pub(crate) use clocks::check as check_clocks;
pub(crate) use crates::{allowed, check_manifest, packages};

const LAWS: [&Law; 3] = [&core::LAW, &apiserver::LAW, &shell::LAW];

/// Checks a crate's rooms against its law, if it has one.
pub(crate) fn check_map(map: &Map<'_>) -> Vec<Counted> {
    let law = LAWS.iter().find(|law| law.package == map.package());
    law.map_or_else(Vec::new, |law| law.check(map))
}

#[cfg(test)]
mod tests {
    use super::law::Order;
    use super::*;

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
