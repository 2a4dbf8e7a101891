//! Values that differ from run to run, made alike: uids, versions, times, generated names, ports.

use std::collections::HashMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Map, Value};

use super::hook::Hook;

/// The ports and the bundle of the recording.
const PORTS: [&str; 2] = ["39443", "39444"];
const BUNDLE: &str = "Q0FCVU5ETEU=";

/// A recorded body as it is sent here.
pub(super) fn sent(hook: &Hook, body: &str) -> String {
    let body = body.replace(BUNDLE, &STANDARD.encode(&hook.bundle));
    ports_here(hook.ports, &body)
}

/// A text with the ports of this run.
pub(super) fn ports_here(ports: [u16; 2], text: &str) -> String {
    let mut text = text.to_owned();
    for (recorded, port) in PORTS.iter().zip(ports) {
        text = text.replace(recorded, &port.to_string());
    }
    text
}

/// A recorded call without what is not compared.
pub(super) fn plain(call: &Value) -> Value {
    let mut plain = Map::new();
    for name in ["path", "query", "method", "headers", "request"] {
        let mut value = call[name].clone();
        if name == "query" && value == "" {
            value = Value::Null;
        }
        if let Some(headers) = value.as_object_mut().filter(|_| name == "headers") {
            headers.retain(|_, value| !value.is_null());
        }
        plain.insert(name.to_owned(), value);
    }
    Value::Object(plain)
}

/// The events of a watch as a list, any other body as it is.
pub(super) fn events(body: &Value) -> Value {
    let Some(text) = body.as_str() else {
        return body.clone();
    };
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let events: Result<Vec<Value>, _> = lines.collect();
    events.map_or_else(|_| body.clone(), Value::from)
}

/// The versions in a recorded body and in the body of here, pairwise.
pub(super) fn versions(recorded: &Value, here: &Value, known: &mut HashMap<String, String>) {
    match (recorded, here) {
        (Value::Object(recorded), Value::Object(here)) => {
            for (name, was) in recorded {
                let Some(is) = here.get(name) else { continue };
                if let ("resourceVersion", Some(was), Some(is)) =
                    (name.as_str(), was.as_str(), is.as_str())
                {
                    known.insert(was.to_owned(), is.to_owned());
                }
                versions(was, is, known);
            }
        }
        (Value::Array(recorded), Value::Array(here)) => {
            for (was, is) in recorded.iter().zip(here) {
                versions(was, is, known);
            }
        }
        _ => {}
    }
}

/// A request with the versions of here.
pub(super) fn with_versions(request: &Value, known: &HashMap<String, String>) -> Value {
    let mut request = request.clone();
    let path = request["path"].as_str().unwrap();
    if let Some((before, after)) = path.split_once("resourceVersion=") {
        let (was, rest) = after.split_once('&').unwrap_or((after, ""));
        if let Some(is) = known.get(was) {
            request["path"] = Value::from(format!("{before}resourceVersion={is}&{rest}"));
        }
    }
    let was = request["body"]["metadata"]["resourceVersion"].as_str();
    if let Some(is) = was.and_then(|was| known.get(was)) {
        request["body"]["metadata"]["resourceVersion"] = Value::from(is.as_str());
    }
    request
}

/// A value in which everything that differs from run to run is alike.
pub(super) fn normal(hook: &Hook, value: &Value) -> Value {
    static UID: OnceLock<Regex> = OnceLock::new();
    static TIME: OnceLock<Regex> = OnceLock::new();
    static GENERATED: OnceLock<Regex> = OnceLock::new();
    static TOKEN: OnceLock<Regex> = OnceLock::new();
    let uid = UID.get_or_init(|| {
        Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
    });
    let time = TIME.get_or_init(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
    let mut text = value.to_string();
    for (recorded, port) in PORTS.iter().zip(hook.ports) {
        text = text.replace(&port.to_string(), recorded);
    }
    let text = text.replace(&STANDARD.encode(&hook.bundle), BUNDLE);
    let text = uid.replace_all(&text, "UID");
    let text = time.replace_all(&text, "TIME");
    let text = GENERATED
        .get_or_init(|| Regex::new("\"(gen|kube-api-access)-[a-z0-9]{5}\"").unwrap())
        .replace_all(&text, "\"$1-XXXXX\"");
    let text = TOKEN
        .get_or_init(|| Regex::new(r#""eyJ[\w.-]+""#).unwrap())
        .replace_all(&text, "\"TOKEN\"");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            members.remove("resourceVersion");
            let owners = members
                .get_mut("managedFields")
                .and_then(Value::as_array_mut);
            if let Some(owners) = owners {
                // They are sorted by time: writes of one second by name.
                owners.sort_by_key(Value::to_string);
            }
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}
