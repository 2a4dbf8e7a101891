//! The objects of a server that has just been started, compared with a real one's.

use kinform_apiserver::Server;
use serde_json::Value;

use super::comparison::{Comparison, Objects};
use super::recorded::{exchanges, reply};
use super::rows::Rows;

/// Addresses of the recorded server, as they stand in its objects.
const ADDRESSES: [(&str, &str); 2] = [
    ("\"10.0.0.0/24\"", "\"10.96.0.0/12\""),
    ("\"10.0.0.1\"", "\"10.96.0.1\""),
];
/// The address and port of the recorded server itself.
const PLACE: (&str, &str) = ("\"192.0.2.1\"", "26653");

/// The roles that gather the rules of others: there, a controller does that later.
const GATHERING: [&str; 3] = ["admin", "edit", "view"];

/// Takes the rules out of the roles that gather them; returns the number of rules.
fn without_gathered(list: &mut Value) -> usize {
    let items = list["items"].as_array_mut().unwrap().iter_mut();
    let gathering = items.filter(|item| {
        let name = item["metadata"]["name"].as_str().unwrap();
        GATHERING.contains(&name) && !item["aggregationRule"].is_null()
    });
    gathering
        .map(|role| role["rules"].take().as_array().map_or(0, Vec::len))
        .sum()
}

#[tokio::test]
async fn a_fresh_server_has_what_a_real_one_has() {
    let server = Server::builder().rbac().start().await.unwrap();
    let address = server.address().unwrap();
    let service = server.service();
    let mut rows = Rows::of("fresh");
    for exchange in exchanges("fresh") {
        let ours = reply(&service, &exchange).await;
        let mut recorded = exchange.body.clone();
        for (theirs, ours) in ADDRESSES {
            recorded = recorded.replace(theirs, ours);
        }
        recorded = recorded.replace(PLACE.0, &format!("\"{}\"", address.ip()));
        // The recorded server's program had another name than in a cluster.
        recorded = recorded.replace(
            "\"manager\": \"apiserver\"",
            "\"manager\": \"kube-apiserver\"",
        );
        recorded = recorded.replace(PLACE.1, &address.port().to_string());
        let mut recorded: Value = serde_json::from_str(&recorded).unwrap();
        let mut shown: Value = serde_json::from_slice(&ours.bytes).unwrap();
        if exchange.file == "fresh/clusterroles.json" {
            assert_eq!(without_gathered(&mut recorded), 0);
            assert!(without_gathered(&mut shown) > 60);
        }
        if exchange.file == "fresh/configmaps.json" {
            let authority = server.authority().unwrap();
            let theirs = &mut recorded["items"][0]["data"]["client-ca-file"];
            assert!(theirs.is_string());
            *theirs = Value::from(authority);
            let today = shown["items"][1]["data"]["since"].clone();
            assert!(today.as_str().is_some_and(|day| day.len() == 10));
            recorded["items"][1]["data"]["since"] = today;
        }
        let differences =
            Comparison::new(Objects::Written).bodies(recorded.to_string(), shown.to_string());
        rows.row(&exchange, &differences);
    }
    rows.finish();
}
