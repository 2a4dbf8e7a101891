//! Writes that a real server completes or refuses, compared with its replies.
//!
//! ```text
//! defaults.jsonl.gz -> create each -> the same object      invalid.jsonl.gz -> the same code, reason and words
//! ```
//!
//! A seeded generator (`e2e/invalid/record.py`) makes the second file out of the first: members
//! removed, doubled, unknown, of another type, out of bounds. Codes must be equal except for the
//! rows listed here. A share of the messages must be equal: some show a real server's own structs.

use std::collections::BTreeMap;

use kinform_apiserver::{AdmissionPlugins, Server, Service};
use serde_json::Value;

use super::comparison::{Comparison, Objects};
use super::recorded::{Exchange, exchanges, send};

/// Reason why three of the rows differ.
const AGGREGATED: &str =
    "the rules of an aggregating role are gathered here, as a controller does there";

/// Rows whose code differs, and the reasons.
const DIFFERENT_CODES: [(&str, &str); 5] = [
    (
        "invalid/clusterrole.update-0.empty:aggregationRule",
        AGGREGATED,
    ),
    (
        "invalid/clusterrole.update-1.value:rules.0.verbs.0",
        AGGREGATED,
    ),
    ("invalid/clusterrole.patch-1.unknown:rules.0", AGGREGATED),
    (
        "invalid/controllerrevision.patch-0.empty:data",
        "upstream compares the data's bytes before and after decoding; they are the same here",
    ),
    (
        "invalid/hpa.update-0.empty:spec.behavior.scaleDown.policies",
        "an empty list of a built-in is none here, and gets the default",
    ),
];

/// Minimum percentage of messages that equal the recorded ones.
const SAME_MESSAGES: usize = 90;

/// Values that a server generated, as recorded and as ours, in requests' text.
#[derive(Default)]
struct Chosen {
    words: Vec<(String, String)>,
    /// Creation time of an object, there and here. Many were recorded within one second.
    times: BTreeMap<String, (String, String)>,
}

impl Chosen {
    /// Learns generated values from the same object on both sides.
    fn learn(&mut self, recorded: &Value, ours: &Value) {
        let times = (created(recorded).to_owned(), created(ours).to_owned());
        self.times.insert(named(recorded), times);
        for pointer in ["/metadata/uid", "/spec/clusterIP"] {
            if let (Some(Value::String(a)), Some(Value::String(b))) =
                (recorded.pointer(pointer), ours.pointer(pointer))
                && a != b
            {
                self.words.push((a.clone(), b.clone()));
            }
        }
        for (pointer, name) in [
            ("/metadata/resourceVersion", "resourceVersion"),
            ("/spec/ports/0/nodePort", "nodePort"),
        ] {
            if let (Some(a), Some(b)) = (recorded.pointer(pointer), ours.pointer(pointer)) {
                self.words
                    .push((format!("\"{name}\": {a}"), format!("\"{name}\": {b}")));
            }
        }
    }

    fn in_ours(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, ours) in &self.words {
            text = text.replace(recorded, ours);
        }
        let said = serde_json::from_str::<Value>(&text).unwrap_or_default();
        if let Some((recorded, ours)) = self.times.get(&named(&said))
            && created(&said) == recorded
        {
            text = text.replace(recorded, ours);
        }
        text
    }
}

fn named(object: &Value) -> String {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    format!("{} {}", object["kind"], name.unwrap_or_default())
}

fn created(object: &Value) -> &str {
    let time = object.pointer("/metadata/creationTimestamp");
    time.and_then(Value::as_str).unwrap_or_default()
}

/// Creates every object of the first file; returns the differences of each.
async fn create_all(service: &Service) -> (Chosen, Vec<String>, usize) {
    let (mut chosen, mut wrong) = (Chosen::default(), Vec::new());
    let rows = exchanges("defaults");
    for exchange in &rows {
        let (code, body) = send(service, exchange).await;
        let mut recorded: Value = serde_json::from_str(&exchange.body).unwrap();
        let mut ours: Value = serde_json::from_str(&body).unwrap();
        chosen.learn(&recorded, &ours);
        for object in [&mut recorded, &mut ours] {
            forget_chosen(object);
        }
        let mut found =
            Comparison::new(Objects::Written).bodies(recorded.to_string(), ours.to_string());
        if code != exchange.status {
            found.push(format!("{code}: {body}"));
        }
        if !found.is_empty() {
            wrong.push(format!("{}\n    {}", exchange.file, found.join("\n    ")));
        }
    }
    (chosen, wrong, rows.len())
}

/// Removes generated values, and the field owners, which were not recorded here.
fn forget_chosen(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let uid = object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .map(str::to_owned);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for name in ["clusterIP", "clusterIPs"] {
            if let Some(value) = spec.get_mut(name)
                && !value.to_string().contains("None")
            {
                *value = Value::from("chosen");
            }
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(number) = port.get_mut("nodePort") {
                *number = Value::from("chosen");
            }
        }
    }
    if let Some(uid) = uid {
        *object = serde_json::from_str(&object.to_string().replace(&uid, "uid")).unwrap();
    }
    if let Some(status) = object.pointer_mut("/status/lastPhaseTransitionTime") {
        *status = Value::from("now");
    }
}

#[tokio::test(start_paused = true)]
async fn new_objects_get_the_defaults_of_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .keep_inert_objects()
        .in_process();
    let (_, wrong, rows) = create_all(&server.service()).await;
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} of {rows} differ:\n{}",
        wrong.join("\n")
    );
    assert!(rows >= 80, "only {rows} rows");
}

/// The message without the parts that depend on a server's internals: diffs and values of its own
/// structs.
fn comparable(message: &str) -> String {
    let message = message.split("\n@@").next().unwrap_or_default();
    if let Some((head, rest)) = message.split_once("patch: Invalid value: \"") {
        // The message quotes the whole patch or object, followed by the error.
        let detail = rest.rfind("\": ").map_or(rest, |at| &rest[at + 3..]);
        return format!("{head}patch: {detail}");
    }
    message.trim_end_matches(']').to_owned()
}

#[derive(Default)]
struct Report {
    rows: usize,
    listed: usize,
    other_codes: Vec<String>,
    refused: usize,
    other_messages: Vec<String>,
    accepted: usize,
    other_objects: Vec<String>,
}

impl Report {
    fn row(&mut self, exchange: &Exchange, chosen: &Chosen, (code, body): (u16, &str)) {
        self.rows += 1;
        let recorded: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        let ours: Value = serde_json::from_str(body).unwrap_or_default();
        let words = |value: &Value| comparable(value["message"].as_str().unwrap_or_default());
        let (wanted, said) = (words(&recorded), words(&ours));
        if code != exchange.status {
            let listed = DIFFERENT_CODES
                .iter()
                .any(|(file, _)| *file == exchange.file);
            self.listed += usize::from(listed);
            if !listed {
                let status = exchange.status;
                self.other_codes.push(format!(
                    "{} {status} {wanted}\n    {code} {said}",
                    exchange.file
                ));
            }
            return;
        }
        if code < 300 {
            self.accepted += 1;
            let (mut recorded, mut ours) = (recorded, ours);
            forget_chosen(&mut recorded);
            forget_chosen(&mut ours);
            let found =
                Comparison::new(Objects::Written).bodies(recorded.to_string(), ours.to_string());
            if !found.is_empty() {
                self.other_objects
                    .push(format!("{}\n    {}", exchange.file, found.join("\n    ")));
            }
            return;
        }
        self.refused += 1;
        let wanted = chosen.in_ours(&wanted);
        if wanted != said || recorded["reason"] != ours["reason"] {
            self.other_messages
                .push(format!("{}\n    {wanted}\n    {said}", exchange.file));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_writes_are_refused_as_by_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .keep_inert_objects()
        .in_process();
    let service = server.service();
    let (chosen, ..) = create_all(&service).await;
    let mut report = Report::default();
    let mut kinds: BTreeMap<u16, usize> = BTreeMap::new();
    for mut exchange in exchanges("invalid") {
        let request = exchange.request.take().unwrap_or_default();
        let request = chosen.in_ours(std::str::from_utf8(&request).unwrap());
        exchange.request = Some(request.into_bytes());
        *kinds.entry(exchange.status).or_default() += 1;
        let (code, body) = send(&service, &exchange).await;
        report.row(&exchange, &chosen, (code, &body));
    }
    let Report {
        rows,
        listed,
        other_codes,
        refused,
        other_messages,
        accepted,
        other_objects,
    } = report;
    if let Ok(path) = std::env::var("KINFORM_INVALID_REPORT") {
        let text = format!(
            "{rows} rows {kinds:?}\n\n{} other codes\n{}\n\n{} of {refused} other messages\n{}\n\n{} of {accepted} other objects\n{}\n",
            other_codes.len(),
            other_codes.join("\n"),
            other_messages.len(),
            other_messages.join("\n"),
            other_objects.len(),
            other_objects.join("\n"),
        );
        std::fs::write(path, text).unwrap();
    }
    let count = other_codes.len();
    assert!(
        other_codes.is_empty(),
        "{count} of {rows} codes differ:\n{}",
        other_codes.join("\n")
    );
    assert_eq!(listed, DIFFERENT_CODES.len(), "a listed row matches");
    assert!(
        rows >= 300 && refused >= 300,
        "only {rows} rows, {refused} refused"
    );
    let same = refused - other_messages.len();
    assert!(
        same * 100 >= refused * SAME_MESSAGES,
        "{same} of {refused} messages are the same:\n{}",
        other_messages.join("\n")
    );
    let same = accepted - other_objects.len();
    assert!(
        same * 100 >= accepted * SAME_MESSAGES,
        "{same} of {accepted}:\n{}",
        other_objects.join("\n")
    );
}
