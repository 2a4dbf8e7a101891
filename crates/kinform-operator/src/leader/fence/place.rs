//! The object that a request is about, read from its path.
//!
//! ```text
//! [prefix] /apis/GROUP/VERSION [/namespaces/NS] /RESOURCE [/NAME [/SUBRESOURCE]] → Place
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/request/requestinfo.go`.

/// The parts of a path that decide how a write is fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path of the object, if it is named.
    pub(super) object: Option<String>,
    /// The subresource, if it is one.
    pub(super) subresource: Option<String>,
}

impl Place {
    /// Reads a path; a path that is none of resources has no object.
    pub(super) fn of(path: &str) -> Self {
        let none = Self {
            object: None,
            subresource: None,
        };
        let ends = ends(path);
        let text = |at: usize| -> Option<&str> {
            let (from, to) = *ends.get(at)?;
            path.get(from..to)
        };
        // A prefix of a proxy may come first.
        let root = (0..ends.len()).find_map(|at| match (text(at), text(at + 1)) {
            (Some("api"), Some("v1")) => Some(at + 2),
            (Some("apis"), Some(_)) => Some(at + 3),
            _ => None,
        });
        let Some(root) = root else { return none };
        let rest = ends.len().saturating_sub(root);
        let is_of_namespace = rest == 3 && matches!(text(root + 2), Some("status" | "finalize"));
        let resource = match text(root) {
            Some("namespaces") if rest > 2 && !is_of_namespace => root + 2,
            _ => root,
        };
        Self {
            object: ends
                .get(resource + 1)
                .and_then(|&(_, to)| path.get(..to))
                .map(str::to_owned),
            subresource: text(resource + 2).map(str::to_owned),
        }
    }
}

/// Begin and end of each segment.
fn ends(path: &str) -> Vec<(usize, usize)> {
    let mut from = 0;
    let mut found = Vec::new();
    for segment in path.split('/') {
        let to = from + segment.len();
        if !segment.is_empty() {
            found.push((from, to));
        }
        from = to + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_an_object_and_a_subresource_behind_any_prefix() {
        let maps = "/api/v1/namespaces/a/configmaps";
        let foo = "/apis/e.io/v1/namespaces/a/foos/b";
        for (path, object, subresource) in [
            (maps.to_owned(), None, None),
            (format!("{maps}/b"), Some(format!("{maps}/b")), None),
            (
                format!("{foo}/status"),
                Some(foo.to_owned()),
                Some("status"),
            ),
            (
                format!("/k8s/api/c{foo}"),
                Some(format!("/k8s/api/c{foo}")),
                None,
            ),
            (
                "/apis/e.io/v1/foos/b".to_owned(),
                Some("/apis/e.io/v1/foos/b".to_owned()),
                None,
            ),
            ("/api/v1/namespaces".to_owned(), None, None),
            (
                "/api/v1/namespaces/a".to_owned(),
                Some("/api/v1/namespaces/a".to_owned()),
                None,
            ),
            (
                "/api/v1/namespaces/a/finalize".to_owned(),
                Some("/api/v1/namespaces/a".to_owned()),
                Some("finalize"),
            ),
            (
                "/api/v1/namespaces/a/pods/b/eviction".to_owned(),
                Some("/api/v1/namespaces/a/pods/b".to_owned()),
                Some("eviction"),
            ),
            ("/version".to_owned(), None, None),
            ("/api".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            let place = Place::of(&path);
            assert_eq!(place.object, object, "{path}");
            assert_eq!(place.subresource.as_deref(), subresource, "{path}");
        }
    }
}
