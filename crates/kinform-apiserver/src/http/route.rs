//! Parses paths and methods into the resource, object and subresource that they address.
//!
//! ```text
//! GET /apis/apps/v1/namespaces/shop/deployments/web/status ──▶ Target { resource, shop, web, status }
//! ```
//!
//! There is no table of routes: the registry knows the resources, so a custom resource is reachable
//! as soon as it is installed. The deprecated `/watch/` prefix turns into a flag.
//!
//! Upstream: `apiserver:pkg/endpoints/request/requestinfo.go`.

use std::sync::Arc;

use http::Method;
use kinform_api::Scope;
use percent_encoding::percent_decode_str;

use crate::resource::{Found, Registry, ResourceInfo};

/// The destination of a path.
#[derive(Debug)]
pub(crate) enum Route {
    /// A resource, an object or a part of one.
    Target(Target),
    /// A served group and version without this resource.
    UnknownResource,
    /// A subresource that a custom object does not have, with its name.
    UnknownPart(Arc<ResourceInfo>, String),
    /// Any other path: discovery, health, or not found.
    Elsewhere,
}

/// The parsed path of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<ResourceInfo>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The path on the proxied server, for a proxy; `""` if the request has none.
    pub(crate) proxied: String,
    /// Set if the path has the deprecated prefix of a watch.
    pub(crate) forced_watch: bool,
}

impl Target {
    /// Returns the key in the storage, or `None` for a collection.
    pub(crate) fn key(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(match self.namespace.as_deref() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        })
    }

    /// Returns upstream's verb for a method.
    pub(crate) fn verb(&self, method: &Method, watch: bool) -> &'static str {
        let one = self.name.is_some() && !self.forced_watch;
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            _ if one => "get",
            _ if watch || self.forced_watch => "watch",
            _ => "list",
        }
    }
}

/// Parses a path.
pub(crate) fn route(registry: &Registry, path: &str) -> Route {
    let decoded: Option<Vec<String>> = path
        .trim_matches('/')
        .split('/')
        .map(|part| {
            percent_decode_str(part)
                .decode_utf8()
                .ok()
                .map(String::from)
        })
        .collect();
    let Some(parts) = decoded else {
        return Route::Elsewhere;
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let ending = if path.ends_with('/') { "/" } else { "" };
    let route = match parts.as_slice() {
        // The core group exists with any version; paths of other unknown groups are not found.
        ["api", version, ..] if *version != "v1" => Route::UnknownResource,
        ["api", version, rest @ ..] => resource_path(registry, "", version, rest),
        ["apis", group, version, rest @ ..] if !group.is_empty() => {
            resource_path(registry, group, version, rest)
        }
        _ => Route::Elsewhere,
    };
    match route {
        Route::Target(target) if target.subresource.as_deref() == Some("proxy") => {
            let proxied = format!("{}{ending}", target.proxied);
            Route::Target(Target { proxied, ..target })
        }
        route => route,
    }
}

fn resource_path(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> Route {
    let (forced_watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // These are subresources of a namespace; any other name is a resource within the namespace.
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let mut proxied = String::new();
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
        // The rest is a path on the proxied server.
        [plural, name, "proxy", behind @ ..] => {
            proxied = format!("/{}", behind.join("/"));
            (*plural, Some(*name), Some("proxy"))
        }
        _ => return Route::Elsewhere,
    };
    let resource = match registry.find(group, version, plural) {
        Found::Resource(resource) => resource,
        Found::UnknownResource => return Route::UnknownResource,
        Found::UnknownGroupVersion => return Route::Elsewhere,
    };
    let fits = match resource.scope {
        Scope::Cluster => namespace.is_none(),
        Scope::Namespaced => namespace.is_some() || name.is_none(),
    };
    let served = subresource.is_none_or(|part| resource.has_subresource(part));
    // Upstream routes custom resources separately, with other error messages.
    match (resource.is_custom(), name) {
        (true, _) if !fits => return Route::Elsewhere,
        (true, Some(name)) if !served => {
            return Route::UnknownPart(resource.clone(), name.to_owned());
        }
        (_, name) if !fits || !served || name == Some("") => return Route::UnknownResource,
        _ => {}
    }
    Route::Target(Target {
        resource,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        proxied,
        forced_watch,
    })
}
