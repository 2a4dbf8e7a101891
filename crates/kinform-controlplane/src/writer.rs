//! The writes of one controller.
//!
//! ```text
//! (path, JSON) → POST | PUT | PATCH | DELETE, with the field manager → the stored object | error
//! ```
//!
//! Never: retries. The controller's queue does that.

use http::{Method, Request};
use kinform::Error;
use kube_client::{Client, Error as ClientError};
use serde_json::Value;

use crate::json::{name, set, text};

/// A refused or lost request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// The server refused, or did not reply.
    #[error("cannot {verb} {path}")]
    Request {
        verb: Method,
        path: String,
        #[source]
        source: ClientError,
    },
    /// A claim that a pod needs is on its way out.
    #[error("pvc {0} is being deleted")]
    ClaimEnds(String),
    /// The controller has no client.
    #[error("the controller cannot write")]
    NoClient(#[from] Error),
}

impl Failed {
    /// The code of the refusal.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Request {
                source: ClientError::Api(status),
                ..
            } => Some(status.code),
            _ => None,
        }
    }

    /// The message of the refusal, or of the error.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Request {
                source: ClientError::Api(status),
                ..
            } => status.message.clone(),
            Self::Request { source, .. } => source.to_string(),
            Self::ClaimEnds(_) => self.to_string(),
            Self::NoClient(error) => error.to_string(),
        }
    }
}

/// Writes with one client, as one field manager.
pub(crate) struct Writer {
    client: Client,
    manager: &'static str,
}

impl Writer {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Reads the object at a path; `None` if there is none.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Value>, Failed> {
        match self.send(Method::GET, path, JSON, &Value::Null).await {
            Err(error) if error.code() == Some(404) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Creates an object in the collection at a path.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        self.send(Method::POST, path, JSON, body).await
    }

    /// Replaces the object, or the subresource, at a path.
    pub(crate) async fn replace(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        self.send(Method::PUT, path, JSON, body).await
    }

    /// Writes the status of an object in the collection at a path. Returns the object as it is then;
    /// `None` if it had that status, and nothing was sent.
    pub(crate) async fn put_status(
        &self,
        collection: &str,
        object: &Value,
        status: Value,
    ) -> Result<Option<Value>, Failed> {
        if object.get("status") == Some(&status) {
            return Ok(None);
        }
        let mut body = object.clone();
        set(&mut body, &["status"], status);
        let path = format!("{collection}/{}/status", name(object));
        self.replace(&path, &body).await.map(Some)
    }

    /// Patches the object, or the subresource, at a path: a strategic merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let content = "application/strategic-merge-patch+json";
        self.send(Method::PATCH, path, content, body).await
    }

    /// Deletes the object at a path. Returns whether there was one.
    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<bool, Failed> {
        match self.send(Method::DELETE, path, JSON, options).await {
            Err(error) if error.code() == Some(404) => Ok(false),
            deleted => deleted.map(|_| true),
        }
    }

    async fn send(
        &self,
        verb: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, Failed> {
        let failed = |source| Failed::Request {
            verb: verb.clone(),
            path: path.to_owned(),
            source,
        };
        let uri = match verb {
            Method::DELETE | Method::GET => path.to_owned(),
            _ => format!("{path}?fieldManager={}", self.manager),
        };
        let request = Request::builder()
            .method(verb.clone())
            .uri(uri)
            .header("content-type", content)
            .body(match body {
                Value::Null => Vec::new(),
                body => body.to_string().into_bytes(),
            })
            .map_err(|error| failed(ClientError::HttpError(error)))?;
        self.client.request(request).await.map_err(failed)
    }
}

const JSON: &str = "application/json";

/// The path of the collection that an object is in.
pub(crate) fn collection_of(api: &str, object: &Value, plural: &str) -> String {
    collection(api, text(object, "/metadata/namespace"), plural)
}

/// The path of a namespaced collection.
pub(crate) fn collection(api: &str, namespace: &str, plural: &str) -> String {
    format!("{api}/namespaces/{namespace}/{plural}")
}
