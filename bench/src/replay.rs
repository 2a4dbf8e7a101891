//! A server that sends files: the same bytes to every subject, at the same price.
//!
//! ```text
//! GET collection ──watch? initial events? limit, continue? Accept──▶ a file of the corpus
//! POST /replay/play ──▶ every watch: an event for each object
//! POST /replay/expire ──▶ every watch: ERROR 410, end; from then on lists are those after the change
//! ```
//!
//! It never fails, and sends nothing else. Watches without initial events are silent and stay open.
//! With [`Streams::Refused`] it refuses streaming lists as a server without them does. Its CPU time
//! is the bench process's, which no figure counts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::corpus::{Content, Corpus, Encoding, Recipe};
use crate::discovery;
use crate::scenario::{Needs, Streams};
use crate::shape::Collection;

const CHUNK: usize = 256 << 10;
/// BOUND: chunks that were read and not yet asked for, of each reply.
const AHEAD: usize = 4;
const REFUSED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden","reason":"Invalid","code":422}"#;
const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\",\"code\":410}}\n";

type Chunks = BoxStream<'static, io::Result<Bytes>>;
type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Replay {
    /// The address that it listens on.
    pub address: SocketAddr,
    _stop: DropGuard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Before,
    Playing,
    Changed,
}

struct State {
    corpus: Corpus,
    needs: Needs,
    phase: watch::Sender<Phase>,
    pages: Pages,
}

/// The file of the next page, by recipe, plural of the collection and token. The token alone is
/// ambiguous, as it names an object and a version.
type Pages = HashMap<(Recipe, &'static str, String), String>;

/// Serves a scenario's files of a corpus, on a free port of loopback.
///
/// # Errors
/// The corpus cannot be read, or no port is free.
pub async fn serve(corpus: &Corpus, needs: Needs) -> io::Result<Replay> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let state = Arc::new(State {
        corpus: corpus.clone(),
        needs,
        phase: watch::Sender::new(Phase::Before),
        pages: pages(corpus, needs.recipes)?,
    });
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        let accepting = async {
            while let Ok((socket, _)) = listener.accept().await {
                let _ = socket.set_nodelay(true);
                let state = state.clone();
                tokio::spawn(stopped.clone().run_until_cancelled_owned(async move {
                    let answer = service_fn(|request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(state.answer(request).await) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(socket), answer).await;
                }));
            }
        };
        stopped.run_until_cancelled(accepting).await;
    });
    Ok(Replay {
        address,
        _stop: stop.drop_guard(),
    })
}

fn pages(corpus: &Corpus, recipes: &[Recipe]) -> io::Result<Pages> {
    let mut pages = HashMap::new();
    for recipe in recipes.iter().filter(|recipe| recipe.is_paged()) {
        for collection in corpus.shape.collections() {
            let tokens = corpus.path(*collection, &recipe.tokens_file());
            for (number, token) in fs::read_to_string(tokens)?.lines().enumerate() {
                let page = (*recipe, collection.plural, token.to_owned());
                pages.insert(page, recipe.page_file(number + 1));
            }
        }
    }
    Ok(pages)
}

/// The parameters of a request's query that the replay server reads.
#[derive(Debug, Default)]
struct Query {
    is_watch: bool,
    has_initial_events: bool,
    is_paged: bool,
    is_any_version: bool,
    token: Option<String>,
}

impl Query {
    fn of(text: &str) -> Self {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "watch" => query.is_watch = matches!(&*value, "1" | "true"),
                "sendInitialEvents" => query.has_initial_events = value == "true",
                "limit" => query.is_paged = !matches!(&*value, "" | "0"),
                "resourceVersion" => query.is_any_version = value == "0",
                "continue" if !value.is_empty() => query.token = Some(value.into_owned()),
                _ => {}
            }
        }
        query
    }
}

/// The encoding and content that a client prefers.
fn accepted(request: &Request<Incoming>) -> (Encoding, Content) {
    let accept = request.headers().get("accept");
    let accept = accept.and_then(|value| value.to_str().ok());
    let first = accept
        .unwrap_or_default()
        .split(',')
        .next()
        .unwrap_or_default();
    let encoding = if first.contains("protobuf") {
        Encoding::Protobuf
    } else {
        Encoding::Json
    };
    let content = if first.contains("PartialObjectMetadata") {
        Content::Metadata
    } else {
        Content::Full
    };
    (encoding, content)
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        let phase = match (request.method(), path) {
            (&Method::POST, "/replay/play") => Some(Phase::Playing),
            (&Method::POST, "/replay/expire") => Some(Phase::Changed),
            _ => None,
        };
        if let Some(phase) = phase {
            self.phase.send_replace(phase);
            return whole(200, "application/json", "{}");
        }
        let collections = self.corpus.shape.collections();
        if let Some(document) = discovery::document(path, collections) {
            return whole(200, "application/json", document);
        }
        let mut collections = collections.iter();
        let Some(collection) = collections.find(|collection| collection.path() == path) else {
            return whole(404, "text/plain", "404 page not found");
        };
        let query = Query::of(request.uri().query().unwrap_or_default());
        let (encoding, content) = accepted(&request);
        if query.is_watch {
            if query.has_initial_events && self.needs.streams == Streams::Refused {
                return whole(422, "application/json", REFUSED);
            }
            let first = query.has_initial_events.then_some(Recipe::Stream(encoding));
            return self.watch(*collection, first, encoding).await;
        }
        let file = self.list_file(*collection, &query, encoding, content);
        match read(self.corpus.path(*collection, &file)).await {
            Ok((length, chunks)) => {
                let mut reply = reply(200, encoding.media(), chunks);
                reply.headers_mut().insert("content-length", length.into());
                reply
            }
            Err(error) => missing(&file, &error),
        }
    }

    /// As a real server: any version is served whole, the most recent one in pages to clients that
    /// ask for them. A scenario without pages is served whole.
    fn list_file(
        &self,
        collection: Collection,
        query: &Query,
        encoding: Encoding,
        content: Content,
    ) -> String {
        let has_expired = *self.phase.borrow() == Phase::Changed;
        let (whole, pages) = match (self.needs.changed(), encoding) {
            (Some(share), _) if has_expired => {
                (Recipe::Changed(share), Some(Recipe::ChangedPages(share)))
            }
            (_, Encoding::Json) => (
                Recipe::List(encoding, content),
                Some(Recipe::Pages(content)),
            ),
            (_, Encoding::Protobuf) => (Recipe::List(encoding, content), None),
        };
        let pages = pages.filter(|pages| self.needs.recipes.contains(pages));
        match (pages, &query.token) {
            (Some(pages), Some(token)) => {
                let page = (pages, collection.plural, token.clone());
                self.pages.get(&page).cloned().unwrap_or_default()
            }
            (Some(pages), None) if query.is_paged && !query.is_any_version => pages.file(),
            _ => whole.file(),
        }
    }

    /// Sends the stored objects, if asked for, then leaves the watch silent until the phase
    /// changes.
    async fn watch(
        &self,
        collection: Collection,
        first: Option<Recipe>,
        encoding: Encoding,
    ) -> Response<Body> {
        let mut phases = self.phase.subscribe();
        let opened_in = *phases.borrow();
        let first = match first.map(Recipe::file) {
            None => stream::empty().boxed(),
            Some(file) => match read(self.corpus.path(collection, &file)).await {
                Ok((_, chunks)) => chunks,
                Err(error) => return missing(&file, &error),
            },
        };
        let events = self.corpus.path(collection, &Recipe::Events.file());
        let rest = async move {
            let phase = phases.wait_for(|phase| *phase != opened_in).await;
            match phase.map(|phase| *phase) {
                Ok(Phase::Changed) => one(Bytes::from_static(EXPIRED.as_bytes())),
                Ok(Phase::Playing) => match read(events).await {
                    Ok((_, chunks)) => chunks.chain(stream::pending()).boxed(),
                    Err(error) => stream::once(async { Err(error) }).boxed(),
                },
                Ok(Phase::Before) | Err(_) => stream::empty().boxed(),
            }
        };
        let media = match encoding {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        };
        reply(200, media, first.chain(rest.flatten_stream()).boxed())
    }
}

/// A file's bytes, read ahead by a thread of their own: a subject that had to wait for them would
/// sleep and be woken, and its figures would include that.
async fn read(path: PathBuf) -> io::Result<(u64, Chunks)> {
    let file = tokio::fs::File::open(path).await?;
    let length = file.metadata().await?.len();
    let mut file = file.into_std().await;
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        // BOUND: the chunks sent and not yet written; a new one is made only if none has come back.
        let (back, used) = std::sync::mpsc::channel();
        loop {
            // Sent memory is filled again: the kernel would clear new memory each time.
            let mut filled: Vec<u8> = used.try_recv().unwrap_or_default();
            filled.clear();
            filled.reserve_exact(CHUNK);
            let chunk = match (&mut file).take(CHUNK as u64).read_to_end(&mut filled) {
                Ok(0) => return,
                Ok(_) => Ok(Bytes::from_owner(Chunk {
                    filled,
                    back: back.clone(),
                })),
                Err(error) => Err(error),
            };
            let is_last = chunk.is_err();
            // A dropped reply needs no more chunks.
            if sender.blocking_send(chunk).is_err() || is_last {
                return;
            }
        }
    });
    let chunks = stream::unfold(receiver, |mut chunks| async move {
        chunks.recv().await.map(|chunk| (chunk, chunks))
    });
    Ok((length, chunks.boxed()))
}

/// A part of a file; its memory goes back to the thread that reads the file.
struct Chunk {
    filled: Vec<u8>,
    back: std::sync::mpsc::Sender<Vec<u8>>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.filled
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // The send fails once the file has been read, when no more memory is wanted.
        let _ = self.back.send(std::mem::take(&mut self.filled));
    }
}

fn one(bytes: Bytes) -> Chunks {
    stream::once(async { Ok(bytes) }).boxed()
}

fn whole(code: u16, media: &str, text: impl Into<Bytes>) -> Response<Body> {
    reply(code, media, one(text.into()))
}

fn missing(file: &str, error: &io::Error) -> Response<Body> {
    whole(
        500,
        "text/plain",
        format!("{}: {error}", Path::new(file).display()),
    )
}

fn reply(code: u16, media: &str, chunks: Chunks) -> Response<Body> {
    let mut reply = Response::new(StreamBody::new(chunks.map_ok(Frame::data).boxed()));
    if let Ok(code) = code.try_into() {
        *reply.status_mut() = code;
    }
    if let Ok(media) = media.parse() {
        reply.headers_mut().insert("content-type", media);
    }
    reply
}
