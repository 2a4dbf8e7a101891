//! Lists: a snapshot at the requested version, in pages if requested, encoded while it is sent.
//!
//! ```text
//! options ──which version?──▶ View ──range, selectors, limit──▶ chunks of 64 KiB ──▶ reply
//! ```
//!
//! | version    | match        | limit    | answer                                          |
//! |------------|--------------|----------|-------------------------------------------------|
//! | unset      | none         | honoured | now                                             |
//! | 0          | any          | ignored  | what this replica has                           |
//! | N          | none         | none     | not older than N                                |
//! | N          | none         | given    | exactly N (legacy)                              |
//! | N          | NotOlderThan | honoured | not older than N                                |
//! | N          | Exact        | honoured | exactly N                                       |
//! | a token    | none         | honoured | exactly the token's, after its key              |
//!
//! A list of a future version waits for it, then fails with 504; a version older than the history
//! is 410. A list's bytes are never held as a whole: each chunk is made when the one before it was
//! taken.
//!
//! Upstream: `apiserver:pkg/storage/cacher/delegator.go`, `apiserver:pkg/storage/etcd3/store.go`.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use kinform_api::{Status, mutant};

use super::continue_token::Token;
use super::source::Source;
use crate::encode::select::Selection;
use crate::encode::{Encoder, ListMeta};
use crate::http::body::Body;
use crate::http::list_options::{self, Match, ReadOptions, Version};
use crate::http::negotiate::{self, Form};
use crate::http::reply;
use crate::http::route::Target;
use crate::state::State;
use crate::storage::{OutOfReach, Place, Snapshot, Stored, View};

/// Bytes of a chunk before it is sent.
const CHUNK: usize = 64 << 10;
/// Minimum number of objects that is worth a thread.
const SHARE: usize = 256;

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent \
    list result. You can start a new list without the continue parameter, or use the continue token \
    in this response to retrieve the remainder of the results. Continuing with the provided token \
    results in an inconsistent list - objects that were created, modified, or deleted between the \
    time the first chunk was returned and now may show up in the list.";

/// Answers a list.
pub(crate) async fn list(
    state: &Arc<State>,
    target: &Target,
    options: ReadOptions,
    form: Form,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let selection = state.selection(target, &options)?;
    let source = Source::of(state, &target.resource);
    source.begun().await;
    let page = choose(&source, &options).await?;
    let (mut from, end) = selection.bounds(&page.view.snapshot);
    if let Some(start) = &page.start {
        let start = format!("{}{start}", selection.prefix());
        from = from.max(page.view.snapshot.seek(&start));
    }
    let (to, last) = cut(&page.view.snapshot, &selection, (from, end), page.limit);
    let more = to < end;
    let relative = |object: &Arc<Stored>| {
        let key = object.key();
        key.strip_prefix(selection.prefix())
            .unwrap_or(key)
            .to_owned()
    };
    let meta = ListMeta {
        revision: page.view.revision,
        continue_token: last
            .filter(|_| more)
            .map(|last| Token::after(&relative(&last), Some(page.view.revision)).encode()),
        remaining: (more && selection.is_unfiltered()).then(|| page.view.snapshot.count(to, end)),
        shards: selection.echo(&target.resource, form),
    };
    let chunks = Chunks {
        encoder: source.encoder(form),
        snapshot: page.view.snapshot,
        selection,
        meta,
        at: from,
        to,
        state: Progress::Begin,
    };
    let gzip = negotiate::accepts_gzip(headers);
    if chunks.encoder.tells_length_first() {
        return Ok(reply::chunked(form.encoding, chunks.measured(), gzip));
    }
    Ok(reply::chunked(form.encoding, chunks, gzip))
}

/// A requested state, and the part of it to send.
struct Page {
    view: View,
    start: Option<String>,
    limit: Option<usize>,
}

async fn choose(source: &Source, options: &ReadOptions) -> Result<Page, Status> {
    let limit = Some(options.limit).filter(|limit| *limit > 0);
    if !options.continue_token.is_empty() {
        // Caches, which answer version 0, ignore limits.
        let limit = limit.filter(|_| options.version != "0");
        return resume(source, options, limit).await;
    }
    let version = list_options::version(&options.version)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    let (asked, exactly) = match (version, options.version_match) {
        (Version::Unset, _) => {
            return Ok(Page {
                view: source.latest().await?,
                start: None,
                limit,
            });
        }
        (Version::Any, _) => {
            return Ok(Page {
                view: source.replica(),
                start: None,
                limit: None,
            });
        }
        (Version::At(asked), Some(Match::Exact)) => (asked, true),
        (Version::At(asked), None) => (asked, limit.is_some()),
        (Version::At(asked), Some(Match::NotOlderThan)) => (asked, false),
    };
    source.asked(asked).await?;
    let view = if exactly {
        source.at(asked).map_err(|error| match error {
            OutOfReach::Expired => Status::expired(LIST_EXPIRED),
            OutOfReach::Future(now) => Status::too_large_resource_version(asked, now),
        })?
    } else {
        source.replica()
    };
    Ok(Page {
        view,
        start: None,
        limit,
    })
}

async fn resume(
    source: &Source,
    options: &ReadOptions,
    limit: Option<usize>,
) -> Result<Page, Status> {
    if !matches!(&*options.version, "" | "0") {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let token = Token::decode(&options.continue_token)?;
    let view = match token.revision {
        _ if mutant!("S2") => source.latest().await?,
        None => source.latest().await?,
        Some(revision) => source.of_token(revision).map_err(|error| match error {
            OutOfReach::Expired => {
                let latest = Token {
                    revision: None,
                    start: token.start.clone(),
                };
                Status::expired(TOKEN_EXPIRED).with_continue_token(latest.encode())
            }
            OutOfReach::Future(now) => Status::too_large_resource_version(revision, now),
        })?,
    };
    Ok(Page {
        view,
        start: Some(token.start),
        limit,
    })
}

/// End of a page, and its last object. A page continues until it is full of objects that match.
fn cut(
    snapshot: &Snapshot,
    selection: &Selection,
    (from, end): (Place, Place),
    limit: Option<usize>,
) -> (Place, Option<Arc<Stored>>) {
    let Some(limit) = limit else {
        return (end, None);
    };
    let (mut at, mut taken) = (from, 0);
    while at < end {
        let Some(object) = snapshot.at(at) else {
            break;
        };
        at = snapshot.next(at);
        if selection.matches(object) {
            taken += 1;
            if taken == limit {
                return (at, Some(object.clone()));
            }
        }
    }
    (end, None)
}

/// The bytes of a list, a chunk at a time.
struct Chunks {
    encoder: Encoder,
    snapshot: Snapshot,
    selection: Selection,
    meta: ListMeta,
    at: Place,
    to: Place,
    state: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begin,
    FirstItem,
    Items,
    Done,
}

impl Chunks {
    /// Encodes, on all cores, the objects without a cached message in this encoding. Small lists
    /// are left to the requesting task.
    fn prepare(&self) {
        let places = std::iter::successors(Some(self.at), |at| Some(self.snapshot.next(*at)));
        let objects = places
            .take_while(|at| *at < self.to)
            .map_while(|at| self.snapshot.at(at))
            .filter(|object| self.selection.matches(object));
        let objects: Vec<&Arc<Stored>> = objects.collect();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = cores.min(objects.len() / SHARE);
        if threads < 2 {
            return;
        }
        let encoder = &self.encoder;
        std::thread::scope(|scope| {
            for part in objects.chunks(objects.len().div_ceil(threads)) {
                scope.spawn(move || part.iter().for_each(|object| encoder.prepare(object)));
            }
        });
    }

    /// Like the plain iterator, for an encoding that writes the length of the items before them.
    fn measured(mut self) -> impl Iterator<Item = Bytes> + Send + 'static {
        self.prepare();
        // BOUND: the encoded objects of this list. Their length precedes them, and encoding them
        // twice would cost more than keeping them until they are sent.
        let (mut items, mut chunk, mut length) = (Vec::new(), BytesMut::new(), 0);
        let mut at = self.at;
        while at < self.to {
            let Some(object) = self.snapshot.at(at) else {
                break;
            };
            at = self.snapshot.next(at);
            if self.selection.matches(object) {
                self.encoder.item(&mut chunk, object);
            }
            if chunk.len() >= CHUNK {
                length += chunk.len();
                items.push(chunk.split().freeze());
            }
        }
        length += chunk.len();
        items.push(chunk.freeze());
        let (mut begin, mut end) = (BytesMut::new(), BytesMut::new());
        self.encoder.begin_list(&mut begin, &self.meta, length);
        self.encoder.end_list(&mut end, &self.meta);
        std::iter::once(begin.freeze())
            .chain(items)
            .chain(std::iter::once(end.freeze()))
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.state == Progress::Done {
            return None;
        }
        let first = self.state == Progress::Begin;
        let mut out = BytesMut::with_capacity(if first { CHUNK / 16 } else { CHUNK });
        if first {
            self.encoder.begin_list(&mut out, &self.meta, 0);
            self.state = Progress::FirstItem;
        }
        while self.at < self.to {
            let Some(object) = self.snapshot.at(self.at) else {
                break;
            };
            // BOUND: a chunk is at most this, or one object.
            if !out.is_empty() && out.len() + object.bytes().len() > CHUNK {
                return Some(out.freeze());
            }
            self.at = self.snapshot.next(self.at);
            if !self.selection.matches(object) {
                continue;
            }
            if self.state == Progress::Items {
                self.encoder.separate(&mut out);
            }
            self.state = Progress::Items;
            self.encoder.item(&mut out, object);
        }
        self.encoder.end_list(&mut out, &self.meta);
        self.state = Progress::Done;
        Some(out.freeze())
    }
}
