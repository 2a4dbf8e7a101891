//! One version of an object as the server stores it: its bytes, encoded once, and a small head.
//!
//! ```text
//! value ──Draft::new──▶ bytes without a version ──commit(revision)──▶ Stored, shared by the
//!                                                                    snapshot, the log and every reply
//! ```
//!
//! The bytes contain neither `apiVersion` nor `kind`. Replies put them in front, so that one stored
//! object serves every version of a kind. List items of built-in kinds lack them, as upstream's do.
//! The revision is written into a gap that the draft left open, so encoding happens outside of the
//! store's lock. Deletions reuse the last bytes with another revision in the gap, as upstream does.
//!
//! Upstream: apiserver:pkg/storage/etcd3/store.go, apiserver:pkg/storage/cacher/caching_object.go.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use kinform_schema::Type;
use serde_json::Value;

use super::scan::{self, Span};

/// A field that `fieldSelector` supports: its name, and the members that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    name: Box<str>,
    segments: Box<[Box<str>]>,
}

impl SelectableField {
    /// Returns the field `name`, whose path has the same spelling (`spec.nodeName`).
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::at(name, name)
    }

    /// Returns the field `name` at `path`, whose members are joined by dots.
    #[must_use]
    pub fn at(name: &str, path: &str) -> Self {
        Self {
            name: name.into(),
            segments: path.split('.').map(Box::from).collect(),
        }
    }

    /// Returns the same field under another name.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self {
            name: name.into(),
            segments: self.segments.clone(),
        }
    }

    /// Returns the name that selectors use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A version of an object in the store.
pub struct Stored {
    key: Box<str>,
    revision: u64,
    bytes: Bytes,
    version: Span,
    metadata: Span,
    uid: Span,
    labels: Span,
    ties: TieFlags,
    fields: Box<[Span]>,
    /// The object in protobuf, encoded at the first request for it and shared by all later ones.
    // BOUND: one message for each object, smaller than its JSON, and freed with it. The history's
    // limit in bytes counts the JSON alone, so with the messages the history may be twice as large.
    message: OnceLock<Message>,
}

/// An object encoded as a message of a type.
struct Message {
    of: &'static Type,
    bytes: Bytes,
}

impl Stored {
    /// Takes the bytes of a stored version. Returns `None` if they do not have this revision.
    #[cfg(feature = "disk")]
    pub(crate) fn from_bytes(
        fields: &[SelectableField],
        (key, revision): (Box<str>, u64),
        bytes: Bytes,
    ) -> Option<Self> {
        let (found, fields) = Found::of(fields, &bytes);
        let version = found.version?;
        let mut digits = [0; 20];
        if bytes.get(version.clone())? != decimal(revision, &mut digits) {
            return None;
        }
        Some(Self {
            key,
            revision,
            version: Span::new(version),
            metadata: found.metadata,
            uid: found.uid,
            labels: found.labels,
            ties: found.ties,
            fields,
            bytes,
            message: OnceLock::new(),
        })
    }

    /// Returns `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key
            .split_once('/')
            .map_or(&*self.key, |(_, name)| name)
    }

    /// Returns the revision that wrote this version.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the UID, which is empty if the object was stored without one.
    #[must_use]
    pub fn uid(&self) -> &str {
        std::str::from_utf8(self.uid.of(&self.bytes)).unwrap_or_default()
    }

    /// Returns the encoded object, without `apiVersion` and `kind`.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the decoded object, without `apiVersion` and `kind`.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// Returns the object as a message of this type, encoded at the first call.
    pub(crate) fn message(
        &self,
        of: &'static Type,
        encode: impl Fn(&'static Type, &[u8]) -> Vec<u8>,
    ) -> Bytes {
        let made = self.message.get_or_init(|| Message {
            of,
            bytes: encode(of, &self.bytes).into(),
        });
        if std::ptr::eq(made.of, of) {
            return made.bytes.clone();
        }
        // The cached message is of another version of the kind.
        encode(of, &self.bytes).into()
    }

    /// Returns the bytes before and after the revision, for writing the object with another
    /// revision.
    pub(crate) fn around_version(&self) -> (&[u8], &[u8]) {
        let range = self.version.range();
        (&self.bytes[..range.start], &self.bytes[range.end..])
    }

    /// Returns the encoded `metadata`, and the revision's place in it.
    pub(crate) fn metadata(&self) -> (&[u8], Range<usize>) {
        let (outer, version) = (self.metadata.range(), self.version.range());
        (
            self.metadata.of(&self.bytes),
            version.start - outer.start..version.end - outer.start,
        )
    }

    /// Calls `visit` with the name and the encoded value of each member of the metadata.
    pub(crate) fn each_of_metadata(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        scan::members(&self.bytes, self.metadata.range().start, |name, value| {
            visit(name, self.bytes.get(value).unwrap_or_default());
        });
    }

    /// Returns whether the metadata has owners, finalizers or a deletion timestamp.
    pub(crate) fn has_ties(&self) -> bool {
        self.ties.has_any
    }

    /// Returns whether the object is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.ties.is_terminating
    }

    /// Looks up the value of a label.
    pub(crate) fn label(&self, wanted: &str) -> Option<&str> {
        let mut found = None;
        if self.labels.is_absent() {
            return None;
        }
        scan::members(&self.bytes, self.labels.range().start, |name, value| {
            if name == wanted.as_bytes() {
                found = Some(Span::new(scan::unquoted(&self.bytes, value)));
            }
        });
        // Labels need no escapes, so the bytes between the quotes are the value.
        found.and_then(|span| std::str::from_utf8(span.of(&self.bytes)).ok())
    }

    /// Returns the value of the selectable field at this position in its resource's table; `""`
    /// when absent.
    pub(crate) fn field(&self, position: usize) -> &str {
        let span = self.fields.get(position).copied().unwrap_or_default();
        std::str::from_utf8(span.of(&self.bytes)).unwrap_or_default()
    }

    fn same_but_for_version(&self, draft: &Draft) -> bool {
        let (before, after) = self.around_version();
        let gap = draft.version.range().start;
        before == &draft.bytes[..gap] && after == &draft.bytes[gap..]
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish()
    }
}

/// An object that is ready to be stored except for its revision.
pub struct Draft {
    key: Box<str>,
    bytes: Vec<u8>,
    // INVARIANT: empty and inside of `metadata`: the gap that the revision fills.
    version: Span,
    metadata: Span,
    uid: Span,
    labels: Span,
    ties: TieFlags,
    fields: Box<[Span]>,
}

/// The members of the metadata that hold an object or bind it to others.
#[derive(Clone, Copy, Debug, Default)]
struct TieFlags {
    has_any: bool,
    is_terminating: bool,
}

impl Draft {
    /// Encodes a value. `apiVersion`, `kind` and any `metadata.resourceVersion` are left out.
    ///
    /// Returns `None` if the value has no `metadata.name`.
    #[must_use]
    pub fn new(fields: &[SelectableField], mut value: Value) -> Option<Self> {
        let object = value.as_object_mut()?;
        object.remove("apiVersion");
        object.remove("kind");
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        metadata.insert("resourceVersion".to_owned(), Value::String(String::new()));
        let name = metadata
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())?;
        let key = match metadata.get("namespace").and_then(Value::as_str) {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        };
        let mut bytes = serde_json::to_vec(&value).ok()?;
        bytes.shrink_to_fit();
        Self::from_encoded(fields, key.into(), bytes)
    }

    /// Takes encoded bytes with an empty `metadata.resourceVersion` and without `apiVersion` and
    /// `kind`.
    ///
    /// Returns `None` if there is no gap for the revision.
    pub(crate) fn from_encoded(
        fields: &[SelectableField],
        key: Box<str>,
        bytes: Vec<u8>,
    ) -> Option<Self> {
        let (found, values) = Found::of(fields, &bytes);
        let gap = found.version.filter(Range::is_empty)?.start;
        Some(Self {
            key,
            version: Span::new(gap..gap),
            metadata: found.metadata,
            uid: found.uid,
            labels: found.labels,
            ties: found.ties,
            fields: values,
            bytes,
        })
    }

    /// Takes bytes that equal this draft's except for values of other lengths: the byte at a place
    /// here is at `to(place)` there. The bytes are not parsed, so that many drafts derived from one
    /// are cheap.
    pub(crate) fn recut(&self, key: Box<str>, bytes: Vec<u8>, to: impl Fn(usize) -> usize) -> Self {
        let gap = to(self.version.range().start);
        debug_assert_eq!(bytes.get(gap - 1..=gap), Some(&b"\"\""[..]));
        Self {
            key,
            bytes,
            version: Span::new(gap..gap),
            metadata: self.metadata.moved(&to),
            uid: self.uid.moved(&to),
            labels: self.labels.moved(&to),
            ties: self.ties,
            fields: self.fields.iter().map(|span| span.moved(&to)).collect(),
        }
    }

    /// Returns the key under which the object will be stored.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether storing the draft over `current` would change nothing.
    pub(crate) fn repeats(&self, current: &Stored) -> bool {
        current.same_but_for_version(self)
    }

    /// Writes the revision into the gap.
    pub(crate) fn seal(self, revision: u64) -> Stored {
        let gap = self.version.range().start;
        let mut digits = [0; 20];
        let digits = decimal(revision, &mut digits);
        let mut bytes = Vec::with_capacity(self.bytes.len() + digits.len());
        bytes.extend_from_slice(&self.bytes[..gap]);
        bytes.extend_from_slice(digits);
        bytes.extend_from_slice(&self.bytes[gap..]);
        let by = digits.len();
        let mut fields = self.fields;
        for span in &mut fields {
            *span = span.shifted(gap, by);
        }
        let metadata = self.metadata.range();
        Stored {
            key: self.key,
            revision,
            bytes: Bytes::from(bytes),
            version: Span::new(gap..gap + by),
            metadata: Span::new(metadata.start..metadata.end + by),
            uid: self.uid.shifted(gap, by),
            labels: self.labels.shifted(gap, by),
            ties: self.ties,
            fields,
            message: OnceLock::new(),
        }
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft")
            .field("key", &self.key)
            .field("len", &self.bytes.len())
            .finish()
    }
}

#[derive(Default)]
struct Found {
    version: Option<Range<usize>>,
    metadata: Span,
    uid: Span,
    labels: Span,
    ties: TieFlags,
}

impl Found {
    /// Finds the metadata's values and the selectable fields.
    fn of(fields: &[SelectableField], bytes: &[u8]) -> (Self, Box<[Span]>) {
        let mut found = Self::default();
        let mut values = vec![Span::default(); fields.len()].into_boxed_slice();
        scan::walk(bytes, 0, |name, start| {
            if name != b"metadata" {
                return find_fields(bytes, (name, start), fields, (0, u64::MAX), &mut values);
            }
            let end = found.read_metadata(bytes, start);
            found.metadata = Span::new(start..end);
            end
        });
        (found, values)
    }

    /// Reads the metadata and returns its end.
    fn read_metadata(&mut self, bytes: &[u8], at: usize) -> usize {
        scan::walk(bytes, at, |name, start| {
            let end = scan::end_of_value(bytes, start);
            let value = start..end;
            match name {
                b"resourceVersion" => self.version = Some(scan::unquoted(bytes, value)),
                b"uid" => self.uid = Span::new(scan::unquoted(bytes, value)),
                b"labels" => self.labels = Span::new(value),
                b"ownerReferences" | b"finalizers" => self.ties.has_any = true,
                b"deletionTimestamp" => {
                    self.ties.has_any = true;
                    self.ties.is_terminating = bytes.get(value) != Some(b"null");
                }
                _ => {}
            }
            end
        })
    }
}

/// Records the spans of those `active` fields that are at or below this member, `depth` members
/// deep, and returns the end of its value.
fn find_fields(
    bytes: &[u8],
    (name, start): (&[u8], usize),
    fields: &[SelectableField],
    (depth, active): (usize, u64),
    values: &mut [Span],
) -> usize {
    let (mut here, mut deeper) = (0u64, 0u64);
    // BOUND: 64 selectable fields a resource; upstream's longest table has 11.
    for (position, field) in fields.iter().enumerate().take(64) {
        let bit = active & 1 << position;
        if bit != 0
            && field
                .segments
                .get(depth)
                .is_some_and(|s| s.as_bytes() == name)
        {
            let last = depth + 1 == field.segments.len();
            *(if last { &mut here } else { &mut deeper }) |= bit;
        }
    }
    // BOUND: the recursion is as deep as the longest path of the table.
    let end = if deeper == 0 {
        scan::end_of_value(bytes, start)
    } else {
        scan::walk(bytes, start, |inner, at| {
            find_fields(bytes, (inner, at), fields, (depth + 1, deeper), values)
        })
    };
    if here != 0 && &bytes[start..end] != b"null" {
        let span = Span::new(scan::unquoted(bytes, start..end));
        for (position, value) in values.iter_mut().enumerate().take(64) {
            if here & 1 << position != 0 {
                *value = span;
            }
        }
    }
    end
}

/// Writes a number as decimal digits.
pub(crate) fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}
