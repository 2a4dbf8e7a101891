//! The inspector over sockets: who may look, what is shown, what never is.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinform::source::ResourceInfo;
use kinform::{GroupVersionResource, InformerFactory, Scope};
use kinform_operator::{Inspector, inspect};
use kinform_testkit::{TestServer, scripted};
use kube_client::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::support::{Log, config_map, operator, reporting, settings};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The value that must appear nowhere, and its base64.
const CANARY: &str = "c4nary-value-of-a-secret";
const CANARY_64: &str = "YzRuYXJ5LXZhbHVlLW9mLWEtc2VjcmV0";

struct Looking {
    server: TestServer,
    factory: InformerFactory,
    inspector: Inspector,
    token: String,
}

impl Looking {
    async fn start() -> Self {
        let server = TestServer::start().await.unwrap();
        let factory = InformerFactory::new(server.client());
        let _ = factory.informer::<ConfigMap>();
        let _ = factory.informer::<Secret>();
        factory.start().unwrap();
        factory.synced_within(PATIENCE).await.unwrap();
        let builder = Inspector::builder().name("tested").quiet();
        let inspector = builder.serve(&factory).await.unwrap();
        let (_, token) = inspector.url().split_once("#token=").unwrap();
        let token = token.to_owned();
        Self {
            server,
            factory,
            inspector,
            token,
        }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let headers = format!("Authorization: Bearer {}\r\n", self.token);
        get(self.inspector.address(), path, &headers).await
    }

    async fn view(&self, path: &str) -> Value {
        let (code, body) = self.get(&format!("/debug/kinform/v1/{path}")).await;
        assert_eq!(code, 200, "{path}: {body}");
        let json: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json["version"], inspect::VERSION);
        json
    }

    async fn stop(self) {
        self.inspector.stop().await;
        self.factory.shutdown().await;
        assert_eq!(self.factory.task_count(), 0);
    }
}

/// The status, and all of a reply: head and body.
async fn send(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let code = reply.split(' ').nth(1).unwrap().parse().unwrap();
    (code, reply)
}

/// The status and the body of a GET.
async fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    let (code, reply) = send(address, &request).await;
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    (code, body.to_owned())
}

const VIEWS: [&str; 7] = [
    "pipeline", "caches", "queues", "objects", "memory", "problems", "events",
];

#[tokio::test]
async fn nobody_looks_without_the_token_nor_from_another_origin_or_for_another_host() {
    let looking = Looking::start().await;
    let address = looking.inspector.address();
    let bearer = format!("Authorization: Bearer {}\r\n", looking.token);
    for view in VIEWS
        .into_iter()
        .chain(["object?cache=secrets&name=x", "nosuch"])
    {
        let path = format!("/debug/kinform/v1/{view}");
        for headers in [
            String::new(),
            "Authorization: Bearer wrong\r\n".to_owned(),
            format!("Cookie: token={}\r\n", looking.token),
        ] {
            assert_eq!(
                get(address, &path, &headers).await.0,
                401,
                "{view} {headers}"
            );
        }
        let token_in_query = format!("{path}?token={}", looking.token);
        assert_eq!(get(address, &token_in_query, "").await.0, 401);
        for origin in ["http://evil.example.com", "null", "http://127.0.0.1:1"] {
            let headers = format!("{bearer}Origin: {origin}\r\n");
            assert_eq!(get(address, &path, &headers).await.0, 403, "{origin}");
        }
        for host in ["evil.example.com", "127.0.0.1.evil.example.com:80", ""] {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{bearer}\r\n");
            assert_eq!(send(address, &request).await.0, 403, "{host:?}");
        }
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Length: 0\r\n{bearer}\r\n"
        );
        assert_eq!(send(address, &request).await.0, 405, "{view}");
    }
    let headers = format!("{bearer}Origin: http://{address}\r\n");
    assert_eq!(
        get(address, "/debug/kinform/v1/caches", &headers).await.0,
        200
    );
    looking.stop().await;
}

#[tokio::test]
async fn the_page_has_no_data_and_a_policy_that_allows_its_script_alone() {
    let looking = Looking::start().await;
    let address = looking.inspector.address();
    let request =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let (code, page) = send(address, &request("/debug/kinform/")).await;
    assert_eq!(code, 200);
    let page_head = page.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase();
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
    ] {
        assert!(page_head.contains(header), "{header}\n{page_head}");
    }
    assert!(!page.contains(&looking.token) && !page.contains("configmaps"));
    let (code, to_page) = send(address, &request("/")).await;
    assert_eq!(code, 308);
    assert!(
        to_page
            .to_ascii_lowercase()
            .contains("location: /debug/kinform/\r\n")
    );
    assert_eq!(send(address, &request("/debug/kinform/../x")).await.0, 404);
    looking.stop().await;
}

#[tokio::test]
async fn each_view_tells_of_the_program() {
    let looking = Looking::start().await;
    looking.server.create(&config_map("a")).await.unwrap();
    looking.server.create(&config_map("b")).await.unwrap();
    until(&looking, "objects?q=default/&cache=configmaps", |json| {
        json["found"] == 2
    })
    .await;
    let pipeline = looking.view("pipeline").await;
    assert_eq!(pipeline["program"], "tested");
    let names = pipeline["informers"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["cache"].as_str().unwrap()).collect();
    assert_eq!(names, ["configmaps", "secrets"]);
    let caches = looking.view("caches").await;
    assert_eq!(caches["caches"][0]["state"], "synced");
    assert_eq!(caches["caches"][0]["api_version"], "v1");
    let found = looking
        .view("objects?q=A&cache=configmaps&namespace=default")
        .await;
    assert_eq!(found["objects"][0]["name"], "a");
    let memory = looking.view("memory?cache=configmaps").await;
    assert!(
        memory["fields"]["fields"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    assert_eq!(
        looking.view("queues").await["queues"],
        serde_json::json!([])
    );
    assert_eq!(
        looking.view("problems").await["problems"],
        serde_json::json!([])
    );
    reads::<inspect::Pipeline>(&pipeline);
    reads::<inspect::Caches>(&caches);
    reads::<inspect::Objects>(&found);
    reads::<inspect::Memory>(&memory);
    reads::<inspect::Queues>(&looking.view("queues").await);
    reads::<inspect::Problems>(&looking.view("problems").await);
    let path = "object?cache=configmaps&namespace=default&name=a";
    reads::<inspect::ObjectView>(&looking.view(path).await);
    for (path, code) in [
        ("nosuch", 404),
        (
            "object?cache=configmaps&namespace=default&name=missing",
            404,
        ),
        ("object?cache=nosuch&name=a", 404),
        ("object?cache=configmaps", 400),
        ("events?view=nosuch", 400),
    ] {
        let path = format!("/debug/kinform/v1/{path}");
        assert_eq!(looking.get(&path).await.0, code, "{path}");
    }
    looking.stop().await;
}

/// The public types read what they wrote; what they do not know is ignored, and what is missing has a
/// default.
fn reads<T: Default + PartialEq + Debug + Serialize + DeserializeOwned>(json: &Value) {
    let read: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *json);
    let mut newer = json.clone();
    newer["later"] = 1.into();
    assert_eq!(serde_json::from_value::<T>(newer).unwrap(), read);
    let older: T = serde_json::from_str("{}").unwrap();
    assert_eq!(older, T::default());
}

/// Asks for a view until it is so.
async fn until(looking: &Looking, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let asked = async {
        loop {
            let json = looking.view(path).await;
            if is_so(&json) {
                return json;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("in time")
}

#[tokio::test]
async fn versions_of_an_object_are_kept_from_the_first_look_on() {
    let looking = Looking::start().await;
    let with = |value: &str| Some([("k".to_owned(), value.to_owned())].into());
    let mut map = config_map("a");
    map.data = with("0");
    looking.server.create(&map).await.unwrap();
    let path = "object?cache=configmaps&namespace=default&name=a";
    until(&looking, "objects?q=default/a", |json| json["found"] == 1).await;
    let first = looking.view(path).await;
    assert_eq!(first["versions"].as_array().unwrap().len(), 1);
    assert_eq!(first["object"]["kind"], "ConfigMap");
    let maps: Api<ConfigMap> = Api::namespaced(looking.server.client(), "default");
    for value in ["1", "2"] {
        let mut map = maps.get("a").await.unwrap();
        map.data = with(value);
        maps.replace("a", &PostParams::default(), &map)
            .await
            .unwrap();
    }
    let is_third = |json: &Value| json["versions"].as_array().unwrap().len() == 3;
    let third = until(&looking, path, is_third).await;
    let changes = &third["versions"][0]["changes"];
    assert_eq!(changes[0]["path"], "data.k");
    assert_eq!(
        (&changes[0]["before"], &changes[0]["after"]),
        (&"\"1\"".into(), &"\"2\"".into())
    );
    let managers = looking.view(&format!("{path}&managers=1")).await;
    assert!(!managers["managers"].as_array().unwrap().is_empty());
    maps.delete("a", &Default::default()).await.unwrap();
    let gone = until(&looking, path, |json| json["is_stored"] == false).await;
    assert_eq!(gone["versions"][0]["resource_version"], Value::Null);
    looking.stop().await;
}

#[tokio::test]
async fn a_secrets_value_appears_nowhere() {
    let log = Log::default();
    let _guard = log.listen();
    let looking = Looking::start().await;
    let secret = |version: &str| Secret {
        metadata: ObjectMeta {
            name: Some("s".to_owned()),
            namespace: Some("default".to_owned()),
            annotations: Some([("copy".to_owned(), format!("{CANARY}{version}"))].into()),
            ..ObjectMeta::default()
        },
        data: Some([("password".to_owned(), ByteString(CANARY.into()))].into()),
        ..Secret::default()
    };
    looking.server.create(&secret("1")).await.unwrap();
    until(&looking, "objects?q=default/s&cache=secrets", |json| {
        json["found"] == 1
    })
    .await;
    let path = "object?cache=secrets&namespace=default&name=s&managers=1";
    looking.view(path).await;
    let secrets: Api<Secret> = Api::namespaced(looking.server.client(), "default");
    let mut changed = secret("2");
    changed.data = Some(
        [(
            "password".to_owned(),
            ByteString(format!("{CANARY}{CANARY}").into()),
        )]
        .into(),
    );
    secrets
        .replace("s", &PostParams::default(), &changed)
        .await
        .unwrap();
    let is_second = |json: &Value| json["versions"].as_array().unwrap().len() == 2;
    let found = until(&looking, path, is_second).await;
    assert_eq!(found["object"]["data"]["password"], "(hidden)");
    let paths = found["versions"][0]["changes"].as_array().unwrap().iter();
    let paths: Vec<_> = paths.map(|one| one["path"].as_str().unwrap()).collect();
    assert!(paths.contains(&"data.password"), "{paths:?}");
    let mut all = found.to_string();
    for view in VIEWS.into_iter().filter(|view| *view != "events").chain([
        "memory?cache=secrets",
        "objects?q=s",
        path,
    ]) {
        all.push_str(&looking.view(view).await.to_string());
    }
    for view in [
        "caches",
        "problems",
        "object&cache=secrets&namespace=default&name=s",
    ] {
        all.push_str(&event(&looking, view).await);
    }
    for value in [CANARY, &CANARY_64[..20]] {
        assert!(!all.contains(value), "{all}");
        assert!(!log.text().contains(value));
    }
    assert!(!log.text().contains(&looking.token));
    looking.stop().await;
}

/// The open stream of a view, after its head.
async fn stream(looking: &Looking, view: &str) -> (u16, BufReader<TcpStream>) {
    let address = looking.inspector.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = format!(
        "GET /debug/kinform/v1/events?view={view} HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {}\r\n\r\n",
        looking.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let code = line.split(' ').nth(1).unwrap().parse().unwrap();
    (code, stream)
}

/// The data of the next event.
async fn data(stream: &mut BufReader<TcpStream>) -> String {
    let lines = async {
        loop {
            let mut line = String::new();
            assert_ne!(
                stream.read_line(&mut line).await.unwrap(),
                0,
                "the stream goes on"
            );
            if let Some(data) = line.strip_prefix("data: ") {
                return data.to_owned();
            }
        }
    };
    tokio::time::timeout(PATIENCE, lines)
        .await
        .expect("in time")
}

async fn event(looking: &Looking, view: &str) -> String {
    let (code, mut stream) = stream(looking, view).await;
    assert_eq!(code, 200);
    data(&mut stream).await
}

#[tokio::test]
async fn events_come_again_and_again_and_the_ninth_viewer_gets_503() {
    let looking = Looking::start().await;
    let mut viewers = Vec::new();
    for _ in 0..8 {
        let (code, viewer) = stream(&looking, "pipeline").await;
        assert_eq!(code, 200);
        viewers.push(viewer);
    }
    assert_eq!(stream(&looking, "pipeline").await.0, 503);
    // Scripts are no viewers.
    looking.view("pipeline").await;
    let mut first = viewers.pop().unwrap();
    for _ in 0..3 {
        let event: inspect::Pipeline = serde_json::from_str(&data(&mut first).await).unwrap();
        assert_eq!(event.informers.len(), 2);
    }
    drop(first);
    let entered = async { while stream(&looking, "pipeline").await.0 != 200 {} };
    tokio::time::timeout(PATIENCE, entered)
        .await
        .expect("there is room again");
    looking.stop().await;
    // The streams ended with the inspector.
    for mut viewer in viewers {
        let mut rest = Vec::new();
        viewer.read_to_end(&mut rest).await.unwrap();
    }
}

/// A role, and its binding to a user: in the cluster, or in a namespace.
async fn grant(server: &TestServer, user: &str, namespace: Option<&str>, rule: Value) {
    let (role, api) = match namespace {
        None => ("ClusterRole", String::new()),
        Some(namespace) => ("Role", format!("namespaces/{namespace}/")),
    };
    let group = "rbac.authorization.k8s.io";
    let metadata = serde_json::json!({"name": format!("of-{user}"), "namespace": namespace});
    let binding = serde_json::json!({
        "apiVersion": format!("{group}/v1"), "kind": format!("{role}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": role, "name": format!("of-{user}")},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
    });
    let role_object = serde_json::json!({
        "apiVersion": format!("{group}/v1"), "kind": role, "metadata": metadata, "rules": [rule],
    });
    let plural = format!("{}s", role.to_lowercase());
    for (plural, object) in [
        (&plural, role_object),
        (&format!("{}bindings", role.to_lowercase()), binding),
    ] {
        let request = http::Request::post(format!("/apis/{group}/v1/{api}{plural}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&object).unwrap())
            .unwrap();
        server.client().request::<Value>(request).await.unwrap();
    }
}

#[tokio::test]
async fn an_operators_inspector_shows_a_caller_the_names_that_it_may_list() {
    let server = TestServer::start().with(|server| {
        let users = ["looker", "lister", "stranger"].into_iter();
        users.fold(server.rbac(), |server, user| {
            server.user(format!("{user}-token"), kinform_apiserver::User::new(user))
        })
    });
    let server = server.await.unwrap();
    let look = serde_json::json!({"nonResourceURLs": ["/debug/kinform/*"], "verbs": ["get"]});
    grant(&server, "looker", None, look.clone()).await;
    grant(&server, "lister", None, look).await;
    let list =
        serde_json::json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    grant(&server, "lister", Some("default"), list).await;
    server.create(&config_map("a")).await.unwrap();
    let mut elsewhere = config_map("elsewhere");
    elsewhere.metadata.namespace = Some("kube-system".to_owned());
    server.create(&elsewhere).await.unwrap();

    let mut settings = settings();
    settings.inspect_address = Some("127.0.0.1:0".to_owned());
    let operator = operator(&server, settings);
    let (controller, mut reports) = reporting(&operator);
    operator.add_named("maps", controller).unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = {
        let (operator, stop) = (operator.clone(), stop.clone());
        tokio::spawn(async move { operator.run_until(stop).await })
    };
    let address = operator.addresses().await.inspector.unwrap();
    let mut missing = vec!["a".to_owned(), "elsewhere".to_owned()];
    while !missing.is_empty() {
        let name = tokio::time::timeout(PATIENCE, reports.recv()).await;
        let name = name.expect("in time").unwrap();
        missing.retain(|one| *one != name);
    }

    let page = "/debug/kinform/";
    assert_eq!(get(address, page, "").await.0, 200);
    let of = |user: &str, path: &str| {
        let headers = format!("Authorization: Bearer {user}-token\r\n");
        let path = format!("{page}v1/{path}");
        async move { get(address, &path, &headers).await }
    };
    assert_eq!(get(address, "/debug/kinform/v1/caches", "").await.0, 401);
    assert_eq!(of("nobody", "caches").await.0, 401);
    assert_eq!(of("stranger", "caches").await.0, 403);
    for view in [
        "caches",
        "queues?controller=maps",
        "objects",
        "memory",
        "problems",
        "pipeline",
    ] {
        let (code, body) = of("looker", view).await;
        assert_eq!(code, 200, "{view}: {body}");
        for name in ["elsewhere", "\"a\"", "default", "kube-system", "configmaps"] {
            assert!(!body.contains(name), "{view} {name}: {body}");
        }
    }
    let (_, found) = of("looker", "caches").await;
    assert!(found.contains("\"hidden\":1"), "{found}");
    for (path, has) in [
        ("objects", vec!["\"a\""]),
        ("queues?controller=maps", vec!["\"a\"", "initial"]),
        ("memory?cache=configmaps", vec!["default", "hidden_bytes"]),
        (
            "object?cache=configmaps&namespace=default&name=a",
            vec!["ConfigMap"],
        ),
    ] {
        let (code, body) = of("lister", path).await;
        assert_eq!(code, 200, "{path}: {body}");
        for name in has {
            assert!(body.contains(name), "{path} {name}: {body}");
        }
        assert!(
            !body.contains("elsewhere") && !body.contains("kube-system"),
            "{body}"
        );
    }
    let hidden = "object?cache=configmaps&namespace=kube-system&name=elsewhere";
    assert_eq!(of("lister", hidden).await.0, 404);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_inspector_of_an_operator_is_on_loopback_alone() {
    let server = TestServer::start().await.unwrap();
    let mut settings = settings();
    settings.inspect_address = Some("0.0.0.0:0".to_owned());
    let operator = operator(&server, settings);
    let error = operator.run().await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("port-forward") && message.contains("--inspect"),
        "{message}"
    );
}

#[tokio::test]
async fn a_hostile_name_is_a_text_in_json_and_breaks_no_event() {
    let name = "<img src=x onerror=alert(1)>\u{202e}\u{7}\n\ndata: forged\n\n\"";
    let resource = GroupVersionResource::new("", "v1", "pods");
    let (source, mut script) = scripted(ResourceInfo::new(resource, "Pod", Scope::Namespaced));
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _).build();
    let _ = factory.informer::<Pod>();
    factory.start().unwrap();
    let pod = serde_json::json!({"metadata": {"namespace": "a", "name": name, "uid": "u",
        "resourceVersion": "1"}});
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    watch.event("ADDED", &pod);
    watch.initial_events_end("Pod", "1");
    factory.synced_within(PATIENCE).await.unwrap();
    let inspector = Inspector::builder().quiet().serve(&factory).await.unwrap();
    let (_, token) = inspector.url().split_once("#token=").unwrap();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let address = inspector.address();
    let (code, body) = get(address, "/debug/kinform/v1/objects", &bearer).await;
    assert_eq!(code, 200);
    let found: inspect::Objects = serde_json::from_str(&body).unwrap();
    assert_eq!(found.objects[0].name, name);
    let path = "/debug/kinform/v1/object?cache=pods&namespace=a&name=";
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let (code, body) = get(address, &format!("{path}{encoded}"), &bearer).await;
    assert_eq!(code, 200, "{body}");
    assert!(!body.contains('\n') && !body.contains('\u{7}'), "{body}");
    inspector.stop().await;
    drop(watch);
    factory.shutdown().await;
}
