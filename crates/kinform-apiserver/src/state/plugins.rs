//! The compiled-in admission plugins that are on.
//!
//! ```text
//! names, `-NAME` for off ──▶ Plugins ──has──▶ admission
//! ```
//!
//! Upstream: `kubernetes:pkg/kubeapiserver/options/plugins.go`, `--enable-admission-plugins`,
//! `--disable-admission-plugins`.

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

/// The plugins that are on: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plugins(u16);

impl Default for Plugins {
    fn default() -> Self {
        Self((1 << ALL.len()) - 1)
    }
}

impl Plugins {
    pub(crate) fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u16) != 0
    }

    /// Turns a plugin on by its name, or off by `-NAME`; `-*` turns all of them off. Returns `None`
    /// for an unknown name.
    pub(crate) fn set(self, word: &str) -> Option<Self> {
        let (name, is_on) = match word.strip_prefix('-') {
            Some(name) => (name, false),
            None => (word, true),
        };
        let bits = match name {
            "*" => Self::default().0,
            name => 1 << ALL.iter().find(|(_, of)| *of == name)?.0 as u16,
        };
        Some(Self(match is_on {
            true => self.0 | bits,
            false => self.0 & !bits,
        }))
    }

    /// The names of all plugins.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_turned_on_and_off_by_name() {
        let plugins = Plugins::default();
        assert!(plugins.has(Plugin::ResourceQuota) && plugins.has(Plugin::LimitRanger));
        let less = plugins.set("-Priority").unwrap();
        assert!(!less.has(Plugin::Priority) && less.has(Plugin::ResourceQuota));
        let only = plugins.set("-*").unwrap().set("Priority").unwrap();
        assert!(only.has(Plugin::Priority) && !only.has(Plugin::LimitRanger));
        assert_eq!(plugins.set("Prio"), None);
        assert_eq!(Plugins::names().count(), ALL.len());
        for (at, (plugin, _)) in ALL.iter().enumerate() {
            assert_eq!(*plugin as usize, at);
        }
    }
}
