//! The place of a DaemonSet's pods: the nodes that want one, and the node of each.
//!
//! ```text
//! set + node → wants one | may keep one | must not have one          pod → the node that it is for
//! set + node → the body of a pod for it: node affinity by name, tolerations, labels
//! ```
//!
//! The scheduler binds the pods: their affinity leaves it one node.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/daemon/daemon_controller.go`
//! (`NodeShouldRunDaemonPod`), `pkg/controller/daemon/util/daemonset_util.go`.

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use serde_json::{Value, json};

use crate::json::{annotation, set as put};
use crate::pods::{from_template, node as node_of};
use crate::scheduler::fit::{matches_node, name, taints, tolerates};

pub(super) const HASH: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";
const GENERATION_OF_SET: &str = "deprecated.daemonset.template.generation";

/// The tolerations of every pod, which stays while its node is in trouble.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The toleration of pods on the node's network, in addition.
const OF_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The relation of a set to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It wants a pod there.
    Wants,
    /// A pod that is there may stay.
    Keeps,
    /// No pod may be there.
    Refuses,
}

/// The pods of a set, as a template for one of its nodes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    spec: PodSpec,
    body: Value,
    hash: String,
    generation: Option<String>,
}

impl Template {
    /// The template of a set at the revision of this hash.
    pub(super) fn of(set: &Value, hash: &str) -> Self {
        let mut body = from_template(set);
        add_tolerations(&mut body);
        put(&mut body, &["metadata", "labels", HASH], hash.into());
        let generation = annotation(set, GENERATION_OF_SET);
        let generation = generation.filter(|text| text.parse::<i64>().is_ok());
        if let Some(generation) = generation {
            put(
                &mut body,
                &["metadata", "labels", GENERATION],
                generation.into(),
            );
        }
        // A template that is no pod's has no rules; the server refuses it anyway.
        let spec = serde_json::from_value(body["spec"].clone()).unwrap_or_default();
        Self {
            spec,
            hash: hash.to_owned(),
            generation: generation.map(str::to_owned),
            body,
        }
    }

    /// Decides whether a node gets a pod.
    pub(super) fn fit(&self, node: &Node) -> Fit {
        let wanted = self.spec.node_name.as_deref().unwrap_or_default();
        if !(wanted.is_empty() || wanted == name(node)) || !matches_node(&self.spec, node) {
            return Fit::Refuses;
        }
        let tolerations = self.spec.tolerations.as_deref().unwrap_or_default();
        let is_untolerated = |effects: &[&str]| {
            taints(node).iter().any(|taint| {
                effects.contains(&taint.effect.as_str()) && !tolerates(tolerations, taint)
            })
        };
        if is_untolerated(&["NoExecute"]) {
            Fit::Refuses
        } else if is_untolerated(&["NoSchedule"]) {
            Fit::Keeps
        } else {
            Fit::Wants
        }
    }

    /// The body of a new pod for a node.
    pub(super) fn pod_for(&self, node: &str) -> Value {
        let mut pod = self.body.clone();
        let terms = json!([{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]},
        ]}]);
        let path = [
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ];
        put(&mut pod, &path, terms);
        pod
    }

    /// Returns whether a pod is of this template.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        let label = |key: &str| {
            let labels = pod.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        label(HASH) == Some(&self.hash)
            || self.generation.is_some() && label(GENERATION) == self.generation.as_deref()
    }
}

fn add_tolerations(pod: &mut Value) {
    let is_on_host = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true);
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    let mut tolerations = tolerations.cloned().unwrap_or_default();
    let more = is_on_host.then_some(OF_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(more) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    put(pod, &["spec", "tolerations"], tolerations.into());
}

/// The node that a pod is on, or is made for.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let bound = node_of(pod);
    if !bound.is_empty() {
        return Some(bound);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
    let required = affinity
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let mut fields = required
        .node_selector_terms
        .iter()
        .filter_map(|term| term.match_fields.as_deref())
        .flatten();
    let by_name = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    match by_name.values.as_deref() {
        Some([node]) => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(spec: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "x", "uid": "u", "annotations": {GENERATION_OF_SET: "3"}},
            "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": spec}},
        })
    }

    fn node(spec: Value) -> Node {
        let node = json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": spec});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn selectors_and_taints_decide_about_a_node() {
        let check = |pod: Value, of_node: Value, expected: Fit| {
            let mut spec = json!({"containers": []});
            for (key, value) in pod.as_object().unwrap() {
                spec[key] = value.clone();
            }
            let template = Template::of(&set(spec), "h");
            assert_eq!(template.fit(&node(of_node)), expected, "{pod}");
        };
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        check(json!({}), json!({}), Fit::Wants);
        check(
            json!({"nodeSelector": {"disk": "ssd"}}),
            json!({}),
            Fit::Wants,
        );
        check(
            json!({"nodeSelector": {"disk": "hdd"}}),
            json!({}),
            Fit::Refuses,
        );
        check(json!({"nodeName": "m"}), json!({}), Fit::Refuses);
        check(json!({"nodeName": "n"}), json!({}), Fit::Wants);
        check(json!({}), taint("k", "NoSchedule"), Fit::Keeps);
        check(json!({}), taint("k", "NoExecute"), Fit::Refuses);
        check(json!({}), taint("k", "PreferNoSchedule"), Fit::Wants);
        let tolerates = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
        check(tolerates, taint("k", "NoExecute"), Fit::Wants);
        let cordoned = "node.kubernetes.io/unschedulable";
        check(json!({}), taint(cordoned, "NoSchedule"), Fit::Wants);
        let without_network = "node.kubernetes.io/network-unavailable";
        check(json!({}), taint(without_network, "NoSchedule"), Fit::Keeps);
        let on_host = json!({"hostNetwork": true});
        check(on_host, taint(without_network, "NoSchedule"), Fit::Wants);
    }

    #[test]
    fn a_pod_is_for_one_node() {
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]);
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
        let spec = json!({"containers": [], "affinity": affinity});
        let template = Template::of(&set(spec), "h");
        let body = template.pod_for("n");
        let labels = json!({"app": "x", HASH: "h", GENERATION: "3"});
        assert_eq!(body["metadata"]["labels"], labels);
        assert_eq!(body["metadata"]["generateName"], "x-");
        assert_eq!(body["spec"]["tolerations"].as_array().unwrap().len(), 6);
        let mut pod: Pod = serde_json::from_value(body).unwrap();
        assert_eq!(target(&pod), Some("n"));
        assert!(template.is_of(&pod));
        pod.spec.as_mut().unwrap().node_name = Some("bound".to_owned());
        assert_eq!(target(&pod), Some("bound"));
        assert_eq!(target(&Pod::default()), None);
    }

    #[test]
    fn pods_of_other_templates_are_told_by_hash_and_generation() {
        let template = Template::of(&set(json!({"containers": []})), "h");
        let check = |labels: Value, expected: bool| {
            let pod = json!({"metadata": {"labels": labels}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(template.is_of(&pod), expected);
        };
        check(json!({HASH: "h", GENERATION: "2"}), true);
        check(json!({HASH: "g", GENERATION: "3"}), true);
        check(json!({HASH: "g", GENERATION: "2"}), false);
        check(json!({}), false);
    }
}
