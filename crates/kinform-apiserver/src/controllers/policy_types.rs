//! Types of the expressions of admission policies: warnings in the status of a policy.
//!
//! ```text
//! policy written ─▶ kinds that its rules name ─▶ each expression against each kind ─▶ status.typeChecking
//! ```
//!
//! A policy is refused only for what is wrong with every kind. A field that the objects of one kind do
//! not have fails when such an object is judged; here the status names it before. Rules with `*` name no
//! kind.
//!
//! It is the work of a controller, so it is done where namespaces have their content, too.
//!
//! BOUND: ten kinds a policy, as upstream.
//!
//! Upstream: `kubernetes:pkg/controller/validatingadmissionpolicystatus`,
//! `kubernetes/apiserver:pkg/admission/plugin/policy/validating/typechecking.go`. Difference: of an
//! expression the status has the first mistake, there all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::budget::Meter;
use crate::object::part::Part;
use crate::object::text;
use crate::ownership::{self, Force, Writer};
use crate::resource::{Found, Registry, ResourceInfo, Shape};
use crate::schema::cel::environment::Environment;
use crate::schema::cel::types::Type;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::TRIES;

const POLICIES: (&str, &str, &str) = (
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
);
const MANAGER: &str = "validatingadmissionpolicy-status";
const MAX_KINDS: usize = 10;

/// Checks a policy that was written, unless its status is of this generation.
pub(super) fn follow(state: &State, resource: &ResourceInfo, object: &Stored) {
    let (group, version, plural) = POLICIES;
    let is_policy = resource.group == group && resource.plural == plural;
    if !is_policy || state.namespace_authority.is_none() {
        return;
    }
    let Found::Resource(policies) = state.registry.find(group, version, plural) else {
        return;
    };
    for _ in 0..TRIES {
        let Some(stored) = state.store.get(policies.shelf, object.key()) else {
            return;
        };
        let policy = stored.value();
        let generation = &policy["metadata"]["generation"];
        if policy["status"]["observedGeneration"] == *generation {
            return;
        }
        let checked = match warnings(&state.registry, &policy["spec"]) {
            warnings if warnings.is_empty() => json!({}),
            warnings => json!({"expressionWarnings": warnings}),
        };
        let status = json!({"observedGeneration": generation, "typeChecking": checked});
        let Some(next) = with_status(state, &policies, &policy, status) else {
            return;
        };
        let expect = Expect::Revision(stored.revision());
        let draft = Draft::new(&policies.fields, next);
        let put = draft.map(|draft| state.store.put(policies.shelf, draft, expect));
        if !matches!(put, Some(Err(_))) {
            return;
        }
    }
}

/// Returns the policy with this status, as the controller applies it.
fn with_status(
    state: &State,
    policies: &ResourceInfo,
    policy: &Value,
    status: Value,
) -> Option<Value> {
    let writer = Writer {
        resource: policies,
        manager: MANAGER,
        now: state.clock.now(),
        meter: &Meter::endless(),
    };
    let configuration = json!({
        "apiVersion": policies.api_version(),
        "kind": policies.kind,
        "metadata": {"name": policy["metadata"]["name"]},
        "status": status,
    });
    let given = (configuration, Force::Yes);
    ownership::apply(&writer, Part::Status, Some(policy), given, None).ok()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The mistakes in the expressions of a policy, as its status has them.
fn warnings(registry: &Registry, spec: &Value) -> Vec<Value> {
    let (kinds, params) = (kinds(registry, spec), params(registry, spec));
    let types = kinds.iter().map(|of| (name(of), type_of(of)));
    let params = params.as_deref().map(type_of);
    let environments: Vec<_> = types
        .map(|(name, of)| (name, environment(&of, params.as_ref(), spec)))
        .collect();
    let mut warnings = Vec::new();
    for (at, validation) in items(&spec["validations"]).enumerate() {
        for member in ["expression", "messageExpression"] {
            let source = text(validation, &[member]);
            let wrong = environments
                .iter()
                .filter(|_| !source.is_empty())
                .filter_map(|(kind, of)| Some((kind, of.compile(source).err()?)));
            let told: Vec<String> = wrong
                .map(|(kind, why)| format!("{kind}: {why}\n"))
                .collect();
            if !told.is_empty() {
                warnings.push(json!({
                    "fieldRef": format!("spec.validations[{at}].{member}"),
                    "warning": told.join("\n"),
                }));
            }
        }
    }
    warnings
}

/// The variables of a policy's expressions about objects of a type.
fn environment<'a>(object: &Type<'a>, params: Option<&Type<'a>>, spec: &Value) -> Environment<'a> {
    let mut environment = Environment::new().with_objects(object);
    if spec["paramKind"].is_object() {
        environment = environment.with_params();
    }
    if let Some(params) = params {
        environment = environment.with_type("params", params);
    }
    if items(&spec["variables"]).next().is_some() {
        environment = environment.with_variables();
    }
    for variable in items(&spec["variables"]) {
        let compiled = environment.compile(text(variable, &["expression"]));
        // A policy with such a variable is refused, or nobody names the mistake, as upstream.
        let of = compiled.map_or(Type::Dynamic, |(_, of)| of);
        environment.declare(text(variable, &["name"]), of);
    }
    environment
}

fn type_of(resource: &ResourceInfo) -> Type<'_> {
    match &resource.shape {
        Shape::Builtin(of) => Type::Builtin(of),
        Shape::Custom(custom) => Type::of_definition(&custom.schema),
    }
}

/// The kind as Go prints it.
fn name(resource: &ResourceInfo) -> String {
    let (group, version) = (&resource.group, &resource.version);
    format!("{group}/{version}, Kind={}", resource.kind)
}

/// The resources that the rules of a policy name, one of each kind.
fn kinds(registry: &Registry, spec: &Value) -> Vec<Arc<ResourceInfo>> {
    let mut kinds = BTreeMap::new();
    for rule in items(&spec["matchConstraints"]["resourceRules"]) {
        let [groups, versions, plurals] =
            ["apiGroups", "apiVersions", "resources"].map(|member| named(&rule[member]));
        for group in &groups {
            for version in &versions {
                for plural in &plurals {
                    if kinds.len() < MAX_KINDS
                        && let Found::Resource(found) = registry.find(group, version, plural)
                    {
                        let key = (
                            found.group.clone(),
                            found.version.clone(),
                            found.kind.clone(),
                        );
                        kinds.insert(key, found);
                    }
                }
            }
        }
    }
    kinds.into_values().collect()
}

/// The names in a member of a rule, without wildcards and subresources.
fn named(names: &Value) -> Vec<&str> {
    let names = items(names).filter_map(Value::as_str);
    names.filter(|name| !name.contains(['*', '/'])).collect()
}

/// The resource of a policy's parameters, if it is served.
fn params(registry: &Registry, spec: &Value) -> Option<Arc<ResourceInfo>> {
    let of = |name| text(spec, &["paramKind", name]);
    let (version, kind) = (of("apiVersion"), of("kind"));
    let entries = registry.entries();
    let mut entries = entries.iter();
    let found = entries.find(|of| of.kind == kind && of.api_version() == version && of.is_stored());
    found.cloned()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use crate::{Server, Service};

    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

    fn policy(name: &str, rule: &Value, more: &Value) -> Value {
        let mut rule = rule.clone();
        rule["operations"] = json!(["*"]);
        let mut spec = more.clone();
        spec["matchConstraints"] = json!({"resourceRules": [rule]});
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn deployments() -> Value {
        json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]})
    }

    async fn status(service: &Service, name: &str, rule: &Value, more: &Value) -> Value {
        let (code, made) = service
            .ask(Method::POST, POLICIES, policy(name, rule, more))
            .await;
        assert_eq!(code, 201, "{made}");
        let path = format!("{POLICIES}/{name}");
        let (_, found) = service.ask(Method::GET, &path, Value::Null).await;
        found["status"].clone()
    }

    fn server() -> Server {
        let server = Server::builder().plain().with_namespace_content();
        server.in_process()
    }

    #[tokio::test]
    async fn the_status_of_a_policy_is_the_recorded_one() {
        let server = server();
        let service = server.service();
        let validations = json!({"validations": [
            {"expression": "object.spec.replicas == 'x'"},
            {"expression": "object.spec.frobs > 1"},
            {"expression": "object.spec.replicas > 1",
                "messageExpression": "string(object.spec.nope)"},
        ]});
        let found = status(&service, "typed", &deployments(), &validations).await;
        let warning = |field: &str, warning: &str| json!({"fieldRef": field, "warning": warning});
        assert_eq!(
            found,
            json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
                warning(
                    "spec.validations[0].expression",
                    "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for \
                     '_==_' applied to '(int, string)'\n | object.spec.replicas == 'x'\n \
                     | .....................^\n",
                ),
                warning(
                    "spec.validations[1].expression",
                    "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'frobs'\n \
                     | object.spec.frobs > 1\n | ...........^\n",
                ),
                warning(
                    "spec.validations[2].messageExpression",
                    "apps/v1, Kind=Deployment: ERROR: <input>:1:19: undefined field 'nope'\n \
                     | string(object.spec.nope)\n | ..................^\n",
                ),
            ]}})
        );
        let right = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
        let found = status(&service, "right", &deployments(), &right).await;
        assert_eq!(found, json!({"observedGeneration": 1, "typeChecking": {}}));
    }

    #[tokio::test]
    async fn expressions_have_the_types_of_what_they_name() {
        let server = server();
        let service = server.service();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "any": {"x-kubernetes-preserve-unknown-fields": true, "type": "object"}}});
        let definition = json!({"metadata": {"name": "toys.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, made) = service.ask(Method::POST, path, definition).await;
        assert_eq!(code, 201, "{made}");
        let toys =
            json!({"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["toys"]});
        let pods = json!({"apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods", "pods/status"]});
        let everything = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
        let both = json!({"apiGroups": ["", "apps"], "apiVersions": ["v1"],
            "resources": ["pods", "deployments"]});
        let params = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let rows: &[(&Value, &str, &[&str])] = &[
            (
                &toys,
                "object.spec.size > 1 && object.metadata.labels['a'] == 'b'",
                &[],
            ),
            (&toys, "oldObject == null || object.kind == 'Toy'", &[]),
            (
                &toys,
                "object.spec.weight > 1",
                &["example.com/v1, Kind=Toy: ERROR: <input>:1:12"],
            ),
            (&toys, "object.spec.size == 'one'", &["(int, string)"]),
            (
                &pods,
                "object.spec.containers.all(c, c.image.startsWith('a'))",
                &[],
            ),
            (
                &pods,
                "object.spec.containers.all(c, c.imag == 'a')",
                &["undefined field 'imag'"],
            ),
            (
                &pods,
                "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
                &[],
            ),
            (
                &pods,
                "object.spec.containers[0].resources.limits['cpu'] == '1'",
                &[],
            ),
            (
                &pods,
                "object.spec.containers[0].ports[0].containerPort == 80",
                &[],
            ),
            (&pods, "object.metadata.annotations.size() > 0", &[]),
            (&pods, "params.data['a'] == 'b' && variables.size > 0", &[]),
            (
                &pods,
                "params.date['a'] == 'b'",
                &["undefined field 'date'"],
            ),
            (&pods, "variables.image == 1", &["(string, int)"]),
            (
                &both,
                "object.spec.hostNetwork",
                &["apps/v1, Kind=Deployment"],
            ),
            (
                &both,
                "object.spec.nothing",
                &["/v1, Kind=Pod: ", "\n\napps/v1, Kind=Deployment: "],
            ),
            (&everything, "object.spec.nothing > 1", &[]),
        ];
        for (at, (rule, expression, wanted)) in rows.iter().enumerate() {
            let more = json!({"paramKind": params,
                "variables": [
                    {"name": "size", "expression": "size(object.metadata.name)"},
                    {"name": "image", "expression": "object.spec.containers[0].image"}],
                "validations": [{"expression": expression}]});
            let found = status(&service, &format!("p{at}"), rule, &more).await;
            let warnings = &found["typeChecking"]["expressionWarnings"];
            let told = warnings[0]["warning"].as_str().unwrap_or_default();
            assert_eq!(told.is_empty(), wanted.is_empty(), "{expression}: {found}");
            for part in *wanted {
                assert!(told.contains(part), "{expression}: {told}");
            }
        }
    }

    #[tokio::test]
    async fn a_changed_policy_is_checked_again_and_a_cluster_without_controllers_checks_none() {
        let server = server();
        let service = server.service();
        let right = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
        status(&service, "p", &deployments(), &right).await;
        let path = format!("{POLICIES}/p");
        let (_, mut found) = service.ask(Method::GET, &path, Value::Null).await;
        let by = |entry: &&Value| entry["manager"] == super::MANAGER;
        let owners = found["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(owners.iter().filter(by).count(), 1, "{found}");
        found["spec"]["validations"][0]["expression"] = json!("object.spec.frobs > 1");
        let (code, _) = service.ask(Method::PUT, &path, found).await;
        assert_eq!(code, 200);
        let (_, found) = service.ask(Method::GET, &path, Value::Null).await;
        assert_eq!(found["status"]["observedGeneration"], 2, "{found}");
        let warnings = &found["status"]["typeChecking"]["expressionWarnings"];
        assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{found}");
        let alone = Server::builder().plain().in_process();
        let found = status(&alone.service(), "p", &deployments(), &right).await;
        assert_eq!(found, json!({}));
    }
}
