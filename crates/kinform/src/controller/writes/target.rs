//! The object of a request, read from its path.
//!
//! ```text
//! PUT /apis/apps/v1/namespaces/a/deployments/web/status → apps, deployments, a, web, status
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/request/requestinfo.go`.

use kinform_api::GroupVersionResource;

/// The object, or the collection, of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Target {
    /// Reads the path of a request; `None` if it is not one of a resource.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').peekable();
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut target = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            ..Self::default()
        };
        let first = parts.next()?;
        let owned = |part: &str| part.to_owned();
        if first == "namespaces" {
            let namespace = parts.next().map(owned);
            match parts.next() {
                // The namespace itself, or a part of it.
                None => {
                    target.plural = owned(first);
                    target.name = namespace;
                    return Some(target);
                }
                Some(part @ ("status" | "finalize")) => {
                    target.plural = owned(first);
                    target.name = namespace;
                    target.subresource = Some(owned(part));
                    return Some(target);
                }
                Some(plural) => {
                    target.namespace = namespace;
                    target.plural = owned(plural);
                }
            }
        } else {
            target.plural = owned(first);
        }
        target.name = parts.next().map(owned);
        target.subresource = parts.next().map(owned);
        Some(target)
    }

    /// The group and the plural name of its resource.
    pub(super) fn resource(&self) -> (&str, &str) {
        (&self.group, &self.plural)
    }

    /// The collection of the object.
    pub(super) fn of_collection(&self) -> Self {
        Self {
            name: None,
            subresource: None,
            ..self.clone()
        }
    }

    /// The path of the collection, to ask it for its version.
    pub(super) fn collection(&self) -> String {
        let resource = GroupVersionResource::new(&self.group, &self.version, &self.plural);
        resource.path(self.namespace.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_resource_namespace_name_and_subresource() {
        for (path, expected, collection) in [
            ("/api/v1/pods", "/pods---", "/api/v1/pods"),
            (
                "/api/v1/namespaces/a/pods/x",
                "/pods-a-x-",
                "/api/v1/namespaces/a/pods",
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/web/status",
                "apps/deployments-a-web-status",
                "/apis/apps/v1/namespaces/a/deployments",
            ),
            ("/api/v1/namespaces", "/namespaces---", "/api/v1/namespaces"),
            (
                "/api/v1/namespaces/a",
                "/namespaces--a-",
                "/api/v1/namespaces",
            ),
            (
                "/api/v1/namespaces/a/finalize",
                "/namespaces--a-finalize",
                "/api/v1/namespaces",
            ),
            ("/api/v1/nodes/n", "/nodes--n-", "/api/v1/nodes"),
        ] {
            let target = Target::parse(path).unwrap();
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            let found = format!(
                "{}/{}-{}-{}-{}",
                target.group,
                target.plural,
                text(&target.namespace),
                text(&target.name),
                text(&target.subresource)
            );
            assert_eq!(found, expected, "{path}");
            assert_eq!(target.collection(), collection);
        }
        for path in ["/", "/version", "/api/v1", "/apis/apps", "/readyz/x"] {
            assert_eq!(Target::parse(path), None, "{path}");
        }
    }
}
