//! Mutating admission policies beyond the recorded stories.

use http::Method;
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

/// Makes a policy and its binding.
async fn bind(service: &Service, (name, resource): (&str, Value), mutations: Value) {
    let constraints = json!({"resourceRules": [resource]});
    let more = json!({"matchConstraints": constraints, "mutations": mutations});
    bind_with(service, name, more).await;
}

/// The same, with these members of the policy.
async fn bind_with(service: &Service, name: &str, more: Value) {
    let mut policy =
        json!({"metadata": {"name": name}, "spec": {"reinvocationPolicy": "IfNeeded"}});
    for (member, value) in more.as_object().unwrap() {
        policy["spec"][member] = value.clone();
    }
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    for (path, object) in [(POLICIES, policy), (BINDINGS, binding)] {
        let (status, reply) = send(service, Method::POST, path, object).await;
        assert_eq!(status, 201, "{reply}");
    }
}

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"],
        "resources": [resource]})
}

async fn write(service: &Service, name: &str) -> (u16, Value) {
    let object = json!({"metadata": {"name": name}, "data": {"a": "1"}});
    send(service, Method::POST, CONFIG_MAPS, object).await
}

#[tokio::test]
async fn a_policy_is_asked_again_only_after_a_later_one_changed_the_object() {
    let server = Server::builder().in_process();
    let service = server.service();
    let maps = || rule("", "configmaps");
    let count = "[JSONPatch{op: 'add', path: '/data/a', value: object.data.a + 'a'}]";
    bind(&service, ("a", maps()), json!([patch(count)])).await;
    let (status, made) = write(&service, "one").await;
    assert_eq!((status, &made["data"]["a"]), (201, &json!("1a")));
    let late = "[JSONPatch{op: 'add', path: '/data/b', value: object.data.a}]";
    bind(&service, ("b", maps()), json!([patch(late)])).await;
    let (status, made) = write(&service, "two").await;
    // The second round of `a` changes what `b` saw; there is no third one.
    let wanted = json!({"a": "1aa", "b": "1aa"});
    assert_eq!((status, &made["data"]), (201, &wanted), "{made}");
}

#[tokio::test]
async fn lists_are_merged_by_their_keys_and_defaults_follow() {
    let server = Server::builder().in_process();
    let service = server.service();
    let ports = "Object{spec: Object.spec{containers: object.spec.containers.map(c, \
                 Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: 'X', \
                 value: c.image}]})}}";
    bind(&service, ("env", rule("", "pods")), json!([apply(ports)])).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "env": [{"name": "Y", "value": "1"}]},
        {"name": "d", "image": "j"}]}});
    let path = "/api/v1/namespaces/default/pods";
    let (status, made) = send(&service, Method::POST, path, pod).await;
    assert_eq!(status, 201, "{made}");
    let containers = &made["spec"]["containers"];
    let env = json!([{"name": "Y", "value": "1"}, {"name": "X", "value": "i"}]);
    let mut found = containers[0]["env"].as_array().unwrap().clone();
    found.sort_by_key(|of| std::cmp::Reverse(of["name"].to_string()));
    assert_eq!(Value::from(found), env);
    assert_eq!(containers[1]["env"][0]["value"], "j");
    assert_eq!(containers[1]["imagePullPolicy"], "Always");
}

#[tokio::test]
async fn a_custom_object_is_merged_by_its_schema() {
    let server = Server::builder().in_process();
    let service = server.service();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "my-name": {"type": "string"}}}}});
    let definition = json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, reply) = send(&service, Method::POST, path, definition).await;
    assert_eq!(status, 201, "{reply}");
    let sized = "Object{spec: Object.spec{size: has(object.spec.size) ? object.spec.size : 3, \
                 my__dash__name: 'x'}}";
    bind(
        &service,
        ("size", rule("example.com", "foos")),
        json!([apply(sized)]),
    )
    .await;
    let path = "/apis/example.com/v1/namespaces/default/foos";
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"},
        "spec": {}});
    let (status, made) = send(&service, Method::POST, path, foo).await;
    let wanted = json!({"size": 3, "my-name": "x"});
    assert_eq!((status, &made["spec"]), (201, &wanted), "{made}");
}

#[tokio::test]
async fn no_expression_costs_more_than_its_budget() {
    let server = Server::builder().in_process();
    let service = server.service();
    let doubled = "[JSONPatch{op: 'add', path: '/data/a', value: \
                   lists.range(1000).map(x, lists.range(1000).map(y, 'aaaaaaaaaaaaaaaa').join('')) \
                   .join('')}]";
    bind(
        &service,
        ("big", rule("", "configmaps")),
        json!([patch(doubled)]),
    )
    .await;
    let begun = std::time::Instant::now();
    let (status, refused) = write(&service, "one").await;
    assert_eq!(
        (status, &refused["reason"]),
        (403, &json!("Invalid")),
        "{refused}"
    );
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("cost limit exceeded"), "{message}");
    assert!(begun.elapsed().as_secs() < 10);
    let copies = "[JSONPatch{op: 'add', path: '/data/b', value: object.data.a}] + \
                  lists.range(400).map(x, JSONPatch{op: 'copy', from: '/data', path: '/data/' + \
                  string(x)})";
    send(
        &service,
        Method::DELETE,
        &format!("{POLICIES}/big"),
        Value::Null,
    )
    .await;
    bind(
        &service,
        ("copies", rule("", "configmaps")),
        json!([patch(copies)]),
    )
    .await;
    let (status, refused) = write(&service, "one").await;
    assert!(matches!(status, 403 | 413 | 422), "{refused}");
}

#[tokio::test]
async fn what_a_policy_adds_belongs_to_nobody_and_deletes_are_not_changed() {
    let server = Server::builder().in_process();
    let service = server.service();
    let label = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    bind(
        &service,
        ("label", rule("", "configmaps")),
        json!([apply(label)]),
    )
    .await;
    let (_, made) = write(&service, "one").await;
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
    let owners = made["metadata"]["managedFields"].to_string();
    assert!(!owners.contains("f:labels"), "{owners}");
    let path = format!("{CONFIG_MAPS}/one");
    let (status, _) = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn policies_are_matched_before_the_first_one_changes_the_object() {
    let server = Server::builder().in_process();
    let service = server.service();
    let label = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    let maps = || rule("", "configmaps");
    bind(&service, ("a", maps()), json!([apply(label)])).await;
    let more = json!({"mutations": [patch("[JSONPatch{op: 'add', path: '/data/b', value: 'x'}]")],
        "matchConstraints": {"resourceRules": [maps()],
            "objectSelector": {"matchLabels": {"a": "b"}}}});
    bind_with(&service, "b", more).await;
    let (status, made) = write(&service, "one").await;
    assert_eq!((status, &made["data"]), (201, &json!({"a": "1"})), "{made}");
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn an_error_that_is_passed_over_skips_only_its_mutation() {
    let server = Server::builder().in_process();
    let service = server.service();
    let add = |to: &str| {
        patch(&format!(
            "[JSONPatch{{op: 'add', path: '/data/{to}', value: 'x'}}]"
        ))
    };
    let bad = patch("[JSONPatch{op: 'add', path: '/data/b', value: object.data.none}]");
    let more = json!({"mutations": [add("b"), bad, add("c")], "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [rule("", "configmaps")]}});
    bind_with(&service, "a", more).await;
    let (status, made) = write(&service, "one").await;
    let wanted = json!({"a": "1", "b": "x", "c": "x"});
    assert_eq!((status, &made["data"]), (201, &wanted), "{made}");
}

#[tokio::test]
async fn each_mutation_has_a_budget_of_its_own() {
    let server = Server::builder().in_process();
    let service = server.service();
    // Sixty of them together cost more than one budget.
    let costly = "lists.range(400000).size() > 0 ? \
                  [JSONPatch{op: 'add', path: '/data/b', value: 'x'}] : []";
    let many = vec![patch(costly); 60];
    bind(&service, ("a", rule("", "configmaps")), json!(many)).await;
    let (status, made) = write(&service, "one").await;
    assert_eq!((status, &made["data"]["b"]), (201, &json!("x")), "{made}");
}
