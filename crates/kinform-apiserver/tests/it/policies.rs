//! Validating admission policies beyond the recorded stories.

use http::Method;
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn policy(resources: &[&str], members: &Value) -> Value {
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["*"],
            "operations": ["*"], "resources": resources}]}}});
    for (name, value) in members.as_object().unwrap() {
        policy["spec"][name] = value.clone();
    }
    policy
}

async fn make(service: &Service, path: &str, object: Value) {
    let (status, reply) = send(service, Method::POST, path, object).await;
    assert_eq!(status, 201, "{reply}");
}

/// Makes a policy and its binding.
async fn bind(service: &Service, policy: Value, binding: Value) {
    make(service, POLICIES, policy).await;
    let mut of = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p",
        "validationActions": ["Deny"]}});
    for (name, value) in binding.as_object().unwrap() {
        of["spec"][name] = value.clone();
    }
    make(service, BINDINGS, of).await;
}

/// Writes a config map. Returns the refusal's message; empty if there is none.
async fn write(service: &Service, name: &str, annotations: Value) -> String {
    let object = json!({"metadata": {"name": name, "annotations": annotations}});
    let (status, reply) = send(service, Method::POST, CONFIG_MAPS, object).await;
    match status {
        201 => String::new(),
        _ => reply["message"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn a_policy_acts_from_its_reply_to_the_reply_of_its_delete() {
    let server = Server::builder().in_process();
    let service = server.service();
    let refuses = json!({"validations": [{"expression": "false", "message": "no"}]});
    make(&service, POLICIES, policy(&["configmaps"], &refuses)).await;
    assert_eq!(write(&service, "unbound", json!({})).await, "");
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p",
        "validationActions": ["Deny"]}});
    make(&service, BINDINGS, binding).await;
    let refusal = "configmaps \"one\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
                   denied request: no";
    assert_eq!(write(&service, "one", json!({})).await, refusal);
    send(
        &service,
        Method::DELETE,
        &format!("{POLICIES}/p"),
        Value::Null,
    )
    .await;
    assert_eq!(write(&service, "one", json!({})).await, "");
}

#[tokio::test]
async fn a_lease_can_be_the_parameter_that_fences_writes() {
    let server = Server::builder().in_process();
    let service = server.service();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "op"}, "spec": {"holderIdentity": "a",
        "leaseTransitions": 3}});
    make(&service, leases, lease).await;
    let stamp = "has(variables.target.metadata.annotations) && \
                 'term' in variables.target.metadata.annotations ? \
                 variables.target.metadata.annotations['term'] : ''";
    let fence = json!({
        "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
        "matchConditions": [{"name": "n", "expression": "!(has(request.dryRun) && request.dryRun)"}],
        "variables": [
            {"name": "term", "expression": "params.metadata.name + ' ' + \
                string(has(params.spec.leaseTransitions) ? params.spec.leaseTransitions : 0)"},
            {"name": "target", "expression": "request.operation == 'DELETE' ? oldObject : object"},
            {"name": "stamp", "expression": stamp}],
        "validations": [{"expression": "variables.stamp == variables.term",
            "reason": "Forbidden", "messageExpression": "'not ' + variables.term"}]});
    let by_name = json!({"paramRef": {"namespace": "default", "name": "op",
        "parameterNotFoundAction": "Allow"}});
    bind(&service, policy(&["configmaps"], &fence), by_name).await;
    assert_eq!(write(&service, "one", json!({"term": "op 3"})).await, "");
    let refused = write(&service, "two", json!({"term": "op 2"})).await;
    assert!(refused.ends_with("denied request: not op 3"), "{refused}");
    let refused = write(&service, "two", json!({})).await;
    assert!(refused.ends_with("denied request: not op 3"), "{refused}");
    send(
        &service,
        Method::DELETE,
        &format!("{leases}/op"),
        Value::Null,
    )
    .await;
    assert_eq!(write(&service, "two", json!({})).await, "");
}

#[tokio::test]
async fn the_namespace_of_an_object_without_one_is_null() {
    let server = Server::builder().in_process();
    let service = server.service();
    let asks = json!({"validations": [{"expression": "namespaceObject != null"}]});
    bind(&service, policy(&["nodes", "configmaps"], &asks), json!({})).await;
    assert_eq!(write(&service, "one", json!({})).await, "");
    let node = json!({"metadata": {"name": "n"}});
    let (status, reply) = send(&service, Method::POST, "/api/v1/nodes", node).await;
    assert_eq!(status, 422, "{reply}");
}

#[tokio::test]
async fn the_expressions_of_a_binding_share_one_budget() {
    let server = Server::builder().in_process();
    let service = server.service();
    let costly = "lists.range(400000).size() > 0";
    let many = json!({"validations": vec![json!({"expression": costly}); 60]});
    bind(&service, policy(&["configmaps"], &many), json!({})).await;
    let refused = write(&service, "one", json!({})).await;
    let words = "validation failed due to running out of cost budget, no further validation rules \
                 will be run";
    assert!(refused.ends_with(words), "{refused}");
}
