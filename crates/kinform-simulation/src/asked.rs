//! The meaning of a request: enough to choose traps by it, and to count it.
//!
//! ```text
//! method + path + query ─▶ Asked { is it a watch, a write, about a lease? }, its kind
//! ```

use http::Method;
use http::request::Parts;

/// The meaning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) is_watch: bool,
    pub(crate) is_write: bool,
    /// Leases and events: their number follows the time.
    pub(crate) is_lease: bool,
    pub(crate) is_event: bool,
}

impl Asked {
    pub(crate) fn of(head: &Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let is_watch = query
            .split('&')
            .any(|one| matches!(one, "watch=true" | "watch=1"));
        let path = head.uri.path();
        Self {
            is_watch: is_watch && head.method == Method::GET,
            is_write: !matches!(head.method, Method::GET | Method::HEAD),
            is_lease: path.contains("/leases"),
            is_event: path.ends_with("/events") || path.contains("/events/"),
        }
    }
}

/// The kind of a list or a watch: its path and selector. `None` for a page after the first, for a
/// question about the server's version (one item, or a watch of three seconds: their number is that
/// of reconciles which need a fresh view), and for other requests, such as a read of one object.
pub(crate) fn kind(asked: Asked, head: &Parts) -> Option<String> {
    let query = head.uri.query().unwrap_or_default();
    let value = |name: &str| {
        let mut words = query.split('&').filter_map(|one| one.split_once('='));
        words.find_map(|(word, value)| (word == name).then_some(value))
    };
    let is_of_one = names_one(head.uri.path());
    let is_question = match asked.is_watch {
        true => value("timeoutSeconds") == Some("3"),
        false => value("limit") == Some("1") && value("resourceVersion").is_none(),
    };
    if asked.is_write
        || asked.is_lease
        || asked.is_event
        || is_of_one
        || is_question
        || value("continue").is_some()
    {
        return None;
    }
    let verb = if asked.is_watch { "watch" } else { "list" };
    let selector = value("labelSelector").unwrap_or_default();
    Some(format!("{verb} {} {selector}", head.uri.path()))
}

/// Returns whether a path names one object, not a collection.
fn names_one(path: &str) -> bool {
    let mut words = path.split('/').filter(|word| !word.is_empty());
    // The version is behind the group, where there is one.
    let before = if words.next() == Some("apis") { 2 } else { 1 };
    let rest: Vec<_> = words.skip(before).collect();
    match rest[..] {
        ["namespaces", _, _, ref one @ ..] => !one.is_empty(),
        [_, ref one @ ..] => !one.is_empty(),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_and_objects_are_told_apart() {
        for (path, expected) in [
            ("/api/v1/secrets", false),
            ("/api/v1/namespaces/a/secrets", false),
            ("/api/v1/namespaces/a/secrets/b", true),
            ("/api/v1/namespaces", false),
            ("/api/v1/namespaces/a", true),
            ("/apis/example.com/v1/shops", false),
            ("/apis/example.com/v1/namespaces/a/shops/b", true),
            ("/apis/apps/v1", false),
        ] {
            assert_eq!(names_one(path), expected, "{path}");
        }
    }
}
