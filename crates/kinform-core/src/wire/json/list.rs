//! Splits the body of a list into its items, chunk by chunk.
//!
//! ```text
//! chunks → ListSplitter → Item(bytes) | Unreadable ...;  at the end ListMeta | WireError
//! ```
//!
//! The envelope (all of the list but its items) is small, may come before and after the items, and
//! is kept to the end, when it is validated and read. Items are cut out by their brackets, and
//! validated when an object is made of them: one malformed item costs only itself.
//!
//! INVARIANT: the parts depend on the bytes only, never on where the chunks were cut.
//! BOUND: one item and the envelope (1 MiB) are held, never more.
//! Upstream: none; `client-go:tools/pager` decodes whole pages. Complexity: linear.

use super::envelope::{Envelope, MAX_ENVELOPE_BYTES, Pushed};
use super::item::{self, Guess};
use super::piece::{Piece, Read};
use super::previous::PreviousItem;
use super::salvage::salvage;
use super::validate::space;
use crate::wire::baseline::BaselineRef;
use crate::wire::error::WireError;
use crate::wire::feeder::Step;
use crate::wire::list::{ListMeta, ListPart};
use crate::wire::scan::first_of;
use crate::wire::unreadable::Unreadable;

/// Splits one list body; resumable at any byte.
#[derive(Debug)]
pub(in crate::wire) struct ListSplitter {
    state: State,
    envelope: Envelope,
    piece: Piece,
    guess: Guess,
    previous: PreviousItem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Envelope,
    /// In the array, before a value; `first` says that the array may end here.
    Before {
        first: bool,
    },
    Item,
    Scalar {
        in_string: bool,
        escaped: bool,
    },
    /// In the array, after a value.
    After,
    End,
}

impl ListSplitter {
    /// Creates a splitter before the first byte of a body, which skips items larger than this.
    pub(in crate::wire) fn new(max_item_bytes: usize) -> Self {
        Self {
            state: State::Start,
            envelope: Envelope::default(),
            piece: Piece::new(max_item_bytes),
            guess: Guess::default(),
            previous: PreviousItem::new(),
        }
    }
}

impl Step for ListSplitter {
    type Part<'a> = ListPart<'a>;
    type End = ListMeta;

    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<usize, WireError> {
        self.read(chunk, at, baseline, part)?;
        Ok(chunk.len())
    }

    fn end(self) -> Result<ListMeta, WireError> {
        match self.state {
            State::End => self.envelope.read(),
            _ => Err(WireError::Truncated),
        }
    }
}

impl ListSplitter {
    fn read(
        &mut self,
        chunk: &[u8],
        begin: u64,
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> Result<(), WireError> {
        let mut at = 0;
        while at < chunk.len() {
            if self.state == State::Item {
                at += self.item(&chunk[at..], baseline, part);
                continue;
            }
            if self.state == State::Envelope {
                at += self.envelope_bytes(&chunk[at..], begin + at as u64)?;
                continue;
            }
            if let State::Scalar {
                in_string,
                escaped: false,
            } = self.state
            {
                at = run_end(chunk, at, in_string);
            }
            let Some(&byte) = chunk.get(at) else { break };
            self.state = match self.state {
                State::Scalar { in_string, escaped } => match (in_string, byte) {
                    (false, b',' | b']') => {
                        part(ListPart::Unreadable(Unreadable::unknown(
                            "is not a JSON object",
                        )));
                        self.state = State::After;
                        continue;
                    }
                    (true, b'\\') => State::Scalar {
                        in_string,
                        escaped: !escaped,
                    },
                    (_, b'"') if !escaped => State::Scalar {
                        in_string: !in_string,
                        escaped,
                    },
                    _ => State::Scalar {
                        in_string,
                        escaped: false,
                    },
                },
                _ if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') => {
                    at = space(chunk, at);
                    continue;
                }
                state => match self.token(state, byte) {
                    // The byte begins a value; it is read again as the value's first.
                    Ok(state @ (State::Item | State::Scalar { .. } | State::Envelope))
                        if byte != b']' =>
                    {
                        self.piece.begin();
                        self.state = state;
                        continue;
                    }
                    Ok(state) => state,
                    Err(reason) => {
                        return Err(WireError::NotJson {
                            at: begin + at as u64,
                            reason,
                        });
                    }
                },
            };
            at += 1;
        }
        Ok(())
    }

    /// Returns the state after a byte that is outside of values and not white space.
    fn token(&mut self, state: State, byte: u8) -> Result<State, &'static str> {
        match (state, byte) {
            (State::Start, b'{') => Ok(State::Envelope),
            (State::Start, _) => Err("it does not begin with a brace"),
            (State::Before { first: true } | State::After, b']') => {
                self.envelope.close_items();
                Ok(State::Envelope)
            }
            (State::Before { .. }, b'{' | b'[') => Ok(State::Item),
            (State::Before { .. }, b',' | b']' | b'}' | b':') => Err("an item is missing"),
            (State::Before { .. }, _) => Ok(State::Scalar {
                in_string: false,
                escaped: false,
            }),
            (State::After, b',') => Ok(State::Before { first: false }),
            (State::After, _) => Err("no comma between items"),
            (State::End, _) => Err("bytes after the end of the list"),
            (State::Envelope | State::Item | State::Scalar { .. }, _) => Ok(state),
        }
    }

    fn item(
        &mut self,
        chunk: &[u8],
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(ListPart<'_>),
    ) -> usize {
        if self.piece.is_fresh()
            && self.guess.may_hold(chunk.len())
            && let Some(item) =
                item::first_stored(chunk, self.piece.limit(), baseline, &mut self.previous)
                    .or_else(|| item::first(chunk, self.piece.limit(), &mut self.previous))
        {
            let length = item.bytes().len();
            self.guess.was(length);
            part(ListPart::Item(item));
            self.state = State::After;
            return length;
        }
        let (read, item) = self.piece.read(chunk);
        match item {
            Read::More => return read,
            Read::Whole(item) => {
                self.guess.was(item.len());
                let item = item::cut(item);
                part(ListPart::Item(match baseline {
                    Some(baseline) => item.compared(baseline),
                    None => item,
                }));
            }
            Read::TooLarge(start) => {
                part(ListPart::Unreadable(salvage(start, "is too large")));
            }
        }
        self.state = State::After;
        read
    }

    fn envelope_bytes(&mut self, chunk: &[u8], offset: u64) -> Result<usize, WireError> {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.envelope.len() >= MAX_ENVELOPE_BYTES {
                return Err(self.envelope.too_large());
            }
            let inside = self.envelope.push_inside(&chunk[at..]);
            if inside > 0 {
                at += inside;
                continue;
            }
            match self.envelope.push(byte) {
                Pushed::More => {
                    at += 1;
                    continue;
                }
                Pushed::Items => self.state = State::Before { first: true },
                Pushed::End => self.state = State::End,
                Pushed::ItemsAgain => {
                    let at = offset + at as u64;
                    return Err(WireError::NotJson {
                        at,
                        reason: "items come twice",
                    });
                }
            }
            return Ok(at + 1);
        }
        Ok(chunk.len())
    }
}

/// Returns the end of a run of bytes, from `at`, that do not change the state of a value without
/// brackets; the chunk's length if all of them belong to the run.
fn run_end(chunk: &[u8], at: usize, in_string: bool) -> usize {
    match in_string {
        true => first_of(chunk, at, *b"\"\\"),
        false => first_of(chunk, at, *b"\",]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::feeder::Feeder;
    use proptest::prelude::*;

    type Outcome = (Vec<String>, Result<ListMeta, WireError>);

    fn split(chunks: &[&[u8]], max_item_bytes: usize) -> Outcome {
        let mut splitter = Feeder::new(ListSplitter::new(max_item_bytes));
        let mut parts = Vec::new();
        for chunk in chunks {
            let fed = splitter.feed(chunk, None, &mut |part| {
                parts.push(match part {
                    ListPart::Item(item) => {
                        let bytes = item.bytes();
                        // The item has the same fault as its bytes parsed alone.
                        let alone = item::cut(bytes).checked().err();
                        assert_eq!(item.checked().err(), alone);
                        String::from_utf8_lossy(bytes).into_owned()
                    }
                    ListPart::Unreadable(why) => format!("! {why}"),
                });
            });
            if fed.is_err() {
                break;
            }
        }
        (parts, splitter.finish())
    }

    /// Splits the body whole, byte by byte and at every single cut, with equal results.
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

    fn check(body: &str, items: &[&str], version: &str) {
        let (parts, meta) = every_way(body.as_bytes(), 1000);
        assert_eq!(parts, items, "{body}");
        assert_eq!(meta.unwrap().resource_version, version, "{body}");
    }

    #[test]
    fn items_and_metadata_come_in_any_order() {
        check(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
            &[],
            "7",
        );
        check(
            r#"{"items":[{"a":1},{"b":[{}]}],"metadata":{"resourceVersion":"7"}}"#,
            &[r#"{"a":1}"#, r#"{"b":[{}]}"#],
            "7",
        );
        check(
            " { \"kind\" : \"L\" ,\n\t\"items\" : [ {\"a\":\"]\\\"}\"} ,\r\n { } ] , \"x\" : {\"items\":[1]} } \n",
            &["{\"a\":\"]\\\"}\"}", "{ }"],
            "",
        );
        check(r#"{"kind":"PodList","items":null}"#, &[], "");
        // Every letter escaped: the longest form of this key.
        check(
            r#"{"kind":"L","\u0069\u0074\u0065\u006d\u0073":[{}]}"#,
            &["{}"],
            "",
        );

        check(r#"{"ite\u006ds":[{}],"metadata":null}"#, &["{}"], "");
        check(
            r#"{"metadata":{"resourceVersion":"1"},"metadata":{"resourceVersion":"2"},"items":[]}"#,
            &[],
            "2",
        );
    }

    #[test]
    fn a_list_tells_where_it_goes_on() {
        let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":12},"items":[]}"#;
        let expected = ListMeta {
            resource_version: "7".to_owned(),
            continue_token: "abc".to_owned(),
            remaining: Some(12),
            kind: "PodList".to_owned(),
            api_version: "v1".to_owned(),
        };
        assert_eq!(every_way(body, 100).1, Ok(expected));
    }

    #[test]
    fn an_item_that_is_no_object_costs_itself_only() {
        let none = "! an object without a readable name cannot be read: is not a JSON object";
        let large = "! a cannot be read: is too large";
        check(
            r#"{"items":[null,{"a":1},"x,]\"",7 ,{}]}"#,
            &[none, r#"{"a":1}"#, none, none, "{}"],
            "",
        );
        let body = r#"{"items":[{"a":1},{"metadata":{"name":"a"},"x":[1,2,3]},{"b":2}]}"#;
        let (parts, meta) = every_way(body.as_bytes(), 32);
        assert_eq!(parts, [r#"{"a":1}"#, large, r#"{"b":2}"#]);
        assert!(meta.is_ok());
    }

    #[test]
    fn what_is_no_list_is_told_apart() {
        let check = |body: &str, expected: &str| {
            let error = every_way(body.as_bytes(), 100).1.unwrap_err();
            assert_eq!(error.to_string(), expected, "{body}");
        };
        check("", "the reply ended in the middle");
        check(r#"{"items":[{},"#, "the reply ended in the middle");
        check(r#"{"items":[{}]"#, "the reply ended in the middle");
        check(
            "<html>",
            "not a JSON reply: it does not begin with a brace at byte 0",
        );
        check(
            " [1]",
            "not a JSON reply: it does not begin with a brace at byte 1",
        );
        check(
            r#"{"items":[]} x"#,
            "not a JSON reply: bytes after the end of the list at byte 13",
        );
        check(
            r#"{"items":[{}{}]}"#,
            "not a JSON reply: no comma between items at byte 12",
        );
        check(
            r#"{"items":[{},]}"#,
            "not a JSON reply: an item is missing at byte 13",
        );
        check(
            r#"{"items":[],"items":[{}]}"#,
            "not a JSON reply: items come twice at byte 20",
        );
        check(
            r#"{"items":[],"kind":}"#,
            "not a JSON reply: expected a JSON value at byte 19",
        );
        check(
            r#"{"kind":"Pod","metadata":{"name":"a"}}"#,
            "the reply is not a list but of kind Pod",
        );
        check("{}", "the reply is not a list");
        check(
            r#"{"kind":"Table","rows":[{"object":{}}]}"#,
            "the server answered with a Table in place of a list",
        );
        check(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods is forbidden","reason":"Forbidden","code":403}"#,
            "the server answered with a status in place of a list: pods is forbidden",
        );
    }

    #[test]
    fn what_stands_around_the_items_is_cut_out_by_its_brackets_and_checked_at_the_end() {
        let check = |body: &str, items: usize| {
            let (parts, end) = every_way(body.as_bytes(), 100);
            assert_eq!(parts.len(), items, "{body}");
            assert!(end.is_err(), "{body}");
        };
        // A backslash escapes a quote even outside of strings, and only the `items` of the list
        // itself count.
        check(r#"{"x":[\"],"items":[{}]}"#, 1);
        check(r#"{"x":{"a":"items"}:[{}]}"#, 0);
        check(r#"{"x":[}],"items":[{}]}"#, 0);
        check(r#"{"x":[[}],"items":[{}]}"#, 1);
        check(r#"{"items":{}[{}]}"#, 1);
    }

    #[test]
    fn an_endless_envelope_is_refused() {
        for (start, table) in [(r#"{"kind":"Table","rows":["#, true), (r#"{"x":["#, false)] {
            let mut splitter = Feeder::new(ListSplitter::new(1000));
            splitter.feed(start.as_bytes(), None, &mut |_| {}).unwrap();
            let error = (0..200_000)
                .find_map(|_| splitter.feed(b"{\"a\":1},", None, &mut |_| {}).err())
                .unwrap();
            assert_eq!(matches!(error, WireError::Table), table);
            assert!(splitter.step.envelope.len() <= MAX_ENVELOPE_BYTES);
        }
    }

    proptest! {
        #[test]
        fn broken_bodies_split_the_same_way_however_they_are_cut(
            body in proptest::collection::vec(
                proptest::sample::select(&b"{}[]\",:\\n1 "[..]), 0..60),
            prefix in proptest::sample::select(vec![
                "",
                "{\"items\":[",
                "{\"kind\":\"Status\",",
                "{\"items\":[{",
                "{\"items\":[{\"a\":[{\"b\":",
                "{\"x\":{\"y\":[",
            ]),
            suffix in proptest::sample::select(vec!["", "}]}", "}]},{}]}", "},\"items\":[{}]}"]),
        ) {
            let mut bytes = prefix.as_bytes().to_vec();
            bytes.extend(body);
            bytes.extend(suffix.as_bytes());
            let _ = every_way(&bytes, 1_000);
            let _ = every_way(&bytes, 8);
        }
    }
}
