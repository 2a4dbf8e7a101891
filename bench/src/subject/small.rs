//! Small pods for scenarios about reading: the same for kinform and kube-rs.
//!
//! ```text
//! number ─▶ name, namespace, node ─▶ JSON | Pod       step ─▶ which pod goes to which node
//! ```
//!
//! The Go subject has the same numbers.

use std::fmt::Write;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The number of nodes, and of namespaces.
pub const NODES: usize = 40;

/// An event: a pod goes to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pod's number.
    pub pod: usize,
    /// The node's number.
    pub node: usize,
}

impl Step {
    /// The step of that number: as if at random, but always the same.
    #[must_use]
    pub fn of(number: u64, pods: usize) -> Self {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        let mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16;
        Self {
            pod: mixed as usize % pods.max(1),
            node: (mixed >> 24) as usize % NODES,
        }
    }
}

/// The node that a pod begins on.
#[must_use]
pub fn node(pod: usize) -> usize {
    pod % NODES
}

fn namespace(pod: usize) -> String {
    format!("namespace-{}", pod / 7 % NODES)
}

fn name(pod: usize) -> String {
    format!("application-7d8f9c6b5-{pod:07}")
}

/// `namespace/name`
#[must_use]
pub fn key(pod: usize) -> String {
    format!("{}/{}", namespace(pod), name(pod))
}

/// The name of a node.
#[must_use]
pub fn node_name(node: usize) -> String {
    format!("node-{node:02}.example.com")
}

/// Writes a pod as a server does.
pub fn pod_json(text: &mut String, pod: usize, node: usize, version: u64) {
    let _ = write!(
        text,
        "{{\"metadata\":{{\"name\":\"{}\",\"namespace\":\"{}\",\
         \"uid\":\"00000000-0000-4000-8000-{pod:012}\",\"resourceVersion\":\"{version}\"}},\
         \"spec\":{{\"containers\":[],\"nodeName\":\"{}\"}}}}",
        name(pod),
        namespace(pod),
        node_name(node)
    );
}

/// The same as its type.
#[must_use]
pub fn typed_pod(pod: usize, node: usize, version: u64) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name(pod)),
            namespace: Some(namespace(pod)),
            uid: Some(format!("00000000-0000-4000-8000-{pod:012}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some(node_name(node)),
            ..PodSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_type_are_the_same_pod() {
        let mut text = String::new();
        pod_json(&mut text, 12, node(12), 3);
        let read: Pod = serde_json::from_str(&text).unwrap();
        assert_eq!(read.metadata, typed_pod(12, node(12), 3).metadata);
        let node_of = |pod: &Pod| pod.spec.clone().and_then(|spec| spec.node_name);
        assert_eq!(node_of(&read), node_of(&typed_pod(12, node(12), 3)));
        assert_eq!(key(12), "namespace-1/application-7d8f9c6b5-0000012");
    }

    #[test]
    fn steps_reach_every_pod_and_node() {
        let steps: Vec<Step> = (0..4000).map(|number| Step::of(number, 100)).collect();
        for pod in 0..100 {
            assert!(steps.iter().any(|step| step.pod == pod), "{pod}");
        }
        for node in 0..NODES {
            assert!(steps.iter().any(|step| step.node == node), "{node}");
        }
    }
}
