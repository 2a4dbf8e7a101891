//! A list that is read beside what is stored of another: it says the same as alone.
//!
//! ```text
//! body ──▶ objects ──▶ store ─┐
//!     └──▶ itself, and with some bytes changed ──▶ ListReader::feed_beside, however it is cut ──▶ as ListReader::feed
//! ```
//!
//! Where the bytes are changed depends on the bytes only, so that a failing input fails again.

use std::collections::HashMap;

use kinform_api::{KeyRef, ObjectKey};
use kinform_core::wire::known::Stored;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};

use crate::cuts;
use crate::shape::Shape;

/// BOUND: longer bodies are not read this often.
const MOST_BYTES: usize = 4 << 10;

type Store = HashMap<ObjectKey, Object>;

/// Reads the body, and some like it, beside its own objects.
pub fn is_as_alone(encoding: Encoding, body: &[u8], shape: &mut Shape) {
    if body.len() > MOST_BYTES {
        return;
    }
    for projection in [Projection::new(), Projection::new().keep_managed_fields()] {
        let (_, objects) = read(encoding, &[body], &Store::new(), &projection);
        if objects.is_empty() {
            continue;
        }
        let store: Store = objects.into_iter().map(|o| (o.key(), o)).collect();
        for then in others(body) {
            let (alone, _) = read(encoding, &[&then], &Store::new(), &projection);
            let (told, found) = read(encoding, &[&then], &store, &projection);
            assert_eq!(told, alone, "beside a store");
            let is_stored = |object: &&Object| {
                let stored = store.get(&object.key());
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
    store: &Store,
    projection: &Projection,
) -> (Vec<String>, Vec<Object>) {
    let mut reader = ListReader::new(encoding);
    let (mut told, mut objects) = (Vec::new(), Vec::new());
    let stored = |key: KeyRef<'_>| {
        let found = store.get(&key.to_key());
        found.map(|object| object as &dyn Stored)
    };
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
            told.push(match &read {
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
            false => reader.feed_beside(chunk, &stored, &mut part),
        };
        if let Err(error) = fed {
            told.push(error.to_string());
            break;
        }
    }
    told.push(format!("{:?}", reader.finish()));
    (told, objects)
}
