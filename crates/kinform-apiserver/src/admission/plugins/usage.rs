//! The usage of an object, as quotas count it.
//!
//! ```text
//! object ──▶ pods, requests.cpu, services.nodeports, count/deployments.apps, ..: amounts
//! ```
//!
//! Pure.
//!
//! Upstream: `kubernetes:pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::amounts::{Amounts, containers, of_pod};
use crate::admission::Operation;
use crate::object::quantity::Quantity;
use crate::object::{at, text};
use crate::resource::ResourceInfo;

/// The resources of containers that a quota counts, and their short names for requests.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Returns whether an operation on this resource, or on this subresource of it, may add usage.
pub(super) fn grows(resource: &ResourceInfo, part: (&str, Operation)) -> bool {
    match part {
        ("", Operation::Create) => true,
        ("", Operation::Update) => {
            resource.is_core("services") || resource.is_core("persistentvolumeclaims")
        }
        ("resize", Operation::Update) => resource.is_core("pods"),
        _ => false,
    }
}

/// The name under which quotas count objects of a resource.
pub(crate) fn count_name(resource: &ResourceInfo) -> String {
    match resource.group.as_str() {
        "" => format!("count/{}", resource.plural),
        group => format!("count/{}.{group}", resource.plural),
    }
}

/// Returns whether a quota counts more of a resource than its objects.
pub(crate) fn has_measures(resource: &ResourceInfo) -> bool {
    [
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    ]
    .iter()
    .any(|plural| resource.is_core(plural))
}

/// The usage of an object.
pub(crate) fn of(resource: &ResourceInfo, object: &Value) -> Amounts {
    let mut usage = Amounts::new();
    let one = Quantity::units(1);
    usage.insert(count_name(resource), one);
    if !resource.group.is_empty() {
        return usage;
    }
    match resource.plural.as_str() {
        "pods" => pod(object, &mut usage),
        "services" => service(object, &mut usage),
        "persistentvolumeclaims" => claim(object, &mut usage),
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => {
            usage.insert(resource.plural.clone(), one);
        }
        _ => {}
    }
    usage
}

/// A pod that has ended uses nothing but its name.
fn pod(pod: &Value, usage: &mut Amounts) {
    if matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return;
    }
    usage.insert("pods".to_owned(), Quantity::units(1));
    for (what, amounts) in [
        ("requests", of_pod(pod, "requests")),
        ("limits", of_pod(pod, "limits")),
    ] {
        for (name, amount) in amounts {
            if what == "requests" && COMPUTE.contains(&name.as_str()) {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("{what}.{name}"), amount);
        }
    }
}

fn service(service: &Value, usage: &mut Amounts) {
    let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    let ports = Quantity::units(u32::try_from(ports).unwrap_or(u32::MAX));
    let spec = |name| text(service, &["spec", name]);
    usage.insert("services".to_owned(), Quantity::units(1));
    let allocates = service["spec"]["allocateLoadBalancerNodePorts"] != false;
    let (balancers, node_ports) = match spec("type") {
        "NodePort" => (0, ports),
        "LoadBalancer" if allocates => (1, ports),
        "LoadBalancer" => (1, Quantity::default()),
        _ => (0, Quantity::default()),
    };
    usage.insert(
        "services.loadbalancers".to_owned(),
        Quantity::units(balancers),
    );
    usage.insert("services.nodeports".to_owned(), node_ports);
}

fn claim(claim: &Value, usage: &mut Amounts) {
    let class = text(claim, &["spec", "storageClassName"]);
    let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
    let size = text(claim, &["spec", "resources", "requests", "storage"])
        .parse()
        .ok();
    let counts = [
        ("persistentvolumeclaims", Some(Quantity::units(1))),
        ("requests.storage", size),
    ];
    for (name, amount) in counts {
        let Some(amount) = amount else { continue };
        usage.insert(name.to_owned(), amount);
        if !class.is_empty() {
            usage.insert(of_class(name), amount);
        }
    }
}

/// The resources that containers of a pod must specify because a quota limits them, with the names
/// of the containers that do not; `None` if all do.
pub(super) fn unspecified(pod: &Value, limited: &[&str]) -> Option<String> {
    let mut missing: Vec<String> = Vec::new();
    for name in limited {
        let (what, resource) = match name.split_once('.') {
            Some(("requests", of)) if COMPUTE.contains(&of) => ("requests", of),
            Some(("limits", of)) if COMPUTE.contains(&of) => ("limits", of),
            None if COMPUTE.contains(name) => ("requests", *name),
            _ => continue,
        };
        let lacks = |container: &&Value| container["resources"][what][resource].is_null();
        let all = containers(pod, "containers").chain(containers(pod, "initContainers"));
        let names: Vec<&str> = all.filter(lacks).map(|of| text(of, &["name"])).collect();
        if !names.is_empty() {
            missing.push(format!("{name} for: {}", names.join(",")));
        }
    }
    missing.sort();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// Returns whether a quota's scopes cover an object. Scopes are about pods, and one of them about
/// claims; a quota with scopes covers no other object.
pub(crate) fn is_in_scope(spec: &Value, resource: &ResourceInfo, object: &Value) -> bool {
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let mut terms: Vec<(&str, &str, Vec<&str>)> = scopes
        .filter_map(|scope| Some((scope.as_str()?, "Exists", Vec::new())))
        .collect();
    let selected = at(spec, &["scopeSelector", "matchExpressions"]).and_then(Value::as_array);
    for term in selected.into_iter().flatten() {
        let values = term["values"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_str).collect();
        terms.push((
            text(term, &["scopeName"]),
            text(term, &["operator"]),
            values,
        ));
    }
    let covered: fn(&Value, (&str, &str), &[&str]) -> bool = match &*resource.plural {
        "pods" if resource.is_core("pods") => covers,
        "persistentvolumeclaims" if resource.is_core("persistentvolumeclaims") => covers_claim,
        _ => return terms.is_empty(),
    };
    terms
        .iter()
        .all(|(scope, operator, values)| covered(object, (scope, operator), values))
}

/// Returns whether a scope covers a claim: by the class that it has, wants, or is on its way to.
fn covers_claim(claim: &Value, (scope, operator): (&str, &str), values: &[&str]) -> bool {
    if scope != "VolumeAttributesClass" {
        return false;
    }
    let target = ["modifyVolumeStatus", "targetVolumeAttributesClassName"];
    let classes = [
        text(claim, &["spec", "volumeAttributesClassName"]),
        text(claim, &["status", "currentVolumeAttributesClassName"]),
        text(claim, &["status", target[0], target[1]]),
    ];
    let named = classes.into_iter().filter(|class| !class.is_empty());
    let named: Vec<&str> = named.collect();
    match operator {
        "In" => named.iter().any(|class| values.contains(class)),
        "NotIn" => named.is_empty() || named.iter().any(|class| !values.contains(class)),
        "DoesNotExist" => named.is_empty(),
        _ => !named.is_empty(),
    }
}

fn covers(pod: &Value, (scope, operator): (&str, &str), values: &[&str]) -> bool {
    let has_deadline = || !pod["spec"]["activeDeadlineSeconds"].is_null();
    let is_best_effort = || of_pod(pod, "requests").is_empty() && of_pod(pod, "limits").is_empty();
    match scope {
        "Terminating" => has_deadline(),
        "NotTerminating" => !has_deadline(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => {
            let class = text(pod, &["spec", "priorityClassName"]);
            match operator {
                "In" => values.contains(&class),
                "NotIn" => !values.contains(&class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(&pod["spec"]["affinity"]),
        _ => false,
    }
}

/// Returns whether a term of an affinity names other namespaces.
fn crosses_namespaces(affinity: &Value) -> bool {
    match affinity {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let names = matches!(name.as_str(), "namespaces" | "namespaceSelector");
            names && !value.is_null() && value != &Value::Array(Vec::new())
                || crosses_namespaces(value)
        }),
        Value::Array(items) => items.iter().any(crosses_namespaces),
        _ => false,
    }
}
