//! Differences from kind to kind: kinds that count generations, and kinds that a PUT may create.
//!
//! ```text
//! table of kinds ──▶ a row each
//! ```
//!
//! Upstream counterpart: `kubernetes:test/integration/apiserver/apidefinitions` (`generation_test`,
//! `default_behaviors_test`).

use serde_json::{Value, json};

use super::Row;
use super::probe::{Failure, Probe, holds, same};

/// A row for each kind that a PUT creates, and for each whose generation is checked.
macro_rules! kinds {
    (put: $($put:ident $put_path:literal $put_body:literal),+;
     generation: $($name:ident $path:literal $body:literal $change:literal => $counts:literal),+ $(,)?) => {
        pub(super) const ROWS: &[Row] = &[
            $(Row {
                name: stringify!($put),
                cites: "default_behaviors_test",
                act: |probe| Box::pin(put(probe, $put_path, $put_body)),
            },)+
            $(Row {
                name: stringify!($name),
                cites: "generation_test",
                act: |probe| Box::pin(generation(probe, $path, $body, $change, $counts)),
            },)+
        ];
    };
}

kinds! {
    put:
    a_put_creates_a_lease "~coordination.k8s.io/v1/leases" r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}"#,
    a_put_creates_a_role "~rbac.authorization.k8s.io/v1/roles" r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role"}"#,
    a_put_creates_a_role_binding "~rbac.authorization.k8s.io/v1/rolebindings" r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"x"}}"#,
    a_put_creates_endpoints "~/endpoints" r#"{"apiVersion":"v1","kind":"Endpoints"}"#,
    a_put_creates_a_limit_range "~/limitranges" r#"{"apiVersion":"v1","kind":"LimitRange","spec":{"limits":[]}}"#,
    a_put_creates_a_service "~/services" r#"{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80}]}}"#,
    a_put_creates_an_event "~/events" r#"{"apiVersion":"v1","kind":"Event","involvedObject":{"namespace":"{ns}","name":"x"}}"#,
    a_put_does_not_create_a_secret "~/secrets" r#"{"apiVersion":"v1","kind":"Secret"}"#,
    a_put_does_not_create_a_service_account "~/serviceaccounts" r#"{"apiVersion":"v1","kind":"ServiceAccount"}"#;
    generation:
    config_maps_count_no_generation "~/configmaps" r#"{"apiVersion":"v1","kind":"ConfigMap"}"# r#"{"data":{"a":"b"}}"# => 0,
    secrets_count_no_generation "~/secrets" r#"{"apiVersion":"v1","kind":"Secret"}"# r#"{"data":{"a":"Yg=="}}"# => 0,
    services_count_no_generation "~/services" r#"{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80}]}}"# r#"{"spec":{"sessionAffinity":"ClientIP"}}"# => 0,
    service_accounts_count_no_generation "~/serviceaccounts" r#"{"apiVersion":"v1","kind":"ServiceAccount"}"# r#"{"automountServiceAccountToken":false}"# => 0,
    quotas_count_no_generation "~/resourcequotas" r#"{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"pods":"1"}}}"# r#"{"spec":{"hard":{"pods":"2"}}}"# => 0,
    claims_count_no_generation "~/persistentvolumeclaims" r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"# r#"{"spec":{"volumeName":"v"}}"# => 0,
    leases_count_no_generation "~coordination.k8s.io/v1/leases" r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}"# r#"{"spec":{"holderIdentity":"x"}}"# => 0,
    roles_count_no_generation "~rbac.authorization.k8s.io/v1/roles" r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role"}"# r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"# => 0,
    deployments_count_generations "~apps/v1/deployments" r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"# r#"{"spec":{"replicas":3}}"# => 2,
    replica_sets_count_generations "~apps/v1/replicasets" r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"# r#"{"spec":{"replicas":3}}"# => 2,
    stateful_sets_count_generations "~apps/v1/statefulsets" r#"{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"# r#"{"spec":{"replicas":3}}"# => 2,
    daemon_sets_count_generations "~apps/v1/daemonsets" r#"{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"# r#"{"spec":{"minReadySeconds":3}}"# => 2,
    jobs_count_generations "~batch/v1/jobs" r#"{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"# r#"{"spec":{"parallelism":3}}"# => 2,
    cron_jobs_count_generations "~batch/v1/cronjobs" r#"{"apiVersion":"batch/v1","kind":"CronJob","spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"# r#"{"spec":{"suspend":true}}"# => 2,
    budgets_count_generations "~policy/v1/poddisruptionbudgets" r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"# r#"{"spec":{"minAvailable":2}}"# => 2,
    policies_count_generations "~networking.k8s.io/v1/networkpolicies" r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","spec":{"podSelector":{}}}"# r#"{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}"# => 2,
    ingresses_count_generations "~networking.k8s.io/v1/ingresses" r#"{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}"# r#"{"spec":{"ingressClassName":"c"}}"# => 2,
    pods_count_generations "~/pods" r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}"# r#"{"spec":{"activeDeadlineSeconds":5}}"# => 2,
}

fn object(probe: &Probe, text: &str) -> Result<Value, Failure> {
    let mut object: Value = serde_json::from_str(&text.replace("{ns}", &probe.namespace))?;
    object["metadata"]["name"] = "a".into();
    Ok(object)
}

async fn put(probe: &Probe, path: &str, text: &str) -> Result<(), Failure> {
    let object = object(probe, text)?;
    let answer = probe.put(&format!("{path}/a"), &object).await?;
    if matches!(object["kind"].as_str(), Some("Secret" | "ServiceAccount")) {
        answer.refused(404, "NotFound")?;
        return Ok(());
    }
    let made = answer.code(201)?;
    holds("it has a uid", made["metadata"]["uid"].is_string())?;
    probe.get(&format!("{path}/a")).await?.code(200)?;
    Ok(())
}

/// The generation after a change of the spec: 2, or 0 for a kind without generations.
async fn generation(
    probe: &Probe,
    path: &str,
    text: &str,
    change: &str,
    wanted: u64,
) -> Result<(), Failure> {
    let of = |object: &Value| {
        object["metadata"]["generation"]
            .as_u64()
            .unwrap_or_default()
    };
    let made = probe.post(path, &object(probe, text)?).await?.code(201)?;
    same("at first", of(&made), wanted.min(1))?;
    let named = format!("{path}/a");
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    let labelled = probe.merge(&named, &label).await?.code(200)?;
    same("after a label", of(&labelled), wanted.min(1))?;
    let changed = probe
        .merge(&named, &serde_json::from_str(change)?)
        .await?
        .code(200)?;
    same("after a change", of(&changed), wanted)
}
