//! The policy that the labels of a namespace set.
//!
//! ```text
//! pod-security.kubernetes.io/{enforce,audit,warn}[-version] ──▶ Policy, errors of the labels
//! ```
//!
//! A label that does not parse is an error, and stands for the strictest level to enforce, and for none
//! to warn and audit.
//!
//! Upstream: `kubernetes/pod-security-admission:api/helpers.go`.

use std::fmt;

use kinform_api::FieldError;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The names of the levels, from the least to the most strict.
const LEVELS: [(Level, &str); 3] = [
    (Level::Privileged, "privileged"),
    (Level::Baseline, "baseline"),
    (Level::Restricted, "restricted"),
];

/// A level of security, ordered by strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known escalations of privileges are refused.
    Baseline,
    /// A pod must be hardened.
    Restricted,
}

/// The release of Kubernetes whose checks apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// The release of this minor version. One of the future has the checks of the newest.
    Minor(u64),
    /// This server's own.
    Latest,
}

/// A level in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, level) = LEVELS[self.level as usize];
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The levels of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// A pod that violates it is refused.
    pub(super) enforce: LevelVersion,
    /// A violation is recorded.
    pub(super) audit: LevelVersion,
    /// The client is warned of a violation.
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// Reads the labels of a namespace.
    pub(super) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut mode = |name: &str, otherwise: Level| {
            let mut read = LevelVersion {
                level: Level::Privileged,
                version: Version::Latest,
            };
            let key = format!("{PREFIX}{name}");
            let level = label(&key).map(|text| level(text).ok_or(text));
            match level {
                Some(Ok(level)) => read.level = level,
                Some(Err(text)) => {
                    read.level = otherwise;
                    let names = LEVELS.map(|(_, name)| name).join(", ");
                    errors.push(invalid(&key, text, &format!("must be one of {names}")));
                }
                None => {}
            }
            let key = format!("{PREFIX}{name}-version");
            let version = label(&key).map(|text| version(text).ok_or(text));
            match version {
                Some(Ok(version)) => read.version = version,
                Some(Err(text)) => {
                    errors.push(invalid(&key, text, "must be \"latest\" or \"v1.x\""));
                }
                None => {}
            }
            (read, level, version.is_some())
        };
        let (enforce, said, _) = mode("enforce", Level::Restricted);
        let (audit, ..) = mode("audit", Level::Privileged);
        let (mut warn, warns, has_version) = mode("warn", Level::Privileged);
        // A level that is enforced is warned of, too, so that workloads tell of it.
        if warns.is_none() && matches!(said, Some(Ok(level)) if level > warn.level) {
            warn.level = enforce.level;
            if !has_version {
                warn.version = enforce.version;
            }
        }
        let policy = Self {
            enforce,
            audit,
            warn,
        };
        (policy, errors)
    }
}

fn invalid(label: &str, value: &str, detail: &str) -> FieldError {
    FieldError::invalid(format!("metadata.labels[{label}]"), value, detail)
}

fn level(text: &str) -> Option<Level> {
    let found = LEVELS.iter().find(|(_, name)| *name == text);
    found.map(|(level, _)| *level)
}

fn version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_plain = minor.bytes().all(|byte| byte.is_ascii_digit())
        && (minor == "0" || !minor.starts_with('0'));
    let minor: i64 = minor.parse().ok().filter(|_| is_plain)?;
    u64::try_from(minor).ok().map(Version::Minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(labels: &[(&'static str, &'static str)]) -> (Policy, usize) {
        let found = |key: &str| {
            let name = key.strip_prefix(PREFIX).unwrap();
            let found = labels.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| *value)
        };
        let (policy, errors) = Policy::of(found);
        (policy, errors.len())
    }

    #[test]
    fn labels_set_levels_and_what_is_enforced_is_warned_of() {
        let shown = |labels: &[(&'static str, &'static str)]| {
            let (policy, errors) = policy(labels);
            let Policy {
                enforce,
                audit,
                warn,
            } = policy;
            (format!("{enforce} {audit} {warn}"), errors)
        };
        for (labels, wanted, errors) in [
            (
                &[][..],
                "privileged:latest privileged:latest privileged:latest",
                0,
            ),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.20")],
                "baseline:v1.20 privileged:latest baseline:v1.20",
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
                0,
            ),
            (
                &[("enforce", "baseline"), ("warn-version", "v1.0")],
                "baseline:latest privileged:latest baseline:v1.0",
                0,
            ),
            (
                &[
                    ("enforce", "no"),
                    ("audit", "no"),
                    ("warn-version", "v1.01"),
                ],
                "restricted:latest privileged:latest privileged:latest",
                3,
            ),
        ] {
            assert_eq!(shown(labels), (wanted.to_owned(), errors), "{labels:?}");
        }
    }

    #[test]
    fn versions_are_minor_releases_of_one() {
        for (text, wanted) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.37", Some(Version::Minor(37))),
            ("v1.", None),
            ("v1.+1", None),
            ("v1.01", None),
            ("v2.1", None),
            ("v1.99999999999999999999", None),
        ] {
            assert_eq!(version(text), wanted, "{text}");
        }
    }
}
