//! The checks of each level, in the order in which a real server reports them.
//!
//! ```text
//! LevelVersion + Pod ──checks of the level in that version──▶ [Finding { reason, detail }]
//! ```
//!
//! A check changes from version to version. One of the restricted level can replace one of the
//! baseline; the rest of the baseline applies to the restricted level, too. Checks of the baseline come
//! first, each level by name.
//!
//! Upstream: `kubernetes/pod-security-admission:policy/registry.go`.

use super::checks::{Check, Finding, Pod};
use super::level::{Level, LevelVersion};
use super::{baseline, restricted};

/// Returns the violations of a level.
pub(super) fn findings(of: LevelVersion, pod: &Pod<'_>) -> Vec<Finding> {
    let active = |check: &'static Check| Some((check, check.test(of.version)?));
    let restricted: Vec<_> = match of.level {
        Level::Privileged => return Vec::new(),
        Level::Baseline => Vec::new(),
        Level::Restricted => restricted::CHECKS.iter().filter_map(active).collect(),
    };
    let is_replaced = |name: &str| {
        let mut all = restricted.iter();
        all.any(|(check, _)| check.replaces == Some(name))
    };
    let baseline = baseline::CHECKS.iter().filter_map(active);
    let baseline = baseline.filter(|(check, _)| !is_replaced(check.name));
    let all = baseline.chain(restricted.iter().copied());
    all.filter_map(|(_, test)| test(pod)).collect()
}

/// The violations of one pod, as a message names them.
pub(super) fn details(findings: &[Finding]) -> String {
    let shown = findings.iter().map(|of| match of.detail.as_str() {
        "" => of.reason.to_owned(),
        detail => format!("{} ({detail})", of.reason),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The reasons of the violations of a pod.
pub(super) fn reasons(findings: &[Finding]) -> String {
    let reasons: Vec<&str> = findings.iter().map(|of| of.reason).collect();
    reasons.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::level::Version;
    use super::*;

    fn reasons_of(level: Level, version: Version, spec: &Value) -> String {
        let metadata = Value::Null;
        let pod = Pod {
            metadata: &metadata,
            spec,
        };
        reasons(&findings(LevelVersion { level, version }, &pod))
    }

    #[test]
    fn checks_are_those_of_the_version() {
        let plain = json!({"containers": [{"name": "c"}]});
        let hosts = json!({"volumes": [{"name": "v", "hostPath": {}}], "containers": [{"name": "c",
            "livenessProbe": {"httpGet": {"host": "h"}}, "securityContext": {"runAsUser": 0,
                "procMount": "Unmasked", "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}}],
            "hostUsers": false});
        let restricted = |version| reasons_of(Level::Restricted, version, &plain);
        assert_eq!(restricted(Version::Minor(0)), "runAsNonRoot != true");
        assert_eq!(
            restricted(Version::Minor(8)),
            "allowPrivilegeEscalation != false, runAsNonRoot != true"
        );
        let newest = "allowPrivilegeEscalation != false, unrestricted capabilities, \
                      runAsNonRoot != true, seccompProfile";
        assert_eq!(restricted(Version::Minor(22)), newest);
        assert_eq!(restricted(Version::Latest), newest);
        assert_eq!(restricted(Version::Minor(99)), newest);
        for (level, version, wanted) in [
            (Level::Privileged, Version::Latest, ""),
            (
                Level::Baseline,
                Version::Minor(33),
                "non-default capabilities, hostPath volumes, procMount",
            ),
            (
                Level::Baseline,
                Version::Latest,
                "non-default capabilities, hostPath volumes, probe or lifecycle host",
            ),
            (
                Level::Restricted,
                Version::Latest,
                "probe or lifecycle host, allowPrivilegeEscalation != false, unrestricted \
                 capabilities, procMount, restricted volume types, seccompProfile",
            ),
            (
                Level::Restricted,
                Version::Minor(23),
                "procMount, allowPrivilegeEscalation != false, unrestricted capabilities, \
                 restricted volume types, runAsNonRoot != true, runAsUser=0, seccompProfile",
            ),
        ] {
            let found = reasons_of(level, version, &hosts);
            assert_eq!(found, wanted, "{level:?} {version:?}");
        }
    }

    #[test]
    fn checks_are_ordered_by_name_and_their_versions_rise() {
        for checks in [&baseline::CHECKS[..], &restricted::CHECKS[..]] {
            assert!(checks.is_sorted_by_key(|check| check.name));
            for check in checks {
                assert!(check.versions.is_sorted_by_key(|(from, _)| *from));
            }
        }
        for check in &restricted::CHECKS {
            let is_known = |name| baseline::CHECKS.iter().any(|of| of.name == name);
            assert!(check.replaces.is_none_or(is_known), "{}", check.name);
        }
    }
}
