//! Two questions about a cache: the server's version, and what happened since the cache's.
//!
//! ```text
//! GET ..?limit=1 ──▶ the version that the server has
//! GET ..?watch&resourceVersion=CACHE&timeoutSeconds=3 ──▶ events, bookmark ──▶ the last event's version
//! ```
//!
//! A resource that is idle lags behind the server's version without lacking anything: versions count
//! the changes of all resources. A short watch proves it: a server sends a bookmark two seconds
//! before it ends a watch. Bookmarks of a long watch come once a minute.
//! Never: changes a cache, decodes an object, repeats a request.
//!
//! Upstream counterpart: `apiserver:pkg/storage/cacher/cache_watcher.go` (`nextBookmarkTime`), which
//! sends that bookmark.

use std::cmp::Ordering;
use std::time::Duration;

use futures::StreamExt;
use kinform_api::{ListOptions, ResourceVersion, WatchEventKind, WatchOptions};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::scope::{Scope, ScopeField};
use kinform_core::wire::encoding::{ListReader, WatchReader};
use kinform_core::wire::watch::{Frame, FrameKind};

use crate::source::{ListerWatcher, ResourceInfo};

/// The time after which the server ends the watch. Its bookmark comes after a second.
const WATCH: Duration = Duration::from_secs(3);

/// Asks for the version of the server: one item of a consistent list.
///
/// Cancel safety: the request is dropped.
pub(super) async fn version(source: &dyn ListerWatcher) -> Result<ResourceVersion, String> {
    let options = ListOptions {
        limit: Some(1),
        ..ListOptions::default()
    };
    let body = source.list(&options).await.map_err(|e| e.to_string())?;
    let mut reader = ListReader::new(body.encoding());
    let mut chunks = body.into_chunks();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        let fed = reader.feed(&chunk, &mut |_| {});
        fed.map_err(|error| error.to_string())?;
    }
    let meta = reader.finish().map_err(|error| error.to_string())?;
    Ok(meta.resource_version.as_str().into())
}

/// Asks for the changes of a cache between the versions `from` and `to`. Returns the version of the
/// last one, or `from` if there was none.
///
/// Cancel safety: the request is dropped.
pub(super) async fn last_change(
    source: &dyn ListerWatcher,
    (info, scope): (&ResourceInfo, Option<&Scope>),
    (from, to): (&ResourceVersion, &ResourceVersion),
) -> Result<ResourceVersion, String> {
    let options = WatchOptions {
        label_selector: info.label_selector.clone(),
        field_selector: info.field_selector.clone(),
        resource_version: Some(from.clone()),
        allow_bookmarks: true,
        timeout: Some(WATCH),
        ..WatchOptions::default()
    };
    let body = source.watch(&options).await.map_err(|e| e.to_string())?;
    let mut reader = WatchReader::new(body.encoding());
    let mut chunks = body.into_chunks();
    let mut seen = Seen {
        scope,
        last: from.clone(),
        to,
        is_complete: false,
        refused: None,
    };
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        let fed = reader.feed(&chunk, &mut |frame| seen.take(frame));
        fed.map_err(|error| error.to_string())?;
        if let Some(refused) = seen.refused {
            return Err(refused);
        }
        if seen.is_complete {
            return Ok(seen.last);
        }
    }
    Err(format!("a watch ended without a bookmark of version {to}"))
}

/// The content of a short watch so far.
struct Seen<'a> {
    /// The objects of the cache: changes of others do not count. All, if there is none.
    scope: Option<&'a Scope>,
    /// The version of the last event.
    last: ResourceVersion,
    to: &'a ResourceVersion,
    /// All events up to `to` came.
    is_complete: bool,
    refused: Option<String>,
}

impl Seen<'_> {
    fn take(&mut self, frame: Frame<'_>) {
        if self.is_complete {
            return;
        }
        let told = match frame.kind {
            FrameKind::Known(WatchEventKind::Bookmark) => {
                let bookmark = frame.object.bookmark();
                bookmark.map(|bookmark| (false, bookmark.resource_version))
            }
            FrameKind::Known(WatchEventKind::Error) | FrameKind::Status => {
                let status = frame.object.status().unwrap_or_default();
                self.refused = Some(crate::error::one_line(&status.message));
                return;
            }
            FrameKind::Known(_) => {
                let object = Object::from_item(&frame.object, &Projection::default());
                object.map(|object| (self.is_ours(&object), object.resource_version().to_owned()))
            }
            FrameKind::Malformed(unreadable) => Err(unreadable),
            FrameKind::Unknown(kind) => {
                self.refused = Some(format!("an event of the unknown type {kind}"));
                return;
            }
        };
        match told {
            Ok((is_event, version)) => self.reach(is_event, version.as_str().into()),
            Err(unreadable) => self.refused = Some(unreadable.reason),
        }
    }

    /// Returns whether the change is one of the cache. An object may leave a scope of owners by a change.
    fn is_ours(&self, object: &Object) -> bool {
        let scope = self.scope;
        scope.is_none_or(|scope| scope.field() == ScopeField::OwnerUid || scope.has(object))
    }

    fn reach(&mut self, is_event: bool, version: ResourceVersion) {
        let order = version.compare(self.to);
        self.is_complete = matches!(order, Ok(Ordering::Equal | Ordering::Greater));
        if is_event && order != Ok(Ordering::Greater) {
            self.last = version;
        }
    }
}
