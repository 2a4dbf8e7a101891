//! The memory budget of an operator: its metrics, the inspector's view of it, and the problem that it may be.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::CancellationToken;
use kinform_operator::inspect;
use kinform_testkit::TestServer;
use serde_json::Value;

use crate::support::{config_map, get, operator, settings};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

async fn metrics_with(budget: Option<u64>) -> (String, Value, Value) {
    let server = TestServer::start().await.unwrap();
    server.create(&config_map("one")).await.unwrap();
    let mut settings = settings();
    settings.memory_budget = budget;
    let operator = operator(&server, settings);
    let maps = operator.informer::<ConfigMap>();
    let stop = CancellationToken::new();
    let (runs, token) = (operator.clone(), stop.clone());
    let running = tokio::spawn(async move { runs.run_until(token).await });
    let ports = operator.addresses().await;
    maps.synced_within(PATIENCE).await.unwrap();
    // The state that an informer publishes follows the bytes that it told of.
    tokio::time::timeout(PATIENCE, async {
        while budget.is_some() && operator.factory().memory().unwrap().held < 300 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let (code, text) = get(ports.metrics.unwrap(), "/metrics", "").await;
    assert_eq!(code, 200);
    let inspector = inspect::Inspector::builder().quiet();
    let inspector = inspector.serve(operator.factory()).await.unwrap();
    let (_, token) = inspector.url().split_once("#token=").unwrap();
    let headers = format!("Authorization: Bearer {token}\r\n");
    let view = async |name: &str| -> Value {
        let path = format!("/debug/kinform/v1/{name}");
        let (code, body) = get(inspector.address(), &path, &headers).await;
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let views = (view("memory").await, view("problems").await);
    inspector.stop().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    (text, views.0, views.1)
}

fn kinds(problems: &Value) -> Vec<&str> {
    let problems = problems["problems"].as_array().unwrap().iter();
    problems.map(|one| one["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_budget_that_cannot_be_held_is_in_metrics_views_and_problems() {
    let (text, memory, problems) = metrics_with(Some(200)).await;
    for line in [
        "kinform_memory_budget_bytes 200",
        "kinform_memory_budget_over 1",
        "kinform_memory_budget_decoded_bytes 0",
        "kinform_memory_budget_step{name=\"configmaps\",group=\"\",version=\"v1\",resource=\"configmaps\",step=\"no-decoded-values\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.contains("kinform_store_held_bytes{"), "{text}");
    let read: inspect::Memory = serde_json::from_value(memory.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), memory);
    let budget = read.budget.unwrap();
    assert!(budget.is_over && budget.held_bytes > budget.bytes);
    assert_eq!(read.caches[0].step, "no-decoded-values");
    assert!(read.caches[0].held_bytes > read.caches[0].bytes);
    assert_eq!(kinds(&problems), ["memory-over-budget"]);
    let message = problems["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("the budget is 200"), "{message}");
}

#[tokio::test]
async fn without_a_budget_there_is_none_to_see() {
    let (text, memory, problems) = metrics_with(None).await;
    assert!(!text.contains("kinform_memory_budget"), "{text}");
    assert_eq!(memory["budget"], Value::Null);
    assert_eq!(memory["caches"][0]["step"], "normal");
    assert_eq!(kinds(&problems), [""; 0]);
}
