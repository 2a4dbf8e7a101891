//! An object of every built-in kind: created, read in every form, patched and deleted.

use kinform_apiserver::{AdmissionPlugins, Server};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::is_table;
use super::recorded::{exchanges, reply, request, send};
use super::rows::Rows;

/// A table without the rows of objects that a real server creates by itself.
fn known_rows(table: &[u8], names: &[String]) -> Vec<u8> {
    let mut table: Value = serde_json::from_slice(table).unwrap();
    if let Some(rows) = table["rows"].as_array_mut() {
        let name = |row: &Value| {
            let name = row["object"]["metadata"]["name"].as_str();
            name.unwrap_or_default().to_owned()
        };
        rows.retain(|row| names.contains(&name(row)));
        // A real server sorts a few kinds by their purpose.
        rows.sort_by_key(name);
    }
    table.to_string().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn objects_of_every_kind_live_as_on_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .keep_inert_objects()
        .in_process();
    let service = server.service();
    for (path, name) in [
        ("/api/v1/namespaces", "kinds"),
        ("/api/v1/namespaces/kinds/serviceaccounts", "default"),
    ] {
        let object = json!({"metadata": {"name": name}});
        send(&service, &request("POST", path, object)).await;
    }
    let mut rows = Rows::of("kinds");
    let mut comparison = Comparison::new(Objects::Written);
    let mut created: Vec<String> = Vec::new();
    for exchange in exchanges("kinds") {
        let reply = reply(&service, &exchange).await;
        let mut differences = match is_table(&exchange) {
            true => comparison.bodies(
                known_rows(&exchange.bytes, &created),
                known_rows(&reply.bytes, &created),
            ),
            false => comparison.bodies(&exchange.bytes, &reply.bytes),
        };
        differences.extend(comparison.head(&exchange, &reply));
        if exchange.method == "POST" {
            let object: Value = serde_json::from_slice(&exchange.bytes).unwrap();
            let name = object["metadata"]["name"].as_str();
            created.extend(name.map(str::to_owned));
        }
        rows.row(&exchange, &differences);
    }
    rows.finish();
}
