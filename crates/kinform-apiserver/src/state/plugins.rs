//! The compiled-in admission plugins that are on.
//!
//! ```text
//! names, `-NAME` for off ──▶ AdmissionPlugins ──has──▶ admission
//! ```
//!
//! Upstream: `kubernetes:pkg/kubeapiserver/options/plugins.go`, `--enable-admission-plugins`,
//! `--disable-admission-plugins`.

use std::str::FromStr;

/// A compiled-in plugin of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    LimitRanger,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    RuntimeClass,
    DefaultIngressClass,
    PersistentVolumeClaimResize,
    CertificateSubjectRestriction,
    ResourceQuota,
}

/// All plugins, with their names on a real server. All of them are on by default.
const ALL: [(Plugin, &str); 9] = [
    (Plugin::LimitRanger, "LimitRanger"),
    (Plugin::Priority, "Priority"),
    (Plugin::DefaultTolerationSeconds, "DefaultTolerationSeconds"),
    (Plugin::DefaultStorageClass, "DefaultStorageClass"),
    (Plugin::RuntimeClass, "RuntimeClass"),
    (Plugin::DefaultIngressClass, "DefaultIngressClass"),
    (
        Plugin::PersistentVolumeClaimResize,
        "PersistentVolumeClaimResize",
    ),
    (
        Plugin::CertificateSubjectRestriction,
        "CertificateSubjectRestriction",
    ),
    (Plugin::ResourceQuota, "ResourceQuota"),
];

/// The compiled-in admission plugins that are on. By default all are.
///
/// Parsed from names between commas, as `LimitRanger,-ResourceQuota`: a name turns a plugin on, `-NAME`
/// turns it off, `*` means all.
///
/// Upstream: `--enable-admission-plugins`, `--disable-admission-plugins`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// A bit for each plugin.
pub struct AdmissionPlugins(u16);

impl Default for AdmissionPlugins {
    fn default() -> Self {
        Self((1 << ALL.len()) - 1)
    }
}

impl AdmissionPlugins {
    /// Returns no plugins.
    #[must_use]
    pub fn none() -> Self {
        Self(0)
    }

    pub(crate) fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u16) != 0
    }
}

/// The error of a name that no admission plugin has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no admission plugin {name:?}; there are {}", names().join(", "))]
pub struct UnknownPlugin {
    name: String,
}

/// The names of all plugins.
fn names() -> [&'static str; ALL.len()] {
    ALL.map(|(_, name)| name)
}

impl FromStr for AdmissionPlugins {
    type Err = UnknownPlugin;

    fn from_str(words: &str) -> Result<Self, UnknownPlugin> {
        let mut plugins = Self::default();
        for word in words.split(',') {
            let name = word.strip_prefix('-').unwrap_or(word);
            let bits = match name {
                "*" => Self::default().0,
                name => match ALL.iter().find(|(_, of)| *of == name) {
                    Some((plugin, _)) => 1 << *plugin as u16,
                    None => {
                        let name = name.to_owned();
                        return Err(UnknownPlugin { name });
                    }
                },
            };
            match name.len() == word.len() {
                true => plugins.0 |= bits,
                false => plugins.0 &= !bits,
            }
        }
        Ok(plugins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_turned_on_and_off_by_name() {
        let has = |words: &str, plugin| words.parse::<AdmissionPlugins>().unwrap().has(plugin);
        for (words, has_priority, has_quota) in [
            ("Priority", true, true),
            ("-Priority", false, true),
            ("-*", false, false),
            ("-*,Priority", true, false),
        ] {
            assert_eq!(has(words, Plugin::Priority), has_priority, "{words}");
            assert_eq!(has(words, Plugin::ResourceQuota), has_quota, "{words}");
        }
        let unknown = "-Priority,Prio".parse::<AdmissionPlugins>().unwrap_err();
        let text = unknown.to_string();
        assert!(text.contains("\"Prio\"; there are LimitRanger, "), "{text}");
        assert!("".parse::<AdmissionPlugins>().is_err());
        for (at, (plugin, _)) in ALL.iter().enumerate() {
            assert_eq!(
                *plugin as usize, at,
                "the bit of a plugin is its place in the table"
            );
        }
    }
}
