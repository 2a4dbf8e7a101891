//! The envelope of a message: the magic, the type and the raw message; other fields are ignored.
//!
//! ```text
//! k8s\0 + Unknown {typeMeta, raw} → Envelope {apiVersion, kind, raw}
//! ```
//!
//! Upstream: `runtime.Unknown`, `apimachinery:pkg/runtime/serializer/protobuf`.

use std::borrow::Cow;

use kinform_api::Status;
use kinform_schema::Type;

use super::fields::Fields;
use super::members::Nulls;
use super::types::type_of;
use super::{check, order, reader};
use crate::wire::layout::ManagedFields;

/// The first bytes of every body, and of every object of a watch.
pub(crate) const MAGIC: &[u8; 4] = b"k8s\0";
/// Field numbers of `Unknown`.
pub(crate) const TYPE_META: u32 = 1;
pub(crate) const RAW: u32 = 2;

/// BOUND: a kind or a version in an envelope or a message has at most this many characters.
const MAX_NAME: usize = 64;

/// A message and its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) raw: &'a [u8],
}

/// Reads a complete envelope; `None` if there is none, or it is malformed.
pub(crate) fn open_whole(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut fields = Fields::of(bytes.strip_prefix(MAGIC)?);
    fields.by_ref().for_each(drop);
    fields.broken().is_none().then(|| open(bytes))?
}

/// Reads an envelope; of a truncated one, the fields that are there.
pub(crate) fn open(bytes: &[u8]) -> Option<Envelope<'_>> {
    let mut fields = Fields::of(bytes.strip_prefix(MAGIC)?);
    let mut envelope = Envelope::default();
    while let Some(field) = fields.next_open() {
        match field.number {
            TYPE_META => (envelope.api_version, envelope.kind) = type_meta(field.value.bytes()?)?,
            RAW => envelope.raw = field.value.bytes()?,
            _ => {}
        }
    }
    Some(envelope)
}

/// Reads `apiVersion` and `kind`.
pub(crate) fn type_meta(bytes: &[u8]) -> Option<(&str, &str)> {
    let (mut api_version, mut kind) = ("", "");
    let mut fields = Fields::of(bytes);
    for field in fields.by_ref() {
        let place = match field.number {
            1 => &mut api_version,
            2 => &mut kind,
            _ => continue,
        };
        *place = std::str::from_utf8(field.value.bytes()?).ok()?;
    }
    fields.broken().is_none().then_some((api_version, kind))
}

/// Returns a kind for use in a message: without control characters, and short.
pub(crate) fn short(kind: &str) -> String {
    kind.chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME)
        .collect()
}

/// Decodes a `Status` message, if it is valid.
pub(crate) fn status(raw: &[u8]) -> Option<Status> {
    let of: &'static Type = type_of("v1", "Status")?;
    let raw = match check::message(of, raw, ManagedFields::Keep).ok()? {
        check::Order::Usual => Cow::Borrowed(raw),
        check::Order::Unusual => Cow::Owned(order::usual(of, raw)),
    };
    reader::part(of, &raw, Nulls::Shown).ok()
}
