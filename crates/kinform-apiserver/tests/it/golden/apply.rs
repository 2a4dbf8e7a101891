//! Stories of server-side apply and of field owners, run against a real server and this one.
//!
//! ```text
//! testdata/golden/apply.jsonl.gz -> the same requests in the same order -> replies, owners included
//! ```
//!
//! Made by `e2e/apply/record.py`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kinform_apiserver::{AdmissionPlugins, Server};
use serde_json::json;

use super::comparison::{Comparison, Objects};
use super::recorded::{exchanges, reply, request, send};
use super::rows::Rows;

/// Maximum number of attempts to run all stories.
const TRIES: usize = 5;

/// Runs all stories on a new server. Returns the outcome, and whether a second ended during the
/// story in which owners are merged by their seconds: it was recorded within one.
async fn replay() -> (Rows, bool) {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .without_garbage_collection()
        .in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "apply"}});
    send(&service, &request("POST", "/api/v1/namespaces", namespace)).await;
    let mut rows = Rows::of("apply");
    let mut comparison = Comparison::new(Objects::Written);
    let mut seconds = BTreeSet::new();
    for exchange in exchanges("apply") {
        let exchange = exchange.in_ours(&comparison.learned);
        let reply = reply(&service, &exchange).await;
        if exchange.file.starts_with("apply/owners-") {
            seconds.insert(Timestamp::now().as_second());
        }
        let differences = comparison.reply(&exchange, &reply);
        rows.row(&exchange, &differences);
    }
    (rows, seconds.len() > 1)
}

#[tokio::test(start_paused = true)]
async fn applies_merge_and_own_as_on_a_real_server() {
    for _ in 0..TRIES {
        let (rows, is_torn) = replay().await;
        if !is_torn || rows.are_as_listed() {
            return rows.finish();
        }
    }
    panic!("a second ended within each of {TRIES} replays");
}
