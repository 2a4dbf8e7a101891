//! Computed defaults, under their names in `rules.txt`.
//!
//! ```text
//! :pull_policy -> fn(&mut container)          :job_selector -> fn(&mut job, now and uid)
//! ```
//!
//! Each function takes a value of its type and keeps members that are set. No function panics on a
//! value of another shape.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Now;
use super::pod_status::{quality_of_service, scheduling_gated};
use super::rule::Action;
use crate::object::quantity::Quantity;
use crate::object::{at, metadata, text};

/// The function of a name.
pub(super) fn named(name: &str) -> Option<Action> {
    let call: fn(&mut Value) = match name {
        "allocatable" => allocatable,
        "claim_kinds" => claim_kinds,
        "data_source" => data_source,
        "drop_source" => drop_source,
        "default_tolerations" => default_tolerations,
        "empty_volume" => empty_volume,
        "host_ports" => host_ports,
        "job_labels" => job_labels,
        "limit_range" => limit_range,
        "load_balancer_modes" => load_balancer_modes,
        "name_label" => name_label,
        "not_ready" => not_ready,
        "pod_addresses" => pod_addresses,
        "pod_networks" => pod_networks,
        "protect_attributes_class" => |value| protect(value, "kubernetes.io/vac-protection"),
        "protect_claim" => |value| protect(value, "kubernetes.io/pvc-protection"),
        "protect_volume" => |value| protect(value, "kubernetes.io/pv-protection"),
        "pull_policy" => pull_policy,
        "quality_of_service" => quality_of_service,
        "requests_from_limits" => requests_from_limits,
        "round_quantities" => round_quantities,
        "service_account" => service_account,
        "service_ports" => service_ports,
        "session_affinity" => session_affinity,
        "string_data" => string_data,
        "template_generation" => template_generation,
        "template_uncounted" => template_uncounted,
        "template_labels" => template_labels,
        "scheduling_gated" => return Some(Action::CallNow(scheduling_gated)),
        "job_selector" => return Some(Action::CallNow(job_selector)),
        "pending_since" => return Some(Action::CallNow(pending_since)),
        _ => return None,
    };
    Some(Action::Call(call))
}

/// The annotation in which a daemon set counts its templates.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The items of a list.
fn items<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Sets a member that is absent.
fn put(value: &mut Value, name: &str, default: Value) {
    if let Some(object) = value.as_object_mut()
        && object.get(name).is_none_or(metadata::is_unset)
    {
        object.insert(name.to_owned(), default);
    }
}

/// A copy of the entries of one map for those that another does not have.
fn put_entries(value: &mut Value, name: &str, from: Option<Value>) {
    let Some(Value::Object(from)) = from else {
        return;
    };
    let Some(object) = value.as_object_mut() else {
        return;
    };
    let into = object.entry(name).or_insert(Value::Null);
    if into.is_null() {
        *into = Value::Object(Map::new());
    }
    if let Some(into) = into.as_object_mut() {
        for (key, entry) in from {
            into.entry(key).or_insert(entry);
        }
    }
}

fn pull_policy(value: &mut Value) {
    let (name, member) = match value.get("reference") {
        Some(_) => ("reference", "pullPolicy"),
        None => ("image", "imagePullPolicy"),
    };
    let policy = match image_tag(text(value, &[name])) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    };
    put(value, member, json!(policy));
}

/// Tag of an image's name: `latest`, if there is neither tag nor digest; `None` for an invalid
/// name.
///
/// Upstream: `distribution/reference`.
fn image_tag(image: &str) -> Option<&str> {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (domain, path) = match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.to_lowercase() != first =>
        {
            (first, rest)
        }
        _ => ("", name),
    };
    let (path, tag) = path
        .split_once(':')
        .map_or((path, None), |(path, tag)| (path, Some(tag)));
    let is_part = |part: &str| {
        let is_inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        part.bytes().next().is_some_and(is_inner)
            && part.bytes().next_back().is_some_and(is_inner)
            && part
                .bytes()
                .all(|letter| is_inner(letter) || b"._-".contains(&letter))
    };
    let is_tag = |tag: &str| {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        tag.len() <= 128
            && tag.starts_with(is_word)
            && tag
                .chars()
                .all(|letter| is_word(letter) || ".-".contains(letter))
    };
    let is_domain = domain
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter));
    if !is_domain || !path.split('/').all(is_part) || tag.is_some_and(|tag| !is_tag(tag)) {
        return None;
    }
    match (tag, digest) {
        (None, None) => Some("latest"),
        (tag, _) => tag,
    }
}

fn requests_from_limits(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            if let Some(resources) = container.get_mut("resources") {
                let limits = resources.get("limits").cloned();
                put_entries(resources, "requests", limits);
            }
        }
    }
}

fn round_quantities(resources: &mut Value) {
    for name in ["limits", "requests"] {
        let entries = resources.get_mut(name).and_then(Value::as_object_mut);
        for entry in entries.into_iter().flat_map(|entries| entries.values_mut()) {
            if let Some(Ok(quantity)) = entry.as_str().map(str::parse::<Quantity>) {
                *entry = Value::from(quantity.rounded_up_to_milli().to_string());
            }
        }
    }
}

fn host_ports(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            for port in items(container, "ports") {
                if let Some(number) = port.get("containerPort").cloned() {
                    put(port, "hostPort", number);
                }
            }
        }
    }
}

fn service_account(spec: &mut Value) {
    let name = match text(spec, &["serviceAccountName"]) {
        "" => text(spec, &["serviceAccount"]),
        name => name,
    };
    if name.is_empty() {
        return;
    }
    let name = Value::from(name);
    spec["serviceAccountName"] = name.clone();
    spec["serviceAccount"] = name;
}

fn pod_addresses(status: &mut Value) {
    let first = at(status, &["podIPs"]).and_then(|list| list.get(0));
    let first = first
        .map(|item| text(item, &["ip"]).to_owned())
        .unwrap_or_default();
    let one = text(status, &["podIP"]).to_owned();
    if one.is_empty() && !first.is_empty() {
        status["podIP"] = Value::from(first);
    } else if !one.is_empty() && first != one {
        status["podIPs"] = json!([{"ip": one}]);
    }
}

fn empty_volume(volume: &mut Value) {
    if let Some(volume) = volume.as_object_mut()
        && !volume.keys().any(|name| name != "name")
    {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

/// Pods stay five minutes on a node that is not ready or cannot be reached.
pub(super) fn default_tolerations(pod: &mut Value) {
    let spec = &mut pod["spec"];
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerates = |toleration: &Value| {
            matches!(
                text(toleration, &["key"]),
                "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
            ) && (text(toleration, &["key"]).is_empty() || text(toleration, &["key"]) == key)
                && matches!(text(toleration, &["effect"]), "" | "NoExecute")
        };
        let list = at(spec, &["tolerations"]).and_then(Value::as_array);
        if list.is_some_and(|list| list.iter().any(tolerates)) {
            continue;
        }
        if !spec["tolerations"].is_array() {
            spec["tolerations"] = json!([]);
        }
        if let Some(list) = spec["tolerations"].as_array_mut() {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}),
            );
        }
    }
}

fn session_affinity(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => _ = spec.remove("sessionAffinityConfig"),
        Some("ClientIP") => {
            let config = spec.get("sessionAffinityConfig");
            let seconds = config.and_then(|config| at(config, &["clientIP", "timeoutSeconds"]));
            if seconds.is_none() {
                let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}

fn service_ports(service: &mut Value) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    for port in items(spec, "ports") {
        put(port, "protocol", json!("TCP"));
        let is_unset = |target: &Value| *target == 0 || metadata::is_unset(target);
        let number = port.get("port").cloned().unwrap_or_else(|| json!(0));
        if port.get("targetPort").is_none_or(is_unset)
            && let Some(port) = port.as_object_mut()
        {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

fn load_balancer_modes(service: &mut Value) {
    if text(service, &["spec", "type"]) != "LoadBalancer" {
        return;
    }
    let status = service
        .get_mut("status")
        .and_then(|status| status.get_mut("loadBalancer"));
    for ingress in status
        .into_iter()
        .flat_map(|status| items(status, "ingress"))
    {
        if !text(ingress, &["ip"]).is_empty() {
            put(ingress, "ipMode", json!("VIP"));
        }
    }
}

/// Moves plain text to the encoded data.
fn string_data(secret: &mut Value) {
    let Some(secret) = secret.as_object_mut() else {
        return;
    };
    let Some(Value::Object(given)) = secret.remove("stringData") else {
        return;
    };
    if given.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert(Value::Null);
    if !data.is_object() {
        *data = json!({});
    }
    for (key, value) in given {
        data[key] = Value::from(STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

/// Returns whether the older data source member supports this source: claims and snapshots only.
fn is_old_source(source: &Value) -> bool {
    matches!(
        (text(source, &["apiGroup"]), text(source, &["kind"])),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// Copies a claim's data source from the member that is set to the one that is not, if both support
/// it.
fn data_source(spec: &mut Value) {
    let member = |name| spec.get(name).filter(|source| !source.is_null()).cloned();
    match (member("dataSource"), member("dataSourceRef")) {
        (Some(source), None) if is_old_source(&source) => spec["dataSourceRef"] = source,
        (None, Some(reference))
            if reference.get("namespace").is_none() && is_old_source(&reference) =>
        {
            spec["dataSource"] = reference;
        }
        _ => {}
    }
}

/// Drops a data source of a new claim that the older member does not support.
fn drop_source(claim: &mut Value) {
    let is_unknown = at(claim, &["spec", "dataSource"]).is_some_and(|it| !is_old_source(it));
    if is_unknown && let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("dataSource");
    }
}

fn protect(value: &mut Value, finalizer: &str) {
    if metadata::finalizers(value).any(|held| held == finalizer) {
        return;
    }
    let finalizers = metadata::of(value)
        .entry("finalizers")
        .or_insert(Value::Null);
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(finalizers) = finalizers.as_array_mut() {
        finalizers.push(Value::from(finalizer));
    }
}

fn pending_since(volume: &mut Value, now: Now<'_>) {
    volume["status"] =
        json!({"phase": "Pending", "lastPhaseTransitionTime": metadata::time(now.at)});
}

fn name_label(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata::of(namespace)
        .entry("labels")
        .or_insert(Value::Null);
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = Value::from(name);
}

fn allocatable(status: &mut Value) {
    if let Some(capacity) = status
        .get("capacity")
        .filter(|value| value.is_object())
        .cloned()
    {
        put(status, "allocatable", capacity);
    }
}

fn limit_range(limit: &mut Value) {
    if text(limit, &["type"]) != "Container" {
        return;
    }
    for (name, from) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        let from = limit.get(from).cloned();
        put_entries(limit, name, from);
    }
}

/// The labels of a controller's template are the default of its selector and of its own labels.
fn template_labels(controller: &mut Value) {
    let labels = at(controller, &["spec", "template", "metadata", "labels"]).cloned();
    let Some(labels) = labels.filter(|labels| !is_empty_map(labels)) else {
        return;
    };
    if controller["spec"].get("selector").is_none_or(is_empty_map) {
        controller["spec"]["selector"] = labels.clone();
    }
    if at(controller, &["metadata", "labels"]).is_none_or(is_empty_map) {
        metadata::of(controller).insert("labels".to_owned(), labels);
    }
}

/// A job without labels has those of its template. A new one gets them with its selector: until then
/// nobody knows whether they are its own.
fn job_labels(job: &mut Value) {
    let is_manual = at(job, &["spec", "manualSelector"]) == Some(&Value::Bool(true));
    if !is_manual && at(job, &["spec", "selector"]).is_none_or(Value::is_null) {
        return;
    }
    let labels = at(job, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(|labels| !is_empty_map(labels))
        && at(job, &["metadata", "labels"]).is_none_or(is_empty_map)
    {
        metadata::of(job).insert("labels".to_owned(), labels);
    }
}

fn is_empty_map(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty)
}

/// A job selects its own pods by its uid, unless its selector is manual.
fn job_selector(job: &mut Value, now: Now<'_>) {
    if at(job, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let name = text(job, &["metadata", "name"]).to_owned();
    let labels = [
        ("batch.kubernetes.io/controller-uid", now.uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", now.uid),
        ("job-name", &name),
    ];
    let has_own = !at(job, &["metadata", "labels"]).is_none_or(is_empty_map);
    let template = &mut job["spec"]["template"];
    if !template.is_object() {
        return;
    }
    for (key, value) in labels {
        metadata::of(template)
            .entry("labels")
            .or_insert_with(|| json!({}))[key] = Value::from(value);
    }
    if !has_own {
        let labels = at(job, &["spec", "template", "metadata", "labels"]).cloned();
        metadata::of(job).insert("labels".to_owned(), labels.unwrap_or_default());
    }
    let spec = &mut job["spec"];
    if spec.get("selector").is_none_or(Value::is_null) {
        spec["selector"] = json!({});
    }
    spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = Value::from(now.uid);
}

fn template_generation(set: &mut Value) {
    annotations(set)[TEMPLATE_GENERATION] = Value::from("1");
}

/// Sets the template generation as the conversion of a daemon set does before it is counted: the
/// writer owns it.
fn template_uncounted(set: &mut Value) {
    put(annotations(set), TEMPLATE_GENERATION, Value::from("0"));
}

fn annotations(object: &mut Value) -> &mut Value {
    let annotations = metadata::of(object)
        .entry("annotations")
        .or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations
}

/// Sets kind and version of claims in a template.
fn claim_kinds(set: &mut Value) {
    if let Some(spec) = set.get_mut("spec") {
        for claim in items(spec, "volumeClaimTemplates").filter(|claim| claim.is_object()) {
            claim["apiVersion"] = json!("v1");
            claim["kind"] = json!("PersistentVolumeClaim");
        }
    }
}

fn pod_networks(node: &mut Value) {
    let one = text(node, &["spec", "podCIDR"]).to_owned();
    let first = at(node, &["spec", "podCIDRs"]).and_then(|list| list.get(0));
    let first = first.and_then(Value::as_str).map(str::to_owned);
    match (one.is_empty(), first) {
        (false, first) if first.as_ref() != Some(&one) => node["spec"]["podCIDRs"] = json!([one]),
        (true, Some(first)) => node["spec"]["podCIDR"] = Value::from(first),
        _ => {}
    }
}

/// Taints a new node: pods are scheduled to it once it reports that it is ready.
fn not_ready(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let spec = &mut node["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let taints = &mut spec["taints"];
    match taints.as_array_mut() {
        Some(taints)
            if taints
                .iter()
                .any(|old| old["key"] == taint["key"] && old["effect"] == taint["effect"]) => {}
        Some(taints) => taints.push(taint),
        None => *taints = json!([taint]),
    }
}

/// Counts the changes of a set's template, where older clients look for them.
pub(super) fn count_template(new: &mut Value, old: &Value) {
    let before = at(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    let Some(before) = before.and_then(Value::as_str) else {
        return;
    };
    let template = ["spec", "template"];
    let changed = at(new, &template) != at(old, &template);
    let count = before.parse::<i64>().unwrap_or(0) + i64::from(changed);
    annotations(new)[TEMPLATE_GENERATION] = Value::from(count.to_string());
}

/// Keeps a pod's priority if an update omits it.
pub(super) fn keep_priority(new: &mut Value, old: &Value) {
    if let Some(priority) = at(old, &["spec", "priority"])
        && let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("priority").or_insert_with(|| priority.clone());
    }
}
