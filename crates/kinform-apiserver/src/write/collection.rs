//! Delete of everything that selectors mean.
//!
//! ```text
//! selectors -> objects of this moment -> each deleted as by itself -> the list of what was there
//! ```
//!
//! Not atomic, as upstream's: each object is a revision and an event of its own, and one that somebody
//! else deleted meanwhile is passed over. The first that is refused ends it; those before are gone.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/generic/registry/store.go` (`DeleteCollection`).

use bytes::BytesMut;
use http::{Response, StatusCode};
use kinform_api::Status;

use super::delete::delete as delete_one;
use super::handle::{Write, content_type};
use super::{DeleteOptions, Fresh, WriteOptions, after};
use crate::api::WriteRequest;
use crate::encode::select::selection;
use crate::encode::{Encoder, ListMeta};
use crate::http::body::Body;
use crate::http::reply;

/// Deletes, and answers the list of what was there.
pub(super) fn delete(
    write: &Write<'_>,
    request: &WriteRequest<'_>,
) -> Result<Response<Body>, Box<Status>> {
    let body = (content_type(request), &*request.body);
    let options = DeleteOptions::read(request.query, body)?;
    let done = delete_selected(write, request, &options);
    write.warned_of_orphans(request, &options, done)
}

fn delete_selected(
    write: &Write<'_>,
    request: &WriteRequest<'_>,
    options: &DeleteOptions,
) -> Result<Response<Body>, Box<Status>> {
    let (selection, resource) = (
        selection(write.target, request.query)?,
        &write.target.resource,
    );
    let view = write.api.store.view(resource.shelf);
    let mut encoder = Encoder::new(resource, write.form);
    let meta = ListMeta {
        revision: view.revision,
        continue_token: None,
        remaining: None,
    };
    // BOUND: what is deleted by one request, as it is told in one reply.
    let mut items = BytesMut::new();
    let mut first = true;
    let write_options = WriteOptions::default();
    let mut context = write.context(&write_options, Fresh::default());
    for object in view
        .snapshot
        .iter()
        .filter(|object| selection.matches(object))
    {
        if !first {
            encoder.separate(&mut items);
        }
        first = false;
        encoder.item(&mut items, object);
        context.namespace = object.namespace();
        let done = after::delete_stored(&write.api.store, resource, object.key(), |current| {
            delete_one(&context, object.name(), options, current)
        });
        match done {
            Ok(done) => after::commit(write.api, resource, done.as_deref()),
            // Somebody else deleted it meanwhile.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let mut out = BytesMut::with_capacity(items.len() + 512);
    encoder.begin_list(&mut out, &meta, items.len());
    out.extend_from_slice(&items);
    encoder.end_list(&mut out, &meta);
    Ok(reply::whole(StatusCode::OK, write.form.encoding, out))
}
