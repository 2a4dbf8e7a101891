//! The user that sends a request: a name, a UID, groups and extra fields.
//!
//! ```text
//! User { name, uid, groups, extra } ──▶ rights, `userInfo` in reviews
//! ```
//!
//! Upstream: `apiserver:pkg/authentication/user`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// The sender of requests.
///
/// Upstream: `user.Info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns a user without groups.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Sets the UID.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Adds a group.
    #[must_use]
    pub fn with_group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
        self
    }

    pub(crate) fn with_extra(mut self, key: impl Into<String>, values: Vec<String>) -> Self {
        self.extra.entry(key.into()).or_default().extend(values);
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The uid, which may be empty.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    pub(crate) fn extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.extra
    }

    /// Returns the anonymous user.
    pub(crate) fn anonymous() -> Self {
        Self::new(ANONYMOUS).with_group(UNAUTHENTICATED)
    }

    /// The administrator.
    pub(crate) fn admin() -> Self {
        Self::new("admin").with_group(MASTERS).authenticated()
    }

    /// A service account.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(format!("system:serviceaccount:{namespace}:{name}"))
            .with_group("system:serviceaccounts")
            .with_group(format!("system:serviceaccounts:{namespace}"))
    }

    /// Returns the namespace and the name of the service account, if the user is one.
    pub(crate) fn as_service_account(&self) -> Option<(&str, &str)> {
        self.name
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.contains(':'))
    }

    /// Adds the group of authenticated users, unless the user is in the unauthenticated group.
    pub(crate) fn authenticated(self) -> Self {
        let nobody = self.groups.iter().any(|group| group == UNAUTHENTICATED);
        if nobody {
            self
        } else {
            self.with_group(AUTHENTICATED)
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Returns whether the user may do everything without any rule.
    pub(crate) fn is_privileged(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }

    /// Returns the user as reviews show it, without empty fields.
    pub(crate) fn to_info(&self) -> Value {
        let mut info = Map::new();
        let mut put = |name: &str, value: Value, is_empty: bool| {
            if !is_empty {
                info.insert(name.to_owned(), value);
            }
        };
        put("username", self.name.as_str().into(), self.name.is_empty());
        put("uid", self.uid.as_str().into(), self.uid.is_empty());
        put("groups", self.groups.clone().into(), self.groups.is_empty());
        let extra: Map<String, Value> = self
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), values.clone().into()))
            .collect();
        put("extra", Value::Object(extra), self.extra.is_empty());
        Value::Object(info)
    }
}
