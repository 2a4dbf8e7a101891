//! The streams `exec`, `attach` and `portforward`, passed on to the kubelet of the pod's node.
//!
//! ```text
//! POST pods/x/exec, Upgrade ──pod, container, node──▶ GET|POST /exec/NS/POD/CONTAINER?.. ──▶ 101, tunnel
//! ```
//!
//! The protocols of a stream, SPDY or WebSocket, are agreed on between client and kubelet; this
//! server translates none. Of the client's headers only those of the upgrade are sent on, never a
//! credential. A kubelet that refuses is quoted.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/pod/rest/subresources.go`,
//! `kubernetes/apimachinery:pkg/util/proxy/upgradeaware.go`.

use std::collections::BTreeMap;

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{
    CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE, USER_AGENT, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;
use kinform_api::Status;

use super::{Act, kubelet, refusal};
use crate::access::{Attributes, ResourceRef, forbidden};
use crate::http::body::Body;
use crate::http::query::Query;
use crate::kubelets::{Answer, Failure, Handover};
use crate::object::text;

/// The versions of a stream over SPDY.
const STREAM_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The start of a WebSocket protocol that is a bearer token.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";
/// The names of the flags at a kubelet, by those of this API.
const FLAGS: [(&str, &str); 4] = [
    ("stderr", "error"),
    ("stdin", "input"),
    ("stdout", "output"),
    ("tty", "tty"),
];

/// Answers a request for a connection that admission has let pass.
///
/// # Errors
/// The refusal, in upstream's words.
///
/// # Cancel safety
/// The connection to the kubelet ends with the future.
pub(super) async fn connect(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let part = act.target.subresource.as_deref().unwrap_or_default();
    if part == "proxy" || !act.target.resource.is_core("pods") {
        return Err(refusal::of(act.state, act.target));
    }
    if !matches!(*act.request.method, Method::GET | Method::POST) {
        return Err(Box::new(Status::method_not_allowed()));
    }
    may_create(act, part)?;
    let (query, name) = (act.request.query, act.name());
    let pod = act.object()?.value();
    let container = match part {
        "portforward" => None,
        _ => Some(kubelet::container(&pod, name, query.text("container"))?),
    };
    let node = text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        let message = format!("pod {name} does not have a host assigned");
        return Err(Box::new(Status::bad_request(message)));
    }
    let Some(way) = kubelet::of_node(act, node)? else {
        return Err(refusal::of(act.state, act.target));
    };
    if !is_upgrade(act.request.headers) {
        return Err(Box::new(Status::bad_request("Upgrade request required")));
    }
    let namespace = act.target.namespace.as_deref().unwrap_or_default();
    let path = match &container {
        None => format!("/portForward/{namespace}/{name}"),
        Some(container) => format!("/{part}/{namespace}/{name}/{container}"),
    };
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = act.request.method.clone();
    *request.uri_mut() = format!("{path}?{}", parameters(part, query))
        .parse()
        .map_err(|error| kubelet::failed(format!("error sending request: {error}")))?;
    *request.headers_mut() = forwarded(act.request.headers);
    let told = |failure| match failure {
        Failure::Dial { why, .. } => format!("error dialing backend: {why}"),
        Failure::Reply { why, .. } => why,
        Failure::NoRoom => String::new(),
    };
    let answer = way.ask(act, request, told).await?;
    switched(answer).await
}

/// Requires the right to create: a GET runs a command, too.
fn may_create(act: &Act<'_>, part: &str) -> Result<(), Box<Status>> {
    let of = ResourceRef {
        namespace: act.target.namespace.clone().unwrap_or_default(),
        group: String::new(),
        resource: act.target.resource.plural.clone(),
        subresource: part.to_owned(),
        name: act.name().to_owned(),
    };
    let asked = Attributes::of("create", of);
    let (access, user) = (&act.state.access, act.request.user);
    match access.decide(&act.state.store, user, &asked).is_allowed {
        true => Ok(()),
        false => Err(Box::new(forbidden(user, &asked))),
    }
}

/// Returns whether a request asks for another protocol.
fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(CONNECTION).iter();
    let wants = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default();
        value.to_ascii_lowercase().contains("upgrade")
    };
    headers.contains_key(UPGRADE) && connection.any(wants)
}

/// Returns the parameters of a stream as a kubelet expects them.
fn parameters(part: &str, query: &Query) -> String {
    let mut parameters = BTreeMap::<&str, Vec<String>>::new();
    if part == "portforward" {
        let ports = query
            .all("ports")
            .filter(|port| port.parse::<i32>().is_ok());
        let ports: Vec<&str> = ports.collect();
        if !ports.is_empty() {
            parameters.insert("port", vec![ports.join(",")]);
        }
    } else {
        for (name, at_kubelet) in FLAGS {
            if query.flag(name) == Some(true) {
                parameters.insert(at_kubelet, vec!["1".to_owned()]);
            }
        }
    }
    if part == "exec" {
        let command = query.all("command").map(str::to_owned);
        parameters.insert("command", command.collect());
    }
    let mut out = Serializer::new(String::new());
    for (name, values) in parameters {
        for value in values {
            out.append_pair(name, &value);
        }
    }
    out.finish()
}

/// Returns the headers of a client that are sent on.
fn forwarded(headers: &HeaderMap) -> HeaderMap {
    let mut sent = HeaderMap::new();
    let names = [
        SEC_WEBSOCKET_EXTENSIONS,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION,
        STREAM_VERSION,
        UPGRADE,
        USER_AGENT,
    ];
    copy(&names, headers, &mut sent);
    sent.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let protocols = protocols.filter_map(|value| value.to_str().ok());
    let protocols = protocols.flat_map(|value| value.split(',')).map(str::trim);
    let protocols = protocols.filter(|protocol| !protocol.starts_with(BEARER));
    let protocols = protocols.collect::<Vec<_>>().join(", ");
    if let Some(value) = HeaderValue::from_str(&protocols)
        .ok()
        .filter(|value| !value.is_empty())
    {
        sent.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
    sent
}

fn copy(names: &[HeaderName], from: &HeaderMap, to: &mut HeaderMap) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name, value.clone());
        }
    }
}

/// Returns the reply to the client: an upgrade, or the kubelet's refusal.
async fn switched(answer: Answer) -> Result<Response<Body>, Box<Status>> {
    let (status, headers) = (answer.head.status, answer.head.headers.clone());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let tunnel = answer.upgraded().await.map_err(kubelet::failed)?;
        let mut reply = Response::new(Body::full(""));
        *reply.status_mut() = status;
        let names = [
            CONNECTION,
            SEC_WEBSOCKET_ACCEPT,
            SEC_WEBSOCKET_EXTENSIONS,
            SEC_WEBSOCKET_PROTOCOL,
            STREAM_VERSION,
            UPGRADE,
        ];
        copy(&names, &headers, reply.headers_mut());
        reply.extensions_mut().insert(Handover::new(tunnel));
        return Ok(reply);
    }
    if status.as_u16() < 400 {
        let code = status.as_u16();
        let message = format!("invalid upgrade response: status code {code}");
        return Err(kubelet::failed(message));
    }
    let mut reply = Response::new(Body::full(answer.refusal().await));
    *reply.status_mut() = status;
    copy(&[CONTENT_TYPE], &headers, reply.headers_mut());
    let nosniff = HeaderValue::from_static("nosniff");
    reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_names_of_a_kubelet() {
        let check = |part: &str, query: &str, want: &str| {
            assert_eq!(parameters(part, &Query::parse(Some(query))), want, "{part}");
        };
        let query = "command=sh&command=-c&command=a+b&container=c&stdin=true&stdout=true\
                     &stderr=false&tty=1&ports=80";
        check(
            "exec",
            query,
            "command=sh&command=-c&command=a+b&input=1&output=1&tty=1",
        );
        check("attach", query, "input=1&output=1&tty=1");
        check(
            "portforward",
            "ports=80&ports=443&stdin=1&ports=x",
            "port=80%2C443",
        );
        check("portforward", "", "");
    }

    #[test]
    fn no_credential_of_a_client_is_sent_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("impersonate-user", "secret"),
            ("x-remote-user", "secret"),
            ("sec-websocket-key", "key"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            (
                "sec-websocket-protocol",
                "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            ),
        ] {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_static(value));
        }
        assert!(is_upgrade(&headers));
        let sent = forwarded(&headers);
        let mut shown: Vec<String> = sent
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        shown.sort();
        let want = [
            "connection: Upgrade",
            "sec-websocket-key: key",
            "sec-websocket-protocol: v4.channel.k8s.io",
            "upgrade: websocket",
            "x-stream-protocol-version: v4.channel.k8s.io",
            "x-stream-protocol-version: v5.channel.k8s.io",
        ];
        assert_eq!(shown, want);
        headers.remove(UPGRADE);
        assert!(!is_upgrade(&headers));
    }
}
