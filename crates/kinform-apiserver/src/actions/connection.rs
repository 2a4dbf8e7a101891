//! Connections to pods, services and nodes, as admission sees them: the options in the query.
//!
//! ```text
//! POST pods/x/exec?command=ls&stdout=true ──▶ PodExecOptions ──▶ admission (CONNECT)
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/rest.go` (`ConnectResource`).

use kinform_api::Status;
use serde_json::{Map, Value};

use super::Act;
use crate::admission::Operation;
use crate::http::query::Query;

/// Asks admission about a connection.
///
/// # Errors
/// The refusal of a policy or a webhook.
pub(super) async fn admit(act: &Act<'_>) -> Result<(), Box<Status>> {
    let part = act.target.subresource.as_deref().unwrap_or_default();
    let (kind, mut object) = options(&act.target.resource.kind, part, act.request.query);
    let path = &act.target.proxied;
    if part == "proxy" && !path.is_empty() {
        object["path"] = Value::from(path.as_str());
    }
    let asked = (Operation::Connect, Value::Null);
    act.admitted(["", "v1", &kind], asked, object, |_| {})
        .await
        .map(drop)
}

/// The kind of the options of a connection, and the options.
fn options(of: &str, part: &str, query: &Query) -> (String, Value) {
    let word = match part {
        "exec" => "Exec",
        "attach" => "Attach",
        "portforward" => "PortForward",
        _ => "Proxy",
    };
    let mut options = Map::new();
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if matches!(part, "exec" | "attach") && query.flag(name) == Some(true) {
            options.insert(name.to_owned(), Value::Bool(true));
        }
    }
    for name in ["container", "path"] {
        if let Some(value) = query.get(name).filter(|value| !value.is_empty()) {
            options.insert(name.to_owned(), Value::from(value));
        }
    }
    let command: Vec<&str> = query.all("command").collect();
    if part == "exec" && !command.is_empty() {
        options.insert("command".to_owned(), Value::from(command));
    }
    let ports = query
        .all("ports")
        .filter_map(|port| port.parse::<i64>().ok());
    let ports: Vec<i64> = ports.collect();
    if part == "portforward" && !ports.is_empty() {
        options.insert("ports".to_owned(), Value::from(ports));
    }
    (format!("{of}{word}Options"), Value::Object(options))
}
