//! Splits the body of a watch into its frames, chunk by chunk.
//!
//! ```text
//! chunks → WatchFramer → Frame {kind, object bytes} ... → object | bookmark | status
//! ```
//!
//! Frames are cut out by their brackets, so newlines between them are optional. The frame's own
//! keys are validated here, its object when one is made of it. A frame that is not an event is
//! passed on as a status, as unknown or as malformed, and the stream goes on after it.
//! The objects of a streaming list are compared with the one before them, as the items of a list.
//! A bookmark frees what is remembered of them, so that an idle watch holds nothing.
//!
//! INVARIANT: the frames depend on the bytes only, never on where the chunks were cut.
//! BOUND: one frame is held, and what `previous` remembers of one object.
//! Upstream: `client-go:rest/watch/decoder.go`, `apimachinery:pkg/watch/streamwatcher.go`.

use std::ops::Range;

use kinform_api::WatchEventKind;

use super::cursor::{self, text_is};
use super::item::{self, Guess};
use super::piece::{Piece, Read};
use super::previous::PreviousItem;
use super::salvage::{self, salvage};
use super::validate::{self, Checked, Fault, What, space};
use crate::wire::baseline::BaselineRef;
use crate::wire::error::WireError;
use crate::wire::feeder::Step;
use crate::wire::scan::Stops;
use crate::wire::unreadable::Unreadable;
use crate::wire::watch::{self, FRAME_BYTES, Frame, FrameKind};

/// Splits one watch body; resumable at any byte.
#[derive(Debug)]
pub(in crate::wire) struct WatchFramer {
    piece: Piece,
    guess: Guess,
    // Boxed: readers of watches are kept in enums.
    previous: Box<PreviousItem>,
    in_frame: bool,
}

impl WatchFramer {
    /// Creates a framer before the first byte of a body, which skips objects larger than this.
    pub(in crate::wire) fn new(max_item_bytes: usize) -> Self {
        Self {
            piece: Piece::new(max_item_bytes.saturating_add(FRAME_BYTES)),
            guess: Guess::default(),
            previous: Box::new(PreviousItem::new()),
            in_frame: false,
        }
    }

    /// Reads on in a frame; returns the number of bytes that belong to it, if it is complete.
    fn frame(&mut self, chunk: &[u8], frame: &mut impl FnMut(Frame<'_>)) -> Option<usize> {
        if self.piece.is_fresh() && self.guess.may_hold(chunk.len()) {
            let limit = self.piece.limit() - FRAME_BYTES;
            if let Some((whole, length)) = usual(chunk, limit, &mut self.previous) {
                self.guess.was(length);
                frame(whole);
                return Some(length);
            }
        }
        let (read, piece) = self.piece.read(chunk);
        match piece {
            Read::More => return None,
            Read::Whole(bytes) => {
                self.guess.was(bytes.len());
                let whole = parse(bytes);
                if whole.kind == FrameKind::Known(WatchEventKind::Bookmark) {
                    *self.previous = PreviousItem::new();
                }
                frame(whole);
            }
            Read::TooLarge(start) => frame(too_large(start)),
        }
        Some(read)
    }
}

impl Step for WatchFramer {
    type Part<'a> = Frame<'a>;
    type End = ();

    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        _: Option<BaselineRef<'_>>,
        frame: &mut impl FnMut(Frame<'_>),
    ) -> Result<usize, WireError> {
        let mut begin = 0;
        if !self.in_frame {
            begin = space(chunk, 0);
            match chunk.get(begin) {
                None => return Ok(begin),
                Some(b'{') => {}
                Some(_) => {
                    return Err(WireError::NotJson {
                        at: at + begin as u64,
                        reason: "expected a watch event",
                    });
                }
            }
            self.in_frame = true;
            self.piece.begin();
        }
        let Some(read) = self.frame(&chunk[begin..], frame) else {
            return Ok(chunk.len());
        };
        self.in_frame = false;
        Ok(begin + read)
    }

    fn end(self) -> Result<(), WireError> {
        match self.in_frame {
            true => Err(WireError::Truncated),
            false => Ok(()),
        }
    }
}

/// Returns the frame that `chunk` begins with, and its length, if it has the form that API servers
/// write. Its object is compared with the previous one.
fn usual<'a>(
    chunk: &'a [u8],
    limit: usize,
    previous: &mut PreviousItem,
) -> Option<(Frame<'a>, usize)> {
    use WatchEventKind::{Added, Deleted, Modified};
    let rest = chunk.strip_prefix(b"{\"type\":\"")?;
    let (kind, rest) = [Added, Modified, Deleted]
        .into_iter()
        .find_map(|kind| Some((kind, rest.strip_prefix(kind.as_str().as_bytes())?)))?;
    let rest = rest.strip_prefix(b"\",\"object\":")?;
    // A value that is not an object is reported by the slow path, `parse`.
    if !rest.starts_with(b"{") {
        return None;
    }
    let object = item::first(rest, limit, previous)?;
    let end = object.bytes().len();
    let length = chunk.len() - rest.len() + end + 1;
    (rest.get(end) == Some(&b'}')).then_some((
        Frame {
            kind: FrameKind::Known(kind),
            object,
        },
        length,
    ))
}

/// The spans of a frame's own keys. As in Go the last of two equal keys counts.
#[derive(Default)]
struct Keys {
    kind: Option<Range<usize>>,
    event: Option<Range<usize>>,
    object: Option<Range<usize>>,
}

fn parse(bytes: &[u8]) -> Frame<'_> {
    let keys = match keys(bytes) {
        Ok(keys) => keys,
        Err(fault) => return malformed(salvage::report_fault(bytes, fault)),
    };
    let text = |span: &Option<Range<usize>>| {
        span.clone()
            .and_then(|span| cursor::string_in(bytes, span))
            .map(cursor::unescape)
    };
    let object = keys
        .object
        .filter(|span| bytes.get(span.start) == Some(&b'{'));
    let Some(event) = text(&keys.event) else {
        return match text(&keys.kind).as_deref() {
            Some("Status") => Frame {
                kind: FrameKind::Status,
                object: item::cut(bytes),
            },
            _ => malformed(Unreadable::missing("type")),
        };
    };
    let Some(object) = object else {
        return malformed(Unreadable::missing("object"));
    };
    let kind = event.parse().map_or_else(
        |_| FrameKind::Unknown(event.chars().filter(|c| !c.is_control()).take(64).collect()),
        FrameKind::Known,
    );
    Frame {
        kind,
        object: item::cut(&bytes[object]),
    }
}

fn keys(bytes: &[u8]) -> Result<Keys, Fault> {
    let mut keys = Keys::default();
    let stops = &mut Stops::new(bytes);
    let mut members = Checked::after(0);
    while let Some((key, value)) = members.next(stops)? {
        // The object is validated later, in one pass with its head.
        let end = match bytes.get(value) {
            Some(b'{') => cursor::value_end(bytes, value).ok_or(Fault {
                at: bytes.len(),
                what: What::End,
            })?,
            _ => validate::value(stops, value, 1)?,
        };
        match &bytes[key] {
            key if text_is(key, "type") => keys.event = Some(value..end),
            key if text_is(key, "object") => keys.object = Some(value..end),
            key if text_is(key, "kind") => keys.kind = Some(value..end),
            _ => {}
        }
        members.at = end;
    }
    if members.at == bytes.len() {
        Ok(keys)
    } else {
        Err(Fault {
            at: members.at,
            what: What::Trailing,
        })
    }
}

fn malformed(unreadable: Unreadable) -> Frame<'static> {
    watch::malformed(unreadable, item::cut(&[]))
}

fn too_large(start: &[u8]) -> Frame<'static> {
    let object = cursor::open_members(start, 0)
        .find(|(key, _)| text_is(&start[key.clone()], "object"))
        .map_or(start.len(), |(_, value)| value);
    malformed(salvage(
        start.get(object..).unwrap_or_default(),
        "is too large",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::feeder::Feeder;
    use proptest::prelude::*;

    type Outcome = (Vec<(FrameKind, String)>, Result<(), WireError>);

    fn split(chunks: &[&[u8]], max_item_bytes: usize) -> Outcome {
        let mut framer = Feeder::new(WatchFramer::new(max_item_bytes));
        let mut frames = Vec::new();
        for chunk in chunks {
            let fed = framer.feed(chunk, None, &mut |frame| {
                frames.push((
                    frame.kind,
                    String::from_utf8_lossy(frame.object.bytes()).into_owned(),
                ));
                // The object has the same fault as its bytes parsed alone.
                let alone = item::cut(frame.object.bytes()).checked().err();
                assert_eq!(frame.object.checked().err(), alone);
            });
            if fed.is_err() {
                break;
            }
        }
        (frames, framer.finish())
    }

    fn every_way(body: &[u8], max_item_bytes: usize) -> Outcome {
        let whole = split(&[body], max_item_bytes);
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(split(&bytes, max_item_bytes), whole);
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            assert_eq!(split(&[head, tail], max_item_bytes), whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn frames_are_cut_out_whatever_stands_between_them() {
        use WatchEventKind::{Added, Bookmark, Deleted, Error, Modified};
        let body = "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\\\"\"}}\n\
            {\"object\":{\"b\":[{}]},\"type\":\"MODIFIED\"}{\"type\":\"DELETED\",\"object\":{}}\r\n\n \
            {\n  \"type\" : \"BOOKMARK\",\n  \"object\" : { \"c\" : 1 }\n}\n\
            {\"x\":[1],\"t\\u0079pe\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n";
        let (frames, end) = every_way(body.as_bytes(), 1000);
        let expected = [
            (Added, "{\"a\":\"}\\\"\"}"),
            (Modified, "{\"b\":[{}]}"),
            (Deleted, "{}"),
            (Bookmark, "{ \"c\" : 1 }"),
            (Error, "{\"kind\":\"Status\"}"),
        ];
        assert_eq!(
            frames,
            expected.map(|(k, o)| (FrameKind::Known(k), o.to_owned()))
        );
        assert_eq!(end, Ok(()));
        assert_eq!(every_way(b"", 10), (vec![], Ok(())));
    }

    #[test]
    fn objects_that_are_alike_have_the_faults_that_they_have_alone() {
        let event = |kind: &str, name: &str, container: &str| {
            format!(
                "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"{name}\",\
                \"managedFields\":[{{\"f:a\":{{}}}}]}},\"spec\":{{\"containers\":[{container}]}}}}}}\n"
            )
        };
        let good = r#"{"image":"nginx:1.27","args":["-c","/etc/x"]}"#;
        for bad in ["1 2", "}", "[{]", "\"\u{1}\"", "{\"image\":nginx}"] {
            let bookmark = event("BOOKMARK", "", good);
            let body = [
                event("ADDED", "a", good),
                event("ADDED", "b", good),
                event("ADDED", "c", bad),
                event("MODIFIED", "b", good),
                bookmark,
                event("DELETED", "d", bad),
                event("ADDED", "e", good),
            ]
            .concat();
            let (frames, _) = every_way(body.as_bytes(), 1000);
            assert_eq!(frames[0].1, frames[1].1.replace("\"b\"", "\"a\""), "{bad}");
        }
    }

    #[test]
    fn what_is_no_event_is_handed_on_as_such() {
        let kind = |body: &str| {
            let body = format!("{body}\n{{\"type\":\"ADDED\",\"object\":{{}}}}");
            let (mut frames, end) = every_way(body.as_bytes(), 100);
            assert_eq!((frames.len(), end), (2, Ok(())), "{body}");
            frames.swap_remove(0).0
        };
        // Values whose brackets do not match.
        for object in ["7", "\"}", "[{", "7,\"x\":[{\"y\":8}]"] {
            let body = format!(r#"{{"type":"ADDED","object":{object}}}}}"#);
            let _ = every_way(body.as_bytes(), 100);
        }
        assert_eq!(
            kind(r#"{"type":"MOVED","object":{}}"#),
            FrameKind::Unknown("MOVED".to_owned())
        );
        assert_eq!(kind(r#"{"kind":"Status","code":410}"#), FrameKind::Status);
        for (body, path, reason) in [
            ("{}", "type", "is missing"),
            (r#"{"type":7,"object":{}}"#, "type", "is missing"),
            (r#"{"type":"ADDED"}"#, "object", "is missing"),
            (r#"{"type":"ADDED","object":null}"#, "object", "is missing"),
            (
                r#"{"type":"ADDED" "object":{}}"#,
                "object",
                "expected a comma or a closing bracket at byte 16",
            ),
        ] {
            let FrameKind::Malformed(found) = kind(body) else {
                panic!("{body}")
            };
            assert_eq!((&*found.path, &*found.reason), (path, reason), "{body}");
        }
        let large = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"namespace":"n","name":"a"}},"x":"{}"}}}}"#,
            "y".repeat(1200)
        );
        let FrameKind::Malformed(found) = kind(&large) else {
            panic!("{large}")
        };
        assert_eq!(found.to_string(), "n/a cannot be read: is too large");
    }

    #[test]
    fn a_stream_that_breaks_off_or_is_no_stream_says_so() {
        assert_eq!(
            every_way(b"{\"type\":\"ADDED\",", 100).1,
            Err(WireError::Truncated)
        );
        let error = every_way(b"{\"kind\":\"Status\"} <html>", 100)
            .1
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "not a JSON reply: expected a watch event at byte 18"
        );
    }

    proptest! {
        #[test]
        fn broken_streams_split_the_same_way_however_they_are_cut(
            body in proptest::collection::vec(
                proptest::sample::select(&b"{}[]\",:\\n1 "[..]), 0..60),
            prefix in proptest::sample::select(vec![
                "",
                "{\"type\":\"ADDED\",\"object\":{",
                "{\"type\":\"ADDED\",\"object\":",
                "{\"type\":\"ADDED\",\"object\":{\"a\":[{\"b\":",
                "{\"type\":",
            ]),
            suffix in proptest::sample::select(vec!["", "}}", "}]}}", "]}\n{\"type\":\"ADDED\",\"object\":{}}"]),
        ) {
            let mut bytes = prefix.as_bytes().to_vec();
            bytes.extend(body);
            bytes.extend(suffix.as_bytes());
            let _ = every_way(&bytes, 8);
            let _ = every_way(&bytes, 1_000);
        }
    }
}
