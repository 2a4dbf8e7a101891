//! The names of a StatefulSet's pods and claims, and their bodies.
//!
//! ```text
//! set "x", ordinal 2, template, revision → pod "x-2"; claim templates → claims "data-x-2"
//! pod "x-2" → ordinal 2 of set "x"
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset/stateful_set_utils.go`.

use std::ops::Range;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::json::{int, maybe_int, name, set as put, text};
use crate::pods::from_template;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
pub(super) const REVISION: &str = "controller-revision-hash";

/// A revision of a set: its name and its pod template.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) template: Value,
}

/// The name of a pod.
pub(super) fn pod_name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// The name of the revision that a pod was made of; empty if it says none.
pub(super) fn revision_of(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    let revision = labels.and_then(|labels| labels.get(REVISION));
    revision.map_or("", String::as_str)
}

/// The ordinal of the pod of this name in a set; `None` if the set makes no pod of that name.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    // "x-01" and "x-+1" are names of nobody.
    (ordinal.to_string() == digits).then_some(i64::from(ordinal))
}

/// The ordinals that a set asks for.
pub(super) fn ordinals(set: &Value) -> Range<i64> {
    let start = int(set, "/spec/ordinals/start");
    let replicas = maybe_int(set, "/spec/replicas").unwrap_or(1).max(0);
    start..start.saturating_add(replicas)
}

/// The body of a new pod.
pub(super) fn pod(set: &Value, version: &Version, ordinal: i64) -> Value {
    let part = |pointer: &str| set.pointer(pointer).cloned().unwrap_or_default();
    let mut pod = from_template(&json!({
        "apiVersion": part("/apiVersion"),
        "kind": part("/kind"),
        "metadata": part("/metadata"),
        "spec": {"template": version.template},
    }));
    let name = format!("{}-{ordinal}", name(set));
    let labels = [
        (POD_NAME, name.clone()),
        (POD_INDEX, ordinal.to_string()),
        (REVISION, version.name.clone()),
    ];
    for (label, value) in labels {
        put(&mut pod, &["metadata", "labels", label], value.into());
    }
    let namespace = text(set, "/metadata/namespace");
    put(&mut pod, &["metadata", "namespace"], namespace.into());
    put(&mut pod, &["metadata", "name"], name.as_str().into());
    put(&mut pod, &["spec", "hostname"], name.into());
    let service = text(set, "/spec/serviceName");
    if !service.is_empty() {
        put(&mut pod, &["spec", "subdomain"], service.into());
    }
    let volumes = volumes(set, &pod, ordinal);
    if !volumes.is_empty() {
        put(&mut pod, &["spec", "volumes"], volumes.into());
    }
    pod
}

/// The volumes of a new pod: its claims, and those of the template that have other names.
fn volumes(set: &Value, pod: &Value, ordinal: i64) -> Vec<Value> {
    let templates = claim_templates(set);
    let of_claims = templates.iter().map(|template| {
        let claim = claim_name(set, template, ordinal);
        json!({"name": name(template), "persistentVolumeClaim": {"claimName": claim}})
    });
    let is_claim = |volume: &Value| {
        templates
            .iter()
            .any(|one| name(one) == text(volume, "/name"))
    };
    let others = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let others = others.into_iter().flatten();
    let others = others.filter(|volume| !is_claim(volume)).cloned();
    of_claims.chain(others).collect()
}

fn claim_templates(set: &Value) -> &[Value] {
    let templates = set.pointer("/spec/volumeClaimTemplates");
    templates
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn claim_name(set: &Value, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", name(template), name(set))
}

/// The names of the claims of a pod.
pub(super) fn claim_names(set: &Value, ordinal: i64) -> Vec<String> {
    let templates = claim_templates(set).iter();
    templates
        .map(|template| claim_name(set, template, ordinal))
        .collect()
}

/// The bodies of the claims of a pod, in the order of their templates.
pub(super) fn claims(set: &Value, ordinal: i64) -> Vec<Value> {
    let selected = set.pointer("/spec/selector/matchLabels");
    let templates = claim_templates(set).iter();
    templates
        .map(|template| {
            let mut claim = template.clone();
            put(&mut claim, &["apiVersion"], "v1".into());
            put(&mut claim, &["kind"], "PersistentVolumeClaim".into());
            let name = claim_name(set, template, ordinal);
            put(&mut claim, &["metadata", "name"], name.into());
            let namespace = text(set, "/metadata/namespace");
            put(&mut claim, &["metadata", "namespace"], namespace.into());
            for (label, value) in selected.and_then(Value::as_object).into_iter().flatten() {
                put(
                    &mut claim,
                    &["metadata", "labels", label.as_str()],
                    value.clone(),
                );
            }
            claim
        })
        .collect()
}

/// The patch that gives a pod the labels of its identity; `None` if it has them.
pub(super) fn identity_patch(pod: &Pod, ordinal: i64) -> Option<Value> {
    let labels = pod.metadata.labels.as_ref();
    let name = pod_name(pod);
    if labels
        .and_then(|labels| labels.get(POD_NAME))
        .map(String::as_str)
        == Some(name)
    {
        return None;
    }
    let mut labels = Map::new();
    labels.insert(POD_NAME.to_owned(), name.into());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string().into());
    Some(json!({"metadata": {"labels": labels, "uid": pod.metadata.uid}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "x", "namespace": "ns", "uid": "u"},
            "spec": {
                "replicas": 3, "serviceName": "s", "ordinals": {"start": 5},
                "selector": {"matchLabels": {"app": "x"}},
                "volumeClaimTemplates": [
                    {"metadata": {"name": "data", "labels": {"l": "1"}}, "spec": {"a": 1}},
                ],
            },
        })
    }

    #[test]
    fn names_that_a_set_would_not_make_are_of_nobody() {
        let check = |pod: &str, expected: Option<i64>| assert_eq!(ordinal("x", pod), expected);
        check("x-0", Some(0));
        check("x-12", Some(12));
        for other in ["x-01", "x-", "x", "x-+1", "y-1", "x-y-1", "x-99999999999"] {
            check(other, None);
        }
        assert_eq!(ordinal("x-y", "x-y-1"), Some(1));
    }

    #[test]
    fn a_pod_has_a_name_and_its_claims_in_place_of_volumes() {
        let template = json!({
            "metadata": {"labels": {"app": "x"}},
            "spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp"}]},
        });
        let version = Version {
            name: "x-r".to_owned(),
            template,
        };
        let pod = pod(&set(), &version, 6);
        let labels = json!({
            "app": "x", "apps.kubernetes.io/pod-index": "6", "controller-revision-hash": "x-r",
            "statefulset.kubernetes.io/pod-name": "x-6",
        });
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["metadata"]["name"], "x-6");
        assert_eq!(pod["metadata"]["generateName"], "x-");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&json!("x-6"), &json!("s"))
        );
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-x-6"}}, {"name": "tmp"},
        ]);
        assert_eq!(pod["spec"]["volumes"], volumes);
    }

    #[test]
    fn claims_have_the_labels_of_the_template_and_of_the_selector() {
        let claims = claims(&set(), 5);
        let expected = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data-x-5", "namespace": "ns", "labels": {"l": "1", "app": "x"},
            },
            "spec": {"a": 1},
        });
        assert_eq!(claims, [expected]);
        assert_eq!(claim_names(&set(), 5), ["data-x-5"]);
        assert_eq!(ordinals(&set()), 5..8);
    }

    #[test]
    fn an_adopted_pod_gets_the_labels_of_its_identity() {
        let pod = json!({"metadata": {"name": "x-1", "uid": "p"}});
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        let patch = identity_patch(&pod, 1).unwrap();
        assert_eq!(patch["metadata"]["labels"][POD_INDEX], "1");
        assert_eq!(patch["metadata"]["uid"], "p");
        let labels = [(POD_NAME.to_owned(), "x-1".to_owned())];
        pod.metadata.labels = Some(labels.into());
        assert_eq!(identity_patch(&pod, 1), None);
    }
}
