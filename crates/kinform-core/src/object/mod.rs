//! The object: what travels through every room, one allocation of head and bytes.
//!
//! ```text
//! wire bytes → Object {head: key, uid, version, spans | bytes as encoded} → lenses: text, path, type
//! ```
//!
//! `apiVersion`, `kind` and (unless asked for) `metadata.managedFields` are not kept; views put
//! the first two back. Cloning counts one reference. Lenses read the bytes in place: labels,
//! annotations, owners and paths in `lens`, types in `typed`; what is kept in `projection`.
//!
//! INVARIANT: the bytes are one JSON object that `wire::json` checked, or one message that
//! `wire::protobuf::check` did, so no lens meets broken bytes. Behind them lie copies of those strings of the head that are escaped or that a
//! projection or transform took from the bytes.
//! Upstream: `runtime.Object` in `client-go:tools/cache` (decoded), `meta.Accessor`.

pub mod budget;
pub mod owner;
pub mod projection;
pub mod typed;
pub mod weight;

mod build;
mod lens;
mod message;
mod prune;

use std::fmt;
use std::hint::black_box;

use kinform_api::{KeyRef, ObjectKey, TypeMeta};
use kinform_schema::Type;
use triomphe::ThinArc;

use self::projection::Projection;
use self::typed::TypedSlot;
use crate::wire::encoding::Encoding;
use crate::wire::item::Item;
use crate::wire::protobuf::head as message_head;
use crate::wire::protobuf::value::Nulls;
use crate::wire::unreadable::{OneLine, Unreadable};

/// One object as the server sent it, encoded, with a decoded head.
///
/// Cloning is one counter. `Debug` prints key and version, never content.
///
/// Upstream: the pointers to decoded structs in client-go's stores.
#[derive(Clone)]
pub struct Object(ThinArc<Head, u8>);

/// What is known of an object without looking at its bytes. Kept small: there is one an object.
struct Head {
    key_hash: u64,
    revision: u64,
    name: Span,
    namespace: Span,
    uid: Span,
    resource_version: Span,
    labels: Span,
    annotations: Span,
    owners: Span,
    // INVARIANT: `body` bytes of payload are the object, the rest are copies of head strings.
    body: u32,
    flags: Flags,
    encoding: Encoding,
    /// Of a message: the number of its type.
    of: u16,
    typed: TypedSlot,
}

/// A piece of the payload. BOUND: objects over 4 GiB are refused when they are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags(u8);

impl Flags {
    const HAS_REVISION: u8 = 1;
    const TERMINATING: u8 = 2;
    const PROJECTED: u8 = 4;

    fn with(self, flag: u8, on: impl Into<bool>) -> Self {
        Self(if on.into() {
            self.0 | flag
        } else {
            self.0 & !flag
        })
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

impl Object {
    /// Reads one object from JSON: a list's item or a watch event's `object`.
    ///
    /// Every byte is checked (UTF-8, structure, depth up to 128); nothing is decoded.
    ///
    /// # Errors
    /// What is no JSON object, has no `metadata.name`, or whose key, uid or version is no string.
    ///
    /// # Complexity
    /// One pass and one copy of what is kept.
    pub fn from_json(body: &[u8], projection: &Projection) -> Result<Self, Unreadable> {
        build::from_json(body, projection)
    }

    /// Reads one object from the protobuf of its type, without an envelope: a list's item.
    ///
    /// Every byte that may be kept is checked (lengths, UTF-8, structure, depth up to 128); nothing is decoded.
    ///
    /// # Errors
    /// What is no message of this type, has no `metadata.name`, or holds what has no JSON.
    ///
    /// # Complexity
    /// One pass and one copy of what is kept.
    pub fn from_protobuf(
        of: &'static Type,
        body: &[u8],
        projection: &Projection,
    ) -> Result<Self, Unreadable> {
        build::from_protobuf(of, body, projection)
    }

    /// Reads one object that was cut out of a list or a watch.
    ///
    /// As [`Object::from_json`], but does not check again what was checked on the way.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn from_item(item: &Item<'_>, projection: &Projection) -> Result<Self, Unreadable> {
        build::from_item(item, projection)
    }

    /// The same object with another content: for transforms. It is JSON then, whatever it was.
    ///
    /// Key, uid and version stay those of the wire, whatever `json` says; the result
    /// [is projected](Self::is_projected).
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn with_payload(&self, json: &[u8]) -> Result<Self, Unreadable> {
        build::with_payload(self, json)
    }

    /// The same object with what this projection leaves of it, in the same encoding.
    ///
    /// # Errors
    /// What was left of it before holds no key any more.
    pub fn narrowed(&self, projection: &Projection) -> Result<Self, Unreadable> {
        match self.message() {
            Some((of, bytes)) => build::from_protobuf(of, bytes, projection),
            None => build::from_json(self.bytes(), projection),
        }
    }

    /// Namespace and name, owned.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.key_ref().to_key()
    }

    /// Namespace and name, borrowed.
    #[must_use]
    pub fn key_ref(&self) -> KeyRef<'_> {
        let head = self.head();
        KeyRef {
            namespace: self.text(head.namespace),
            name: self.text(head.name),
        }
    }

    /// Whether its key is this one.
    #[must_use]
    pub fn has_key(&self, key: KeyRef<'_>) -> bool {
        // Bytes, not texts: to compare them they need not be checked again.
        let head = self.head();
        *self.raw(head.name) == *key.name.as_bytes()
            && *self.raw(head.namespace) == *key.namespace.as_bytes()
    }

    /// Brings the head and the count of handles into the processor's cache.
    ///
    /// Counting a handle waits for the memory that the count lies in, and lets nothing overtake it:
    /// whoever takes many handles touches some of them ahead, which waits for all of these at once.
    pub(crate) fn touch(&self) {
        black_box(self.head().key_hash);
    }

    /// The hash of the key: [`KeyRef::hash64`], computed once.
    #[must_use]
    pub fn key_hash(&self) -> u64 {
        self.head().key_hash
    }

    /// The namespace, or nothing for an object of the cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text(self.head().namespace)).filter(|namespace| !namespace.is_empty())
    }

    /// The name; never empty.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.head().name)
    }

    /// The uid; empty if the server sent none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(self.head().uid)
    }

    /// The resource version as the server wrote it; empty if it sent none.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.text(self.head().resource_version)
    }

    /// The resource version as a number, where it is one.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        let head = self.head();
        head.flags.has(Flags::HAS_REVISION).then_some(head.revision)
    }

    /// How [`bytes`](Self::bytes) are encoded.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.head().encoding
    }

    /// The object without `apiVersion`, `kind` and what the projection dropped.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.slice[..self.head().body as usize]
    }

    /// Bytes on the heap, without a typed value that may be remembered.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        // Count, length and head before the payload; rounded up to the head's alignment.
        let fixed = 2 * size_of::<usize>() + size_of::<Head>();
        (fixed + self.0.slice.len()).next_multiple_of(align_of::<Head>())
    }

    /// Whether the content is the same, version included.
    ///
    /// # Complexity
    /// A comparison of bytes; constant for clones and for different lengths. Of two encodings, both
    /// are decoded.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        if self.ptr_eq(other) {
            return true;
        }
        match self.encoding() == other.encoding() {
            true => self.bytes() == other.bytes(),
            false => self
                .value()
                .is_some_and(|value| other.value() == Some(value)),
        }
    }

    /// Whether the bytes are the same apart from the version: an update of what is not kept.
    #[must_use]
    pub fn same_but_version(&self, other: &Self) -> bool {
        if self.encoding() != other.encoding() {
            return false;
        }
        if self.encoding() == Encoding::Protobuf {
            let around = message_head::around_version;
            return self.ptr_eq(other) || around(self.bytes()) == around(other.bytes());
        }
        let (mine, theirs) = (self.around_version(), other.around_version());
        self.ptr_eq(other) || mine == theirs
    }

    /// Whether both are clones of one object.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        ThinArc::as_ptr(&self.0) == ThinArc::as_ptr(&other.0)
    }

    /// Whether nobody else has a clone of it.
    fn is_alone(&self) -> bool {
        self.0.with_arc(|arc| triomphe::Arc::strong_count(arc) == 1)
    }

    /// Whether a projection or transform took or changed something: such a view is never written
    /// back.
    #[must_use]
    pub fn is_projected(&self) -> bool {
        self.head().flags.has(Flags::PROJECTED)
    }

    /// Whether the object has a `deletionTimestamp`.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.head().flags.has(Flags::TERMINATING)
    }

    /// The object as JSON, with `apiVersion` and `kind` first.
    #[must_use]
    pub fn to_json(&self, meta: &TypeMeta) -> Vec<u8> {
        match self.message() {
            Some((of, bytes)) => message::to_json(of, bytes, meta, self.nulls()),
            None => typed::with_type(self.bytes(), meta),
        }
    }

    /// Its type and its bytes, if it is a message.
    fn message(&self) -> Option<(&'static Type, &[u8])> {
        match self.encoding() {
            Encoding::Protobuf => {
                let of = kinform_schema::numbered_type(self.head().of)?;
                Some((of, self.bytes()))
            }
            Encoding::Json => None,
        }
    }

    /// The content without a type, for comparing two encodings.
    fn value(&self) -> Option<serde_json::Value> {
        match self.message() {
            Some((of, bytes)) => message::value(of, bytes, self.nulls()),
            None => serde_json::from_slice(self.bytes()).ok(),
        }
    }

    fn nulls(&self) -> Nulls {
        match self.is_projected() {
            true => Nulls::Hidden,
            false => Nulls::Told,
        }
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn raw(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        &self.0.slice[start..start + span.len as usize]
    }

    fn text(&self, span: Span) -> &str {
        let text = std::str::from_utf8(self.raw(span));
        debug_assert!(text.is_ok(), "the head's strings were checked");
        text.unwrap_or_default()
    }

    fn around_version(&self) -> (&[u8], &[u8]) {
        let (bytes, version) = (self.bytes(), self.head().resource_version);
        let (start, end) = (
            version.start as usize,
            (version.start + version.len) as usize,
        );
        if end <= bytes.len() {
            (&bytes[..start], &bytes[end..])
        } else {
            (bytes, &[])
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        let (key, version) = (OneLine(key.as_str()), OneLine(self.resource_version()));
        write!(f, "Object({key}@{version})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Object {
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    fn meta() -> TypeMeta {
        TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        }
    }

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop","uid":"u-1","resourceVersion":"42","labels":{"app":"web","a/b":"\u0063"},"annotations":{"note":"x\ny"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u-2","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kubelet","fieldsV1":{"f:spec":{}}}]},"spec":{"containers":[{"image":"nginx","n":1},{"image":"envoy","n":2.50}],"on":true,"no":null}}"#;

    #[test]
    fn a_head_stays_small() {
        assert!(size_of::<Head>() <= 96, "{}", size_of::<Head>());
        assert_eq!(size_of::<Object>(), size_of::<usize>());
    }

    #[test]
    fn an_object_does_not_keep_the_body_that_it_came_in() {
        // client-go: TestReflectorListExtract
        let item = r#"{"metadata":{"name":"a","uid":"u"},"data":{"k":"v"}}"#;
        let body = format!(r#"{{"items":[{}{item}]}}"#, format!("{item},").repeat(999));
        let mut splitter = crate::wire::list::ListSplitter::new();
        let mut kept = None;
        let fed = splitter.feed(body.as_bytes(), &mut |part| {
            if let crate::wire::list::ListPart::Item(item) = part {
                kept = Object::from_item(&item, &Projection::default()).ok();
            }
        });
        fed.unwrap();
        let kept = kept.unwrap();
        assert!(
            !body
                .as_bytes()
                .as_ptr_range()
                .contains(&kept.bytes().as_ptr())
        );
        drop(body);
        assert_eq!(kept.bytes(), item.as_bytes());
        assert!(
            kept.heap_size() < 2 * item.len() + 200,
            "{}",
            kept.heap_size()
        );
    }

    #[test]
    fn an_object_tells_its_head() {
        let pod = object(POD);
        assert_eq!(pod.key().as_str(), "shop/web-0");
        assert_eq!(
            (pod.namespace(), pod.name(), pod.uid()),
            (Some("shop"), "web-0", "u-1")
        );
        assert_eq!((pod.resource_version(), pod.revision()), ("42", Some(42)));
        assert_eq!(pod.key_hash(), pod.key_ref().hash64());
        assert_eq!((pod.is_projected(), pod.is_terminating()), (false, false));
        assert_eq!(format!("{pod:?}"), "Object(shop/web-0@42)");
        assert_eq!(pod.label("a/b").as_deref(), Some("c"));
        assert_eq!(pod.label("c"), None);
        assert_eq!(pod.annotation("note").as_deref(), Some("x\ny"));
        let labels: Vec<_> = pod.labels().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["app=web", "a/b=c"]);
        let owner = &pod.owner_references()[0];
        assert_eq!(
            (&*owner.kind, &*owner.name, owner.controller),
            ("ReplicaSet", "web", true)
        );
        assert!(pod.ptr_eq(&pod.clone()) && !pod.ptr_eq(&object(POD)));
    }

    #[test]
    fn type_and_managed_fields_are_not_kept() {
        let kept = object(POD);
        let kept = std::str::from_utf8(kept.bytes()).unwrap();
        assert!(kept.starts_with(r#"{"metadata":{"name":"web-0""#), "{kept}");
        assert!(
            !kept.contains("managedFields") && !kept.contains("apiVersion\":\"v1\""),
            "{kept}"
        );
        for (input, expected) in [
            (
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"metadata":{"name":"a"}}"#,
            ),
            (
                r#" {"kind":"K","metadata":{"name":"a"},"apiVersion":"v1"} "#,
                r#"{"metadata":{"name":"a"}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":[],"name":"a"},"kind":"K"}"#,
                r#"{"metadata":{"name":"a"}}"#,
            ),
            (
                r#"{"metadata":{"name":"a","managedFields":[{}]},"x":1,"kind":"K","y":2}"#,
                r#"{"metadata":{"name":"a"},"x":1,"y":2}"#,
            ),
            (
                r#"{"metadata":{"managedFields":[],"n\u0061me":"a","managedFields":[]}}"#,
                r#"{"metadata":{"n\u0061me":"a"}}"#,
            ),
            (
                r#"{"metadata":{"name":"b","uid":"u"},"metadata":{"name":"a"}}"#,
                r#"{"metadata":{"name":"b","uid":"u"},"metadata":{"name":"a"}}"#,
            ),
        ] {
            let object = object(input);
            assert_eq!(std::str::from_utf8(object.bytes()).unwrap(), expected);
            assert_eq!((object.name(), object.uid()), ("a", ""), "{input}");
        }
        let all = Projection::new().keep_managed_fields();
        let all = Object::from_json(POD.as_bytes(), &all).unwrap();
        assert!(all.bytes().len() > kept.len() && !all.is_projected());
    }

    #[test]
    fn type_is_put_back_in_views() {
        let json = object(POD).to_json(&meta());
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            (&json["kind"], &json["apiVersion"]),
            (&"Pod".into(), &"v1".into())
        );
        assert_eq!(json["metadata"]["name"], "web-0");
    }

    #[test]
    fn escaped_strings_of_the_head_are_read_as_texts() {
        let object = object(
            r#"{"metadata":{"name":"\u0061","namespace":"\u00e9","uid":"\"","resourceVersion":"1\u0032"}}"#,
        );
        assert_eq!(
            (object.name(), object.namespace(), object.uid()),
            ("a", Some("é"), "\"")
        );
        assert_eq!(object.revision(), Some(12));
        assert!(object.bytes().ends_with(b"}}"));
    }

    #[test]
    fn scalars_are_found_at_paths() {
        let pod = object(POD);
        for (path, expected) in [
            ("spec.containers[*].image", vec!["nginx", "envoy"]),
            ("spec.containers[1].n", vec!["2.50"]),
            ("spec.on", vec!["true"]),
            ("spec.no", vec![]),
            ("spec", vec![]),
            ("spec.containers[7].n", vec![]),
            ("metadata.labels['a/b']", vec!["c"]),
        ] {
            assert_eq!(pod.at(&path.parse().unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn contents_are_compared_with_and_without_the_version() {
        let (old, new) = (object(POD), object(&POD.replace("\"42\"", "\"1043\"")));
        assert!(old.same_content(&object(POD)) && !old.same_content(&new));
        assert!(old.same_but_version(&new));
        assert!(!old.same_but_version(&object(&POD.replace("envoy", "proxy"))));
    }

    #[test]
    fn an_unreadable_object_says_what_could_be_read() {
        let check = |json: &str, key: Option<&str>, path: &str, reason: &str| {
            let error = Object::from_json(json.as_bytes(), &Projection::new()).unwrap_err();
            assert_eq!(error.key.as_ref().map(ObjectKey::as_str), key, "{json}");
            assert_eq!((&*error.path, &*error.reason), (path, reason), "{json}");
        };
        check(
            r#"{"metadata":{"name":"a","namespace":"n"},"data":{"p":tru}}"#,
            Some("n/a"),
            "data.p",
            "expected a JSON value at byte 56",
        );
        check(
            r#"{"metadata":{"name":"a"},"x":{"y":["#,
            Some("a"),
            "x.y",
            "the JSON ends in the middle at byte 35",
        );
        check("{}", None, "metadata.name", "is missing");
        check(r#"{"metadata":null}"#, None, "metadata.name", "is missing");
        check(
            r#"{"metadata":[]}"#,
            None,
            "metadata",
            "is not a JSON object",
        );
        check(
            r#"{"metadata":{"name":7}}"#,
            None,
            "metadata.name",
            "is not a string",
        );
        check(
            r#"{"metadata":{"name":"a/b"}}"#,
            None,
            "metadata.name",
            "contains a slash",
        );
        check("[]", None, "", "is not a JSON object");
        let hostile = r#"{"metadata":{"name":"a\nb","resourceVersion":"1\r"},"x":}"#;
        let error = Object::from_json(hostile.as_bytes(), &Projection::new()).unwrap_err();
        let expected = "a?b at version 1? cannot be read: x: expected a JSON value at byte 56";
        assert_eq!(error.to_string(), expected);
        check("", None, "", "the JSON ends in the middle at byte 0");
    }
}
