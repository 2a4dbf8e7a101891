//! The past of a store against maps that are copied after each write.

use std::collections::BTreeMap;
use std::time::Duration;

use kinform_api::{ObjectKey, ResourceVersion};
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::past::{Missing, Past, PastLimits};
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use proptest::prelude::*;

use crate::objects::Pod;

/// Names of the stored pods, with their versions.
type Model = BTreeMap<u8, u64>;

#[derive(Debug, Clone)]
enum Op {
    /// Stores these pods at the next version.
    Write(Vec<u8>),
    /// Deletes this one.
    Delete(u8),
    /// The version moves by this much.
    Bookmark(u8),
    /// Time passes, in seconds.
    Wait(u16),
    /// The server went back.
    Back,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec(0..12u8, 1..4).prop_map(Op::Write),
        3 => (0..12u8).prop_map(Op::Delete),
        2 => (1..5u8).prop_map(Op::Bookmark),
        2 => (0..400u16).prop_map(Op::Wait),
        1 => Just(Op::Back),
    ]
}

fn pod(name: u8, version: u64) -> Pod {
    Pod {
        namespace: 0,
        name,
        uid: name,
        version,
        node: 0,
        owners: Vec::new(),
    }
}

fn key(name: u8) -> ObjectKey {
    ObjectKey::new(Some("ns0"), &format!("pod{name}"))
}

fn contents(root: &Root) -> Model {
    let named = (0..12u8).filter_map(|name| {
        let object = root.get(key(name).key_ref())?;
        Some((name, object.resource_version().parse().unwrap()))
    });
    named.collect()
}

fn synced(version: u64) -> Root {
    let mut edit = Edit::new(&Root::empty(Seed(1)));
    edit.reach(&version.to_string());
    edit.mark_synced();
    edit.commit(0)
}

proptest! {
    #[test]
    fn each_kept_version_reads_as_the_store_was_and_limits_hold(
        ops in prop::collection::vec(op(), 1..60),
        roots in 0..6usize,
    ) {
        let limits = PastLimits { roots, age: Duration::from_secs(600), ..PastLimits::default() };
        let mut past = Past::new(limits);
        let mut now = Instant::ZERO;
        let mut version = 10;
        let mut root = synced(version);
        // What the store had from each version on.
        let mut model = BTreeMap::from([(version, Model::new())]);
        past.keep(&root, now);
        for op in ops {
            let mut state = model.last_key_value().unwrap().1.clone();
            let mut edit = Edit::new(&root);
            match op {
                Op::Write(names) => for name in names {
                    version += 1;
                    edit.insert(pod(name, version).object());
                    state.insert(name, version);
                },
                Op::Delete(name) => {
                    version += 1;
                    edit.remove(key(name).key_ref());
                    state.remove(&name);
                }
                Op::Bookmark(by) => version += u64::from(by),
                Op::Wait(seconds) => now += Duration::from_secs(seconds.into()),
                Op::Back => {
                    version -= 5.min(version - 1);
                    edit.begin_epoch();
                    model.clear();
                }
            }
            edit.reach(&version.to_string());
            root = edit.commit(0);
            model.insert(version, state);
            past.keep(&root, now);
            prop_assert!(past.len() <= roots + 1);

            let mut oldest = None;
            for asked in 1..=version {
                match past.at(&asked.into()) {
                    Ok(root) => {
                        let (_, expected) = model.range(..=asked).next_back().unwrap();
                        prop_assert_eq!(&contents(root), expected, "at {}", asked);
                        oldest = oldest.or(Some(asked));
                    }
                    // Once there is a state, there is one of each later version.
                    Err(Missing::TooOld(Some(_))) => prop_assert!(oldest.is_none(), "at {}", asked),
                    Err(other) => prop_assert!(false, "at {asked}: {other:?}"),
                }
            }
            prop_assert!(oldest.is_some(), "the present state is there");
            let reached = ResourceVersion::from(version);
            prop_assert_eq!(
                past.at(&(version + 1).into()).unwrap_err(),
                Missing::NotReached(reached)
            );
        }
    }
}

#[test]
fn states_that_are_over_for_too_long_are_dropped() {
    let mut past = Past::new(PastLimits::default());
    let first = synced(1);
    past.keep(&first, Instant::ZERO);
    let mut edit = Edit::new(&first);
    edit.insert(pod(1, 2).object());
    edit.reach("2");
    past.keep(&edit.commit(0), Instant::ZERO);
    assert!(past.at(&1.into()).unwrap().is_empty() && past.bytes() > 0);
    past.drop_old(Instant::ZERO + Duration::from_secs(601));
    let oldest = Missing::TooOld(Some(2.into()));
    assert_eq!(past.at(&1.into()).unwrap_err(), oldest);
    assert_eq!((past.len(), past.bytes()), (1, 0));
}

#[test]
fn a_change_larger_than_the_past_begins_it_anew() {
    let mut past = Past::new(PastLimits {
        bytes: 10_000,
        ..PastLimits::default()
    });
    let first = synced(1);
    past.keep(&first, Instant::ZERO);
    let mut edit = Edit::new(&first);
    for name in 0..12 {
        edit.insert(pod(name, 2).object());
    }
    edit.reach("2");
    past.keep(&edit.commit(0), Instant::ZERO);
    assert_eq!((past.len(), past.bytes()), (1, 0));
}

#[test]
fn a_root_without_a_complete_list_is_no_state() {
    let mut past = Past::new(PastLimits::default());
    past.keep(&synced(1), Instant::ZERO);
    past.keep(&Root::empty(Seed(1)), Instant::ZERO);
    assert_eq!(past.at(&1.into()).unwrap_err(), Missing::TooOld(None));
    past.keep(&synced(4), Instant::ZERO);
    let odd = past.at(&"odd".into());
    assert!(
        matches!(odd, Err(Missing::Incomparable | Missing::NotReached(_))),
        "{odd:?}"
    );
}
