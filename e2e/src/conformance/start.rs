//! The objects that every server has from the start.
//!
//! ```text
//! names that every cluster knows ──▶ objects, equal but for addresses and certificates
//! ```
//!
//! Upstream counterpart: `kubernetes:test/integration/controlplane`.

use serde_json::json;

use super::probe::{Failure, Probe, holds, same};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    every_server_has_its_namespaces: "controlplane/controller/systemnamespaces",
    every_server_has_its_own_service: "controlplane/controller/kubernetesservice",
    every_server_tells_its_network: "controlplane/controller/defaultservicecidr",
    every_server_tells_whom_to_trust: "controlplane/controller/clusterauthenticationtrust",
    every_server_has_the_classes_of_its_own_pods: "pkg/registry/scheduling/rest",
    every_server_has_its_flow_schemas: "apiserver:pkg/apis/flowcontrol/bootstrap",
    every_server_lists_its_own_groups: "kube-aggregator:pkg/controllers/autoregister",
    every_server_counts_its_requests: "apiserver:pkg/endpoints/metrics",
];

/// Gets each of these objects; their answers are compared whole.
async fn all(p: &Probe, path: &str, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        p.get(&format!("{path}/{name}")).await?.code(200)?;
    }
    Ok(())
}

async fn every_server_has_its_namespaces(p: &Probe) -> Result<(), Failure> {
    let names = ["default", "kube-node-lease", "kube-public", "kube-system"];
    all(p, "/api/v1/namespaces", &names).await
}

async fn every_server_has_its_own_service(p: &Probe) -> Result<(), Failure> {
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let service = p.get(path).await?.code(200)?;
    // The port is the server's own.
    p.forget();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    same("its labels", &service["metadata"]["labels"], &labels)?;
    same(
        "its port",
        &service["spec"]["ports"][0]["port"],
        &json!(443),
    )?;
    let members: Vec<&String> = service["spec"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|it| it.0)
        .collect();
    let wanted = [
        "clusterIP",
        "clusterIPs",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "ports",
        "sessionAffinity",
        "type",
    ];
    same("its members", members, wanted.to_vec())
}

async fn every_server_tells_its_network(p: &Probe) -> Result<(), Failure> {
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let network = p.get(path).await?.code(200)?;
    p.forget();
    let ready = &network["status"]["conditions"][0];
    same("its condition", &ready["type"], &json!("Ready"))?;
    same(
        "its message",
        &ready["message"],
        &json!("Kubernetes default Service CIDR is ready"),
    )
}

async fn every_server_tells_whom_to_trust(p: &Probe) -> Result<(), Failure> {
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map = p.get(path).await?.code(200)?;
    // The embedded server of this run may be one without TLS, which trusts no certificate.
    p.forget();
    same(
        "its name",
        &map["metadata"]["name"],
        &json!("extension-apiserver-authentication"),
    )
}

async fn every_server_has_the_classes_of_its_own_pods(p: &Probe) -> Result<(), Failure> {
    let names = ["system-cluster-critical", "system-node-critical"];
    all(p, "/apis/scheduling.k8s.io/v1/priorityclasses", &names).await
}

async fn every_server_has_its_flow_schemas(p: &Probe) -> Result<(), Failure> {
    let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let schemas = [
        "catch-all",
        "exempt",
        "global-default",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-system-service-accounts",
        "probes",
        "service-accounts",
        "system-leader-election",
        "system-node-high",
        "system-nodes",
    ];
    all(p, &format!("{group}/flowschemas"), &schemas).await?;
    let levels = [
        "catch-all",
        "exempt",
        "global-default",
        "leader-election",
        "node-high",
        "system",
        "workload-high",
        "workload-low",
    ];
    all(p, &format!("{group}/prioritylevelconfigurations"), &levels).await
}

async fn every_server_lists_its_own_groups(p: &Probe) -> Result<(), Failure> {
    let names = [
        "v1.",
        "v1.apps",
        "v2.autoscaling",
        "v1.policy",
        "v1.resource.k8s.io",
    ];
    all(p, "/apis/apiregistration.k8s.io/v1/apiservices", &names).await
}

async fn every_server_counts_its_requests(p: &Probe) -> Result<(), Failure> {
    p.map("counted", "1").await?;
    let watch = p.watch("~/configmaps?watch=1").await?;
    let answer = p.get("/metrics").await?;
    p.forget();
    answer.code(200)?;
    let media = answer.header("content-type").to_owned();
    holds(&media, media.starts_with("text/plain; version=0.0.4"))?;
    let page = String::from_utf8_lossy(&answer.body);
    for line in [
        "# TYPE apiserver_request_total counter",
        "# TYPE apiserver_request_duration_seconds histogram",
        "# TYPE apiserver_longrunning_requests gauge",
        "# TYPE apiserver_current_inflight_requests gauge",
        "# TYPE apiserver_resource_objects gauge",
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"}",
        "apiserver_request_duration_seconds_bucket{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\",le=\"0.025\"}",
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"}",
        "apiserver_resource_objects{group=\"\",resource=\"configmaps\"}",
    ] {
        holds(&format!("the page has {line}"), page.contains(line))?;
    }
    drop(watch);
    Ok(())
}
