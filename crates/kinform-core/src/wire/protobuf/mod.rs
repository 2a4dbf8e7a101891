//! Protobuf of built-in kinds: does for messages what `json` does for JSON, driven by the table of
//! types.
//!
//! ```text
//! body chunks → list, watch → message of one object → check → head → object
//!                                     validated message → value → text, paths, serde
//! ```
//!
//! `fields` reads tags and lengths, `envelope` the type around a message. `check` validates every
//! byte of an object once, by a `plan`, or compares it with an item that is `alike`, using the
//! `outline` of that item or a cursor in it (`counterpart`). `order` rewrites messages in an order
//! that no Kubernetes writer makes, `mend` texts that are not UTF-8. `head` finds key and version,
//! `baseline` the stored object that an item equals. `value` and `members` show a message as the JSON
//! that a server would have sent, by the same plan; `reader` and `text` turn that into types and
//! text. No code is generated: names, numbers and forms come from `kinform-schema`.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/protobuf`, the generated `Unmarshal` functions.

pub(crate) mod alike;
mod baseline;
pub(crate) mod check;
mod counterpart;
pub(crate) mod envelope;
pub(crate) mod fields;
pub(crate) mod head;
mod item;
pub(in crate::wire) mod list;
pub(crate) mod members;
pub(crate) mod mend;
pub(crate) mod metadata;
pub(crate) mod order;
mod outline;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod text;
pub(crate) mod texts;
mod types;
pub(crate) mod value;
pub(in crate::wire) mod watch;

use kinform_api::Status;

/// Returns the `Status` in a body, if it is one: the reply of a server that refuses a request.
#[must_use]
pub fn status(body: &[u8]) -> Option<Status> {
    let body = envelope::open(body).filter(|body| body.kind == "Status")?;
    envelope::status(body.raw)
}
