//! The scale subresource of any kind, found by discovery.
//!
//! ```text
//! (apps/v1, Deployment) ─▶ the resources of the version ─▶ Served: plural, whether it has a scale
//! ```
//!
//! Upstream counterpart: `client-go:scale`, `restmapper`.

use http::Request;
use kube_client::{Client, Error as ClientError};
use serde_json::Value;

use crate::json::text;
use crate::writer::collection;

/// A resource that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    root: String,
    plural: String,
    pub(crate) has_scale: bool,
}

impl Served {
    /// Its name in messages, such as `deployments.apps`.
    pub(crate) fn full_name(&self) -> String {
        let group = self.root.strip_prefix("/apis/");
        match group.and_then(|rest| rest.split_once('/')) {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.clone(),
        }
    }

    /// The path of an object's scale.
    pub(crate) fn scale_path(&self, namespace: &str, name: &str) -> String {
        let objects = collection(&self.root, namespace, &self.plural);
        format!("{objects}/{name}/scale")
    }
}

/// Finds the resource of a kind in a group and version; `None` if the server has none.
pub(crate) async fn find(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<Option<Served>, ClientError> {
    let root = match api_version.contains('/') {
        true => format!("/apis/{api_version}"),
        false => format!("/api/{api_version}"),
    };
    match get(client, &root).await {
        Ok(resources) => Ok(among(&resources, root, kind)),
        Err(ClientError::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds the resource of a kind in the list of a version's resources.
fn among(resources: &Value, root: String, kind: &str) -> Option<Served> {
    let resources = resources.get("resources")?.as_array()?;
    let mut names = resources
        .iter()
        .map(|resource| (text(resource, "/name"), text(resource, "/kind")));
    let is_its = |(name, of): &(&str, &str)| *of == kind && !name.contains('/');
    let (plural, _) = names.clone().find(is_its)?;
    let scale = format!("{plural}/scale");
    Some(Served {
        root,
        plural: plural.to_owned(),
        has_scale: names.any(|(name, _)| name == scale),
    })
}

/// Reads the document at a path.
pub(crate) async fn get(client: &Client, path: &str) -> Result<Value, ClientError> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(ClientError::HttpError)?;
    client.request(request).await
}

/// The server's reason for a refusal, or the error.
pub(crate) fn message(error: ClientError) -> String {
    match error {
        ClientError::Api(status) => status.message,
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_has_its_plural_and_perhaps_a_scale() {
        let resources = json!({"resources": [
            {"name": "deployments", "kind": "Deployment"},
            {"name": "deployments/scale", "kind": "Scale"},
            {"name": "daemonsets", "kind": "DaemonSet"},
        ]});
        let found = |kind: &str| among(&resources, "/apis/apps/v1".to_owned(), kind);
        let deployments = found("Deployment").unwrap();
        assert!(deployments.has_scale);
        assert_eq!(deployments.full_name(), "deployments.apps");
        assert_eq!(
            deployments.scale_path("ns", "x"),
            "/apis/apps/v1/namespaces/ns/deployments/x/scale"
        );
        assert!(!found("DaemonSet").unwrap().has_scale);
        assert_eq!(found("Scale"), None);
    }
}
