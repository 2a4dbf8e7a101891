//! The checks that the level `restricted` adds.
//!
//! ```text
//! Pod ──▶ Finding, in a real server's words
//! ```
//!
//! Upstream: `kubernetes/pod-security-admission:policy/check_*.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{added, confines, proc_mount, seccomp};
use super::checks::{Check, Finding, Pod, Test, containers, plural, quoted, setters};
use crate::object::text;

/// The checks by name.
pub(super) const CHECKS: [Check; 7] = [
    check(
        "allowPrivilegeEscalation",
        None,
        &[(8, escalation), (25, |pod| unless_windows(pod, escalation))],
    ),
    check(
        "capabilities_restricted",
        Some("capabilities_baseline"),
        &[
            (22, capabilities),
            (25, |pod| unless_windows(pod, capabilities)),
        ],
    ),
    check(
        "procMount_restricted",
        Some("procMount"),
        &[(35, proc_mount)],
    ),
    check(
        "restrictedVolumes",
        Some("hostPathVolumes"),
        &[(0, volumes)],
    ),
    check(
        "runAsNonRoot",
        None,
        &[(0, non_root), (35, |pod| unless_own_users(pod, non_root))],
    ),
    check(
        "runAsUser",
        None,
        &[(23, user), (35, |pod| unless_own_users(pod, user))],
    ),
    check(
        "seccompProfile_restricted",
        Some("seccompProfile_baseline"),
        &[
            (19, seccomp_restricted),
            (25, |pod| unless_windows(pod, seccomp_restricted)),
        ],
    ),
];

const fn check(
    name: &'static str,
    replaces: Option<&'static str>,
    versions: &'static [(u64, Test)],
) -> Check {
    Check {
        versions,
        replaces,
        name,
    }
}

/// The sources of volumes that are allowed.
const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The sources of volumes that are refused.
const REFUSED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn unless_windows(pod: &Pod<'_>, test: Test) -> Option<Finding> {
    match pod.is_windows() {
        true => None,
        false => test(pod),
    }
}

fn unless_own_users(pod: &Pod<'_>, test: Test) -> Option<Finding> {
    match pod.has_own_users() {
        true => None,
        false => test(pod),
    }
}

fn escalation(pod: &Pod<'_>) -> Option<Finding> {
    let names = pod.named(|of| of["securityContext"]["allowPrivilegeEscalation"] != false);
    if names.is_empty() {
        return None;
    }
    let who = containers(&names);
    Finding::new(
        "allowPrivilegeEscalation != false",
        format!("{who} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

fn capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let drops_all = |of: &Value| {
        let list = of["securityContext"]["capabilities"]["drop"].as_array();
        list.into_iter().flatten().any(|name| name == "ALL")
    };
    let is_bad = |name: &&str| *name != "NET_BIND_SERVICE";
    let keep = pod.named(|of| !drops_all(of));
    let add = pod.named(|of| added(of).any(|name| is_bad(&name)));
    let mut details = Vec::new();
    if !keep.is_empty() {
        let who = containers(&keep);
        details.push(format!(
            "{who} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    if !add.is_empty() {
        let names: BTreeSet<&str> = pod.containers().flat_map(added).filter(is_bad).collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&add),
            quoted(names)
        ));
    }
    if details.is_empty() {
        return None;
    }
    Finding::new("unrestricted capabilities", details.join("; "))
}

fn volumes(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let has = |volume: &Value, names: &[&'static str]| {
        let mut names = names.iter().copied();
        names.find(|name| !volume[name].is_null())
    };
    let bad: Vec<&Value> = volumes
        .filter(|volume| has(volume, &ALLOWED_VOLUMES).is_none())
        .collect();
    if bad.is_empty() {
        return None;
    }
    let types = bad
        .iter()
        .map(|of| has(of, &REFUSED_VOLUMES).unwrap_or("unknown"));
    let types: BTreeSet<&str> = types.collect();
    Finding::new(
        "restricted volume types",
        format!(
            "{} {} {} {} {}",
            plural(bad.len(), "volume", "volumes"),
            quoted(bad.iter().map(|of| text(of, &["name"]))),
            plural(bad.len(), "uses", "use"),
            plural(
                types.len(),
                "restricted volume type",
                "restricted volume types"
            ),
            quoted(types)
        ),
    )
}

fn non_root(pod: &Pod<'_>) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    let set = |of: &Value| of["securityContext"]["runAsNonRoot"].as_bool();
    let refuse = pod.named(|of| set(of) == Some(false));
    if let Some(who) = setters(set(pod.spec) == Some(false), &refuse) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Finding::new(REASON, detail);
    }
    let is_pod_safe = set(pod.spec) == Some(true);
    let lack = pod.named(|of| set(of).is_none() && !is_pod_safe);
    if lack.is_empty() {
        return None;
    }
    let who = containers(&lack);
    Finding::new(
        REASON,
        format!("pod or {who} must set securityContext.runAsNonRoot=true"),
    )
}

fn user(pod: &Pod<'_>) -> Option<Finding> {
    let is_root = |of: &Value| of["securityContext"]["runAsUser"] == 0;
    let names = pod.named(is_root);
    let who = setters(is_root(pod.spec), &names)?;
    Finding::new("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

fn seccomp_restricted(pod: &Pod<'_>) -> Option<Finding> {
    if let Some(found) = seccomp(pod) {
        return Some(found);
    }
    let profile = |of: &Value| of["securityContext"]["seccompProfile"].clone();
    let is_pod_safe = confines(&profile(pod.spec));
    let lack = pod.named(|of| profile(of).is_null() && !is_pod_safe);
    if lack.is_empty() {
        return None;
    }
    let who = containers(&lack);
    Finding::new(
        "seccompProfile",
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\""
        ),
    )
}
