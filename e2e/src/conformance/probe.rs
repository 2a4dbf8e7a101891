//! Sends one row's requests to one server and records the answers.
//!
//! ```text
//! row ──"~/configmaps/x"──▶ Probe ──request──▶ server ──▶ Answer | Watch
//!                             └──masked──▶ transcript
//! ```
//!
//! In paths, `~/` stands for the row's namespace in the core group, `~apps/v1/` for the same in
//! another group, `{ns}` for its name. No request is retried: an answer is the server's own.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kinform::source::{ClientOptions, client_for};
use kinform_testkit::checks::stage::StageError;
use kube_client::client::Body;
use kube_client::{Client, Config};
use serde_json::{Value, json};

use super::mask;
use crate::servers::{History, Host};

/// The time that any request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why a row failed.
#[derive(Debug)]
pub(super) struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(format!("{error}: {error:?}"))
    }
}

/// A failure with these words.
pub(super) fn failure(words: impl Into<String>) -> Failure {
    Failure(words.into())
}

/// Fails unless both are the same.
pub(super) fn same<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(
    what: &str,
    seen: T,
    wanted: U,
) -> Result<(), Failure> {
    if seen == wanted {
        return Ok(());
    }
    Err(Failure(format!(
        "{what}: {seen:?}, and it should be {wanted:?}"
    )))
}

/// Fails unless it holds.
pub(super) fn holds(what: &str, it: bool) -> Result<(), Failure> {
    if it {
        Ok(())
    } else {
        Err(failure(format!("not so: {what}")))
    }
}

/// The client of one row.
pub(super) struct Probe {
    client: Client,
    config: Config,
    /// The row's namespace.
    pub(super) namespace: String,
    history: History,
    transcript: Mutex<Vec<String>>,
}

impl Probe {
    pub(super) fn new(host: &Host, namespace: String) -> Result<Self, StageError> {
        Ok(Self {
            client: host.client()?,
            config: host.config(),
            namespace,
            history: host.history(),
            transcript: Mutex::default(),
        })
    }

    /// Makes the row's namespace.
    pub(super) async fn begin(&self) -> Result<(), Failure> {
        let name = &self.namespace;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &object).await?.code(201)?;
        self.lines().clear();
        Ok(())
    }

    /// The recorded transcript.
    pub(super) fn transcript(&self) -> Vec<String> {
        self.lines().clone()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.transcript
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: &str) {
        self.lines().push(line.replace(&self.namespace, "{ns}"));
    }

    /// Drops the transcript so far, which depends on timing, from the comparison.
    pub(super) fn forget(&self) {
        self.lines().clear();
    }

    fn expand(&self, path: &str) -> String {
        let namespace = &self.namespace;
        let path = path.replace("{ns}", namespace);
        let Some(rest) = path.strip_prefix('~') else {
            return path;
        };
        match rest.strip_prefix('/') {
            Some(rest) => format!("/api/v1/namespaces/{namespace}/{rest}"),
            None => {
                let mut parts = rest.splitn(3, '/');
                let mut next = || parts.next().unwrap_or_default();
                let (group, version, rest) = (next(), next(), next());
                format!("/apis/{group}/{version}/namespaces/{namespace}/{rest}")
            }
        }
    }

    /// Sends a request.
    pub(super) async fn ask(&self, question: Question<'_>) -> Result<Answer, Failure> {
        let path = self.expand(question.path);
        let response = self.send(&question, &path).await?;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await;
        let body = body.map_err(|_| failure(format!("{path}: the body did not end")))??;
        let answer = Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes(),
        };
        let told = answer.told();
        let asked = question.path.split("continue=").next().unwrap_or_default();
        self.note(&format!(
            "{} {} → {told}",
            question.method,
            mask::text(asked)
        ));
        Ok(answer)
    }

    async fn send(
        &self,
        question: &Question<'_>,
        path: &str,
    ) -> Result<http::Response<Body>, Failure> {
        let mut request = Request::builder().method(question.method).uri(path);
        let accept = question.accept.unwrap_or("application/json");
        request = request.header(ACCEPT, accept);
        if let Some(media) = question.media {
            request = request.header(CONTENT_TYPE, media);
        }
        let request = request.body(Body::from(question.body.to_vec()))?;
        let response = tokio::time::timeout(PATIENCE, self.client.send(request)).await;
        let response = response.map_err(|_| failure(format!("{path}: no answer")))?;
        Ok(response?)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.ask(Question::new("GET", path)).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Answer, Failure> {
        let accept = Some(accept);
        self.ask(Question {
            accept,
            ..Question::new("GET", path)
        })
        .await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.write("POST", path, "application/json", body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.write("PUT", path, "application/json", body).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.write("PATCH", path, "application/merge-patch+json", body)
            .await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.ask(Question::new("DELETE", path)).await
    }

    pub(super) async fn delete_by(&self, path: &str, options: &Value) -> Result<Answer, Failure> {
        self.write("DELETE", path, "application/json", options)
            .await
    }

    pub(super) async fn write(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        let text = body.to_string().replace("{ns}", &self.namespace);
        let (media, body) = (Some(media), text.as_bytes());
        self.ask(Question {
            media,
            body,
            ..Question::new(method, path)
        })
        .await
    }

    /// A config map, made.
    pub(super) async fn map(&self, name: &str, data: &str) -> Result<Value, Failure> {
        self.post("~/configmaps", &config_map(name, data))
            .await?
            .code(201)
    }

    /// A watch, accepted.
    pub(super) async fn watch(&self, path: &str) -> Result<Watch<'_>, Failure> {
        self.watch_as(path, "application/json").await
    }

    pub(super) async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch<'_>, Failure> {
        let (whole, accept) = (self.expand(path), Some(accept));
        let question = Question {
            accept,
            ..Question::new("GET", path)
        };
        let response = self.send(&question, &whole).await?;
        let code = response.status().as_u16();
        self.note(&format!("WATCH {} → {code}", mask::text(path)));
        let headers = response.headers().clone();
        if code != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            return Err(failure(format!(
                "{path}: {code}: {}",
                String::from_utf8_lossy(&body)
            )));
        }
        Ok(Watch {
            probe: self,
            headers,
            stream: response
                .into_body()
                .into_data_stream()
                .map(|chunk| chunk.map_err(Into::into))
                .boxed(),
            buffer: Vec::new(),
        })
    }

    /// Asks with another token; `None` sends no token.
    pub(super) async fn as_somebody_else(
        &self,
        token: Option<&str>,
        path: &str,
    ) -> Result<Answer, Failure> {
        let mut config = self.config.clone();
        let token = token.map_or_else(|| json!({}), |token| json!({ "token": token }));
        config.auth_info = serde_json::from_value(token)?;
        let client = client_for(config, &ClientOptions::default().with_rate_limit(0, 0))?;
        let other = Self {
            client,
            ..self.beside()
        };
        let answer = other.ask(Question::new("GET", path)).await?;
        self.lines().extend(other.transcript());
        Ok(answer)
    }

    /// The same probe with an empty transcript.
    fn beside(&self) -> Self {
        Self {
            client: self.client.clone(),
            config: self.config.clone(),
            namespace: self.namespace.clone(),
            history: self.history.clone(),
            transcript: Mutex::default(),
        }
    }

    /// The encoding of an answer for a client that accepts gzip.
    pub(super) async fn compressed(&self, path: &str) -> Result<String, Failure> {
        let request = Request::get(self.expand(path)).header(ACCEPT_ENCODING, "gzip");
        let response = self.client.send(request.body(Body::empty())?).await?;
        let encoding = response.headers().get(CONTENT_ENCODING);
        Ok(encoding
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned())
    }

    /// The code of a conditional request's answer.
    pub(super) async fn unless_it_is(
        &self,
        tag: &str,
        path: &str,
        accept: &str,
    ) -> Result<u16, Failure> {
        let request = Request::get(path)
            .header(ACCEPT, accept)
            .header(IF_NONE_MATCH, tag);
        let response = self.client.send(request.body(Body::empty())?).await?;
        Ok(response.status().as_u16())
    }

    /// Forgets the history up to a version.
    pub(super) async fn compact(&self, version: u64) -> Result<(), Failure> {
        let forgotten = self.history.forget(version).await;
        forgotten.map_err(|why| failure(why.to_string()))
    }
}

/// A config map.
pub(super) fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "row"}},
        "data": {"k": data}})
}

/// A request before it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) accept: Option<&'a str>,
    pub(super) media: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl<'a> Question<'a> {
    pub(super) fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            accept: None,
            media: None,
            body: b"",
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    code: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    fn told(&self) -> String {
        let media = self.header("content-type");
        let body = match serde_json::from_slice::<Value>(&self.body) {
            Ok(mut value) => {
                mask::value(&mut value);
                value.to_string()
            }
            Err(_) if media.starts_with("text/plain") => {
                mask::text(&String::from_utf8_lossy(&self.body))
            }
            Err(_) => String::new(),
        };
        format!("{} {media} {body}", self.code)
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body, if this is the code.
    pub(super) fn code(&self, wanted: u16) -> Result<Value, Failure> {
        if self.code == wanted {
            return Ok(self.json());
        }
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(400).collect();
        Err(failure(format!(
            "the code is {}, and it should be {wanted}: {body}",
            self.code
        )))
    }

    /// The refusal, if it is this one.
    pub(super) fn refused(&self, code: u16, reason: &str) -> Result<Value, Failure> {
        let status = self.code(code)?;
        same("the kind", status["kind"].as_str(), Some("Status"))?;
        let seen = status["reason"].as_str().unwrap_or_default();
        same(&format!("the reason of {status}"), seen, reason)?;
        Ok(status)
    }

    /// The refusal, if it is this one and its message has these words.
    pub(super) fn says(&self, code: u16, reason: &str, words: &str) -> Result<Value, Failure> {
        let status = self.refused(code, reason)?;
        let message = status["message"].as_str().unwrap_or_default();
        holds(
            &format!("{message:?} says {words:?}"),
            message.contains(words),
        )?;
        Ok(status)
    }
}

/// The version of an object or a list.
pub(super) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// The names of a list's items, in their order.
pub(super) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

/// An open watch.
pub(super) struct Watch<'a> {
    probe: &'a Probe,
    pub(super) headers: HeaderMap,
    stream: BoxStream<'a, Result<Bytes, Failure>>,
    buffer: Vec<u8>,
}

impl Watch<'_> {
    /// The next event but bookmarks; fails if none comes.
    pub(super) async fn next(&mut self) -> Result<Value, Failure> {
        loop {
            let event = self.any().await?;
            if event["type"] != "BOOKMARK" {
                return Ok(event);
            }
        }
    }

    /// The next event of any type; fails if none comes.
    pub(super) async fn any(&mut self) -> Result<Value, Failure> {
        let event = self.within(PATIENCE).await?;
        let event = event.ok_or_else(|| failure("the watch ended"))?;
        let mut masked = event.clone();
        mask::value(&mut masked);
        self.probe.note(&format!("  {masked}"));
        Ok(event)
    }

    /// The next event, which has to be of this type and name.
    pub(super) async fn sees(&mut self, wanted: &str, name: &str) -> Result<Value, Failure> {
        let event = self.next().await?;
        let seen = (
            event["type"].as_str(),
            event["object"]["metadata"]["name"].as_str(),
        );
        same(
            &format!("the event {event}"),
            seen,
            (Some(wanted), Some(name)),
        )?;
        Ok(event["object"].clone())
    }

    /// The next event, which has to be a bookmark.
    pub(super) async fn bookmark(&mut self) -> Result<Value, Failure> {
        let event = self.any().await?;
        same(
            &format!("the event {event}"),
            event["type"].as_str(),
            Some("BOOKMARK"),
        )?;
        Ok(event["object"].clone())
    }

    /// The bookmark that ends the initial events.
    pub(super) async fn initial_end(&mut self) -> Result<Value, Failure> {
        let object = self.bookmark().await?;
        let mark = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
        same("the annotation", mark.as_str(), Some("true"))?;
        Ok(object)
    }

    /// Asserts that only bookmarks come for a moment.
    pub(super) async fn is_quiet(&mut self) -> Result<(), Failure> {
        let moment = tokio::time::timeout(Duration::from_millis(400), async {
            loop {
                match self.within(PATIENCE).await? {
                    Some(event) if event["type"] == "BOOKMARK" => {}
                    other => return Ok::<_, Failure>(other),
                }
            }
        });
        match moment.await {
            Err(_) => Ok(()),
            Ok(Ok(None)) => Err(failure("the watch ended")),
            Ok(Ok(Some(event))) => Err(failure(format!("nothing should come, and {event} did"))),
            Ok(Err(why)) => Err(why),
        }
    }

    /// Asserts that the stream ends cleanly, with only bookmarks before.
    pub(super) async fn ends(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.within(PATIENCE).await? {
            same(
                &format!("the event {event}"),
                event["type"].as_str(),
                Some("BOOKMARK"),
            )?;
        }
        self.probe.note("  ends");
        Ok(())
    }

    async fn within(&mut self, patience: Duration) -> Result<Option<Value>, Failure> {
        let line = tokio::time::timeout(patience, self.line()).await;
        let line = line.map_err(|_| failure("no event came"))??;
        line.map(|line| Ok(serde_json::from_slice(&line)?))
            .transpose()
    }

    /// A line; `None` at a clean end.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(at + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            match self.stream.next().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk?),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(failure("the stream ended inside an event")),
            }
        }
    }
}
