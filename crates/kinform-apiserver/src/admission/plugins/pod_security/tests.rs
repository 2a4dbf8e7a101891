//! The words of each check, for pods that a recording does not have.
//!
//! ```text
//! security contexts + level + version ──▶ "reason (detail), .."
//! ```
//!
//! Upstream: `kubernetes/pod-security-admission:policy/check_*_test.go`.

use serde_json::{Value, json};

use super::checks::Pod;
use super::evaluate::{details, findings};
use super::level::{Level, LevelVersion, Version};

/// The violations of a pod whose containers `a` and `b` have these security contexts.
fn told(level: Level, version: u64, pod: &Value, contexts: [Value; 2]) -> String {
    let [first, second] = contexts;
    let mut spec = pod["spec"].clone();
    spec["containers"] = json!([{"name": "a", "securityContext": first},
        {"name": "b", "securityContext": second}]);
    let pod = Pod {
        metadata: &pod["metadata"],
        spec: &spec,
    };
    let version = Version::Minor(version);
    details(&findings(LevelVersion { level, version }, &pod))
}

#[test]
fn pods_and_containers_are_named_in_a_real_servers_words() {
    let plain = json!({});
    for (pod, contexts, wanted) in [
        (
            json!({"metadata": {"annotations":
                {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}}),
            [
                json!({"appArmorProfile": {"type": "Unconfined"}}),
                plain.clone(),
            ],
            "forbidden AppArmor profiles (container \"a\" and annotation must not set AppArmor \
             profile type to \"Unconfined\", \
             \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]}}),
            [plain.clone(), plain.clone()],
            "hostPath volumes (volumes \"v\", \"w\")",
        ),
        (
            json!({"spec": {"securityContext": {"seLinuxOptions": {"role": "r"}}}}),
            [
                json!({"seLinuxOptions": {"type": "y"}}),
                json!({"seLinuxOptions": {"type": "x", "user": "u"}}),
            ],
            "seLinuxOptions (pod and containers \"a\", \"b\" set forbidden \
             securityContext.seLinuxOptions: types \"x\", \"y\"; user may not be set; role may \
             not be set)",
        ),
        (
            plain.clone(),
            [
                json!({"seccompProfile": {"type": "Unconfined"}}),
                json!({"seccompProfile": {"type": "Localhost"}}),
            ],
            "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \
             \"Unconfined\")",
        ),
        (
            json!({"spec": {"securityContext": {"windowsOptions": {"hostProcess": true}}}}),
            [
                json!({"windowsOptions": {"hostProcess": true}}),
                plain.clone(),
            ],
            "hostProcess (pod and container \"a\" must not set \
             securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            plain,
            [
                json!({"procMount": "Unmasked"}),
                json!({"procMount": "Default"}),
            ],
            "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
        ),
    ] {
        assert_eq!(told(Level::Baseline, 37, &pod, contexts), wanted, "{pod}");
    }
}

#[test]
fn older_versions_look_at_annotations_and_allow_fewer_settings() {
    let pod = json!({"metadata": {"annotations": {
            "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            "container.seccomp.security.alpha.kubernetes.io/b": "localhost/x",
            "container.seccomp.security.alpha.kubernetes.io/other": "unconfined"}},
        "spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"},
            {"name": "net.ipv4.tcp_notsent_lowat"}]}}});
    for (version, wanted) in [
        (
            18,
            "seccompProfile (forbidden annotation \
             seccomp.security.alpha.kubernetes.io/pod=\"unconfined\"), forbidden sysctls \
             (net.ipv4.tcp_rmem, net.ipv4.tcp_notsent_lowat)",
        ),
        (
            31,
            "forbidden sysctls (net.ipv4.tcp_rmem, net.ipv4.tcp_notsent_lowat)",
        ),
        (36, "forbidden sysctls (net.ipv4.tcp_notsent_lowat)"),
        (37, ""),
    ] {
        let found = told(Level::Baseline, version, &pod, [json!({}), json!({})]);
        assert_eq!(found, wanted, "{version}");
    }
}

#[test]
fn a_restricted_pod_is_hardened_as_a_whole_or_by_each_container() {
    let hardened = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let with = |changes: Value| {
        let mut context = hardened.clone();
        for (name, value) in changes.as_object().unwrap() {
            context[name] = value.clone();
        }
        context
    };
    let plain = json!({});
    let windows = json!({"spec": {"os": {"name": "windows"},
        "securityContext": {"runAsNonRoot": true}}});
    for (pod, contexts, wanted) in [
        (plain.clone(), [hardened.clone(), hardened.clone()], ""),
        (windows, [plain.clone(), plain.clone()], ""),
        (
            plain.clone(),
            [
                with(json!({"capabilities": {"add": ["X"]}})),
                with(json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})),
            ],
            "unrestricted capabilities (container \"a\" must set \
             securityContext.capabilities.drop=[\"ALL\"]; container \"a\" must not include \"X\" \
             in securityContext.capabilities.add)",
        ),
        (
            json!({"spec": {"securityContext": {"runAsNonRoot": false, "runAsUser": 0}}}),
            [with(json!({"runAsUser": 0})), hardened.clone()],
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), \
             runAsUser=0 (pod and container \"a\" must not set runAsUser=0)",
        ),
        (
            json!({"spec": {"volumes": [{"name": "n", "nfs": {}}, {"name": "u"},
                {"name": "c", "configMap": {}}]}}),
            [hardened.clone(), hardened.clone()],
            "restricted volume types (volumes \"n\", \"u\" use restricted volume types \"nfs\", \
             \"unknown\")",
        ),
        (
            plain,
            [hardened.clone(), with(json!({"seccompProfile": null}))],
            "seccompProfile (pod or container \"b\" must set securityContext.seccompProfile.type \
             to \"RuntimeDefault\" or \"Localhost\")",
        ),
    ] {
        let found = told(Level::Restricted, 37, &pod, contexts);
        assert_eq!(found, wanted, "{pod}");
    }
}
