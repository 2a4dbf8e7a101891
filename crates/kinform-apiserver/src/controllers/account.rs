//! The content that every namespace has: its default service account, and the server's authority.
//!
//! ```text
//! namespace created ─┐
//! one of them gone  ─┼─▶ ServiceAccount `default`, ConfigMap `kube-root-ca.crt`
//! authority changed ─┘
//! ```
//!
//! They are there when the reply to the namespace's creation is, so that no client waits for them.
//! Both come again when they are deleted; the ConfigMap has exactly its data.
//!
//! Upstream: `kubernetes:pkg/controller/serviceaccount/serviceaccounts_controller.go`,
//! `pkg/controller/certificates/rootcacertpublisher`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::account_token;
use super::put::{CONTROLLER_MANAGER, put};
use crate::object::metadata;
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::Stored;
use crate::write::{NamespaceState, namespace_state};

const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
     using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
     usage is guaranteed across distributions of Kubernetes clusters.";

/// Furnishes the namespace that was written, or whose content was.
pub(super) fn follow(state: &State, resource: &ResourceInfo, object: &Stored) {
    let Some(authority) = &state.namespace_authority else {
        return;
    };
    if resource.is_core("secrets") {
        account_token::secret_written(state, object, authority);
    } else if resource.is_core("serviceaccounts") {
        account_token::account_written(state, object);
    }
    let is_content = |name: &str| object.name() == name;
    if resource.is_core("namespaces") {
        furnish(state, object.name());
    } else if resource.is_core("serviceaccounts") && is_content(ACCOUNT)
        || resource.is_core("configmaps") && is_content(AUTHORITY)
    {
        furnish(state, object.namespace().unwrap_or_default());
    }
}

/// Furnishes all namespaces, when a server starts.
pub(crate) fn furnish_all(state: &Arc<State>) {
    let shelf = state.store.shelf("namespaces");
    let Some(authority) = &state.namespace_authority else {
        return;
    };
    for object in state.store.view(shelf).snapshot.iter() {
        furnish(state, object.name());
    }
    let secrets = state.store.shelf("secrets");
    for secret in state.store.view(secrets).snapshot.iter() {
        // The authority may be another one than at the last start.
        account_token::secret_written(state, secret, authority);
    }
}

/// Creates what a namespace lacks, if it is not being deleted.
fn furnish(state: &State, name: &str) {
    let Some(authority) = &state.namespace_authority else {
        return;
    };
    if namespace_state(&state.store, Some(name)) != NamespaceState::Active {
        return;
    }
    ensure(
        state,
        name,
        "serviceaccounts",
        json!({"metadata": {"name": ACCOUNT}}),
    );
    let authority = json!({
        "metadata": {
            "name": AUTHORITY,
            "annotations": {"kubernetes.io/description": DESCRIPTION},
        },
        "data": {"ca.crt": authority},
    });
    ensure(state, name, "configmaps", authority);
}

/// Creates an object if it is missing, and puts its data back if they are others.
fn ensure(state: &State, namespace: &str, plural: &str, mut object: Value) {
    let Found::Resource(resource) = state.registry.find("", "v1", plural) else {
        return;
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let key = format!("{namespace}/{name}");
    let Some(stored) = state.store.get(resource.shelf, &key) else {
        metadata::of(&mut object).insert("namespace".to_owned(), namespace.into());
        // Another request may have been faster: then it is there.
        put(state, (&resource, CONTROLLER_MANAGER), object, None);
        return;
    };
    let mut next = stored.value();
    if object.get("data").is_none() || next.get("data") == object.get("data") {
        return;
    }
    next["data"] = object["data"].take();
    // A faster writer is followed, too.
    put(state, (&resource, CONTROLLER_MANAGER), next, Some(&stored));
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use crate::Server;

    #[tokio::test]
    async fn a_namespace_has_its_account_and_authority_at_once_and_again() {
        let server = Server::builder().plain().with_namespace_content();
        let server = server.in_process();
        let service = server.service();
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        assert_eq!(service.ask(Method::GET, account, Value::Null).await.0, 200);
        let namespace = json!({"metadata": {"name": "a"}});
        let created = service
            .ask(Method::POST, "/api/v1/namespaces", namespace)
            .await;
        assert_eq!(created.0, 201);
        for path in [
            "/api/v1/namespaces/a/serviceaccounts/default",
            "/api/v1/namespaces/a/configmaps/kube-root-ca.crt",
        ] {
            assert_eq!(service.ask(Method::GET, path, Value::Null).await.0, 200);
            assert_eq!(service.ask(Method::DELETE, path, Value::Null).await.0, 200);
            assert_eq!(service.ask(Method::GET, path, Value::Null).await.0, 200);
        }
        let authority = "/api/v1/namespaces/a/configmaps/kube-root-ca.crt";
        let changed = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"x": "y"}});
        assert_eq!(service.ask(Method::PUT, authority, changed).await.0, 200);
        let (_, body) = service.ask(Method::GET, authority, Value::Null).await;
        let data = &body["data"];
        assert!(data["ca.crt"].is_string() && data["x"].is_null(), "{body}");
        let gone = service
            .ask(Method::DELETE, "/api/v1/namespaces/a", Value::Null)
            .await;
        assert_eq!(gone.0, 200);
        assert_eq!(
            service
                .ask(Method::GET, "/api/v1/namespaces/a", Value::Null)
                .await
                .0,
            404
        );
    }
}
