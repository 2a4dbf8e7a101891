//! Stories of server-side apply and of field owners, told to a real server and to this one.
//!
//! ```text
//! testdata/golden/apply.jsonl.gz -> the same requests in the same order -> replies, owners included
//! ```
//!
//! Made by `e2e/apply/record.py`.

use kinform_apiserver::Server;
use serde_json::json;

use super::recorded::{Comparison, Objects, exchanges, mapped_body, request, send};
use super::{Rows, status};

#[tokio::test(start_paused = true)]
async fn applies_merge_and_own_as_on_a_real_server() {
    let server = Server::builder().without_garbage_collection().in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "apply"}});
    send(&service, &request("POST", "/api/v1/namespaces", namespace)).await;
    let mut rows = Rows::default();
    let mut comparison = Comparison::new(Objects::Written);
    for mut exchange in exchanges("apply") {
        let body = exchange.request.as_deref().map(serde_json::from_str);
        if let Some(Ok(mut body)) = body {
            mapped_body(&comparison.learned, &mut body);
            exchange.request = Some(body.to_string());
        }
        let (code, body) = send(&service, &exchange).await;
        let mut differences = comparison.bodies(&exchange.body, &body);
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
    rows.finish(180);
}
