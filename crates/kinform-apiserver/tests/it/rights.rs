//! Who may do what, beyond what was recorded: roles that gather others, escalation, and what a server
//! without roles says.

use http::Method;
use kinform_apiserver::{Server, Service, User};
use serde_json::{Value, json};

use crate::support::{get, send};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

async fn post(service: &Service, path: &str, body: Value) -> (u16, Value) {
    send(service, Method::POST, path, body).await
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})
}

// kubernetes: test/e2e/auth/ (view, edit and admin roles)
#[tokio::test(start_paused = true)]
async fn the_roles_of_every_cluster_are_there_and_gather_others() {
    let server = Server::builder().rbac().in_process();
    let admin = server.service();
    let jane = server.service_as(User::new("jane"));
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(get(&jane, maps).await.0, 403);
    assert_eq!(
        post(&admin, BINDINGS, binding("b", "view", "jane")).await.0,
        201
    );
    assert_eq!(get(&jane, maps).await.0, 200);
    assert_eq!(
        get(&jane, "/api/v1/namespaces/default/secrets").await.0,
        403
    );
    assert_eq!(get(&jane, "/api/v1/configmaps").await.0, 403);
    assert_eq!(post(&jane, maps, map.clone()).await.0, 403);
    assert_eq!(
        post(&admin, BINDINGS, binding("c", "edit", "jane")).await.0,
        201
    );
    assert_eq!(post(&jane, maps, map).await.0, 201);
    // A role of one's own joins the ones that gather it.
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    let own = json!({"metadata": {"name": "foos", "labels":
        {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["list"], "apiGroups": ["example.com"], "resources": ["foos"]}]});
    assert_eq!(get(&jane, foos).await.0, 403);
    assert_eq!(post(&admin, ROLES, own).await.0, 201);
    assert_eq!(get(&jane, foos).await.0, 404);
    for role in ["view", "edit", "admin"] {
        let (_, role) = get(&admin, &format!("{ROLES}/{role}")).await;
        assert!(role["rules"].to_string().contains("example.com"), "{role}");
    }
}

// kubernetes: test/integration/auth/rbac_test.go
#[tokio::test(start_paused = true)]
async fn nobody_gives_more_than_they_hold_unless_they_may_bind_or_escalate() {
    let server = Server::builder().rbac().in_process();
    let admin = server.service();
    let rule = |verbs: Value| {
        json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles", "clusterrolebindings", "rolebindings"]})
    };
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let verbs = [
        ("writer", json!(["create", "update", "patch", "get"])),
        ("binder", json!(["create", "bind"])),
        ("escalator", json!(["create", "escalate"])),
    ];
    for (name, verbs) in verbs {
        let role = json!({"metadata": {"name": name}, "rules": [rule(verbs)]});
        assert_eq!(post(&admin, ROLES, role).await.0, 201);
        let (code, reply) = post(&admin, bindings, binding(name, name, name)).await;
        assert_eq!(code, 201, "{reply}");
    }
    let role = |name: &str| {
        json!({"metadata": {"name": name},
            "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]})
    };
    for (who, gives, binds) in [
        ("writer", 403, 403),
        ("binder", 403, 201),
        ("escalator", 201, 403),
    ] {
        let service = server.service_as(User::new(who));
        let (code, reply) = post(&service, ROLES, role(&format!("by-{who}"))).await;
        assert_eq!(code, gives, "{who}: {reply}");
        let gift = binding(&format!("of-{who}"), "cluster-admin", who);
        let (code, reply) = post(&service, bindings, gift).await;
        assert_eq!(code, binds, "{who}: {reply}");
    }
    // A dry run tells the same.
    let writer = server.service_as(User::new("writer"));
    let path = format!("{ROLES}?dryRun=All");
    assert_eq!(post(&writer, &path, role("dry")).await.0, 403);
    let (_, all) = get(&admin, &format!("{ROLES}/by-writer")).await;
    assert_eq!(all["code"], 404);
}

#[tokio::test(start_paused = true)]
async fn without_roles_whoever_is_known_may_do_everything_and_says_who_it_is() {
    let file = "secret,ann,u1,\"devs\"\n";
    let server = Server::builder().token_file(file).unwrap().in_process();
    let service = server.service();
    let request = |token: &str| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(bytes::Bytes::from(body.to_string()))
            .unwrap()
    };
    let reply = service.call(request("secret")).await;
    assert_eq!(reply.status(), 201);
    let body = reply.into_body().collect().await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body["status"]["userInfo"],
        json!({"username": "ann", "uid": "u1", "groups": ["devs", "system:authenticated"]})
    );
    assert_eq!(service.call(request("wrong")).await.status(), 401);
    let (code, _) = get(&server.service_as(User::new("x")), "/api/v1/pods").await;
    assert_eq!(code, 200);
    assert!(Server::builder().token_file("half a line").is_err());
}
