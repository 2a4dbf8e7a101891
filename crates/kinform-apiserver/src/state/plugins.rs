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
    ServiceAccount,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
    PersistentVolumeClaimResize,
    CertificateSubjectRestriction,
    ResourceQuota,
}

/// All plugins, with their names on a real server.
const ALL: [(Plugin, &str); 12] = [
    (Plugin::LimitRanger, "LimitRanger"),
    (Plugin::ServiceAccount, "ServiceAccount"),
    (Plugin::PodSecurity, "PodSecurity"),
    (Plugin::Priority, "Priority"),
    (Plugin::DefaultTolerationSeconds, "DefaultTolerationSeconds"),
    (Plugin::DefaultStorageClass, "DefaultStorageClass"),
    (Plugin::RuntimeClass, "RuntimeClass"),
    (Plugin::DefaultIngressClass, "DefaultIngressClass"),
    (Plugin::PodTopologyLabels, "PodTopologyLabels"),
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

/// The compiled-in admission plugins that are on. By default all are; `ServiceAccount` only where
/// namespaces have their content ([`with_namespace_content`]), since a pod without an account is
/// refused.
///
/// Parsed from names between commas, as `LimitRanger,-ResourceQuota`: a name turns a plugin on, `-NAME`
/// turns it off, `*` means all.
///
/// Upstream: `--enable-admission-plugins`, `--disable-admission-plugins`.
///
/// [`with_namespace_content`]: crate::Builder::with_namespace_content
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins {
    /// A bit for each plugin that is on.
    on: u16,
    /// A bit for each plugin that was named.
    named: u16,
}

/// The bits of all plugins.
const EVERY: u16 = (1 << ALL.len()) - 1;

impl Default for AdmissionPlugins {
    fn default() -> Self {
        Self {
            on: EVERY & !bit(Plugin::ServiceAccount),
            named: 0,
        }
    }
}

const fn bit(plugin: Plugin) -> u16 {
    1 << plugin as u16
}

impl AdmissionPlugins {
    /// Returns no plugins.
    #[must_use]
    pub fn none() -> Self {
        Self {
            on: 0,
            named: EVERY,
        }
    }

    pub(crate) fn has(self, plugin: Plugin) -> bool {
        self.on & bit(plugin) != 0
    }

    /// Turns on what needs the content of namespaces, unless it was named.
    #[must_use]
    pub(crate) fn with_namespace_content(mut self) -> Self {
        self.on |= bit(Plugin::ServiceAccount) & !self.named;
        self
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
                "*" => EVERY,
                name => match ALL.iter().find(|(_, of)| *of == name) {
                    Some((plugin, _)) => bit(*plugin),
                    None => {
                        let name = name.to_owned();
                        return Err(UnknownPlugin { name });
                    }
                },
            };
            plugins.named |= bits;
            match name.len() == word.len() {
                true => plugins.on |= bits,
                false => plugins.on &= !bits,
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
        for (words, alone, with_content) in [
            ("Priority", false, true),
            ("ServiceAccount", true, true),
            ("*", true, true),
            ("-ServiceAccount", false, false),
            ("-*", false, false),
        ] {
            let plugins: AdmissionPlugins = words.parse().unwrap();
            assert_eq!(plugins.has(Plugin::ServiceAccount), alone, "{words}");
            let plugins = plugins.with_namespace_content();
            assert_eq!(plugins.has(Plugin::ServiceAccount), with_content, "{words}");
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
