//! The checks of the level `baseline`.
//!
//! ```text
//! Pod ──▶ Finding, in a real server's words
//! ```
//!
//! Upstream: `kubernetes/pod-security-admission:policy/check_*.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Check, Finding, Pod, containers, plural, quoted, setters};
use crate::object::text;

/// The checks by name.
pub(super) const CHECKS: [Check; 12] = [
    check("appArmorProfile", &[(0, app_armor)]),
    check("capabilities_baseline", &[(0, capabilities)]),
    check("hostNamespaces", &[(0, host_namespaces)]),
    check("hostPathVolumes", &[(0, host_path_volumes)]),
    check("hostPorts", &[(0, host_ports)]),
    check("hostProbesAndHostLifecycle", &[(34, hosts_of_probes)]),
    check("privileged", &[(0, privileged)]),
    check("procMount", &[(0, proc_mount), (35, proc_mount_from_35)]),
    check("seLinuxOptions", &[(0, se_linux), (31, se_linux_from_31)]),
    check(
        "seccompProfile_baseline",
        &[(0, seccomp_annotations), (19, seccomp)],
    ),
    check(
        "sysctls",
        &[
            (0, |pod| sysctls(pod, 5)),
            (27, |pod| sysctls(pod, 6)),
            (29, |pod| sysctls(pod, 10)),
            (32, |pod| sysctls(pod, 12)),
            (37, |pod| sysctls(pod, 14)),
        ],
    ),
    check("windowsHostProcess", &[(0, windows_host_process)]),
];

const fn check(name: &'static str, versions: &'static [(u64, super::checks::Test)]) -> Check {
    Check {
        versions,
        replaces: None,
        name,
    }
}

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Settings of the kernel that are safe, in the order in which they became allowed.
const SYSCTLS: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

/// Types of processes in SELinux that are safe; the last one since 1.31.
const SE_LINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// Returns whether a profile confines its container.
pub(super) fn confines(profile: &Value) -> bool {
    profile["type"] == "RuntimeDefault" || profile["type"] == "Localhost"
}

/// Returns the types of the profiles that a member of the security contexts sets and that do not
/// confine, whether the pod sets one, and the containers that do.
pub(super) fn unconfined<'a>(
    pod: &Pod<'a>,
    member: &str,
) -> (BTreeSet<&'a str>, bool, Vec<&'a str>) {
    let bad = |of: &'a Value| {
        let profile = &of["securityContext"][member];
        (!profile.is_null() && !confines(profile)).then(|| text(profile, &["type"]))
    };
    let of_pod = bad(pod.spec);
    let of_containers = pod.containers().filter_map(bad);
    let types = of_pod.into_iter().chain(of_containers).collect();
    let names = pod
        .containers()
        .filter(|container| bad(container).is_some())
        .map(|container| text(container, &["name"]));
    (types, of_pod.is_some(), names.collect())
}

fn app_armor(pod: &Pod<'_>) -> Option<Finding> {
    let (types, pod_sets, names) = unconfined(pod, "appArmorProfile");
    let is_allowed = |value: &str| {
        value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
    };
    let annotations = pod.annotations();
    let bad = annotations.filter(|(key, value)| key.starts_with(APP_ARMOR) && !is_allowed(value));
    let mut bad: Vec<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    bad.sort();
    let mut who: Vec<String> = setters(pod_sets, &names).into_iter().collect();
    if !bad.is_empty() {
        who.push(plural(bad.len(), "annotation", "annotations").to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<&str> = types
        .into_iter()
        .chain(bad.iter().map(String::as_str))
        .collect();
    Finding::new(
        plural(
            values.len(),
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            who.join(" and "),
            quoted(values)
        ),
    )
}

/// The capabilities that a container adds.
pub(super) fn added(container: &Value) -> impl Iterator<Item = &str> {
    let list = container["securityContext"]["capabilities"]["add"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let is_bad = |name: &&str| !CAPABILITIES.contains(name);
    let names = pod.named(|container| added(container).any(|name| is_bad(&name)));
    let bad: BTreeSet<&str> = pod.containers().flat_map(added).filter(is_bad).collect();
    if names.is_empty() {
        return None;
    }
    Finding::new(
        "non-default capabilities",
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(bad)
        ),
    )
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Finding> {
    let names = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = names.filter(|name| pod.spec[name] == true);
    let shared: Vec<String> = shared.map(|name| format!("{name}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    Finding::new("host namespaces", shared.join(", "))
}

fn host_path_volumes(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let bad = volumes.filter(|volume| !volume["hostPath"].is_null());
    let bad: Vec<&str> = bad.map(|volume| text(volume, &["name"])).collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "volume", "volumes");
    Finding::new("hostPath volumes", format!("{word} {}", quoted(bad)))
}

fn host_ports(pod: &Pod<'_>) -> Option<Finding> {
    fn ports(container: &Value) -> impl Iterator<Item = i64> {
        let list = container["ports"].as_array().into_iter().flatten();
        let ports = list.filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0)
    }
    let names = pod.named(|container| ports(container).next().is_some());
    if names.is_empty() {
        return None;
    }
    // As texts: that is how a real server sorts them.
    let all = pod.containers().flat_map(ports);
    let all: BTreeSet<String> = all.map(|port| port.to_string()).collect();
    let all: Vec<String> = all.into_iter().collect();
    Finding::new(
        "hostPort",
        format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(all.len(), "hostPort", "hostPorts"),
            all.join(", ")
        ),
    )
}

fn hosts_of_probes(pod: &Pod<'_>) -> Option<Finding> {
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let hosts = handlers.into_iter().flat_map(|handler| {
            ["httpGet", "tcpSocket"].map(|name| text(handler, &[name, "host"]))
        });
        hosts.filter(|host| !host.is_empty())
    }
    let names = pod.named(|container| hosts(container).next().is_some());
    if names.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = names.into_iter().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let all: BTreeSet<&str> = pod.containers().flat_map(hosts).collect();
    Finding::new(
        "probe or lifecycle host",
        format!(
            "{} {} {} {}",
            containers(&names),
            plural(names.len(), "uses", "use"),
            plural(
                all.len(),
                "probe or lifecycle host",
                "probe or lifecycle hosts"
            ),
            quoted(all)
        ),
    )
}

fn privileged(pod: &Pod<'_>) -> Option<Finding> {
    let names = pod.named(|container| container["securityContext"]["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    let who = containers(&names);
    Finding::new(
        "privileged",
        format!("{who} must not set securityContext.privileged=true"),
    )
}

/// Refuses every mount of `/proc` that is not the default.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Finding> {
    fn mount(container: &Value) -> Option<&str> {
        let mount = container["securityContext"]["procMount"].as_str();
        mount.filter(|mount| *mount != "Default")
    }
    let names = pod.named(|container| mount(container).is_some());
    if names.is_empty() {
        return None;
    }
    let mounts: BTreeSet<&str> = pod.containers().filter_map(mount).collect();
    Finding::new(
        "procMount",
        format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(mounts)
        ),
    )
}

fn proc_mount_from_35(pod: &Pod<'_>) -> Option<Finding> {
    match pod.has_own_users() {
        true => None,
        false => proc_mount(pod),
    }
}

fn se_linux(pod: &Pod<'_>) -> Option<Finding> {
    se_linux_of(pod, &SE_LINUX_TYPES[..4])
}

fn se_linux_from_31(pod: &Pod<'_>) -> Option<Finding> {
    se_linux_of(pod, &SE_LINUX_TYPES)
}

fn se_linux_of(pod: &Pod<'_>, allowed: &[&str]) -> Option<Finding> {
    let options = |of: &Value| -> [String; 3] {
        let options = &of["securityContext"]["seLinuxOptions"];
        ["type", "user", "role"].map(|name| text(options, &[name]).to_owned())
    };
    let is_bad = |of: &Value| {
        let [kind, user, role] = options(of);
        !allowed.contains(&kind.as_str()) || !user.is_empty() || !role.is_empty()
    };
    let names = pod.named(is_bad);
    let who = setters(is_bad(pod.spec), &names)?;
    let all = std::iter::once(pod.spec).chain(pod.containers());
    let all: Vec<[String; 3]> = all.map(options).collect();
    let types = all.iter().map(|[kind, ..]| kind.as_str());
    let types: BTreeSet<&str> = types.filter(|kind| !allowed.contains(kind)).collect();
    let mut bad = Vec::new();
    if !types.is_empty() {
        let word = plural(types.len(), "type", "types");
        bad.push(format!("{word} {}", quoted(types)));
    }
    if all.iter().any(|[_, user, _]| !user.is_empty()) {
        bad.push("user may not be set".to_owned());
    }
    if all.iter().any(|[_, _, role]| !role.is_empty()) {
        bad.push("role may not be set".to_owned());
    }
    Finding::new(
        "seLinuxOptions",
        format!(
            "{who} set forbidden securityContext.seLinuxOptions: {}",
            bad.join("; ")
        ),
    )
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Finding> {
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let names = pod.named(|_| true);
    let concerns = |key: &str| {
        let container = key.strip_prefix(SECCOMP_CONTAINER);
        key == SECCOMP_POD || container.is_some_and(|name| names.contains(&name))
    };
    let annotations = pod.annotations();
    let bad = annotations.filter(|(key, value)| concerns(key) && !is_allowed(value));
    let bad: BTreeSet<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "annotation", "annotations");
    let bad: Vec<String> = bad.into_iter().collect();
    Finding::new(
        "seccompProfile",
        format!("forbidden {word} {}", bad.join(", ")),
    )
}

/// Refuses profiles of system calls that do not confine.
pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Finding> {
    let (types, pod_sets, names) = unconfined(pod, "seccompProfile");
    let who = setters(pod_sets, &names)?;
    Finding::new(
        "seccompProfile",
        format!(
            "{who} must not set securityContext.seccompProfile.type to {}",
            quoted(types)
        ),
    )
}

/// Refuses settings of the kernel other than the first ones of the list.
fn sysctls(pod: &Pod<'_>, allowed: usize) -> Option<Finding> {
    let list = pod.spec["securityContext"]["sysctls"].as_array();
    let names = list.into_iter().flatten().map(|of| text(of, &["name"]));
    let bad: Vec<&str> = names
        .filter(|name| !SYSCTLS[..allowed].contains(name))
        .collect();
    if bad.is_empty() {
        return None;
    }
    Finding::new("forbidden sysctls", bad.join(", "))
}

fn windows_host_process(pod: &Pod<'_>) -> Option<Finding> {
    let is_bad = |of: &Value| of["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let names = pod.named(is_bad);
    let who = setters(is_bad(pod.spec), &names)?;
    Finding::new(
        "hostProcess",
        format!("{who} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
