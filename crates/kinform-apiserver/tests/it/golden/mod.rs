//! The server against a real one: what was asked and answered there is asked here, with the same
//! objects stored, and the answers are compared value by value.
//!
//! Rows that differ on purpose are listed with their reason. A listed row that matches fails the test,
//! so the list cannot outlive its reasons, and it may be one row in ten at most.

mod apply;
mod definitions;
mod discovery;
mod invalid;
mod life;
mod openapi;
mod recorded;
mod table;

use futures::future::join_all;
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use recorded::{
    Comparison, Exchange, OFFSET, Objects, exchanges, mapped_body, reach, request, send, server,
};

/// What differs on purpose, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "error/400-json.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "write/smp-order-mismatch.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "watch/pods.node.jsonl",
        "there is no kubelet to wait for: a pod with a grace period is gone at once",
    ),
    (
        "kinds/daemonset.table.json",
        "upstream keeps one annotation of daemon sets as a field, which no table shows",
    ),
    (
        "definitions/refused.status-root.json",
        "a schema that is refused is shown as it was sent, not as Go's structs",
    ),
    (
        "definitions/refused.two-storage.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/refused.no-storage.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/refused.twice-the-version.json",
        "versions that are refused are shown as they were sent, not as Go's structs",
    ),
    (
        "definitions/muls.patch-v2.json",
        "the owner of a field that the stored version does not have is still told",
    ),
    (
        "definitions/muls.after.json",
        "the owner of a field that the stored version does not have is still told",
    ),
    (
        "definitions/muls.deprecated.json",
        "the owner of a field that the stored version does not have is still told",
    ),
    (
        "definitions/typs.no-kind.json",
        "a body is never repeated in a message: it may hold a secret",
    ),
    (
        "definitions/rats.changed-number.json",
        "what did not change is not warned of where something else is refused",
    ),
    (
        "definitions/rats.map-one.json",
        "what did not change is not warned of where something else is refused",
    ),
    (
        "definitions/webhooks.define.json",
        "no webhook is called: one that converts is refused, not stored and ignored",
    ),
    (
        "kinds/controllerrevision.meta-patch.json",
        "upstream compares the data's bytes before and after decoding; they are the same here",
    ),
    (
        "kinds/csr-invalid.create.json",
        "the certificate in a signing request is not looked into",
    ),
    (
        "discovery/version.json",
        "the release says which build of ours it is, and that it is not written in Go",
    ),
    (
        "discovery/root.json",
        "checks of parts that are not here have no paths, nor have keys of service accounts",
    ),
    (
        "apply/refused-16.json",
        "what a parser says of malformed YAML is its own",
    ),
    (
        "apply/refused-19.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "apply/refused-20.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "apply/refused-21.json",
        "a value is never repeated in a message: it may be secret",
    ),
    (
        "kinds/flowschema.meta-patch.json",
        "a real server's own controller has said something about the schema meanwhile",
    ),
    (
        "kinds/flowschema.status.json",
        "a real server's own controller has said something about the schema meanwhile",
    ),
];

/// The outcome of all rows of a folder.
struct Rows {
    differences: &'static [(&'static str, &'static str)],
    compared: usize,
    listed: usize,
    wrong: Vec<String>,
}

impl Default for Rows {
    fn default() -> Self {
        Self::of(DIFFERENCES)
    }
}

impl Rows {
    fn of(differences: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            differences,
            compared: 0,
            listed: 0,
            wrong: Vec::new(),
        }
    }

    fn row(&mut self, exchange: &Exchange, differences: &[String]) {
        self.compared += 1;
        let row = format!("{} {}", exchange.method, exchange.file);
        let listed = self
            .differences
            .iter()
            .find(|(file, _)| *file == exchange.file);
        match (listed, differences.is_empty()) {
            (None, true) => {}
            (Some(_), false) => self.listed += 1,
            (Some((_, reason)), true) => {
                self.wrong
                    .push(format!("{row}: is listed ({reason}), but matches"));
            }
            (None, false) => {
                let few: Vec<&str> = differences.iter().take(6).map(String::as_str).collect();
                self.wrong.push(format!(
                    "{row} {}\n    {}",
                    exchange.path,
                    few.join("\n    ")
                ));
            }
        }
    }

    fn finish(self, at_least: usize) {
        let count = self.wrong.len();
        assert!(
            self.wrong.is_empty(),
            "{count} rows differ:\n{}",
            self.wrong.join("\n")
        );
        assert!(
            self.compared >= at_least,
            "only {} rows were compared",
            self.compared
        );
        assert!(
            self.listed * 10 <= self.compared,
            "{} of {}",
            self.listed,
            self.compared
        );
    }
}

fn status(recorded: u16, ours: u16) -> Option<String> {
    (recorded != ours).then(|| format!("status: {recorded} / {ours}"))
}

fn is_plain_json(exchange: &Exchange) -> bool {
    exchange.accept == "application/json"
}

/// What kubectl asks for when it prints.
fn is_table(exchange: &Exchange) -> bool {
    exchange.accept == "application/json;as=Table;v=v1;g=meta.k8s.io"
}

#[tokio::test(start_paused = true)]
async fn lists_are_those_of_a_real_server() {
    let server = server(|_, items| items).await;
    reach(&server, 725);
    let (service, mut rows) = (server.service(), Rows::default());
    for exchange in exchanges("list") {
        if !is_plain_json(&exchange) && !is_table(&exchange) || exchange.body.is_empty() {
            continue;
        }
        let (code, body) = send(&service, &exchange).await;
        let mut differences = Comparison::new(Objects::Loaded).bodies(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
    rows.finish(43);
}

/// What the recorder did while the watches were open.
async fn story(service: &Service) {
    const MERGE: &str = "application/merge-patch+json";
    let maps = "/api/v1/namespaces/shop/configmaps";
    let foos = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/shop/foos";
    let map = |at: usize, within: &str, data: &str| {
        json!({"metadata": {"name": format!("story-{at}"), "labels": {"story": "golden", "in": within}},
            "data": {"i": data}})
    };
    let patch = |path: String, body: Value| {
        let content_type = Some(MERGE.to_owned());
        Exchange {
            content_type,
            ..request("PATCH", &path, body)
        }
    };
    let delete = |path: String| request("DELETE", &path, Value::Null);
    let label = |within: &str| json!({"metadata": {"labels": {"in": within}}});
    let mut steps: Vec<Exchange> = (0..4)
        .map(|at| {
            let within = if at % 2 == 0 { "yes" } else { "no" };
            request("POST", maps, map(at, within, &at.to_string()))
        })
        .collect();
    let hold = |list: Value| json!({"metadata": {"finalizers": list}});
    steps.extend([
        patch(format!("{maps}/story-0"), label("no")),
        patch(format!("{maps}/story-1"), label("yes")),
        patch(format!("{maps}/story-2"), json!({"data": {"i": "22"}})),
        patch(format!("{maps}/story-2"), json!({"data": {"i": "22"}})),
        delete(format!("{maps}/story-2")),
        request("POST", maps, map(2, "yes", "recreated")),
        patch(format!("{maps}/story-3"), hold(json!(["example.com/hold"]))),
        delete(format!("{maps}/story-3")),
        patch(format!("{maps}/story-3"), hold(json!([]))),
        delete(format!("{maps}/story-1")),
        delete(format!("{maps}/story-0")),
    ]);
    for at in 0..2 {
        let status = json!({"status": {"availableReplicas": at}});
        steps.push(patch(format!("{foos}/foo-{at}/status"), status));
        steps.push(patch(
            format!("{foos}/foo-{at}"),
            json!({"spec": {"replicas": 5}}),
        ));
    }
    let pods = "/api/v1/namespaces/shop/pods";
    steps.extend([
        delete(format!("{foos}/foo-11")),
        delete(format!("{pods}/cart-00043?gracePeriodSeconds=0")),
        delete(format!("{pods}/cart-00042")),
    ]);
    for step in steps {
        let (code, body) = send(service, &step).await;
        assert!(code < 300, "{} {}: {body}", step.method, step.path);
    }
}

/// Compares streams frame by frame. When the periodic bookmarks come, how often near the end, and which
/// version they tell depends on a server's ticks and on what else it writes: there are some or none.
fn compare_streams(recorded: &str, ours: &str) -> Vec<String> {
    let read = |text: &str| {
        let frames = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        frames.partition::<Vec<Value>, _>(|frame| {
            // In a table, the object is in the row.
            let object = frame["object"].pointer("/rows/0/object");
            let object = object.unwrap_or(&frame["object"]);
            frame["type"] == "BOOKMARK" && object["metadata"]["annotations"].is_null()
        })
    };
    let ((bookmarks, recorded), (our_bookmarks, ours)) = (read(recorded), read(ours));
    let mut differences = Vec::new();
    if bookmarks.is_empty() != our_bookmarks.is_empty() {
        let (a, b) = (bookmarks.len(), our_bookmarks.len());
        differences.push(format!("{a} bookmarks / {b}"));
    }
    let (recorded, ours) = (Value::from(recorded), Value::from(ours));
    let mut comparison = Comparison::new(Objects::WrittenInOrder);
    differences.extend(comparison.bodies(&recorded.to_string(), &ours.to_string()));
    differences
}

#[tokio::test(start_paused = true)]
async fn watches_are_those_of_a_real_server() {
    let server = server(|_, items| items).await;
    reach(&server, 725);
    let (service, mut rows) = (server.service(), Rows::default());
    let exchanges: Vec<Exchange> = exchanges("watch")
        .into_iter()
        .filter(|exchange| is_plain_json(exchange) || is_table(exchange))
        .collect();
    let streams = exchanges.iter().map(|exchange| send(&service, exchange));
    let told = async {
        // The watches are open when the clock moves for the first time.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        story(&service).await;
    };
    let (streams, ()) = futures::join!(join_all(streams), told);
    for (exchange, (code, body)) in exchanges.iter().zip(streams) {
        let mut differences = compare_streams(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(exchange, &differences);
    }
    rows.finish(15);
}

/// Two are about sizes, the others about who asks.
const OTHER_ERRORS: [&str; 8] = [
    "error/413-too-large.json",
    "error/422-too-large-object.json",
    "error/401-wrong-token.json",
    "error/403-anonymous.json",
    "error/403-list.json",
    "error/403-watch.json",
    "error/403-get.json",
    "error/403-create.json",
];

#[tokio::test(start_paused = true)]
async fn errors_are_those_of_a_real_server() {
    let exchanges = exchanges("error");
    let exact = exchanges
        .iter()
        .find(|e| e.file == "error/410-list-exact.json")
        .unwrap();
    let maps: Value = serde_json::from_str(&exact.body).unwrap();
    let maps = maps["items"].as_array().unwrap().clone();
    let server = server(|plural, items| match plural {
        // As they were when the errors were recorded.
        "configmaps" => maps.clone(),
        _ => items,
    })
    .await;
    let service = server.service();
    reach(&server, 863);
    let dying = json!({"metadata": {"name": "dying", "finalizers": ["example.com/hold"]}});
    send(&service, &request("POST", "/api/v1/namespaces", dying)).await;
    send(
        &service,
        &request("DELETE", "/api/v1/namespaces/dying", Value::Null),
    )
    .await;
    let mut rows = Rows::default();
    for exchange in &exchanges {
        let is_json = exchange.accept == "application/json" || exchange.status == 406;
        if !is_json || OTHER_ERRORS.contains(&exchange.file.as_str()) {
            continue;
        }
        let (code, body) = send(&service, exchange).await;
        let mut differences = match exchange.file.ends_with(".jsonl") {
            true => compare_streams(&exchange.body, &body),
            false => Comparison::new(Objects::WrittenInOrder).bodies(&exchange.body, &body),
        };
        differences.extend(status(exchange.status, code));
        rows.row(exchange, &differences);
    }
    rows.finish(35);
}

/// Writes that are not ours yet: what controllers and kubelets do.
fn is_of_another_issue(file: &str) -> bool {
    file == "write/pod-invalid.json"
}

/// What the recorder did before a row without recording it.
async fn prepare(service: &Service, file: &str) {
    let maps = "/api/v1/namespaces/shop/configmaps";
    let step = match file {
        "write/delete-precondition.json" => {
            request("POST", maps, json!({"metadata": {"name": "pre"}}))
        }
        "write/delete-finalizer.json" => Exchange {
            content_type: Some("application/merge-patch+json".to_owned()),
            ..request(
                "PATCH",
                &format!("{maps}/pre"),
                json!({"metadata": {"finalizers": ["example.com/hold"]}}),
            )
        },
        "write/eviction-429.json" => request(
            "POST",
            "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
            json!({"metadata": {"name": "all"}, "spec": {"minAvailable": "100%", "selector": {}}}),
        ),
        "write/namespace-delete.json" => request(
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "dying", "finalizers": ["example.com/hold"]}}),
        ),
        _ => return,
    };
    let (code, body) = send(service, &step).await;
    assert!(code < 300, "{body}");
}

#[tokio::test(start_paused = true)]
async fn writes_are_those_of_a_real_server() {
    let server = server(|_, items| items).await;
    let (service, mut rows) = (server.service(), Rows::default());
    story(&service).await;
    let mut comparison = Comparison::new(Objects::Written);
    for mut exchange in exchanges("write") {
        if !is_plain_json(&exchange) || is_of_another_issue(&exchange.file) {
            continue;
        }
        prepare(&service, &exchange.file).await;
        if let Some(Ok(mut body)) = exchange.request.as_deref().map(serde_json::from_str) {
            mapped_body(&comparison.learned, &mut body);
            exchange.request = Some(body.to_string());
        }
        let (code, body) = send(&service, &exchange).await;
        let mut differences = comparison.bodies(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
    assert!(server.store().revision() > OFFSET);
    rows.finish(24);
}

/// The life of a definition, but for what takes time on a real server.
async fn definition_rows(rows: &mut Rows) {
    let server = server(|_, items| items).await;
    let service = server.service();
    let mut comparison = Comparison::new(Objects::Written);
    for exchange in exchanges("crd") {
        let file = exchange.file.as_str();
        let takes_time = file.contains("watch-")
            || file.contains("while-establishing")
            || file == "crd/list-while-deleting-0.json";
        if takes_time || !is_plain_json(&exchange) && !is_table(&exchange) {
            continue;
        }
        let (code, body) = send(&service, &exchange).await;
        let mut differences = comparison.bodies(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
}

/// Who owns what, but for when.
fn owners(body: &Value) -> Value {
    let mut entries = body["metadata"]["managedFields"].clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries
}

/// What a write says about an object of any kind: whether it is there, its generation and its owners.
fn facts(code: u16, body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    json!([
        code,
        body["kind"],
        body["metadata"]["generation"],
        owners(&body),
        body["reason"]
    ])
}

#[tokio::test(start_paused = true)]
async fn definitions_and_objects_of_every_kind_live_as_on_a_real_server() {
    let mut rows = Rows::default();
    definition_rows(&mut rows).await;
    let server = Server::builder().keep_inert_objects().in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "kinds"}});
    send(&service, &request("POST", "/api/v1/namespaces", namespace)).await;
    for exchange in exchanges("kinds") {
        if !is_plain_json(&exchange) {
            continue;
        }
        let (code, body) = send(&service, &exchange).await;
        let (recorded, ours) = (facts(exchange.status, &exchange.body), facts(code, &body));
        let differs = (recorded != ours).then(|| format!("{recorded} / {ours}"));
        rows.row(&exchange, differs.as_slice());
    }
    rows.finish(150);
}
