//! Secrets with tokens of service accounts.
//!
//! ```text
//! secret of type service-account-token ──its account──▶ data: ca.crt, namespace, token
//!                                        no account ──▶ deleted
//! account gone ──▶ its secrets gone       secret gone ──▶ no longer named by its account
//! ```
//!
//! Such a token never expires: it is valid as long as its secret has it and its account is there.
//!
//! Upstream: `kubernetes:pkg/controller/serviceaccount/tokens_controller.go`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::put::{CONTROLLER_MANAGER, put};
use super::removal::{at_once, is_terminating, keys};
use crate::access::TokenSecret;
use crate::object::{at, text};
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::Stored;

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Fills a secret that was written, if it is for a token, or deletes it if its account is gone.
pub(super) fn secret_written(state: &State, secret: &Stored, authority: &str) {
    let Found::Resource(secrets) = state.registry.find("", "v1", "secrets") else {
        return;
    };
    let Some(stored) = state.store.get(secrets.shelf, secret.key()) else {
        forget(state, secret);
        return;
    };
    let value = stored.value();
    let Some((name, uid)) = account_of(&value).filter(|_| !is_terminating(&stored)) else {
        return;
    };
    let namespace = stored.namespace().unwrap_or_default();
    let account = account(state, namespace, name);
    match account.filter(|account| uid.is_empty() || account.uid() == uid) {
        Some(account) => fill(
            state,
            &secrets,
            (&stored, value.clone()),
            (&account, authority),
        ),
        None => at_once(state, &secrets, &stored),
    }
}

/// Deletes the secrets of an account that is gone.
pub(super) fn account_written(state: &State, written: &Stored) {
    let namespace = written.namespace().unwrap_or_default();
    let current = account(state, namespace, written.name());
    if current.is_some_and(|account| account.uid() == written.uid()) {
        return;
    }
    let Found::Resource(secrets) = state.registry.find("", "v1", "secrets") else {
        return;
    };
    for key in keys(&state.store, secrets.shelf, &format!("{namespace}/")) {
        let Some(secret) = state.store.get(secrets.shelf, &key) else {
            continue;
        };
        if account_of(&secret.value()) == Some((written.name(), written.uid())) {
            at_once(state, &secrets, &secret);
        }
    }
}

/// The account of a secret for a token: its name and its UID, which may be unknown yet.
fn account_of(secret: &Value) -> Option<(&str, &str)> {
    let annotation = |key: &str| text(secret, &["metadata", "annotations", key]);
    let is_token = text(secret, &["type"]) == TYPE;
    is_token.then(|| (annotation(NAME), annotation(UID)))
}

fn account(state: &State, namespace: &str, name: &str) -> Option<Arc<Stored>> {
    let store = &state.store;
    let shelf = store.shelf("serviceaccounts");
    store.get(shelf, &format!("{namespace}/{name}"))
}

/// Adds the data that a secret lacks.
fn fill(
    state: &State,
    secrets: &ResourceInfo,
    (stored, mut secret): (&Stored, Value),
    (account, authority): (&Stored, &str),
) {
    let namespace = stored.namespace().unwrap_or_default();
    let has = |secret: &Value, key: &str| !text(secret, &["data", key]).is_empty();
    let authority = STANDARD.encode(authority);
    let mut is_changed = false;
    let mut set = |secret: &mut Value, key: &str, value: String| {
        secret["data"][key] = Value::from(value);
        is_changed = true;
    };
    if !authority.is_empty() && text(&secret, &["data", "ca.crt"]) != authority {
        set(&mut secret, "ca.crt", authority);
    }
    if !has(&secret, "namespace") {
        set(&mut secret, "namespace", STANDARD.encode(namespace));
    }
    if !has(&secret, "token") {
        let token = state.access.signer.sign_secret(&TokenSecret {
            namespace,
            secret: stored.name(),
            account: account.name(),
            uid: account.uid(),
        });
        let Some(token) = token else { return };
        set(&mut secret, "token", STANDARD.encode(token));
    }
    if is_changed {
        let annotations = &mut secret["metadata"]["annotations"];
        annotations[NAME] = Value::from(account.name());
        annotations[UID] = Value::from(account.uid());
        put(state, (secrets, CONTROLLER_MANAGER), secret, Some(stored));
    }
}

/// Takes a secret that is gone out of the list of its account.
fn forget(state: &State, secret: &Stored) {
    let value = secret.value();
    let Some((name, uid)) = account_of(&value) else {
        return;
    };
    let Found::Resource(accounts) = state.registry.find("", "v1", "serviceaccounts") else {
        return;
    };
    let namespace = secret.namespace().unwrap_or_default();
    let found = account(state, namespace, name);
    let Some(account) = found.filter(|account| account.uid() == uid) else {
        return;
    };
    let mut next = account.value();
    let named = |of: &Value| text(of, &["name"]) == secret.name();
    let list = at(&next, &["secrets"]).and_then(Value::as_array);
    if !list.is_some_and(|list| list.iter().any(named)) {
        return;
    }
    let kept: Vec<Value> = list
        .into_iter()
        .flatten()
        .filter(|of| !named(of))
        .cloned()
        .collect();
    next["secrets"] = json!(kept);
    put(state, (&accounts, CONTROLLER_MANAGER), next, Some(&account));
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use super::*;
    use crate::Server;

    fn decoded(secret: &Value, key: &str) -> String {
        let bytes = STANDARD.decode(text(secret, &["data", key])).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    // kubernetes: TestTokenCreation
    #[tokio::test]
    async fn a_secret_for_a_token_is_filled_and_ends_with_its_account() {
        let server = Server::builder().with_namespace_content().in_process();
        let service = server.service();
        let secrets = "/api/v1/namespaces/default/secrets";
        let of = |name: &str, account: &str| json!({"type": TYPE, "metadata": {"name": name, "annotations": {NAME: account}}});
        let made = service.ask(Method::POST, secrets, of("t", "default")).await;
        assert_eq!(made.0, 201, "{}", made.1);
        let path = format!("{secrets}/t");
        let (_, secret) = service.ask(Method::GET, &path, Value::Null).await;
        assert_eq!(decoded(&secret, "namespace"), "default");
        let token = decoded(&secret, "token");
        let review = json!({"spec": {"token": token}});
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (_, known) = service.ask(Method::POST, reviews, review.clone()).await;
        let user = &known["status"]["user"];
        assert_eq!(
            user["username"], "system:serviceaccount:default:default",
            "{known}"
        );
        // An account that is not there has no token.
        let made = service.ask(Method::POST, secrets, of("none", "none")).await;
        assert_eq!(made.0, 201);
        let gone = service
            .ask(Method::GET, &format!("{secrets}/none"), Value::Null)
            .await;
        assert_eq!(gone.0, 404);
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        assert_eq!(
            service.ask(Method::DELETE, account, Value::Null).await.0,
            200
        );
        assert_eq!(service.ask(Method::GET, &path, Value::Null).await.0, 404);
        let (_, unknown) = service.ask(Method::POST, reviews, review).await;
        assert_eq!(unknown["status"]["authenticated"], Value::Null, "{unknown}");
    }

    #[tokio::test]
    async fn a_secret_that_is_gone_is_no_longer_named_by_its_account() {
        let server = Server::builder().with_namespace_content().in_process();
        let service = server.service();
        let secrets = "/api/v1/namespaces/default/secrets";
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        let named = json!({"metadata": {"name": "default"},
            "secrets": [{"name": "t"}, {"name": "other"}]});
        assert_eq!(service.ask(Method::PUT, account, named).await.0, 200);
        let secret = json!({"type": TYPE, "metadata": {"name": "t",
            "annotations": {NAME: "default"}}});
        assert_eq!(service.ask(Method::POST, secrets, secret).await.0, 201);
        let path = format!("{secrets}/t");
        assert_eq!(service.ask(Method::DELETE, &path, Value::Null).await.0, 200);
        let (_, left) = service.ask(Method::GET, account, Value::Null).await;
        assert_eq!(left["secrets"], json!([{"name": "other"}]));
    }
}
