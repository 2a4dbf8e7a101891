//! Bugs that informers shipped with: one test a bug, named after it, that fails if it is back.
//!
//! ```text
//! deltas (as the server or the queue would say them) ──▶ fifo, applier, store, deliveries ──▶ what is heard
//! ```
//!
//! Each names where the bug was seen; `cargo xtask mutants` puts many of them back.

use std::collections::BTreeSet;
use std::sync::Arc;

use kinform_core::Object;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::{BuiltIndex, Edit};
use kinform_core::store::index::{Index, IndexError};
use kinform_core::store::root::Root;

use crate::objects::Pod;

fn pod(name: u8, version: u64) -> Pod {
    Pod {
        namespace: 0,
        name,
        uid: 0,
        version,
        node: 0,
        owners: vec![],
    }
}

/// Names the node; fails for node 9.
fn by_node() -> Index {
    let function = |object: &Object| {
        let node = object.at(&"spec.nodeName".parse().unwrap())[0].to_string();
        match &*node {
            "node9" => Err(IndexError("no such node".into())),
            _ => Ok(vec![node]),
        }
    };
    Index::function("node", Arc::new(function))
}

// kubernetes#43605: a deleted object stayed in the index whose function had failed for it;
// kubernetes#109115: an update lost a value that was still valid.
#[test]
fn b31_an_index_is_what_its_function_says_of_what_is_stored() {
    let empty = Root::empty(Seed(1));
    let mut edit = Edit::new(&empty);
    let id = edit.install(BuiltIndex::build(empty, by_node())).unwrap();
    let on = |node, version| Pod {
        node,
        ..pod(1, version)
    };
    let mut expect = |write: &mut dyn FnMut(&mut Edit), expected: &[(&str, usize)]| {
        write(&mut edit);
        let root = edit.fork().commit(0);
        let values: BTreeSet<(&str, usize)> = root
            .index_values(id)
            .map(|(value, count)| (&**value, count))
            .collect();
        assert_eq!(values, expected.iter().copied().collect());
        for (value, count) in expected {
            assert_eq!(root.by(id, value).iter().count(), *count);
        }
    };
    expect(
        &mut |edit| _ = edit.insert(on(1, 1).object()),
        &[("node1", 1)],
    );
    expect(
        &mut |edit| _ = edit.insert(on(1, 2).object()),
        &[("node1", 1)],
    );
    expect(&mut |edit| _ = edit.insert(on(9, 3).object()), &[]);
    expect(
        &mut |edit| _ = edit.insert(on(2, 4).object()),
        &[("node2", 1)],
    );
    expect(&mut |edit| _ = edit.insert(on(9, 5).object()), &[]);
    expect(
        &mut |edit| _ = edit.remove(pod(1, 6).object().key_ref()),
        &[],
    );
}
