//! Objects served under other field names than they are stored under: events of `events.k8s.io`.
//!
//! ```text
//! Stored ──names of the view──▶ Stored ──▶ the encoder of the requested form
//! ```
//!
//! Each object is converted again for each reader: events are few and small.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/versioning` (converts on the way out).

use std::sync::Arc;

use bytes::BytesMut;

use super::frames::Frames;
use super::{Encoder, EventParts};
use crate::resource::ResourceInfo;
use crate::storage::Stored;

/// Writes objects of one resource under the resource's own names.
#[derive(Clone, Debug)]
pub(crate) struct Renamed {
    resource: Arc<ResourceInfo>,
    pub(super) encoder: Encoder,
}

impl Renamed {
    pub(super) fn of(resource: Arc<ResourceInfo>, encoder: Encoder) -> Self {
        Self { resource, encoder }
    }

    pub(super) fn object(&self, out: &mut BytesMut, object: &Stored) {
        if let Some(shown) = self.resource.shown(object) {
            self.encoder.object(out, &shown);
        }
    }

    pub(super) fn item(&mut self, out: &mut BytesMut, object: &Stored) {
        if let Some(shown) = self.resource.shown(object) {
            self.encoder.item(out, &shown);
        }
    }

    pub(super) fn event(&mut self, out: &mut Frames, event: EventParts<'_>) {
        if let Some(shown) = self.resource.shown(event.object) {
            let object = &shown;
            self.encoder.event(out, EventParts { object, ..event });
        }
    }
}
