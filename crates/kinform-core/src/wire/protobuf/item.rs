//! Items in protobuf: messages cut out of a body by their lengths.
//!
//! ```text
//! length ─▶ message │ listed │ foreign ─▶ Item, not validated ─▶ head, by the schema of its type
//! ```
//!
//! Upstream: none.

use std::borrow::Cow;
use std::cell::RefCell;

use kinform_api::Status;
use kinform_schema::Type;

use super::alike::Alike;
use super::{baseline, check, envelope, head, mend};
use crate::wire::baseline::{BaselineRef, Stored};
use crate::wire::bookmark::Bookmark;
use crate::wire::item::{Item, ItemCodec, MessageType};
use crate::wire::layout::Layout;
use crate::wire::unreadable::Unreadable;

/// The codec of items in protobuf.
pub(super) struct Messages<'a> {
    /// The earlier item of a list that the next ones are compared with when they are validated.
    alike: Option<&'a RefCell<Alike>>,
}

const ALONE: &Messages<'static> = &Messages { alike: None };

impl<'a> Messages<'a> {
    /// The codec of a list whose items are compared with `alike`.
    pub(super) fn of_list(alike: &'a RefCell<Alike>) -> Self {
        Self { alike: Some(alike) }
    }

    /// Creates an item of this type from a list, not validated.
    pub(super) fn item(&'a self, bytes: &'a [u8], of: &'static Type) -> Item<'a> {
        let message = MessageType {
            of: Some(of),
            api_version: "",
            kind: "",
        };
        Item::new(bytes, Some(message), self)
    }
}

/// Creates an item from a message with an envelope of its own, not validated. `of` is `None` if the
/// schema does not have the type.
pub(super) fn enveloped<'a>(
    bytes: &'a [u8],
    of: Option<&'static Type>,
    api_version: &'a str,
    kind: &'a str,
) -> Item<'a> {
    let message = MessageType {
        of,
        api_version,
        kind,
    };
    Item::new(bytes, Some(message), ALONE)
}

impl ItemCodec for Messages<'_> {
    fn head(&self, bytes: &[u8], of: Option<&Type>) -> Result<Option<Layout>, Unreadable> {
        // Without a schema of its type a message cannot be validated.
        let Some(of) = of else { return Ok(None) };
        head::read(of, bytes, self.alike).map_err(|fault| head::unreadable(bytes, fault))
    }

    fn is_mendable(&self, bytes: &[u8], of: Option<&Type>, fault: &Unreadable) -> bool {
        if !check::is_in_text(&fault.reason) {
            return false;
        }
        let mended = of.and_then(|of| Some((of, mend::texts(of, bytes)?)));
        mended.is_some_and(|(of, bytes)| head::read(of, &bytes, None).is_ok())
    }

    fn find_stored<'s>(
        &self,
        bytes: &[u8],
        of: Option<&'static Type>,
        baseline: BaselineRef<'s>,
    ) -> Option<(Layout, &'s dyn Stored)> {
        baseline::find(of?, bytes, baseline)
    }

    fn managed_fields_bytes(&self, bytes: &[u8]) -> usize {
        head::layout(bytes).managed_fields_bytes()
    }

    fn bookmark(&self, bytes: &[u8]) -> Result<Bookmark, Unreadable> {
        head::bookmark(bytes)
    }

    fn status(&self, bytes: &[u8], kind: &str) -> Option<Status> {
        (kind == "Status").then(|| envelope::status(bytes))?
    }

    fn text<'b>(&self, raw: &'b [u8]) -> Cow<'b, str> {
        String::from_utf8_lossy(raw)
    }
}
