//! A server's own paths, for tests that reach it over a socket: faults, history, watches, the
//! journal.
//!
//! ```text
//! METHOD /__kinform/WORD?parameters ──administrator?──▶ act ──▶ JSON
//! ```
//!
//! They do what the handle of a server does in its own process. They exist only if the server was
//! built with them, and require the administrator's token. Their requests are not in the journal
//! and meet no fault, so that a fault can always be removed.
//!
//! * `rule.rs`: rules of faults as text.

mod rule;

use http::{Method, Response, StatusCode};
use kinform_api::Status;
use serde_json::{Value, json};

pub use self::rule::InvalidRule;
use crate::fault::FaultRule;
use crate::http::body::Body;
use crate::http::body::Incoming;
use crate::http::negotiate::Encoding;
use crate::http::query::Query;
use crate::http::reply;
use crate::state::State;

const PREFIX: &str = "/__kinform";

/// Paths of the administration API and the methods of each.
const WORDS: [(&str, &[Method]); 12] = [
    ("", &[Method::GET]),
    ("faults", &[Method::GET, Method::POST, Method::DELETE]),
    ("journal", &[Method::GET, Method::DELETE]),
    ("compact", &[Method::POST]),
    ("expire", &[Method::POST]),
    ("advance", &[Method::POST]),
    ("cut", &[Method::POST]),
    ("stall", &[Method::POST]),
    ("resume", &[Method::POST]),
    ("lag", &[Method::POST]),
    ("catch-up", &[Method::POST]),
    ("silence", &[Method::POST]),
];

/// Name of an administration path; `None` for other paths.
pub(crate) fn word(path: &str) -> Option<&str> {
    match path.strip_prefix(PREFIX)? {
        "" => Some(""),
        rest => rest
            .strip_prefix('/')
            .map(|word| word.trim_end_matches('/')),
    }
}

/// Answers an administrator.
pub(crate) async fn answer(
    state: &State,
    method: &Method,
    (word, query): (&str, &Query),
    body: Incoming<'_>,
) -> Response<Body> {
    match act(state, method, (word, query), body).await {
        Ok(value) => reply::value(StatusCode::OK, Encoding::Json, &value),
        Err(status) => reply::status(&status, Encoding::Json),
    }
}

async fn act(
    state: &State,
    method: &Method,
    (word, query): (&str, &Query),
    body: Incoming<'_>,
) -> Result<Value, Status> {
    let Some((_, methods)) = WORDS.iter().find(|(known, _)| *known == word) else {
        return Err(Status::no_such_resource());
    };
    if !methods.contains(method) {
        return Err(Status::method_not_allowed());
    }
    let (store, faults) = (&state.store, &state.faults);
    let begun = store.begin();
    match (word, method) {
        ("faults", &Method::POST) => inject(state, &body.await?)?,
        ("faults", &Method::DELETE) => {
            faults.clear();
            store.wake_all();
        }
        ("journal", &Method::GET) => return journal(state, query),
        ("journal", _) => state.journal.clear(),
        ("compact", _) => drop(store.compact(number(query, "revision")?)),
        ("expire", _) => drop(store.compact(u64::MAX)),
        ("advance", _) => drop(store.advance(number(query, "by")?)),
        ("cut", _) => store.end_all_watches(),
        ("stall", _) => faults.stall_watches(),
        ("resume", _) => faults.resume_watches(),
        ("silence", _) => faults.without_bookmarks(),
        ("lag", _) => faults.set_replica(Some(store.revision())),
        ("catch-up", _) => {
            faults.set_replica(None);
            store.wake_all();
        }
        _ => {}
    }
    store.settled(begun).await?;
    Ok(summary(state))
}

/// The revisions, faults and requests of the server.
fn summary(state: &State) -> Value {
    let rules = state.faults.rules();
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let records = state.journal.records();
    let open = |record: &&crate::journal::Record| record.verb == "watch" && record.ended.is_none();
    json!({
        "revision": state.store.revision(),
        "floor": state.store.floor(),
        "faults": rules,
        "openWatches": records.iter().filter(open).count(),
        "requests": records.len(),
    })
}

/// Injects all rules of a text, one a line; if one of them is invalid, injects no rule at all.
fn inject(state: &State, text: &[u8]) -> Result<(), Status> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Status::bad_request("rules are text, one a line".to_owned()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let rules: Result<Vec<FaultRule>, InvalidRule> = lines.map(str::parse).collect();
    for rule in rules.map_err(|error| Status::bad_request(error.to_string()))? {
        state.faults.inject(rule);
    }
    Ok(())
}

fn journal(state: &State, query: &Query) -> Result<Value, Status> {
    let is = |name: &str, value: &str| query.get(name).is_none_or(|wanted| wanted == value);
    let open = query.flag("open");
    let records = state.journal.records();
    let shown = records.iter().filter(|record| {
        is("verb", record.verb)
            && is("resource", &record.resource)
            && is("namespace", record.namespace.as_deref().unwrap_or_default())
            && is("name", record.name.as_deref().unwrap_or_default())
            && open.is_none_or(|open| open == record.ended.is_none())
    });
    let shown: Vec<Value> = shown.map(crate::journal::Record::to_json).collect();
    Ok(json!({"records": shown}))
}

fn number(query: &Query, name: &str) -> Result<u64, Status> {
    query
        .text(name)
        .parse()
        .map_err(|_| Status::bad_request(format!("{name} must be a number")))
}
