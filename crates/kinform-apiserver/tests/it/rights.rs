//! Authorization beyond what was recorded: aggregated roles, escalation, and replies of a server
//! without roles.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method};
use kinform_apiserver::{Server, Service, User};
use serde_json::{Value, json};

use crate::support::{get, namespace, send};

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

// kubernetes: pkg/registry/rbac/validation (TestDefaultRuleResolver)
#[tokio::test(start_paused = true)]
async fn s7_a_binding_gives_rights_in_its_own_namespace_only() {
    let server = Server::builder().rbac().in_process();
    let admin = server.service();
    let jane = server.service_as(User::new("jane"));
    namespace(&admin, "other").await;
    let bound = post(&admin, BINDINGS, binding("b", "view", "jane")).await;
    assert_eq!(bound.0, 201);
    for (path, code) in [
        ("namespaces/default/configmaps", 200),
        ("namespaces/other/configmaps", 403),
        ("configmaps", 403),
    ] {
        assert_eq!(
            get(&jane, &format!("/api/v1/{path}")).await.0,
            code,
            "{path}"
        );
    }
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
    // A custom role is aggregated, too.
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
    // A dry run has the same reply.
    let writer = server.service_as(User::new("writer"));
    let path = format!("{ROLES}?dryRun=All");
    assert_eq!(post(&writer, &path, role("dry")).await.0, 403);
    let (_, all) = get(&admin, &format!("{ROLES}/by-writer")).await;
    assert_eq!(all["code"], 404);
}

fn change(path: &str, media: &str, body: &Value) -> http::Request<Bytes> {
    http::Request::patch(path)
        .header("content-type", media)
        .body(Bytes::from(body.to_string()))
        .unwrap()
}

async fn answer(service: &Service, request: http::Request<Bytes>) -> (u16, Value) {
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

/// A server where `jane` holds these rules everywhere.
async fn where_jane_holds(rules: Value) -> (Server, Service, Service) {
    let server = Server::builder().rbac().in_process();
    let admin = server.service();
    let jane = server.service_as(User::new("jane"));
    let role = json!({"metadata": {"name": "janes"}, "rules": rules});
    assert_eq!(post(&admin, ROLES, role).await.0, 201);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let held = binding("janes", "janes", "jane");
    assert_eq!(post(&admin, bindings, held).await.0, 201);
    (server, admin, jane)
}

// kubernetes: pkg/registry/rbac/clusterrole/policybased; the messages are those of a real server
#[tokio::test(start_paused = true)]
async fn a_label_on_a_role_or_a_rule_that_gathers_needs_what_the_role_gives() {
    let write = json!({"verbs": ["create", "patch"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles", "rolebindings"]});
    let (_server, admin, jane) = where_jane_holds(json!([write])).await;
    assert_eq!(
        post(&admin, BINDINGS, binding("b", "view", "joe")).await.0,
        201
    );
    let media = "application/merge-patch+json";
    let (role, held) = (format!("{ROLES}/cluster-admin"), format!("{BINDINGS}/b"));
    let label = json!({"metadata": {"labels":
        {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    for path in [&role, &held] {
        let (code, reply) = answer(&jane, change(path, media, &label)).await;
        assert_eq!(code, 403, "{reply}");
        let (code, reply) = answer(&jane, change(path, media, &finalizer)).await;
        assert_eq!(code, 200, "{reply}");
    }
    let gathers = json!({"metadata": {"name": "gathers"}, "aggregationRule":
        {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let words = "clusterroles.rbac.authorization.k8s.io \"gathers\" is forbidden: must have \
                 cluster-admin privileges to use the aggregationRule";
    let (code, reply) = post(&jane, ROLES, gathers.clone()).await;
    assert_eq!((code, &reply["message"]), (403, &json!(words)));
    assert_eq!(post(&admin, ROLES, gathers.clone()).await.0, 201);
    let none = json!({"aggregationRule": null});
    let request = change(&format!("{ROLES}/gathers"), media, &none);
    let (code, reply) = answer(&jane, request).await;
    assert_eq!((code, &reply["message"]), (403, &json!(words)));
}

// apiserver: withAuthorization (pkg/endpoints/handlers/create.go); the words are those of a real
// server
#[tokio::test(start_paused = true)]
async fn an_update_that_creates_needs_the_right_to_create() {
    let update = json!({"verbs": ["update", "patch"], "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"]});
    let (_server, admin, jane) = where_jane_holds(json!([update])).await;
    let map = "/api/v1/namespaces/default/configmaps/new";
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new";
    let apply = |query: &str| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
        let path = format!("{map}?fieldManager=m{query}");
        change(&path, "application/apply-patch+yaml", &body)
    };
    let words = "configmaps \"new\" is forbidden: User \"jane\" cannot create resource \
                 \"configmaps\" in API group \"\" in the namespace \"default\"";
    for query in ["", "&dryRun=All"] {
        let (code, reply) = answer(&jane, apply(query)).await;
        assert_eq!((code, &reply["message"]), (403, &json!(words)));
        assert_eq!(get(&admin, map).await.0, 404);
    }
    let body = json!({"metadata": {"name": "new"}});
    let (code, reply) = send(&jane, Method::PUT, lease, body.clone()).await;
    assert_eq!(code, 403, "{reply}");
    assert_eq!(get(&admin, lease).await.0, 404);
    // The user may change an existing object.
    assert_eq!(answer(&admin, apply("")).await.0, 201);
    assert_eq!(answer(&jane, apply("")).await.0, 200);
    assert_eq!(send(&admin, Method::PUT, lease, body).await.0, 201);
}

// A real server understands names of all letters.
#[tokio::test(start_paused = true)]
async fn whoever_asks_to_be_somebody_of_any_letters_is_never_oneself() {
    let server = Server::builder().rbac().in_process();
    let admin = server.service();
    let list = |value: &[u8]| {
        http::Request::get("/api/v1/namespaces/default/configmaps")
            .header("impersonate-user", HeaderValue::from_bytes(value).unwrap())
            .body(Bytes::new())
            .unwrap()
    };
    let words = "configmaps is forbidden: User \"J\u{fc}rgen\" cannot list resource \"configmaps\" in \
                 API group \"\" in the namespace \"default\"";
    let (code, reply) = answer(&admin, list("J\u{fc}rgen".as_bytes())).await;
    assert_eq!((code, &reply["message"]), (403, &json!(words)));
    let (code, reply) = answer(&admin, list(b"J\xfcrgen")).await;
    assert_eq!(code, 403, "{reply}");
    let gift = binding("b", "view", "J\u{fc}rgen");
    assert_eq!(post(&admin, BINDINGS, gift).await.0, 201);
    let (code, reply) = answer(&admin, list("J\u{fc}rgen".as_bytes())).await;
    assert_eq!(code, 200, "{reply}");
}

// kubernetes: with the authorizer AlwaysAllow everybody may bind and escalate
#[tokio::test(start_paused = true)]
async fn without_roles_whoever_is_known_may_write_roles_and_bind_them() {
    let server = Server::builder().in_process();
    let jane = server.service_as(User::new("jane"));
    let role = json!({"metadata": {"name": "all"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    assert_eq!(post(&jane, ROLES, role).await.0, 201);
    for (name, role) in [("b", "all"), ("c", "not-there")] {
        let (code, reply) = post(&jane, BINDINGS, binding(name, role, "joe")).await;
        assert_eq!(code, 201, "{reply}");
    }
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
            .body(Bytes::from(body.to_string()))
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

// kubernetes: pkg/registry/certificates/certificates/strategy_test.go (TestStrategyCreate)
#[tokio::test(start_paused = true)]
async fn a_signing_request_says_who_asks_whatever_its_body_says() {
    let server = Server::builder().in_process();
    let jane = User::new("jane").with_uid("7").with_group("people");
    let service = server.service_as(jane);
    // A frame with three elements, as in a request.
    let block =
        "-----BEGIN CERTIFICATE REQUEST-----\nMAYwADAAAwA=\n-----END CERTIFICATE REQUEST-----\n";
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let asked = |request: &str| {
        json!({"metadata": {"name": "r"}, "spec": {"request": STANDARD.encode(request),
            "signerName": "example.com/x", "usages": ["client auth"],
            "username": "admin", "uid": "1", "groups": ["system:masters"], "extra": {"a": ["b"]}}})
    };
    let (code, refused) = post(&service, path, asked("x")).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.request");
    let (code, created) = post(&service, path, asked(block)).await;
    assert_eq!(code, 201, "{created}");
    let spec = &created["spec"];
    assert_eq!(
        (&spec["username"], &spec["uid"]),
        (&json!("jane"), &json!("7"))
    );
    assert_eq!(spec["groups"], json!(["people", "system:authenticated"]));
    assert_eq!(spec["extra"], Value::Null);
    // An object created by an apply is new, too.
    let mut applied = asked(block);
    applied["apiVersion"] = json!("certificates.k8s.io/v1");
    applied["kind"] = json!("CertificateSigningRequest");
    applied["metadata"]["name"] = json!("applied");
    let request = http::Request::patch(format!("{path}/applied?fieldManager=me"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Bytes::from(applied.to_string()));
    assert_eq!(service.call(request.unwrap()).await.status(), 201);
    let (_, stored) = get(&service, &format!("{path}/applied")).await;
    assert_eq!(stored["spec"]["username"], "jane");
}
