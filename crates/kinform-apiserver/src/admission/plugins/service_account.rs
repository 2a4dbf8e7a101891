//! ServiceAccount: the account of a pod, its token and its pull secrets.
//!
//! ```text
//! account of the pod, else `default` ──▶ name, volume and mounts of the token, pull secrets | 403
//! ```
//!
//! The annotation of an account that may mount only its own secrets still has its effect. A pod that
//! mirrors a static one has no account, and must not have secrets.
//!
//! Upstream: `kubernetes:plugin/pkg/admission/serviceaccount/admission.go`.

use std::sync::Arc;

use kinform_api::Status;
use serde_json::{Value, json};

use super::amounts::containers;
use super::forbidden;
use crate::admission::{Objects, Question};
use crate::builtin::names::random_suffix;
use crate::object::text;
use crate::random;
use crate::storage::Stored;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ONLY_OWN_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const VOLUME: &str = "kube-api-access-";
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime of a mounted token.
const SECONDS: u64 = 3607;

/// Sets the account of a new pod, and what comes with it.
pub(super) fn set(question: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    if is_mirror(pod) {
        return check(question, new(pod));
    }
    if text(pod, &["spec", "serviceAccountName"]).is_empty() {
        for name in ["serviceAccountName", "serviceAccount"] {
            pod["spec"][name] = Value::from(DEFAULT);
        }
    }
    let account = account(question, pod)?.value();
    let automount = |of: &Value| of["automountServiceAccountToken"].as_bool();
    let mounts = automount(&pod["spec"]).or_else(|| automount(&account));
    if mounts.unwrap_or(true) {
        mount_token(pod);
    }
    let spec = &mut pod["spec"];
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if is_empty(&spec["imagePullSecrets"]) && !is_empty(&account["imagePullSecrets"]) {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    check(question, new(pod))
}

fn new(pod: &Value) -> Objects<'_> {
    Objects {
        object: Some(pod),
        old: None,
    }
}

fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][MIRROR].is_null()
}

/// Refuses a pod without an account that exists, and one with secrets that its account may not mount.
pub(super) fn check(question: &Question<'_>, objects: Objects<'_>) -> Result<(), Box<Status>> {
    let Some(pod) = objects.object else {
        return Ok(());
    };
    let name = text(pod, &["metadata", "name"]);
    if is_mirror(pod) {
        return match of_mirror(pod) {
            Some(why) => Err(forbidden(question, name, why)),
            None => Ok(()),
        };
    }
    let account = account(question, pod)?.value();
    if !has_only_own_secrets(&account) {
        return Ok(());
    }
    match foreign_secret(pod, &account) {
        Some(why) => Err(forbidden(question, name, &why)),
        None => Ok(()),
    }
}

/// Refuses containers to debug with secrets that the account of the pod may not mount.
pub(super) fn check_debug(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let Some(pod) = objects.object else {
        return Ok(());
    };
    let account = account(question, pod)?.value();
    if !has_only_own_secrets(&account) {
        return Ok(());
    }
    let place = ("ephemeralContainers", "ephemeral container");
    match foreign_variable(pod, place, &account) {
        Some(why) => Err(forbidden(question, text(pod, &["metadata", "name"]), &why)),
        None => Ok(()),
    }
}

/// The account of a pod.
fn account(question: &Question<'_>, pod: &Value) -> Result<Arc<Stored>, Box<Status>> {
    let namespace = question.namespace.unwrap_or_default();
    let pod_name = text(pod, &["metadata", "name"]);
    let name = text(pod, &["spec", "serviceAccountName"]);
    if name.is_empty() {
        let why = format!("no service account specified for pod {namespace}/{pod_name}");
        return Err(forbidden(question, pod_name, &why));
    }
    let store = &question.state.store;
    let found = store.get(
        store.shelf("serviceaccounts"),
        &format!("{namespace}/{name}"),
    );
    found.ok_or_else(|| {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        forbidden(question, pod_name, &why)
    })
}

/// The reason to refuse a pod that mirrors a static one.
fn of_mirror(pod: &Value) -> Option<&'static str> {
    let spec = &pod["spec"];
    if !text(spec, &["serviceAccountName"]).is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if has_secrets(spec) {
        return Some("a mirror pod may not reference secrets");
    }
    let projects = |source: &Value| !source["serviceAccountToken"].is_null();
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources = volumes.flat_map(|volume| {
        volume["projected"]["sources"]
            .as_array()
            .into_iter()
            .flatten()
    });
    let tokens = sources.any(projects);
    tokens.then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Returns whether a secret is named anywhere: by a volume, a variable or a pull.
fn has_secrets(value: &Value) -> bool {
    const NAMES: [&str; 6] = [
        "secret",
        "secretKeyRef",
        "secretRef",
        "imagePullSecrets",
        "nodePublishSecretRef",
        "secretName",
    ];
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_set = !value.is_null() && *value != json!([]);
            NAMES.contains(&name.as_str()) && is_set || has_secrets(value)
        }),
        Value::Array(items) => items.iter().any(has_secrets),
        _ => false,
    }
}

/// Gives each container a mount of the token, unless it has something there.
fn mount_token(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.map(|volume| text(volume, &["name"]));
    let known = names.find(|name| name.starts_with(VOLUME));
    let known = known.map(str::to_owned);
    let name = match &known {
        Some(name) => name.clone(),
        None => format!("{VOLUME}{}", random_suffix(random::suffix())),
    };
    let mut is_needed = false;
    for place in ["initContainers", "containers"] {
        let list = spec.get_mut(place).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            let mounts = &mut container["volumeMounts"];
            let is_there = |of: &Value| text(of, &["mountPath"]) == MOUNT;
            if mounts
                .as_array()
                .is_some_and(|all| all.iter().any(is_there))
            {
                continue;
            }
            push(
                mounts,
                json!({"name": name, "readOnly": true, "mountPath": MOUNT}),
            );
            is_needed = true;
        }
    }
    if known.is_none() && is_needed {
        push(
            &mut spec["volumes"],
            json!({"name": name, "projected": token_sources()}),
        );
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// The token, the authority of the server, and the namespace.
fn token_sources() -> Value {
    json!({"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]})
}

fn has_only_own_secrets(account: &Value) -> bool {
    let value = account["metadata"]["annotations"][ONLY_OWN_SECRETS].as_str();
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// The names in a list of references.
fn names(list: &Value) -> impl Iterator<Item = &str> + Clone {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| text(item, &["name"]))
}

/// The first secret of a pod that its account does not name, as the reason of a refusal.
fn foreign_secret(pod: &Value, account: &Value) -> Option<String> {
    let account_name = text(account, &["metadata", "name"]);
    let own = names(&account["secrets"]);
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let secrets = volumes.filter(|volume| !volume["secret"].is_null());
    let mut secrets = secrets.map(|volume| text(volume, &["secret", "secretName"]));
    if let Some(name) = secrets.find(|name| !own.clone().any(|of| of == *name)) {
        return Some(format!(
            "volume with secret.secretName=\"{name}\" is not allowed because service account \
             {account_name} does not reference that secret"
        ));
    }
    for place in [
        ("initContainers", "init container"),
        ("containers", "container"),
    ] {
        let found = foreign_variable(pod, place, account);
        if found.is_some() {
            return found;
        }
    }
    let own = names(&account["imagePullSecrets"]);
    let mut pulls = names(&pod["spec"]["imagePullSecrets"]).enumerate();
    let (at, name) = pulls.find(|(_, name)| !own.clone().any(|of| of == *name))?;
    Some(format!(
        "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account \
         {account_name} does not reference that imagePullSecret"
    ))
}

/// The first secret that is the source of a variable and that the account does not name.
fn foreign_variable(pod: &Value, (place, word): (&str, &str), account: &Value) -> Option<String> {
    let account_name = text(account, &["metadata", "name"]);
    let own = names(&account["secrets"]);
    let is_foreign = |reference: &Value| {
        let name = text(reference, &["name"]);
        !reference.is_null() && !own.clone().any(|of| of == name)
    };
    for container in containers(pod, place) {
        let list = |name: &str| container[name].as_array().into_iter().flatten();
        let keys = list("env").map(|of| (of, &of["valueFrom"]["secretKeyRef"]));
        let maps = list("envFrom").map(|of| (of, &of["secretRef"]));
        let mut all = keys.chain(maps);
        let Some((of, reference)) = all.find(|(_, reference)| is_foreign(reference)) else {
            continue;
        };
        let by = match of["valueFrom"].is_null() {
            true => "envFrom".to_owned(),
            false => format!("envVar {}", text(of, &["name"])),
        };
        return Some(format!(
            "{word} {} with {by} referencing secret.secretName=\"{}\" is not allowed because \
             service account {account_name} does not reference that secret",
            text(container, &["name"]),
            text(reference, &["name"])
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_once_and_only_where_nothing_is() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "c"}, {"name": "own", "volumeMounts": [{"mountPath": MOUNT}]}],
            "initContainers": [{"name": "i"}]}});
        mount_token(&mut pod);
        let once = pod.clone();
        mount_token(&mut pod);
        assert_eq!(pod, once);
        let spec = &pod["spec"];
        let name = text(&spec["volumes"][0], &["name"]);
        assert!(
            name.starts_with(VOLUME) && name.len() == VOLUME.len() + 5,
            "{name}"
        );
        let mount = json!([{"name": name, "readOnly": true, "mountPath": MOUNT}]);
        assert_eq!(spec["containers"][0]["volumeMounts"], mount);
        assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
        assert_eq!(
            spec["containers"][1]["volumeMounts"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let mut own = json!({"spec": {"containers": [spec["containers"][1]]}});
        mount_token(&mut own);
        assert!(own["spec"]["volumes"].is_null());
    }

    #[test]
    fn an_account_can_be_held_to_its_own_secrets() {
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "own"}],
            "imagePullSecrets": [{"name": "pull"}]});
        let refused = |spec: Value| foreign_secret(&json!({"spec": spec}), &account);
        let variable = |name: &str| {
            json!([{"name": "c", "env": [{"name": "V",
            "valueFrom": {"secretKeyRef": {"name": name}}}]}])
        };
        let all = |name: &str| json!([{"name": "c", "envFrom": [{"secretRef": {"name": name}}]}]);
        let end = "because service account a does not reference that";
        for (spec, wanted) in [
            (
                json!({"volumes": [{"secret": {"secretName": "own"}}]}),
                None,
            ),
            (
                json!({"volumes": [{"secret": {"secretName": "no"}}]}),
                Some("volume with secret.secretName=\"no\" is not allowed"),
            ),
            (json!({"containers": variable("own")}), None),
            (
                json!({"containers": variable("no")}),
                Some(
                    "container c with envVar V referencing secret.secretName=\"no\" is not allowed",
                ),
            ),
            (
                json!({"initContainers": all("no")}),
                Some(
                    "init container c with envFrom referencing secret.secretName=\"no\" is not allowed",
                ),
            ),
            (json!({"imagePullSecrets": [{"name": "pull"}]}), None),
            (
                json!({"imagePullSecrets": [{"name": "own"}]}),
                Some("imagePullSecrets[0].name=\"own\" is not allowed"),
            ),
        ] {
            let found = refused(spec.clone());
            let wanted = wanted.map(|begin| format!("{begin} {end} "));
            assert_eq!(found.is_some(), wanted.is_some(), "{spec}");
            let begin = wanted.unwrap_or_default();
            assert!(found.unwrap_or_default().starts_with(&begin), "{spec}");
        }
    }

    #[test]
    fn a_mirror_pod_has_no_account_and_no_secrets() {
        for (spec, is_refused) in [
            (json!({"containers": [{"name": "c"}]}), false),
            (json!({"serviceAccountName": "a"}), true),
            (json!({"volumes": [{"secret": {"secretName": "s"}}]}), true),
            (json!({"imagePullSecrets": []}), false),
            (
                json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]}),
                true,
            ),
        ] {
            assert_eq!(
                of_mirror(&json!({"spec": spec})).is_some(),
                is_refused,
                "{spec}"
            );
        }
    }
}
