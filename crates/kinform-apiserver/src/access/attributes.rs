//! The attributes of a request, parsed from its method and its path alone.
//!
//! ```text
//! DELETE /apis/apps/v1/namespaces/shop/deployments/web ──▶ delete, shop, apps, deployments, web
//! ```
//!
//! Requests are authorized before the server looks whether a resource exists, so this module does
//! not use the registry.
//!
//! Upstream: `apiserver:pkg/endpoints/request/requestinfo.go`, `pkg/endpoints/filters/authorization.go`.

use http::Method;
use kinform_api::selector::FieldSelector;
use percent_encoding::percent_decode_str;

use crate::http::query::Query;

/// A verb and its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    /// The path as it was sent; empty where a review asks about a resource.
    pub(crate) path: String,
    pub(crate) subject: Subject,
}

/// The target of a verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The path itself.
    #[default]
    Path,
    /// A resource, an object of it, or a part of one.
    Resource(ResourceRef),
}

/// A resource, an object of it, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceRef {
    pub(crate) namespace: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
}

impl ResourceRef {
    /// `pods`, or `pods/status`.
    pub(crate) fn combined(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            part => format!("{}/{part}", self.resource),
        }
    }
}

impl Attributes {
    /// A verb of a resource.
    pub(crate) fn of(verb: &str, resource: ResourceRef) -> Self {
        Self {
            verb: verb.to_owned(),
            path: String::new(),
            subject: Subject::Resource(resource),
        }
    }

    /// A verb of a path.
    pub(crate) fn of_path(verb: &str, path: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            path: path.to_owned(),
            subject: Subject::Path,
        }
    }

    /// Returns the same attributes with another verb.
    pub(crate) fn with_verb(&self, verb: String) -> Self {
        Self {
            verb,
            ..self.clone()
        }
    }

    /// Parses the attributes of a request.
    pub(crate) fn read(method: &Method, path: &str, query: &Query) -> Self {
        let decode = |part| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return Self::of_path(&plain_verb(method), path),
        };
        let (is_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // These names are subresources of a namespace; any other name is a resource within the
            // namespace.
            ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let mut of = ResourceRef {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            resource: part(0),
            name: part(1),
            subresource: part(2),
        };
        let is_collection = of.name.is_empty();
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_collection => "deletecollection",
            Method::DELETE => "delete",
            _ if is_watch => "watch",
            _ if !is_collection => "get",
            _ if query.flag("watch").unwrap_or(false) => "watch",
            _ => "list",
        };
        if is_collection && matches!(verb, "list" | "watch" | "deletecollection") {
            of.name = selected_name(query).unwrap_or_default();
        }
        Self {
            verb: verb.to_owned(),
            path: path.to_owned(),
            subject: Subject::Resource(of),
        }
    }

    /// Returns whether the request reads one of these paths.
    pub(super) fn is_read_of_path(&self, paths: &[&str]) -> bool {
        self.subject == Subject::Path
            && matches!(self.verb.as_str(), "get" | "head")
            && paths.contains(&self.path.trim_end_matches('/'))
    }
}

/// Returns the name that a field selector requires, if it requires one.
fn selected_name(query: &Query) -> Option<String> {
    let selector: FieldSelector = query.text("fieldSelector").parse().ok()?;
    selector.exact("metadata.name").map(str::to_owned)
}

/// Returns the verb for a path that is not a resource.
fn plain_verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked() {
        for (method, path, query, verb, want) in [
            (Method::GET, "/api/v1/pods", "", "list", " pods  "),
            (Method::GET, "/api/v1/pods", "watch=1", "watch", " pods  "),
            (Method::GET, "/api/v1/watch/pods/", "", "watch", " pods  "),
            (
                Method::HEAD,
                "/api/v1/namespaces/a",
                "",
                "get",
                "a namespaces a ",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "",
                "update",
                "a namespaces a finalize",
            ),
            (
                Method::DELETE,
                "/apis/g/v1/namespaces/a/foos",
                "",
                "deletecollection",
                "a foos  ",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/x/eviction",
                "",
                "create",
                "a pods x eviction",
            ),
            (
                Method::GET,
                "/api/v1/nodes/n/proxy/deep/path",
                "",
                "get",
                " nodes n proxy",
            ),
            (
                Method::GET,
                "/api/v1/pods",
                "fieldSelector=metadata.name%3Dx",
                "list",
                " pods x ",
            ),
        ] {
            let got = Attributes::read(&method, path, &Query::parse(Some(query)));
            let Subject::Resource(of) = &got.subject else {
                panic!("{path}: {got:?}")
            };
            let told = [&*of.namespace, &of.resource, &of.name, &of.subresource].join(" ");
            assert_eq!((got.verb.as_str(), told.as_str()), (verb, want), "{path}");
        }
        let plain = Attributes::read(&Method::POST, "/apis/apps", &Query::parse(None));
        assert_eq!(plain, Attributes::of_path("post", "/apis/apps"));
    }
}
