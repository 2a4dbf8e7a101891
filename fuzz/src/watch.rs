//! The framer of watches.
//!
//! ```text
//! body ──▶ WatchReader, however it is cut ──▶ events, what is none
//!     └──▶ serde_json, one value after the other ──▶ the same events
//! ```

use kinform_core::{Encoding, FrameKind, WatchReader, WireError};
use serde_json::value::RawValue;

use crate::heap::Mark;
use crate::json::{Members, is_deep};
use crate::shape::Shape;
use crate::{cuts, head};

const LIMITS: [usize; 2] = [1 << 24, 32];

#[derive(Debug, PartialEq)]
struct Reading {
    frames: Vec<(FrameKind, Vec<u8>)>,
    end: Result<(), WireError>,
}

/// Reads a body as a watch.
pub fn run(body: &[u8]) -> Shape {
    let mut shape = Shape::default();
    keeps_little(body);
    for limit in LIMITS {
        let whole = read(&[body], limit);
        for way in cuts::ways(body) {
            assert_eq!(read(&way, limit), whole, "cut another way");
        }
        shape.count(whole.frames.len());
        shape.text(&format!("{:?}", whole.end));
        if limit == LIMITS[0] {
            is_as_serde_reads(body, &whole);
            for (kind, object) in &whole.frames {
                shape.text(&format!("{kind:?}"));
                shape.text(&head::look(object));
            }
        }
    }
    shape
}

fn read(chunks: &[&[u8]], limit: usize) -> Reading {
    let mut framer = WatchReader::with_max_item_bytes(Encoding::Json, limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        let fed = framer.feed(chunk, &mut |frame| {
            let object = frame.object;
            if !object.bytes().is_empty() {
                head::is_what_its_bytes_make(&object);
                let _ = (object.bookmark(), object.status());
            }
            frames.push((frame.kind, object.bytes().to_vec()));
        });
        if fed.is_err() {
            break;
        }
    }
    Reading {
        frames,
        end: framer.finish(),
    }
}

fn keeps_little(body: &[u8]) {
    let mark = Mark::new(body.len());
    let mut framer = WatchReader::new(Encoding::Json);
    for chunk in body.chunks(64) {
        let fed = framer.feed(chunk, &mut |_| mark.check());
        mark.check();
        if fed.is_err() {
            break;
        }
    }
}

fn is_as_serde_reads(body: &[u8], ours: &Reading) {
    let stream = serde_json::Deserializer::from_slice(body).into_iter::<Box<RawValue>>();
    let mut found = ours.frames.iter();
    for value in stream {
        let Ok(value) = value else { return };
        let text = value.get();
        if !text.starts_with('{') {
            assert!(ours.end.is_err(), "no event, and taken");
            return;
        }
        let (kind, object) = found.next().expect("an event for each value");
        if is_deep(text.as_bytes()) {
            continue;
        }
        let Some(members) = Members::of(text.as_bytes()) else {
            continue;
        };
        let event = members.last("type");
        let event = event.map(|text| (text, serde_json::from_str::<String>(text).ok()));
        match event {
            Some((_, Some(event))) => is_event(&members, &event, kind, object),
            // A text with a lone surrogate is one for us.
            Some((raw, None)) if raw.starts_with('"') => {}
            _ => assert!(matches!(kind, FrameKind::Status | FrameKind::Malformed(_))),
        }
    }
    assert!(found.next().is_none(), "more events than values");
}

fn is_event(members: &Members, event: &str, kind: &FrameKind, object: &[u8]) {
    let expected = members.last("object").filter(|text| text.starts_with('{'));
    let Some(expected) = expected else {
        assert!(matches!(kind, FrameKind::Malformed(_)));
        return;
    };
    assert_eq!(object, expected.as_bytes());
    match kind {
        FrameKind::Known(known) => assert_eq!(known.as_str(), event),
        FrameKind::Unknown(_) => assert!(event.parse::<kinform_api::WatchEventKind>().is_err()),
        FrameKind::Status | FrameKind::Malformed(_) => panic!("{kind:?}"),
    }
}
