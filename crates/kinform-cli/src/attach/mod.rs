//! The way to a running program: a client of its inspector's JSON.
//!
//! ```text
//! --attach URL | HOST:PORT | FILE ─▶ Attach ─GET /debug/kinform/v1/VIEW─▶ reply as T │ Trouble ─▶ Failure
//! ```
//!
//! * `address.rs`: the address and the token; the files that programs wrote;
//! * `kept.rs`: an object of the program, by the words of a command;
//! * `trouble.rs`: troubles, each as one line with a remedy.
//!
//! The token is sent to loopback alone, and stands in no message. No proxy is asked. Fields that this
//! command does not know are ignored, and those that an older program does not send have defaults.
//!
//! BOUND: 5 s a request, 15 s one that walks over all objects or asks the API server; 16 MiB a reply.
//!
//! Upstream counterpart: none.

mod address;
mod kept;
mod trouble;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kinform_operator::inspect::VERSION;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::address::Address;
pub(crate) use self::kept::Kept;
pub(crate) use self::trouble::Trouble;
use crate::exit::Failure;
use crate::terminal::visible;

/// BOUND: the time for a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// BOUND: the time for a reply that takes a walk over all objects, or a read from the API server.
const LONG_PATIENCE: Duration = Duration::from_secs(15);
/// BOUND: bytes of a reply.
const REPLY: usize = 16 << 20;
/// BOUND: bytes of a refusal.
const REFUSAL: usize = 64 << 10;
/// BOUND: letters of a refusal that are shown.
const LETTERS: usize = 200;

/// A running program whose inspector answers.
pub(crate) struct Attach {
    address: Address,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// The part of every reply by which an inspector is known.
#[derive(Deserialize)]
struct Sign {
    version: String,
}

impl Attach {
    /// The program of the flag `--attach`, or the only one of this user that wrote its address into a
    /// file.
    ///
    /// # Errors
    /// As [`Attach::parse`]; there is no such file, or more than one (exit code 1).
    pub(crate) fn of(flag: Option<&str>) -> Result<Self, Failure> {
        match flag {
            Some(text) => Self::parse(text),
            None => Ok(Self::to(address::find()?)),
        }
    }

    /// The program at the address of an inspector's page, at `HOST:PORT`, or in the file that a program
    /// wrote. The token is in the address, or else in the variable `KINFORM_TOKEN`.
    ///
    /// # Errors
    /// It is none of these: wrong usage, exit code 2.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let token = std::env::var("KINFORM_TOKEN");
        Ok(Self::to(address::read(text, token.ok())?))
    }

    fn to(address: Address) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(1)
            .build_http();
        Self { address, client }
    }

    /// Host and port.
    pub(crate) fn place(&self) -> &str {
        &self.address.place
    }

    /// Asks for a view, as `queues` with `[("controller", "web")]`.
    ///
    /// # Errors
    /// No reply, or a reply that this command does not understand: a line with a remedy.
    ///
    /// # Cancel safety
    /// The request is given up.
    pub(crate) async fn view<T: DeserializeOwned>(
        &self,
        view: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let asked = self.ask(view, query).await;
        asked.map_err(|trouble| self.failure(&trouble))
    }

    /// The same, for callers that tell one kind of trouble from another.
    ///
    /// # Errors
    /// As [`Attach::view`].
    ///
    /// # Cancel safety
    /// The request is given up.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        view: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Trouble> {
        let is_long = matches!(view, "memory" | "objects")
            || query.iter().any(|(name, _)| *name == "managers");
        let patience = if is_long { LONG_PATIENCE } else { PATIENCE };
        let body = tokio::time::timeout(patience, self.body(view, query));
        let body = body.await.map_err(|_| Trouble::Silent(patience))??;
        let sign: Sign = serde_json::from_slice(&body)
            .map_err(|_| Trouble::Foreign("a reply without a version".to_owned()))?;
        if sign.version != VERSION {
            return Err(Trouble::Version(clipped(sign.version.as_bytes())));
        }
        serde_json::from_slice(&body)
            .map_err(|error| Trouble::Unreadable(clipped(error.to_string().as_bytes())))
    }

    /// A trouble as the end of the command.
    pub(crate) fn failure(&self, trouble: &Trouble) -> Failure {
        trouble.failure(&self.address.place, &self.address.token)
    }

    async fn body(&self, view: &str, query: &[(&str, &str)]) -> Result<Bytes, Trouble> {
        let place = &self.address.place;
        let mut uri = format!("http://{place}/debug/kinform/{VERSION}/{view}");
        for (number, (name, value)) in query.iter().enumerate() {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            let mark = if number == 0 { '?' } else { '&' };
            uri.push_str(&format!("{mark}{name}={value}"));
        }
        let mut request = Request::get(uri)
            .header(HOST, place)
            .header(ACCEPT, "application/json");
        if let Some(token) = self.address.token.text() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        // The address was parsed, the query is encoded, and a token has letters of a header alone.
        let request = request
            .body(Empty::new())
            .map_err(|error| Trouble::Unreadable(error.to_string()))?;
        let response = self.client.request(request).await;
        let response = response.map_err(|error| Trouble::of_request(&error))?;
        let status = response.status();
        if status == StatusCode::OK {
            return whole(response.into_body(), REPLY).await;
        }
        let is_busy = response.headers().contains_key(http::header::RETRY_AFTER);
        let text = whole(response.into_body(), REFUSAL)
            .await
            .unwrap_or_default();
        Err(Trouble::of_status(status, is_busy, clipped(&text)))
    }
}

/// The body, up to a limit.
async fn whole(body: Incoming, most: usize) -> Result<Bytes, Trouble> {
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Trouble::TooLarge),
        Err(error) => Err(Trouble::Gone(error.to_string())),
    }
}

/// The first line of a text, as far as it is shown.
fn clipped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().unwrap_or_default().trim();
    visible(&line.chars().take(LETTERS).collect::<String>()).into_owned()
}

impl fmt::Debug for Attach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attach")
            .field("place", &self.address.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_refusal_is_a_line_that_controls_no_terminal() {
        assert_eq!(clipped(b" no\x1b[2J\nmore"), "no\u{fffd}[2J");
        assert_eq!(clipped(&[b'a'; 1_000]).len(), LETTERS);
        assert_eq!(clipped(b""), "");
    }

    /// The result of a reply.
    async fn told(reply: &str) -> Result<String, Trouble> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let attach = Attach::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let count = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            // The client may have closed its side of a reply that it does not want.
            let _ = stream.write_all(reply.as_bytes()).await;
            drop(stream);
            head
        };
        let query = [("cache", "a b&c"), ("name", "x")];
        let (head, asked) =
            futures::join!(answer, attach.ask::<serde_json::Value>("object", &query));
        let path = "/debug/kinform/v1/object?cache=a%20b%26c&name=x HTTP/1.1\r\n";
        assert!(head.contains(path), "{head}");
        asked.map(|json| json.to_string())
    }

    #[tokio::test]
    async fn a_reply_is_an_inspectors_of_this_version_or_a_trouble() {
        let ok = |body: &str| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        let json = r#"{"version":"v1"}"#;
        assert_eq!(told(&ok(json)).await, Ok(json.to_owned()));
        let foreign = Trouble::Foreign("a reply without a version".to_owned());
        for body in ["<html>", "{}", "[]", ""] {
            assert_eq!(told(&ok(body)).await, Err(foreign.clone()), "{body}");
        }
        let other = ok(r#"{"version":"v0\u001b"}"#);
        let expected = Trouble::Version("v0\u{fffd}".to_owned());
        assert_eq!(told(&other).await, Err(expected));
        let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(REPLY + 1));
        assert_eq!(told(&large).await, Err(Trouble::TooLarge));
        let alert = "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{46}";
        let expected = Trouble::Foreign("not HTTP".to_owned());
        assert_eq!(told(alert).await, Err(expected));
        for cut in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"] {
            let trouble = told(cut).await.unwrap_err();
            assert!(matches!(trouble, Trouble::Gone(_)), "{trouble:?}");
        }
        let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n";
        let expected = Trouble::Forbidden("no".to_owned());
        assert_eq!(told(refused).await, Err(expected));
    }

    #[test]
    fn the_token_is_not_in_what_is_printed_of_it() {
        let attach = Attach::parse("http://127.0.0.1:1/debug/kinform/#token=canary").unwrap();
        assert!(!format!("{attach:?}").contains("canary"));
        let trouble = Trouble::of_status(StatusCode::UNAUTHORIZED, false, String::new());
        assert!(!attach.failure(&trouble).to_string().contains("canary"));
    }
}
