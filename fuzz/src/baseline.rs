//! A list that is read against a store of another: the result is the same as alone.
//!
//! ```text
//! body ──▶ objects ──▶ store ─┐
//!     └──▶ itself, and with some bytes changed ──▶ ListReader::feed_compared, however it is cut ──▶ as ListReader::feed
//! ```
//!
//! The place of a change depends on the bytes only, so that a failing input fails again.

use std::cell::Cell;

use kinform_core::store::baseline::RootBaseline;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::root::Root;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};

use crate::cuts;
use crate::shape::Shape;

/// BOUND: longer bodies are not read this often.
const MOST_BYTES: usize = 4 << 10;

/// A store that holds these, in this order.
fn filled(objects: Vec<Object>) -> Root {
    let mut edit = Edit::new(&Root::empty(Seed(1)));
    for object in objects {
        edit.insert(object);
    }
    edit.commit(1)
}

/// Reads the body, and some like it, against a store of its own objects.
pub fn is_as_alone(encoding: Encoding, body: &[u8], shape: &mut Shape) {
    if body.len() > MOST_BYTES {
        return;
    }
    for projection in [Projection::new(), Projection::new().keep_managed_fields()] {
        let (_, objects) = read(encoding, &[body], &filled(Vec::new()), &projection);
        if objects.is_empty() {
            continue;
        }
        let store = filled(objects);
        for then in others(body) {
            let (alone, _) = read(encoding, &[&then], &filled(Vec::new()), &projection);
            let (compared, found) = read(encoding, &[&then], &store, &projection);
            assert_eq!(compared, alone, "compared with a store");
            let is_stored = |object: &&Object| {
                let stored = store.get(object.key_ref());
                stored.is_some_and(|stored| stored.ptr_eq(object))
            };
            shape.count(found.iter().filter(is_stored).count());
            for way in cuts::ways(&then).iter().step_by(3) {
                assert_eq!(read(encoding, way, &store, &projection).0, alone, "cut");
            }
        }
    }
}

/// The body, and with a byte of it changed here and there.
fn others(body: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![body.to_vec()];
    let mut seed = body.iter().fold(body.len() as u64 | 1, |seed, &byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for _ in 0..4 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut other = body.to_vec();
        let at = (seed >> 33) as usize % other.len();
        // Half of them stay texts.
        other[at] = match seed >> 63 {
            0 => b' ' + (seed >> 20) as u8 % 95,
            _ => (seed >> 20) as u8,
        };
        all.push(other);
    }
    all
}

fn read(
    encoding: Encoding,
    chunks: &[&[u8]],
    store: &Root,
    projection: &Projection,
) -> (Vec<String>, Vec<Object>) {
    let mut reader = ListReader::new(encoding);
    let (mut results, mut objects) = (Vec::new(), Vec::new());
    let hint = Cell::default();
    let baseline = RootBaseline::new(store, &hint);
    for chunk in chunks {
        let mut part = |part: ListPart<'_>| {
            let read = match part {
                ListPart::Item(item) => item.checked().and_then(|item| {
                    let object = Object::from_item(&item, projection)?;
                    let kind = format!("{} {}", item.kind(), item.api_version());
                    Ok((object, kind, item.managed_fields_bytes()))
                }),
                ListPart::Unreadable(why) => Err(why),
            };
            results.push(match &read {
                Ok((object, kind, managed)) => format!(
                    "{} {} {kind} {managed} {:?}",
                    object.key(),
                    object.resource_version(),
                    object.bytes()
                ),
                Err(why) => why.to_string(),
            });
            objects.extend(read.ok().map(|(object, ..)| object));
        };
        let fed = match store.is_empty() {
            true => reader.feed(chunk, &mut part),
            false => reader.feed_compared(chunk, &baseline, &mut part),
        };
        if let Err(error) = fed {
            results.push(error.to_string());
            break;
        }
    }
    results.push(format!("{:?}", reader.finish()));
    (results, objects)
}
