//! Objects that tests make in an embedded server, and rights of their users.
//!
//! ```text
//! path + JSON → POST in process → the object
//! ```

use kinform_apiserver::Server;
use serde_json::{Value, json};

/// Sends a request as the administrator; the reply's code and body.
pub(crate) async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body.to_string().into())
        .unwrap();
    let reply = server.service().call(request).await;
    let code = reply.status().as_u16();
    let body = http_body_util::BodyExt::collect(reply.into_body()).await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Makes an object, or replaces its status where `path` is one of a status.
pub(crate) async fn make(server: &Server, path: &str, object: Value) -> Value {
    let (code, made) = send(server, "POST", path, &object).await;
    assert_eq!(code, 201, "{path}: {made}");
    made
}

/// Merges a part into an object.
pub(crate) async fn patch(server: &Server, path: &str, part: Value) {
    let (code, patched) = send(server, "PATCH", path, &part).await;
    assert_eq!(code, 200, "{path}: {patched}");
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Makes a config map.
pub(crate) async fn config_map(server: &Server, name: &str, data: Value) -> Value {
    make(
        server,
        CONFIG_MAPS,
        json!({"metadata": {"name": name}, "data": data}),
    )
    .await
}

/// Gives a user the rules of a role, in `default` or the whole cluster by the role's kind.
pub(crate) async fn grant(server: &Server, user: &str, role: &Value) {
    let base = "/apis/rbac.authorization.k8s.io/v1";
    let of = match role["kind"].as_str() {
        Some("Role") => {
            let namespace = role["metadata"]["namespace"].as_str().unwrap_or("default");
            (
                format!("{base}/namespaces/{namespace}/roles"),
                format!("{base}/namespaces/{namespace}/rolebindings"),
            )
        }
        _ => (
            format!("{base}/clusterroles"),
            format!("{base}/clusterrolebindings"),
        ),
    };
    make(server, &of.0, role.clone()).await;
    make(
        server,
        &of.1,
        json!({"metadata": {"name": role["metadata"]["name"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"],
                "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}),
    )
    .await;
}
