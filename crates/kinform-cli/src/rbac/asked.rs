//! The right that a request needs, from its method, path and headers alone.
//!
//! ```text
//! DELETE /apis/apps/v1/namespaces/shop/deployments/web ──▶ delete, shop, apps, deployments, web
//! Impersonate-User: jane                                ──▶ impersonate, users, jane
//! ```
//!
//! Pure. Rights that every user has, as discovery, need no rule and are left out.
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/request/requestinfo.go`,
//! `pkg/endpoints/filters/impersonation`.

use http::{HeaderMap, Method};
use kinform_api::selector::FieldSelector;
use percent_encoding::percent_decode_str;

/// A right that a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) verb: String,
    pub(super) target: Target,
}

/// The target of a verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A path that is no resource.
    Path(String),
    Resource {
        /// Empty for the cluster, or all namespaces.
        namespace: String,
        group: String,
        /// As `pods`, or `pods/log`.
        resource: String,
        /// Empty for a collection.
        name: String,
    },
}

/// Paths that the role system:discovery or system:public-info-viewer lets everybody read.
const PUBLIC: [&str; 7] = [
    "api", "apis", "healthz", "livez", "openapi", "readyz", "version",
];
/// Streams into a pod.
const STREAMS: [&str; 3] = ["pods/attach", "pods/exec", "pods/portforward"];
/// Reviews that the role system:basic-user lets everybody create.
const BASIC: [(&str, &str); 3] = [
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

impl Asked {
    /// The rights that a request needs: none, one, or one for each part of a user that it
    /// impersonates.
    pub(super) fn read(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Vec<Self> {
        let impersonated = impersonated(headers);
        if !impersonated.is_empty() {
            return impersonated;
        }
        let asked = Self::of_path(method, path, query);
        match asked.is_everybodys() {
            true => Vec::new(),
            false => vec![asked],
        }
    }

    /// The right to create that an update needs which created.
    pub(super) fn creation(&self) -> Option<Self> {
        match (&*self.verb, &self.target) {
            ("update" | "patch", Target::Resource { resource, .. }) if !resource.contains('/') => {
                Some(Self {
                    verb: "create".to_owned(),
                    target: self.target.clone(),
                })
            }
            _ => None,
        }
    }

    /// The right to create that a stream into a pod needs besides its get: a WebSocket begins as a GET,
    /// and servers from 1.35 on require both.
    pub(super) fn stream(&self) -> Option<Self> {
        match (&*self.verb, &self.target) {
            (
                "get",
                Target::Resource {
                    group, resource, ..
                },
            ) if group.is_empty() && STREAMS.contains(&&**resource) => Some(Self {
                verb: "create".to_owned(),
                target: self.target.clone(),
            }),
            _ => None,
        }
    }

    /// The right to list that a streaming list needs besides its watch: a server without streaming
    /// lists, or a proxy that holds one back, makes a client list in pages.
    pub(super) fn fallback(&self, query: &str) -> Option<Self> {
        let streams = is_true(query, "sendInitialEvents") && self.verb == "watch";
        streams.then(|| Self {
            verb: "list".to_owned(),
            target: self.target.clone(),
        })
    }

    fn of_path(method: &Method, path: &str, query: &str) -> Self {
        let decode = |part| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                return Self {
                    verb: method.as_str().to_ascii_lowercase(),
                    target: Target::Path(path.to_owned()),
                };
            }
        };
        let (is_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // A namespace's own subresources; any other word is a resource in the namespace.
            ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        let is_collection = part(1).is_empty();
        let verb = match is_watch && *method == Method::GET {
            true => "watch",
            false => verb(method, is_collection, query),
        };
        let name = match is_collection && matches!(verb, "list" | "watch" | "deletecollection") {
            true => selected(query),
            false => part(1).to_owned(),
        };
        Self {
            verb: verb.to_owned(),
            target: Target::Resource {
                namespace: namespace.to_owned(),
                group: group.to_owned(),
                resource: match part(2) {
                    "" => part(0).to_owned(),
                    part_of => format!("{}/{part_of}", part(0)),
                },
                name,
            },
        }
    }

    /// Returns whether every authenticated user has the right in every cluster.
    fn is_everybodys(&self) -> bool {
        match &self.target {
            Target::Path(path) => {
                let first = path
                    .trim_start_matches('/')
                    .split('/')
                    .next()
                    .unwrap_or_default();
                matches!(&*self.verb, "get" | "head") && PUBLIC.contains(&first)
            }
            Target::Resource {
                group, resource, ..
            } => self.verb == "create" && BASIC.contains(&(group.as_str(), resource.as_str())),
        }
    }
}

fn verb(method: &Method, is_collection: bool, query: &str) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_collection => "deletecollection",
        Method::DELETE => "delete",
        _ if !is_collection => "get",
        _ if is_true(query, "watch") => "watch",
        _ => "list",
    }
}

/// A value of a query.
fn of_query(query: &str, key: &str) -> Option<String> {
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let value = pairs
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| value)
        .next()?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

fn is_true(query: &str, key: &str) -> bool {
    let value = of_query(query, key);
    matches!(
        value.as_deref(),
        Some("1" | "true" | "t" | "T" | "TRUE" | "True")
    )
}

/// The name that a field selector requires; empty if it requires none.
fn selected(query: &str) -> String {
    let selector = of_query(query, "fieldSelector").unwrap_or_default();
    let selector = selector.parse::<FieldSelector>().ok();
    let name = selector
        .as_ref()
        .and_then(|selector| selector.exact("metadata.name"));
    name.unwrap_or_default().to_owned()
}

/// The rights to act as the user that the headers name.
fn impersonated(headers: &HeaderMap) -> Vec<Asked> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let right = |namespace: &str, group: &str, resource: String, name: String| Asked {
        verb: "impersonate".to_owned(),
        target: Target::Resource {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            resource,
            name,
        },
    };
    let mut found = Vec::new();
    for (header, value) in headers {
        let value = text(value);
        match header.as_str() {
            "impersonate-user" => {
                let account = value.strip_prefix("system:serviceaccount:");
                found.push(match account.and_then(|account| account.split_once(':')) {
                    Some((namespace, name)) => {
                        right(namespace, "", "serviceaccounts".to_owned(), name.to_owned())
                    }
                    None => right("", "", "users".to_owned(), value),
                });
            }
            "impersonate-group" => found.push(right("", "", "groups".to_owned(), value)),
            "impersonate-uid" => {
                found.push(right("", "authentication.k8s.io", "uids".to_owned(), value))
            }
            header => {
                if let Some(key) = header.strip_prefix("impersonate-extra-") {
                    found.push(right(
                        "",
                        "authentication.k8s.io",
                        format!("userextras/{key}"),
                        value,
                    ));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = method.parse().unwrap();
        let asked = Asked::read(&method, path, query, &HeaderMap::new());
        let shown: Vec<String> = asked.iter().map(shown).collect();
        assert_eq!(shown.join(", "), expected, "{method} {uri}");
    }

    fn shown(asked: &Asked) -> String {
        match &asked.target {
            Target::Path(path) => format!("{} {path}", asked.verb),
            Target::Resource {
                namespace,
                group,
                resource,
                name,
            } => {
                format!("{} {group}:{resource}:{namespace}:{name}", asked.verb)
            }
        }
    }

    // apiserver: TestGetAPIRequestInfo
    #[test]
    fn a_request_says_which_right_it_needs() {
        check("GET", "/api/v1/pods", "list :pods::");
        check("GET", "/api/v1/pods?limit=5&watch=true", "watch :pods::");
        check("GET", "/api/v1/watch/namespaces/a/pods", "watch :pods:a:");
        check(
            "GET",
            "/api/v1/watch/namespaces/a/pods/b",
            "watch :pods:a:b",
        );
        check("GET", "/api/v1/namespaces/a/pods/b", "get :pods:a:b");
        check(
            "GET",
            "/api/v1/namespaces/a/pods/b/log",
            "get :pods/log:a:b",
        );
        check("GET", "/api/v1/namespaces", "list :namespaces::");
        check("GET", "/api/v1/namespaces/a", "get :namespaces:a:a");
        check(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "update :namespaces/finalize:a:a",
        );
        check(
            "POST",
            "/apis/apps/v1/namespaces/a/deployments",
            "create apps:deployments:a:",
        );
        check(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch apps:deployments/scale:a:b",
        );
        check("DELETE", "/api/v1/nodes/n", "delete :nodes::n");
        check(
            "DELETE",
            "/api/v1/namespaces/a/pods",
            "deletecollection :pods:a:",
        );
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Db",
            "list :pods::b",
        );
        check("GET", "/metrics", "get /metrics");
        for path in [
            "/api",
            "/apis/apps/v1",
            "/version",
            "/openapi/v3/apis/apps/v1",
            "/livez",
        ] {
            check("GET", path, "");
        }
        check(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "",
        );
        check(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "create authorization.k8s.io:subjectaccessreviews::",
        );
    }

    #[test]
    fn impersonation_needs_a_right_for_each_part_and_no_other() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("impersonate-user", "system:serviceaccount:shop:web"),
            ("impersonate-group", "a"),
            ("impersonate-extra-scopes", "x"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let asked = Asked::read(&Method::GET, "/api/v1/pods", "", &headers);
        let mut shown: Vec<String> = asked.iter().map(shown).collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "impersonate :groups::a",
                "impersonate :serviceaccounts:shop:web",
                "impersonate authentication.k8s.io:userextras/scopes::x"
            ]
        );
    }

    #[test]
    fn a_streaming_list_needs_the_right_to_list_too() {
        let fallback = |query: &str| {
            let asked = Asked::read(&Method::GET, "/api/v1/pods", query, &HeaderMap::new());
            asked[0].fallback(query).as_ref().map(shown)
        };
        let streams = "watch=true&sendInitialEvents=true&fieldSelector=metadata.name%3Db";
        assert_eq!(fallback(streams).as_deref(), Some("list :pods::b"));
        assert_eq!(fallback("watch=true"), None);
        assert_eq!(fallback("watch=true&sendInitialEvents=false"), None);
        assert_eq!(fallback("sendInitialEvents=true"), None);
    }

    #[test]
    fn a_web_socket_into_a_pod_needs_the_right_to_create_too() {
        let stream = |method: Method, path: &str| {
            let asked = Asked::read(&method, path, "command=ls", &HeaderMap::new());
            asked[0].stream().as_ref().map(shown)
        };
        let exec = "/api/v1/namespaces/a/pods/b/exec";
        let create = "create :pods/exec:a:b";
        assert_eq!(stream(Method::GET, exec).as_deref(), Some(create));
        assert_eq!(stream(Method::POST, exec), None);
        let log = "/api/v1/namespaces/a/pods/b/log";
        assert_eq!(stream(Method::GET, log), None);
        let other = "/apis/example.com/v1/namespaces/a/pods/b/exec";
        assert_eq!(stream(Method::GET, other), None);
    }

    #[test]
    fn an_update_that_creates_needs_the_right_to_create() {
        let asked = |method: Method, path: &str| {
            Asked::read(&method, path, "", &HeaderMap::new()).remove(0)
        };
        let patch = asked(Method::PATCH, "/api/v1/namespaces/a/configmaps/b");
        assert_eq!(shown(&patch.creation().unwrap()), "create :configmaps:a:b");
        let part = asked(Method::PUT, "/api/v1/namespaces/a/pods/b/status");
        assert_eq!(part.creation(), None);
        let get = asked(Method::GET, "/api/v1/namespaces/a/pods/b");
        assert_eq!(get.creation(), None);
    }
}
