//! The stories: their lists, what the recorder did without recording it, and what differs on purpose.
//!
//! ```text
//! name of a story, step ──▶ labels of its namespace, objects to make first, reason to differ
//! ```

use serde_json::{Value, json};

/// Steps that differ: story, steps, and the reason.
pub(super) const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    (
        "policy/definitions",
        &[19],
        "the first mistake of an expression is told, there all are",
    ),
    (
        "policy/definitions",
        &[22],
        "an expression of more than 16 KiB is refused here",
    ),
    ("policy/definitions", &[51], "the age of the policy"),
    (
        "policy/mutating",
        &[13],
        "the value of another type is not shown",
    ),
    (
        "policy/validating",
        &[10],
        "the recorder's delete of the objects was still refused by the policy",
    ),
    (
        "conversion",
        &[1, 74, 80],
        "the recorded server has another name as a field manager",
    ),
    (
        "conversion",
        &[14],
        "there the partial objects of an apply are converted, too, and that fails; here they are not",
    ),
    (
        "conversion-broken",
        &[9, 13, 18],
        "the recorded server has another name as a field manager",
    ),
    (
        "conversion-broken",
        &[15],
        "the reason is told, where a real server says that its storage is not ready",
    ),
    (
        "conversion-broken",
        &[16, 17, 19],
        "an object is removed through its own version, and with its definition, without a conversion",
    ),
    (
        "builtin",
        &[4],
        "the controller is here: an object in a namespace that ends is ending, too",
    ),
    (
        "builtin",
        &[28, 37],
        "both classes are made within one second here: the first by name is taken",
    ),
    (
        "limitrange",
        &[10],
        "a real server reports errors of several resources in random order",
    ),
    ("resourcequota", &[22, 24], "addresses are random"),
    ("resourcequota", &[29], "the age depends on the time"),
    (
        "webhook/custom",
        &[9],
        "what a webhook adds beyond the schema is dropped before the next one is asked",
    ),
    (
        "webhook/custom",
        &[16],
        "another message for another version",
    ),
    (
        "webhook/custom",
        &[23],
        "a scale has no owners of its fields here",
    ),
    (
        "webhook/exempt",
        &[11],
        "the recorded API service is the server's own here",
    ),
    (
        "webhook/exempt",
        &[8],
        "the recorded token is not one of this server",
    ),
    (
        "webhook/match-policy-mutating",
        &[1],
        "the versions of autoscalers are stored apart here",
    ),
    (
        "webhook/match-policy",
        &[2, 4],
        "the versions of autoscalers are stored apart here",
    ),
    (
        "webhook/mutating-workload",
        &[1, 11, 12, 13],
        "the recorded patch is not whole: the recorder took a part of it for a token",
    ),
    (
        "webhook/mutating-workload",
        &[8],
        "a scale has no owners of its fields here",
    ),
    (
        "webhook/mutating",
        &[7],
        "the recorded patch is not whole: the recorder took it for a token",
    ),
    (
        "webhook/mutating",
        &[9],
        "what a parser says of malformed JSON is its own",
    ),
    (
        "webhook/mutating",
        &[20],
        "another message for another kind",
    ),
    (
        "webhook/operations",
        &[15],
        "the collector is here, and nothing depended on the object",
    ),
    (
        "webhook/operations",
        &[26, 27, 28, 31, 33, 34],
        "there is no node behind this server",
    ),
];

/// The stories of webhooks.
pub(super) const WEBHOOKS: [&str; 17] = [
    "webhook/configurations",
    "webhook/custom",
    "webhook/dry-run",
    "webhook/exempt",
    "webhook/failures-mutating",
    "webhook/failures-validating",
    "webhook/match-conditions",
    "webhook/match-policy-mutating",
    "webhook/match-policy",
    "webhook/mutating-workload",
    "webhook/mutating",
    "webhook/operations",
    "webhook/order",
    "webhook/reinvocation",
    "webhook/selectors",
    "webhook/service",
    "webhook/validating",
];

/// The stories of policies.
pub(super) const POLICIES: [&str; 4] = [
    "policy/definitions",
    "policy/mutating",
    "policy/params",
    "policy/validating",
];

/// The stories of conversion between versions.
pub(super) const CONVERSIONS: [&str; 4] = [
    "conversion",
    "conversion-broken",
    "conversion-definitions",
    "conversion-none",
];

/// The stories of compiled-in plugins.
pub(super) const PLUGINS: [&str; 7] = [
    "builtin",
    "limitrange",
    "podsecurity/baseline",
    "podsecurity/restricted",
    "podsecurity/warn",
    "resourcequota",
    "serviceaccount",
];

/// Stories between whose steps the recorder removed its configurations.
pub(super) const CLEANED: [&str; 8] = [
    "policy/mutating",
    "policy/params",
    "policy/validating",
    "webhook/configurations",
    "webhook/failures-mutating",
    "webhook/failures-validating",
    "webhook/match-conditions",
    "webhook/service",
];

/// The step of another story before which it removed them.
pub(super) const CLEANED_ONCE: (&str, usize) = ("webhook/custom", 31);

/// Stories in which the recorder removed objects, too, and their resource.
pub(super) const EMPTIED: [(&str, &str); 4] = [
    ("policy/mutating", "configmaps"),
    ("policy/params", "secrets"),
    ("policy/validating", "configmaps"),
    ("webhook/match-conditions", "configmaps"),
];

pub(super) const CONFIGURATIONS: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// The labels of a story's namespace.
pub(super) fn labels(story: &str) -> Value {
    let mut labels = json!({"story": story.replace('/', "-")});
    let more: &[(&str, &str)] = match story {
        "webhook/selectors" => &[("env", "prod")],
        "podsecurity/baseline" => &[("pod-security.kubernetes.io/enforce", "baseline")],
        "podsecurity/restricted" => &[("pod-security.kubernetes.io/enforce", "restricted")],
        "podsecurity/warn" => &[
            ("pod-security.kubernetes.io/audit", "baseline"),
            ("pod-security.kubernetes.io/warn", "restricted"),
            ("pod-security.kubernetes.io/warn-version", "latest"),
        ],
        _ => &[],
    };
    for (key, value) in more {
        labels[*key] = Value::from(*value);
    }
    labels
}

/// A call that a webhook allows while objects are made that were not recorded.
pub(super) fn allowing() -> Value {
    let uid = "00000000-0000-0000-0000-000000000000";
    json!({"path": "/w", "request": {"request": {"uid": uid}}, "response": {
        "status": 200,
        "headers": {"Content-Type": "application/json"},
        "body": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": true}},
    }})
}

/// The objects that the recorder made before a step without recording it, with their paths.
pub(super) fn unrecorded(story: &str, step: usize) -> Vec<(String, Value)> {
    let namespace = format!("adm-{}", story.replace('/', "-"));
    let within = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let namespaces = || "/api/v1/namespaces".to_owned();
    let maps = |count: usize| {
        let map = |at| json!({"metadata": {"name": format!("col-{at}"), "labels": {"col": "y"}}});
        (0..count)
            .map(|at| (within("configmaps"), map(at)))
            .collect()
    };
    match (story, step) {
        ("policy/validating", 0) => limited(&namespace),
        ("policy/params", 0) => vec![(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            json!({"metadata": {"name": "limits.params.example.com"}, "spec": {
                "group": "params.example.com", "scope": "Namespaced",
                "names": {"kind": "Limit", "plural": "limits"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                    {"openAPIV3Schema": {"type": "object",
                        "properties": {"max": {"type": "integer"}}}}}]}}),
        )],
        ("builtin", 2) => vec![
            (namespaces(), json!({"metadata": {"name": "adm-ending"}})),
            (
                "/api/v1/namespaces/adm-ending/configmaps".to_owned(),
                // Here a controller ends what nobody holds.
                json!({"metadata": {"name": "there", "finalizers": ["example.com/hold"]}}),
            ),
        ],
        ("webhook/operations", 0) => {
            let account = json!({"metadata": {"name": "default"}});
            let mut made = limited(&namespace);
            made.push((within("serviceaccounts"), account));
            made
        }
        ("webhook/operations", 17) => maps(3),
        ("webhook/operations", 19) => maps(2),
        ("webhook/selectors", 0) => {
            vec![(
                namespaces(),
                json!({"metadata": {"name": "adm-unlabelled"}}),
            )]
        }
        _ => Vec::new(),
    }
}

/// The rights of the user `limited`: to create and read config maps.
fn limited(namespace: &str) -> Vec<(String, Value)> {
    let group = "rbac.authorization.k8s.io";
    let path = format!("/apis/{group}/v1/namespaces/{namespace}");
    vec![
        (
            format!("{path}/roles"),
            json!({"metadata": {"name": "lim"}, "rules": [{"apiGroups": [""],
                "resources": ["configmaps"], "verbs": ["create", "get"]}]}),
        ),
        (
            format!("{path}/rolebindings"),
            json!({"metadata": {"name": "lim"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "lim"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "limited"}]}),
        ),
    ]
}
