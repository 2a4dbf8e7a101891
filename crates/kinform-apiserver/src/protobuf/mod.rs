//! Protobuf bodies of built-in kinds, by the table: bytes to JSON values and back.
//!
//! ```text
//! k8s\0 + Unknown { typeMeta, raw } ──open──▶ kind, raw ──decode──▶ JSON value ──▶ as any other body
//! JSON value ──encode──▶ raw ──seal──▶ k8s\0 + Unknown                         (frame: a watch's event)
//! ```
//!
//! There are no generated structs: `kinform-schema` has the number and the type of every field. A
//! decoded value contains what the client sent. `object/typed.rs` decides which zero values it
//! keeps, as for JSON. Custom resources have no protobuf, except for their metadata.
//!
//! * `decode.rs`: bytes to values; `encode.rs`: values to bytes; `wire.rs`: the tags and numbers of
//!   both; `tape.rs`: the tree of a JSON text.
//!
//! The bytes are untrusted: malformed ones are errors in upstream's words, depth and size are
//! bounded.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/protobuf`, the generated `*.pb.go` of `kubernetes/api`.

mod decode;
mod encode;
mod tape;
pub(crate) mod wire;

use bytes::{BufMut, BytesMut};
use kinform_schema::Type;
use serde_json::{Map, Value};

use self::decode::decode;
pub(crate) use self::encode::{encode, encode_text};
use self::wire::{Reader, begin_field, put_field, put_varint};

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8; 4] = b"k8s\0";
/// The Go package of the types that all kinds share.
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// An error in the bytes, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireError(pub(crate) String);

/// A body that names its version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) raw: &'a [u8],
}

/// Parses the envelope of a body.
///
/// # Errors
/// The bytes have no magic prefix or are malformed.
pub(crate) fn open(bytes: &[u8]) -> Result<Envelope<'_>, WireError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let text = "provided data does not appear to be a protobuf message, expected prefix \
                    [107 56 115 0]";
        return Err(WireError(text.to_owned()));
    };
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    let mut reader = Reader::new(rest, "Unknown");
    while let Some((number, raw)) = reader.next()? {
        match number {
            1 => {
                let mut meta = Reader::new(raw.bytes("TypeMeta")?, "TypeMeta");
                while let Some((number, raw)) = meta.next()? {
                    match number {
                        1 => envelope.api_version = raw.text("APIVersion")?,
                        2 => envelope.kind = raw.text("Kind")?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = raw.bytes("Raw")?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Decodes a body of a built-in kind into JSON that names its version and kind.
///
/// # Errors
/// The bytes are malformed, or of a kind that the table does not know.
pub(crate) fn read_body(bytes: &[u8]) -> Result<Value, WireError> {
    open(bytes)?.read()
}

impl Envelope<'_> {
    /// Decodes the content into JSON that names its version and kind.
    ///
    /// # Errors
    /// The bytes are malformed, or of a kind that the table does not know.
    pub(crate) fn read(self) -> Result<Value, WireError> {
        let Some(of) = message_of(&self.api_version, &self.kind) else {
            let (kind, version) = (&self.kind, &self.api_version);
            let text = format!("no kind {kind:?} is registered for version {version:?} in scheme");
            return Err(WireError(text));
        };
        let mut object = decode(of, self.raw)?;
        object.insert("apiVersion".to_owned(), Value::from(self.api_version));
        object.insert("kind".to_owned(), Value::from(self.kind));
        Ok(Value::Object(object))
    }
}

/// Returns the type of a kind. Metadata alone is a kind, too, and options belong to every version.
pub(crate) fn message_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    if kind == "DeleteOptions" {
        return kinform_schema::named_type(META, kind);
    }
    match api_version.split_once('/') {
        Some(("meta.k8s.io", _)) => kinform_schema::named_type(META, kind),
        Some((group, version)) => kinform_schema::builtin(group, version, kind),
        None => kinform_schema::builtin("", api_version, kind),
    }
}

/// The end of an envelope, after the message: the encoding and the type of the content, which
/// upstream also writes empty.
pub(crate) const ENVELOPE_END: &[u8] = b"\x1a\0\"\0";

/// Returns the beginning of an envelope, before a message of this length.
pub(crate) fn envelope(api_version: &str, kind: &str, length: usize) -> BytesMut {
    let mut meta = BytesMut::new();
    put_field(&mut meta, 1, api_version.as_bytes());
    put_field(&mut meta, 2, kind.as_bytes());
    let mut out = BytesMut::with_capacity(meta.len() + 24);
    out.put_slice(MAGIC);
    put_field(&mut out, 1, &meta);
    out.put_u8(0x12);
    put_varint(&mut out, length as u64);
    out
}

/// Writes a message with its envelope.
pub(crate) fn seal(out: &mut BytesMut, api_version: &str, kind: &str, message: &[u8]) {
    out.put_slice(&envelope(api_version, kind, message.len()));
    out.put_slice(message);
    out.put_slice(ENVELOPE_END);
}

/// Encodes a JSON object that names its version and kind as a body. Returns `None` if the table
/// does not know its kind.
pub(crate) fn body(object: &Map<String, Value>) -> Option<BytesMut> {
    let text = |name| object.get(name).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let of = message_of(api_version, kind)?;
    let mut out = BytesMut::new();
    seal(&mut out, api_version, kind, &encode(of, object));
    Some(out)
}

/// Writes a frame of a watch: its length, then the event, whose object is a complete body.
pub(crate) fn frame(out: &mut BytesMut, event: &str, body: &[u8]) {
    begin_frame(out, event, body.len());
    out.put_slice(body);
}

/// Writes a frame up to its body of this length, which ends the frame.
pub(crate) fn begin_frame(out: &mut BytesMut, event: &str, length: usize) {
    let mut body = BytesMut::new();
    begin_field(&mut body, 1, length);
    let mut object = BytesMut::new();
    put_field(&mut object, 1, event.as_bytes());
    begin_field(&mut object, 2, body.len() + length);
    let total = object.len() + body.len() + length;
    // BOUND: an object is at most a few MiB: its length fits.
    out.put_u32(u32::try_from(total).unwrap_or(u32::MAX));
    out.put_slice(&object);
    out.put_slice(&body);
}

/// Writes the tag and the length of a list's item. Items have the number 2 and no envelope.
pub(crate) fn list_item(out: &mut BytesMut, message: &[u8]) {
    put_field(out, 2, message);
}

/// Writes the first field of every list: its metadata.
pub(crate) fn list_meta(out: &mut BytesMut, meta: &Map<String, Value>) {
    if let Some(of) = kinform_schema::named_type(META, "ListMeta") {
        put_field(out, 1, &encode(of, meta));
    }
}

#[cfg(test)]
mod served;
#[cfg(test)]
mod tests;
