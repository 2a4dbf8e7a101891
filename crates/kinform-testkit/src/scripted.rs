//! A source whose server is the test.
//!
//! ```text
//! informer → list | watch → ScriptedSource → Ask → the test answers: whole, in pieces, or not at all
//! ```
//!
//! Each request of the informer arrives as an [`Ask`], in order; the test looks at its options and
//! decides on the reply and its time. There are no automatic replies, so a test states exactly what
//! a server did. A test sees when the informer abandons a request (drops the call or the body).
//! Never: sleeps, sockets, real time.
//!
//! Upstream counterpart: `client-go:tools/cache/testing/fake_controller_source.go`, and the
//! `ListWatch` closures of `reflector_test.go`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::future::BoxFuture;
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError, SourceErrorKind};
use kinform_api::{ListOptions, Status, WatchOptions};
use kinform_core::Encoding;

type Reply = Result<Body, SourceError>;

/// The informer's end: give it to an informer as its source.
#[derive(Debug)]
pub struct ScriptedSource {
    info: ResourceInfo,
    asks: mpsc::UnboundedSender<Ask>,
}

/// The test's end: what the informer asks for.
#[derive(Debug)]
pub struct Script {
    asks: mpsc::UnboundedReceiver<Ask>,
}

/// A request that waits for its answer. Dropping it breaks the connection.
pub struct Ask {
    request: Request,
    reply: oneshot::Sender<Reply>,
}

/// A request of the informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A list.
    List(ListOptions),
    /// A watch, or a streaming list.
    Watch(WatchOptions),
}

/// A reply that the test sends in pieces. Dropping it ends the body as a server does.
#[derive(Debug)]
pub struct Sending {
    chunks: mpsc::UnboundedSender<Result<Bytes, SourceError>>,
}

/// A source for `info` and the script that answers it.
pub fn scripted(info: ResourceInfo) -> (Arc<ScriptedSource>, Script) {
    let (sender, receiver) = mpsc::unbounded();
    let source = ScriptedSource { info, asks: sender };
    (Arc::new(source), Script { asks: receiver })
}

impl ScriptedSource {
    fn ask(&self, request: Request) -> BoxFuture<'static, Reply> {
        let (reply, answer) = oneshot::channel();
        let sent = self.asks.unbounded_send(Ask { request, reply }).is_ok();
        Box::pin(async move {
            if !sent {
                // The test is over: no answer will come.
                std::future::pending::<()>().await;
            }
            answer.await.unwrap_or_else(|_| Err(broken()))
        })
    }
}

fn broken() -> SourceError {
    SourceError::new(
        SourceErrorKind::Transport,
        "the script broke the connection",
    )
}

impl ListerWatcher for ScriptedSource {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Reply> {
        self.ask(Request::List(options.clone()))
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Reply> {
        self.ask(Request::Watch(options.clone()))
    }

    fn resource(&self) -> &ResourceInfo {
        &self.info
    }
}

impl Script {
    /// The next request.
    ///
    /// # Panics
    /// If the source is gone: the informer ended although the test expects a request.
    ///
    /// Cancel safety: dropping it loses no request.
    pub async fn next(&mut self) -> Ask {
        self.asks
            .next()
            .await
            .expect("the informer asks for something")
    }

    /// The next request, which must be a list.
    ///
    /// # Panics
    /// If it is a watch.
    pub async fn next_list(&mut self) -> (ListOptions, Ask) {
        let ask = self.next().await;
        match ask.request.clone() {
            Request::List(options) => (options, ask),
            Request::Watch(options) => panic!("a list was expected, not {options:?}"),
        }
    }

    /// The next request, which must be a watch.
    ///
    /// # Panics
    /// If it is a list.
    pub async fn next_watch(&mut self) -> (WatchOptions, Ask) {
        let ask = self.next().await;
        match ask.request.clone() {
            Request::Watch(options) => (options, ask),
            Request::List(options) => panic!("a watch was expected, not {options:?}"),
        }
    }

    /// Answers the list of one item with which an informer confirms that a streaming list was
    /// rightly empty; the stream is then the watch.
    ///
    /// # Panics
    /// If another request comes.
    pub async fn confirm_empty(&mut self, version: &str) {
        let (options, ask) = self.next_list().await;
        assert_eq!(options.limit, Some(1), "a list that confirms is short");
        let metadata = serde_json::json!({ "resourceVersion": version });
        let list = serde_json::json!({
            "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": [],
        });
        ask.reply(list.to_string());
    }

    /// Returns whether there is no further request.
    pub fn is_quiet(&mut self) -> bool {
        match self.asks.try_recv() {
            Ok(ask) => panic!("nothing more was expected, but: {ask:?}"),
            Err(_) => true,
        }
    }
}

impl Ask {
    /// The request to be answered.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Answers with a whole body.
    pub fn reply(self, body: impl Into<Bytes>) {
        self.stream().send(body);
    }

    /// Answers with a body that is sent piece by piece.
    pub fn stream(self) -> Sending {
        let (chunks, receiver) = mpsc::unbounded();
        // The informer may have dropped the body meanwhile; the pieces are then lost.
        let _ = self.reply.send(Ok(Body::new(Encoding::Json, receiver)));
        Sending { chunks }
    }

    /// Answers with a refusal.
    pub fn refuse(self, error: SourceError) {
        let _ = self.reply.send(Err(error));
    }

    /// Answers with a Status of `code` and `reason`.
    pub fn refuse_status(self, code: u16, reason: &str, message: &str) {
        self.refuse(status_error(code, reason, message));
    }

    /// Returns whether the informer has dropped the request.
    pub fn is_given_up(&self) -> bool {
        self.reply.is_canceled()
    }
}

/// The error that a server's Status of `code` and `reason` becomes.
pub fn status_error(code: u16, reason: &str, message: &str) -> SourceError {
    let status = Status::failure(code, reason, message);
    SourceError::from_status(code, status)
}

impl Sending {
    /// Sends these bytes.
    pub fn send(&self, chunk: impl Into<Bytes>) {
        let _ = self.chunks.unbounded_send(Ok(chunk.into()));
    }

    /// Sends one watch event.
    pub fn event(&self, kind: &str, object: &serde_json::Value) {
        let event = serde_json::json!({ "type": kind, "object": object });
        self.send(format!("{event}\n"));
    }

    /// Sends a bookmark for objects of `kind`.
    pub fn bookmark(&self, kind: &str, version: &str) {
        let metadata = serde_json::json!({ "resourceVersion": version });
        self.event(
            "BOOKMARK",
            &serde_json::json!({ "kind": kind, "apiVersion": "v1", "metadata": metadata }),
        );
    }

    /// Sends the bookmark that ends the initial events of a streaming list.
    pub fn initial_events_end(&self, kind: &str, version: &str) {
        let annotations = serde_json::json!({ kinform_api::INITIAL_EVENTS_END: "true" });
        let metadata =
            serde_json::json!({ "resourceVersion": version, "annotations": annotations });
        self.event(
            "BOOKMARK",
            &serde_json::json!({ "kind": kind, "apiVersion": "v1", "metadata": metadata }),
        );
    }

    /// Ends the body as a server does when it closes the connection.
    pub fn end(self) {}

    /// Breaks the body in the middle.
    pub fn cut(self) {
        let _ = self.chunks.unbounded_send(Err(broken()));
    }

    /// Returns whether the informer has dropped the body.
    pub fn is_given_up(&self) -> bool {
        self.chunks.is_closed()
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}
