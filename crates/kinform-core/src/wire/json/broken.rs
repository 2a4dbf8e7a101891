//! Diagnoses a malformed object: its key, the path of the fault and where it ends, from what was
//! parsed.
//!
//! ```text
//! fault, parsed part → Broken ─▶ find_end: from the fault on, by the brackets that are open there
//!                             └▶ unreadable: name and version as parsed, the path of the fault
//! ```
//!
//! The bytes before the fault are parsed once, at the cost of a valid object; only the member that
//! holds the fault is read again. The object's name comes from the metadata that hold the fault, or
//! from the last metadata before it, or from the first after it.
//!
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use super::cursor::{self, members_from, text_is};
use super::head::{HeadFault, OpenMember, Reading};
use super::path::{Place, push_raw_key};
use super::salvage::{Identity, invalid_field, reason};
use super::validate::{Fault, What};
use crate::wire::scan::Nesting;
use crate::wire::unreadable::Unreadable;

/// The reason why bytes are not an object, and the part of it that was parsed.
#[derive(Debug)]
pub(crate) struct Broken {
    fault: HeadFault,
    reading: Reading,
    /// The place of the fault, once `find_end` has located it.
    place: Option<Place>,
}

impl Broken {
    #[cold]
    pub(super) fn new(fault: HeadFault, mut reading: Reading) -> Self {
        // A malformed object is not copied, and hostile metadata can have many cuts.
        reading.layout.forget_cuts();
        Self {
            fault,
            reading,
            place: None,
        }
    }

    /// Returns the position after the object, by its brackets, if it ends in `bytes`, which begin
    /// with it. The result is that of a search from its first bracket.
    pub(super) fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.fault {
            HeadFault::Broken(fault) if fault.what == What::End => None,
            _ if self.is_whole() => Some(self.reading.layout.body.end),
            HeadFault::Broken(fault) => self.place.insert(self.place(bytes, fault)).end(bytes, 0),
            // An array is not parsed. An object with a faulty field was parsed to its end.
            HeadFault::Field { .. } if bytes.starts_with(b"[") => Nesting::default().advance(bytes),
            HeadFault::Field { .. } => None,
        }
    }

    /// Reports the fault in these bytes, which were parsed.
    #[cold]
    pub(crate) fn unreadable(&self, bytes: &[u8]) -> Unreadable {
        let fault = match self.fault {
            HeadFault::Broken(fault) => fault,
            HeadFault::Field { path, why, .. } => {
                return invalid_field(bytes, &self.reading.layout, path, why);
            }
        };
        if bytes.get(self.reading.start) != Some(&b'{') {
            return Unreadable::unknown(reason(fault));
        }
        let made;
        let place = match &self.place {
            Some(place) => place,
            None => {
                made = self.place(bytes, fault);
                &made
            }
        };
        let mut found = self.identity(bytes, place).unreadable(reason(fault));
        found.path = self.path(bytes, fault, place);
        found
    }

    /// Returns whether the object was parsed to its end, and is faulty for another reason.
    fn is_whole(&self) -> bool {
        !self.reading.layout.body.is_empty()
    }

    fn place(&self, bytes: &[u8], fault: Fault) -> Place {
        let reading = &self.reading;
        let from = match reading.open {
            Some(open) if !open.is_bracketed(bytes) => {
                return Place::shallow(reading.start, fault.at, open.is_in_string(bytes, fault.at));
            }
            Some(open) => open.key,
            None if !self.is_whole() => reading.done,
            None if fault.at < reading.layout.body.end => reading.member_before(fault.at),
            None => return Place::default(),
        };
        Place::within(bytes, reading.start, from, fault.at)
    }

    fn path(&self, bytes: &[u8], fault: Fault, place: &Place) -> String {
        let key = match self.reading.open {
            Some(open) if !open.is_bracketed(bytes) => open.key_in(bytes),
            None if !self.is_whole() => self.key_before(bytes, fault.at),
            _ => None,
        };
        match key {
            Some(key) => {
                let mut path = String::new();
                push_raw_key(&mut path, key);
                path
            }
            None => place.path(bytes),
        }
    }

    /// Returns the key of the last member, if it ends at `at`; the fault is then reported there.
    fn key_before<'a>(&self, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let reading = &self.reading;
        let has_members = reading.done > reading.start + 1;
        let last = (has_members && reading.done == at).then(|| reading.member_before(at))?;
        let (key, _) = members_from(bytes, last).next()?;
        Some(&bytes[key])
    }

    fn identity(&self, bytes: &[u8], place: &Place) -> Identity {
        let reading = &self.reading;
        let mut at = reading.done;
        match reading.open {
            Some(open) if open.is_metadata => return Identity::of(bytes, open.value).0,
            _ if reading.has_metadata => return Identity::at_spans(bytes, &reading.layout),
            None => {}
            Some(open) => {
                let end = match open.is_bracketed(bytes) {
                    true => place.end(bytes, 1),
                    false => cursor::value_end(bytes, open.value),
                };
                let Some(end) = end else {
                    return Identity::default();
                };
                at = end;
            }
        }
        members_from(bytes, at)
            .find(|(key, _)| text_is(&bytes[key.clone()], "metadata"))
            .map_or_else(Identity::default, |(_, value)| Identity::of(bytes, value).0)
    }
}

impl OpenMember {
    fn is_bracketed(self, bytes: &[u8]) -> bool {
        matches!(bytes.get(self.value), Some(b'{' | b'['))
    }

    /// Returns whether `at` is inside its value, and the value is a string.
    fn is_in_string(self, bytes: &[u8], at: usize) -> bool {
        at > self.value && bytes.get(self.value) == Some(&b'"')
    }

    /// Returns its key as it is written: up to the last quote before its value.
    fn key_in(self, bytes: &[u8]) -> Option<&[u8]> {
        let key = bytes.get(self.key + 1..self.value)?;
        let end = key.iter().rposition(|&byte| byte == b'"')?;
        Some(&key[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::head;
    use crate::wire::json::item::read;
    use crate::wire::json::path::path_to;
    use crate::wire::json::previous::PreviousItem;
    use kinform_api::ObjectKey;
    use proptest::prelude::*;

    fn key(text: &str) -> Option<String> {
        let found = read(text.as_bytes()).unwrap_err();
        found.key.as_ref().map(ObjectKey::as_str).map(str::to_owned)
    }

    #[test]
    fn it_is_named_by_the_metadata_nearest_to_its_fault() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(key(text).as_deref(), expected, "{text}");
        };
        check(
            r#"{"metadata":{"name":"a","namespace":"n"} , "x":!"#,
            Some("n/a"),
        );
        check(
            r#"{"metadata":{"name":"a" !},"metadata":{"name":"b"}}"#,
            Some("a"),
        );
        check(
            r#"{"metadata":{"name":"a"},"x":!,"metadata":{"name":"b"}}"#,
            Some("a"),
        );
        check(
            r#"{"metadata":{"name":"a"},"metadata":{"name":"b"},"x":!"#,
            Some("b"),
        );
        check(r#"{"metadata":{"name":"a"},"metadata":{"nome":!"#, None);
        check(r#"{"x":[{"y":"\q]}"}],"metadata":{"name":"a"}}"#, Some("a"));
        check(r#"{"x":"\q","metadata":{"name":"a"}}"#, Some("a"));
        check(r#"{"x":tru,"metadata":{"name":"a"}}"#, Some("a"));
        check(r#"{"x":7 "metadata":{"name":"a"}}"#, Some("a"));
        check(r#"{"x":[},"metadata":{"name":"a"}}"#, Some("a"));
        check(r#"{"x":"\"#, None);
        check(r#"{"metadata":["name","a"],"x":!"#, None);
        check(r#"{"metadata":{"name":"a"}}x"#, Some("a"));
        // Not an object at all.
        check(r#""metadata":{"name":"a"}"#, None);
        check(r#" ,"metadata":{"name":"a"}"#, None);
        check(r#"["metadata",{"name":"a"}"#, None);
    }

    #[test]
    fn what_is_no_json_is_told_before_what_is_not_as_it_must_be() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(read(bytes).unwrap_err().to_string(), expected);
        };
        check(
            br#"{"metadata":{"name":7,"namespace":"n","resourceVersion":"8","uid":9}}"#,
            "an object without a readable name at version 8 cannot be read: metadata.name: is not a string",
        );
        check(
            br#"{"metadata":{"uid":7,"name":"a","namespace":"n"}}"#,
            "n/a cannot be read: metadata.uid: is not a string",
        );
        check(
            br#"{"metadata":{"uid":7,"name":"a"},"x":[1,!]}"#,
            "a cannot be read: x[1]: expected a JSON value at byte 40",
        );
        check(
            b"{\"metadata\":{\"uid\":7,\"name\":\"a\"},\"x\":[1,\"\xff\"]}",
            "a cannot be read: x[1]: not UTF-8 at byte 41",
        );
        check(
            br#"{"metadata":7,"metadata":{"name":"a"}}"#,
            "a cannot be read: metadata: is not a JSON object",
        );
        check(
            br#""abc":5"#,
            "an object without a readable name cannot be read: bytes after the end of the value at byte 5",
        );
        check(
            br#"{"metadata":{"name":"a"}]"#,
            "a cannot be read: metadata: expected a comma or a closing bracket at byte 24",
        );
    }

    /// Ends and paths equal those that a search of all bytes finds.
    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut reading = Reading::default();
        let Err(fault) = head::read_first(bytes, &mut PreviousItem::new(), &mut reading) else {
            return Ok(());
        };
        let end = Nesting::default().advance(bytes);
        let mut broken = Broken::new(fault, reading);
        let found = broken.find_end(bytes);
        let text = String::from_utf8_lossy(bytes);
        if let HeadFault::Broken(fault) = fault {
            let is_cut = fault.what == What::End;
            prop_assert_eq!(found, end.filter(|_| !is_cut), "{} at {}", text, fault.at);
            let path = broken.unreadable(bytes).path;
            prop_assert_eq!(path, path_to(bytes, fault.at), "{} at {}", text, fault.at);
        } else {
            prop_assert_eq!(found, end, "{}", text);
        }
        if let Some(end) = found {
            let alone = read(&bytes[..end]).unwrap_err();
            prop_assert_eq!(broken.unreadable(&bytes[..end]), alone, "{}", text);
        }
        Ok(())
    }

    const PIECES: &[&[u8]] = &[
        b"{\"a\":",
        b"[",
        b"]",
        b"}",
        b"]",
        b"}",
        b",",
        b",",
        b"\"b\":",
        b"\"b\":[",
        b"\"c\\\"\"",
        b" ",
        b"1",
        b"{}",
        b"[]",
        b"[1,2]",
        b"\xc3\xa9",
        b"\"",
        b"\"\xff\"",
        b"\"\xff\":",
        b"\"metadata\":",
        b"{\"name\":\"x\"}",
        b"{\"name\":7",
        b"\\",
        b"\\\\\"",
        b"\"0123456789012345678901234567890123456789012345678901234567890123456789\"",
    ];

    proptest! {
        #[test]
        fn it_ends_and_has_the_path_as_all_of_it_says(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..40),
        ) {
            check(&[b"{", &pieces.concat()[..]].concat())?;
            check(&[b"{\"m\":1,\"metadata\":{\"name\":\"y\"},", &pieces.concat()[..], b"}}"].concat())?;
        }
    }
}
