//! Candidates of a coordinated election, which a server serves on request.

use http::Method;
use kinform_apiserver::Server;
use serde_json::{Value, json};

use crate::support::{get, send};

const GROUP: &str = "/apis/coordination.k8s.io/v1beta1";
const PATH: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates";

fn candidate(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
        "metadata": {"name": name}, "spec": spec})
}

fn spec(emulation: &str, binary: &str, strategy: &str) -> Value {
    json!({"leaseName": "l", "emulationVersion": emulation, "binaryVersion": binary,
        "strategy": strategy})
}

#[tokio::test(start_paused = true)]
async fn lease_candidates_are_served_only_on_request() {
    let plain = Server::builder().in_process();
    assert_eq!(get(&plain.service(), GROUP).await.0, 404);
    let (code, _) = get(&plain.service(), PATH).await;
    assert_eq!(code, 404);

    let server = Server::builder().with_lease_candidates().in_process();
    let service = server.service();
    let (code, list) = get(&service, GROUP).await;
    assert_eq!(code, 200);
    assert_eq!(list["resources"][0]["name"], "leasecandidates");
    assert_eq!(list["resources"][0]["storageVersionHash"], "lvME0iHWE20=");
    let (_, group) = get(&service, "/apis/coordination.k8s.io").await;
    let versions = group["versions"].as_array().unwrap();
    let versions: Vec<_> = versions.iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");

    // A PUT creates, as of leases, and a name may have capitals.
    let path = format!("{PATH}/Host_0af3");
    let given = candidate(
        "Host_0af3",
        spec("1.2.0", "1.3.0", "OldestEmulationVersion"),
    );
    let (code, mut made) = send(&service, Method::PUT, &path, given.clone()).await;
    assert_eq!(code, 201, "{made}");
    let by_lease = format!("{PATH}?fieldSelector=spec.leaseName%3Dl");
    assert_eq!(get(&service, &by_lease).await.0, 400);
    made["spec"]["renewTime"] = json!("2026-11-20T10:00:00.123456Z");
    let (code, renewed) = send(&service, Method::PUT, &path, made.clone()).await;
    assert_eq!(code, 200, "{renewed}");
    assert_eq!(renewed["spec"]["renewTime"], "2026-11-20T10:00:00.123456Z");
    // An update names its version, and does not name another lease.
    let (code, _) = send(&service, Method::PUT, &path, given).await;
    assert_eq!(code, 422);
    let mut moved = renewed;
    moved["spec"]["leaseName"] = json!("m");
    let (code, refused) = send(&service, Method::PUT, &path, moved).await;
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("spec.leaseName: Invalid value: \"m\": field is immutable"),
        "{message}"
    );
}

// kubernetes: TestValidateLeaseCandidate
#[tokio::test(start_paused = true)]
async fn candidates_are_validated_as_by_a_real_server() {
    let server = Server::builder().with_lease_candidates().in_process();
    let service = server.service();
    let check = async |spec: Value, expected: &[&str]| {
        let (code, reply) = send(&service, Method::POST, PATH, candidate("a", spec.clone())).await;
        assert_eq!(code, 422, "{spec}: {reply}");
        let causes = reply["details"]["causes"].as_array().unwrap();
        let text = |cause: &Value| {
            format!(
                "{}: {}",
                cause["field"].as_str().unwrap(),
                cause["message"].as_str().unwrap()
            )
        };
        let found: Vec<String> = causes.iter().map(text).collect();
        assert_eq!(found, expected, "{spec}");
    };
    let oldest = "OldestEmulationVersion";
    check(
        json!({}),
        &[
            "spec.leaseName: Required value",
            "spec.binaryVersion: Required value",
            "spec.strategy: Required value",
        ],
    )
    .await;
    check(
        spec("v1", "1.3", oldest),
        &[
            "spec.emulationVersion: Invalid value: \"v1\": must be a valid semantic version",
            "spec.binaryVersion: Invalid value: \"1.3\": must be a valid semantic version",
            "spec.emulationVersion: Required value: must be specified when `strategy` is \
             'OldestEmulationVersion'",
        ],
    )
    .await;
    check(
        spec("1.3.0", "1.2.9", oldest),
        &[
            "spec.binaryVersion: Invalid value: \"1.2.9\": must be greater than or equal to \
           `emulationVersion`",
        ],
    )
    .await;
    check(
        spec("", "1.2.9", "Newest"),
        &[
            "spec.strategy.strategy: Unsupported value: \"Newest\": supported values: \
           \"OldestEmulationVersion\"",
        ],
    )
    .await;
    let theirs = candidate("b", spec("", "1.2.9", "example.com/mine"));
    let (code, reply) = send(&service, Method::POST, PATH, theirs).await;
    assert_eq!(code, 201, "{reply}");
}
