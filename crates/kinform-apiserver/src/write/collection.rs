//! Delete of all selected objects.
//!
//! ```text
//! selectors -> objects of this moment -> each deleted by itself -> list of the former objects
//! ```
//!
//! Not atomic, as upstream's: each object is a revision and an event of its own, and objects that
//! another request deleted meanwhile are skipped. The first refusal ends the delete; earlier
//! objects are gone.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/generic/registry/store.go` (`DeleteCollection`).

use bytes::BytesMut;
use http::{Response, StatusCode};
use kinform_api::Status;

use super::attempt::{Write, warned};
use super::delete::delete as delete_one;
use super::options::{DeleteOptions, WriteOptions};
use super::request::WriteRequest;
use super::{Context, Fresh};
use crate::admission::Operation;
use crate::encode::select::Selection;
use crate::encode::{Encoder, ListMeta};
use crate::http::body::Body;
use crate::http::reply;
use crate::resource::ResourceInfo;
use crate::storage::Place;
use crate::storage::Stored;
use crate::storage::View;
use crate::write::commit::{TRIES, delete_stored};
use std::sync::Arc;

/// A delete of many objects, carried out one object at a time: the consequences of one deletion are
/// applied before the next object is deleted, and watches see them in that order.
#[derive(Debug)]
pub(crate) struct Deletes<'a> {
    write: Write<'a>,
    request: &'a WriteRequest<'a>,
    options: DeleteOptions,
    selection: Selection,
    /// The objects at the revision at which the delete began.
    view: View,
    place: Place,
    encoder: Encoder,
    // BOUND: the objects of one resource, encoded for one reply.
    items: BytesMut,
}

impl<'a> Deletes<'a> {
    /// Begins a delete of the objects that are selected.
    pub(super) fn new(
        write: Write<'a>,
        request: &'a WriteRequest<'a>,
        options: DeleteOptions,
        selection: Selection,
    ) -> Self {
        let resource = &write.target.resource;
        let view = write.state.store.view(resource.shelf);
        Self {
            encoder: match resource.is_converted() {
                true => Encoder::plain(resource, write.form, write.state.clock),
                false => Encoder::new(resource, write.form, write.state.clock),
            },
            place: view.snapshot.seek(""),
            view,
            selection,
            items: BytesMut::new(),
            write,
            request,
            options,
        }
    }

    /// Deletes the next object; `None` if there is no other.
    ///
    /// # Errors
    /// The status that refuses the deletion of an object: the ones after it stay.
    pub(crate) async fn next(&mut self) -> Result<Option<Deleted>, Box<Status>> {
        let write_options = WriteOptions::default();
        while let Some(object) = self.view.snapshot.at(self.place).cloned() {
            self.place = self.view.snapshot.next(self.place);
            let object = match self.write.target.resource.is_converted() {
                true => self.write.converted(&object).await?,
                false => object,
            };
            if !self.selection.matches(&object) {
                continue;
            }
            if !self.items.is_empty() {
                self.encoder.separate(&mut self.items);
            }
            self.encoder.item(&mut self.items, &object);
            let resource = &self.write.target.resource;
            let mut context = self.write.context(&write_options, Fresh::default());
            context.namespace = object.namespace();
            match self.delete(&context, &object).await {
                Ok(object) => {
                    let resource = resource.clone();
                    return Ok(Some(Deleted { resource, object }));
                }
                // Another request deleted it meanwhile.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(None)
    }

    /// Deletes one object. If admission was asked about it, it is deleted only as it was then.
    async fn delete(
        &self,
        context: &Context<'_>,
        object: &Stored,
    ) -> Result<Option<Arc<Stored>>, Box<Status>> {
        let (store, resource) = (&self.write.state.store, &self.write.target.resource);
        let delete = |options: &DeleteOptions| {
            delete_stored(store, resource, object.key(), |current| {
                delete_one(context, object.name(), options, current)
            })
        };
        if !self.write.asks_about(Operation::Delete) {
            return delete(&self.options);
        }
        for _ in 0..TRIES {
            let Some(now) = store.get(resource.shelf, object.key()) else {
                return delete(&self.options);
            };
            self.write.may_delete(&self.options, ("", &now)).await?;
            let version = self.options.resource_version.clone();
            let judged = DeleteOptions {
                resource_version: version.or_else(|| Some(now.revision().to_string())),
                ..self.options.clone()
            };
            match delete(&judged) {
                Err(status) if status.code == 409 && judged != self.options => {}
                done => return done,
            }
        }
        let of = resource.group_resource();
        Err(Box::new(Status::modified(&of, object.name())))
    }

    /// The list of the objects that were selected, as they were.
    pub(crate) fn reply(mut self) -> Response<Body> {
        let meta = ListMeta {
            revision: self.view.revision,
            continue_token: None,
            remaining: None,
            shards: self
                .selection
                .echo(&self.write.target.resource, self.write.form),
        };
        let mut out = BytesMut::with_capacity(self.items.len() + 512);
        self.encoder.begin_list(&mut out, &meta, self.items.len());
        out.extend_from_slice(&self.items);
        self.encoder.end_list(&mut out, &meta);
        let mut reply = reply::whole(StatusCode::OK, self.write.form.encoding, out);
        if let Some(warning) = self.write.warning_of_orphans(&self.options) {
            reply::warn(&mut reply, warning);
        }
        reply
    }

    /// The reply to a delete that was refused midway.
    ///
    /// # Errors
    /// The status, where no warning goes with it.
    pub(crate) fn refused(&self, status: Box<Status>) -> Result<Response<Body>, Box<Status>> {
        match self.write.warning_of_orphans(&self.options) {
            Some(warning) => Ok(warned(self.request, &status, warning)),
            None => Err(status),
        }
    }
}

/// One object of a delete of many.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) resource: Arc<ResourceInfo>,
    /// The object as it was stored or removed; `None` if nothing changed.
    pub(crate) object: Option<Arc<Stored>>,
}
