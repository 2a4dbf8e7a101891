//! An embedded server in this process, for targets that ask it as a client does.
//!
//! ```text
//! method, path, headers, body ──▶ Service::call ──▶ code, headers, body
//! ```
//!
//! One server a thread, under paused time, so that no input waits. Targets either use `dryRun=All`
//! or put their objects back, so that an input finds the same server as the one before it. A reply
//! of 500 or above is a broken promise unless the target allows its message.
//! BOUND: the history is short, so that a run of hours does not grow.

use std::cell::OnceCell;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// BOUND: the virtual time of a request, beyond the longest timeout of a webhook.
const LONGEST: Duration = Duration::from_secs(120);

/// A server and its runtime.
#[derive(Debug)]
pub struct Cluster {
    runtime: Runtime,
    /// The server, for its storage and its webhooks.
    pub server: Server,
    service: Service,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub code: u16,
    /// The media type, empty if there is none.
    pub content_type: String,
    /// The body.
    pub bytes: Bytes,
}

impl Reply {
    /// The body as JSON, null if it is something else.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

impl Cluster {
    /// A server with the content of every cluster.
    ///
    /// # Panics
    /// There is no runtime.
    #[must_use]
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let server = runtime.block_on(async {
            let builder = Server::builder().plain().without_bookmarks();
            builder.history(200).history_bytes(1 << 20).in_process()
        });
        let service = server.service();
        Self {
            runtime,
            server,
            service,
        }
    }

    /// Sends a request and reads the whole reply.
    ///
    /// # Panics
    /// The reply takes longer than any may, or breaks off.
    pub fn send(&self, request: Request<Bytes>) -> Reply {
        let asked = async {
            let reply = self.service.call(request).await;
            let content_type = reply.headers().get("content-type");
            let content_type = content_type.and_then(|it| it.to_str().ok());
            let (code, content_type) =
                (reply.status(), content_type.unwrap_or_default().to_owned());
            let bytes = reply.into_body().collect().await.expect("a whole body");
            (code, content_type, bytes)
        };
        let (code, content_type, bytes): (StatusCode, _, _) = self
            .runtime
            .block_on(async { tokio::time::timeout(LONGEST, asked).await })
            .expect("a reply in time");
        Reply {
            code: code.as_u16(),
            content_type,
            bytes: Bytes::from(bytes.to_vec()),
        }
    }

    /// Sends JSON and reads JSON.
    ///
    /// # Panics
    /// The path is not one, or there is no reply.
    pub fn ask(&self, method: Method, path: &str, (media, body): (&str, &Value)) -> (u16, Value) {
        let body = match body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(body)
            .expect("a request");
        let reply = self.send(request);
        (reply.code, reply.json())
    }

    /// Reads JSON.
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, (JSON, &Value::Null))
    }

    /// Creates an object that must be accepted.
    ///
    /// # Panics
    /// It is refused.
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let (code, reply) = self.ask(Method::POST, path, (JSON, object));
        assert_eq!(code, 201, "{reply}");
        reply
    }

    /// Serves the custom resource `things` of `fuzz.example.com/v1` with this schema of `spec`.
    pub fn serve_things(&self, spec: &Value) {
        let definition = definition(spec);
        self.create(DEFINITIONS, &definition);
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

/// The media type of objects.
pub const JSON: &str = "application/json";
/// The path of definitions.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The path of things.
pub const THINGS: &str = "/apis/fuzz.example.com/v1/namespaces/default/things";

/// A definition of things with this schema of `spec`.
#[must_use]
pub fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.fuzz.example.com"},
        "spec": {"group": "fuzz.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}})
}

/// The schema of any object.
#[must_use]
pub fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A thing of this name with this spec.
#[must_use]
pub fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "fuzz.example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// A server of this thread, made once by a function.
#[derive(Debug)]
pub struct Once(OnceCell<Cluster>);

impl Once {
    /// No server yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// The server, which `made` sets up the first time.
    pub fn get(&self, made: impl FnOnce(&Cluster)) -> &Cluster {
        self.0.get_or_init(|| {
            let cluster = Cluster::new();
            made(&cluster);
            cluster
        })
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

/// A text as a value of a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
