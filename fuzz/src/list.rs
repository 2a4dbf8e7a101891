//! The splitter of lists.
//!
//! ```text
//! body ──▶ ListReader, however it is cut ──▶ items, what is no object, the list's own words
//!     └──▶ serde_json ──▶ the elements of `items`: the same
//! ```

use kinform_core::{Encoding, ListMeta, ListPart, ListReader, WireError};

use crate::heap::Mark;
use crate::json::{Members, elements, is_deep, is_valid};
use crate::shape::Shape;
use crate::{baseline, cuts, head};

/// As large as no body gets here, and smaller than most items.
const LIMITS: [usize; 2] = [1 << 24, 48];

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Item(Vec<u8>),
    Unreadable(String),
}

#[derive(Debug, PartialEq)]
struct Reading {
    parts: Vec<Part>,
    end: Result<ListMeta, WireError>,
}

/// Reads a body as a list.
pub fn run(body: &[u8]) -> Shape {
    let mut shape = Shape::default();
    keeps_little(body);
    baseline::is_as_alone(Encoding::Json, body, &mut shape);
    for limit in LIMITS {
        let whole = read_however_cut(body, limit);
        shape.count(whole.parts.len());
        match &whole.end {
            Ok(meta) => shape.text(&meta.kind),
            Err(error) => shape.text(&error.to_string()),
        }
        if limit == LIMITS[0] {
            is_as_serde_reads(body, &whole);
            for part in &whole.parts {
                match part {
                    Part::Item(item) => shape.text(&head::look(item)),
                    Part::Unreadable(why) => shape.text(why),
                }
            }
        }
    }
    shape
}

/// Asserts that a body has the same items, each as its bytes make it, wherever it is cut.
pub fn is_the_same_however_cut(body: &[u8]) {
    read_however_cut(body, LIMITS[0]);
}

fn read_however_cut(body: &[u8], limit: usize) -> Reading {
    let whole = read(&[body], limit);
    for way in cuts::ways(body) {
        assert_eq!(read(&way, limit), whole, "cut another way");
    }
    whole
}

fn read(chunks: &[&[u8]], limit: usize) -> Reading {
    let mut splitter = ListReader::with_max_item_bytes(Encoding::Json, limit);
    let mut parts = Vec::new();
    for chunk in chunks {
        let fed = splitter.feed(chunk, &mut |part| {
            parts.push(match part {
                ListPart::Item(item) => {
                    head::is_what_its_bytes_make(&item);
                    assert!(item.bytes().len() <= limit, "larger than allowed");
                    Part::Item(item.bytes().to_vec())
                }
                ListPart::Unreadable(why) => Part::Unreadable(why.to_string()),
            });
        });
        if fed.is_err() {
            break;
        }
    }
    Reading {
        parts,
        end: splitter.finish(),
    }
}

fn keeps_little(body: &[u8]) {
    let mark = Mark::new(body.len());
    let mut splitter = ListReader::new(Encoding::Json);
    for chunk in body.chunks(64) {
        let fed = splitter.feed(chunk, &mut |_| mark.check());
        mark.check();
        if fed.is_err() {
            break;
        }
    }
}

fn is_as_serde_reads(body: &[u8], ours: &Reading) {
    if is_deep(body) {
        return;
    }
    let Some(members) = Members::of(body) else {
        let is_sound = |part: &Part| matches!(part, Part::Item(item) if is_valid(item));
        if ours.end.is_ok() && ours.parts.iter().all(is_sound) {
            // A key with a lone surrogate is no `String`.
            assert!(is_valid(body), "taken, and no JSON");
        }
        return;
    };
    let arrays: Vec<_> = members
        .all("items")
        .filter(|text| text.starts_with('['))
        .collect();
    let elements = match arrays[..] {
        [] => Vec::new(),
        [array] => elements(array).expect("it is an array"),
        _ => {
            assert!(matches!(ours.end, Err(WireError::NotJson { .. })));
            return;
        }
    };
    assert_eq!(ours.parts.len(), elements.len(), "{:?}", ours.end);
    for (part, element) in ours.parts.iter().zip(elements) {
        let is_bracketed = element.get().starts_with(['{', '[']);
        match part {
            Part::Item(item) => assert_eq!(item, element.get().as_bytes()),
            Part::Unreadable(_) => assert!(!is_bracketed),
        }
    }
    let Ok(meta) = &ours.end else {
        let is_fault = |error: &WireError| matches!(error, WireError::Truncated);
        assert!(!ours.end.as_ref().is_err_and(is_fault), "it is whole");
        return;
    };
    let text = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<String>(text).ok());
    let own = members
        .last("metadata")
        .and_then(|text| Members::of(text.as_bytes()));
    let version = own.and_then(|own| text(own.last("resourceVersion")));
    assert_eq!(meta.resource_version, version.unwrap_or_default());
    assert_eq!(meta.kind, text(members.last("kind")).unwrap_or_default());
}
