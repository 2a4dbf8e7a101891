//! The routes of the inspector.
//!
//! ```text
//! request ─▶ Host, Origin ─▶ page (no data, no token)
//!                        └─▶ Gate ─▶ Sight ─▶ view as JSON | events
//! ```
//!
//! Every reply has the same headers: no sniffing, no frame, no cache, and a policy that allows the
//! page's own script and style. Walks over all objects run on threads that may block.
//! BOUND: two walks at a time; others wait.
//! Never: a write, or a reply without a check of Host and Origin.
//!
//! Upstream counterpart: none.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::FutureExt;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use kinform::ObjectKey;

use super::query::Query;
use super::reply::{Reply, json, json_reply, plain};
use super::search::Wanted;
use super::shared::Shared;
use super::sight::Sight;
use super::{events, memory, object, origin, page, search};
use crate::serve::Handler;

/// The path of the page. Views are under it.
pub(super) const PAGE: &str = "/debug/kinform/";
/// The path of the JSON.
const VIEWS: &str = "/debug/kinform/v1/";

/// Answers requests.
pub(super) struct Room(Arc<Shared>);

impl Room {
    /// Code that answers requests.
    pub(super) fn handler(shared: &Arc<Shared>) -> Handler {
        let shared = Arc::clone(shared);
        Arc::new(move |request| {
            let room = Self(Arc::clone(&shared));
            async move { with_headers(room.answer(request).await) }.boxed()
        })
    }

    async fn answer(&self, request: Request<Bytes>) -> Reply {
        if let Some(why) = origin::refused(request.uri(), request.headers()) {
            return plain(StatusCode::FORBIDDEN, format!("forbidden: {why}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            let get = HeaderValue::from_static("GET, HEAD");
            reply.headers_mut().insert(ALLOW, get);
            return reply;
        }
        let path = request.uri().path().to_owned();
        if path == PAGE {
            return page::reply();
        }
        if path == "/" || path == PAGE.trim_end_matches('/') {
            let mut reply = plain(StatusCode::PERMANENT_REDIRECT, "");
            let to = HeaderValue::from_static(PAGE);
            reply.headers_mut().insert(LOCATION, to);
            return reply;
        }
        let Some(view) = path.strip_prefix(VIEWS) else {
            return plain(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let sight = match self.0.gate.sight(&request).await {
            Ok(sight) => sight,
            Err(refusal) => return plain(refusal.status, refusal.message),
        };
        let query = Query::parse(request.uri().query());
        match view {
            "events" => events::reply(&self.0, request, query),
            "object" => self.object(&sight, &query).await,
            "objects" | "memory" => self.walk(view.to_owned(), sight, query).await,
            _ => match self.0.view(view, &sight, &query) {
                Some(json) => json_reply(json),
                None => plain(StatusCode::NOT_FOUND, "404 no such view\n"),
            },
        }
    }

    /// A view that walks over all objects.
    async fn walk(&self, view: String, sight: Arc<Sight>, query: Query) -> Reply {
        let permit = Arc::clone(&self.0.walks).acquire_owned().await;
        let shared = Arc::clone(&self.0);
        let walk = move || match &*view {
            "memory" => json(&memory::memory(&shared.program, &sight, query.get("cache"))),
            _ => {
                let wanted = Wanted {
                    cache: query.text("cache"),
                    namespace: query.text("namespace"),
                    q: query.text("q").unwrap_or_default(),
                };
                json(&search::search(&shared.program, &sight, &wanted))
            }
        };
        // A caller that leaves does not end its walk: the permit goes with that. The semaphore is never
        // closed.
        let walk = move || {
            let _permit = permit;
            walk()
        };
        match tokio::task::spawn_blocking(walk).await {
            Ok(json) => json_reply(json),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the view failed\n"),
        }
    }

    async fn object(&self, sight: &Sight, query: &Query) -> Reply {
        let missing = || plain(StatusCode::NOT_FOUND, "404 no such object\n");
        let (Some(id), Some(name)) = (query.get("cache"), query.get("name")) else {
            let why = "the parameters cache and name are needed, and namespace if there is one\n";
            return plain(StatusCode::BAD_REQUEST, why);
        };
        let key = ObjectKey::new(query.get("namespace"), name);
        let Some(cache) = self.0.program.cache(id) else {
            return missing();
        };
        // As if it did not exist.
        if !sight.sees(&cache.informer.resource().resource, key.namespace()) {
            return missing();
        }
        let mut view = object::object(&self.0.program, sight, &self.0.versions, (&cache, &key));
        if view.versions.is_empty() && view.runs.is_empty() && view.waiting.is_empty() {
            return missing();
        }
        if query.get("managers").is_some() {
            view.managers = object::managers(&cache, &key).await;
        }
        json_reply(json(&view))
    }
}

fn with_headers(mut reply: Reply) -> Reply {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    let headers = reply.headers_mut();
    let fixed = [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        CONTENT_SECURITY_POLICY,
        POLICY.get_or_init(page::policy).clone(),
    );
    reply
}
