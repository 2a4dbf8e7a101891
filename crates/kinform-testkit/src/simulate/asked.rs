//! The meaning of a request: its verb, its resource, its object.
//!
//! ```text
//! method + path + query ─▶ Asked { verb, shelf, namespace, name } ─▶ is it a write, a watch, traffic?
//! ```
//!
//! Reads the path as the server does, but accepts any: what is no resource has no shelf.

use http::Method;
use http::request::Parts;
use kinform_apiserver::shelf_name;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// The storage of the resource: `deployments.apps`. Empty if the path is no resource.
    pub(crate) shelf: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) is_watch: bool,
    /// The path of the object, without its subresource.
    pub(crate) path: String,
}

impl Asked {
    /// Reads the head of a request.
    pub(crate) fn of(head: &Parts) -> Self {
        let path = head.uri.path();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match &parts[..] {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [] => ("", None, None),
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource, ..] => (*plural, Some(*name), Some(*subresource)),
        };
        let query = head.uri.query().unwrap_or_default();
        let is_watch = query
            .split('&')
            .any(|one| matches!(one, "watch" | "watch=true" | "watch=1"));
        let path = match subresource {
            Some(subresource) => path.trim_end_matches('/').strip_suffix(subresource),
            None => None,
        };
        Self {
            method: head.method.clone(),
            shelf: match plural {
                "" => String::new(),
                plural => shelf_name(group, plural),
            },
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            is_watch: is_watch && head.method == Method::GET,
            path: path
                .unwrap_or_else(|| head.uri.path())
                .trim_end_matches('/')
                .to_owned(),
        }
    }

    /// Returns whether it is about leases or events, which follow the time and not the objects.
    pub(crate) fn is_traffic(&self) -> bool {
        is_traffic(&self.shelf)
    }

    /// Returns whether it can change an object that pictures show.
    pub(crate) fn is_write(&self) -> bool {
        let is_question = self.shelf.split('.').next().unwrap_or_default();
        let asks = is_question.ends_with("reviews") || self.subresource.as_deref() == Some("token");
        self.method != Method::GET && !self.shelf.is_empty() && !asks && !self.is_traffic()
    }

    /// Returns whether it reads objects that pictures show, once.
    pub(crate) fn is_read(&self) -> bool {
        let is_get = self.method == Method::GET && !self.is_watch;
        is_get && !self.shelf.is_empty() && !self.is_traffic()
    }

    /// The key of the object in its storage.
    pub(crate) fn key(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        })
    }

    /// The request in words: `PATCH configmaps default/a status`.
    pub(crate) fn words(&self) -> String {
        let verb = if self.is_watch {
            "WATCH"
        } else {
            self.method.as_str()
        };
        let mut words = format!("{verb} {}", self.shelf);
        let about = self.key().or_else(|| self.namespace.clone());
        for more in [about, self.subresource.clone()].into_iter().flatten() {
            words.push(' ');
            words.push_str(&more);
        }
        words
    }
}

/// Returns whether a resource follows the time and not the user's objects.
pub(crate) fn is_traffic(shelf: &str) -> bool {
    matches!(
        shelf,
        "events"
            | "events.events.k8s.io"
            | "leases.coordination.k8s.io"
            | "leasecandidates.coordination.k8s.io"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, uri: &str) -> Asked {
        let request = http::Request::builder().method(method).uri(uri).body(());
        Asked::of(&request.unwrap().into_parts().0)
    }

    #[test]
    fn requests_are_read_as_the_server_reads_them() {
        let check = |method: Method, uri: &str, words: &str, is_write: bool| {
            let asked = asked(method, uri);
            assert_eq!(
                (asked.words().as_str(), asked.is_write()),
                (words, is_write),
                "{uri}"
            );
        };
        check(Method::GET, "/api/v1/pods?watch=1", "WATCH pods", false);
        check(Method::GET, "/api/v1/pods?watch=0", "GET pods", false);
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/b/status?force=true",
            "PATCH deployments.apps a/b status",
            true,
        );
        check(Method::POST, "/api/v1/namespaces", "POST namespaces", true);
        check(
            Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "PUT namespaces a finalize",
            true,
        );
        check(
            Method::POST,
            "/api/v1/namespaces/a/configmaps",
            "POST configmaps a",
            true,
        );
        check(
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "POST selfsubjectaccessreviews.authorization.k8s.io",
            false,
        );
        check(
            Method::POST,
            "/api/v1/namespaces/a/events",
            "POST events a",
            false,
        );
        check(Method::GET, "/version", "GET ", false);
    }

    #[test]
    fn the_path_of_an_object_has_no_subresource() {
        let status = asked(Method::PUT, "/apis/g/v1/namespaces/a/foos/b/status");
        assert_eq!(status.path, "/apis/g/v1/namespaces/a/foos/b");
        assert_eq!(status.key().as_deref(), Some("a/b"));
    }
}
