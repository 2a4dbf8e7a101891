//! Watches of every kind during one story, frame by frame.
//!
//! ```text
//! all recorded watches, opened together ── story ──▶ their frames, JSON or protobuf
//! ```

use futures::future::join_all;
use kinform_apiserver::{AdmissionPlugins, Server, Service};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::protobuf;
use super::recorded::{Exchange, exchanges, reach, reply, request, send, server};
use super::rows::Rows;

/// Repeats the recorder's requests while the watches are open.
pub(crate) async fn story(service: &Service) {
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

/// The frames of a stream.
fn frames(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match lines {
        Ok(frames) if text.len() == bytes.len() => frames,
        _ => protobuf::frames(bytes).unwrap(),
    }
}

/// Compares streams frame by frame. The times, versions and number of periodic bookmarks depend on
/// a server's ticks and on its other writes, so only their presence is compared.
pub(crate) fn compare(recorded: &[u8], ours: &[u8]) -> Vec<String> {
    compare_as(
        &mut Comparison::new(Objects::WrittenInOrder),
        recorded,
        ours,
    )
}

/// Like `compare`, for streams that clients closed: the frames until then.
pub(crate) fn compare_begun(
    comparison: &mut Comparison,
    recorded: &[u8],
    ours: &[u8],
) -> Vec<String> {
    let recorded = Value::from(frames(recorded));
    let mut begun = frames(ours);
    begun.truncate(recorded.as_array().map_or(0, Vec::len));
    comparison.bodies(recorded.to_string(), Value::from(begun).to_string())
}

/// Like `compare`, with a comparison that has learned values before.
pub(crate) fn compare_as(comparison: &mut Comparison, recorded: &[u8], ours: &[u8]) -> Vec<String> {
    let read = |bytes: &[u8]| {
        frames(bytes)
            .into_iter()
            .partition::<Vec<Value>, _>(|frame| {
                // In a table, the object is in the row.
                let object = frame["object"].pointer("/rows/0/object");
                let object = object.unwrap_or(&frame["object"]);
                let notes = &object["metadata"]["annotations"];
                frame["type"] == "BOOKMARK" && notes.is_null()
            })
    };
    let ((bookmarks, recorded), (our_bookmarks, ours)) = (read(recorded), read(ours));
    let mut differences = Vec::new();
    if bookmarks.is_empty() != our_bookmarks.is_empty() {
        let (a, b) = (bookmarks.len(), our_bookmarks.len());
        differences.push(format!("{a} bookmarks / {b}"));
    }
    let (recorded, ours) = (Value::from(recorded), Value::from(ours));
    differences.extend(comparison.bodies(recorded.to_string(), ours.to_string()));
    differences
}

#[tokio::test(start_paused = true)]
async fn watches_are_those_of_a_real_server() {
    let server = server().await;
    reach(&server, 725);
    let (service, mut rows) = (server.service(), Rows::of("watch"));
    let exchanges = exchanges("watch");
    let streams = exchanges.iter().map(|exchange| reply(&service, exchange));
    let told = async {
        // The watches are open when the clock moves for the first time.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        story(&service).await;
    };
    let (streams, ()) = futures::join!(join_all(streams), told);
    for (exchange, reply) in exchanges.iter().zip(streams) {
        let mut differences = compare(&exchange.bytes, &reply.bytes);
        let comparison = Comparison::new(Objects::WrittenInOrder);
        differences.extend(comparison.head(exchange, &reply));
        rows.row(exchange, &differences);
    }
    rows.finish();
}

/// The bookmark that ends the initial events.
fn end_of_initial_events(bytes: &[u8]) -> Value {
    let is_end = |frame: &Value| {
        frame["type"] == "BOOKMARK" && !frame["object"]["metadata"]["annotations"].is_null()
    };
    frames(bytes).into_iter().find(is_end).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_every_kind_are_those_of_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .in_process();
    let (service, mut rows) = (server.service(), Rows::of("bookmark"));
    for exchange in exchanges("bookmark") {
        let reply = reply(&service, &exchange).await;
        let mut comparison = Comparison::new(Objects::Written);
        let [recorded, ours] = [&exchange.bytes, &reply.bytes].map(|of| end_of_initial_events(of));
        let mut differences = comparison.bodies(recorded.to_string(), ours.to_string());
        differences.extend(comparison.head(&exchange, &reply));
        rows.row(&exchange, &differences);
    }
    rows.finish();
}
