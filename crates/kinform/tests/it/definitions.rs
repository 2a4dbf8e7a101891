//! An informer whose type comes and goes: it waits, wakes, parks and wakes again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kinform::env::Env;
use kinform::source::ResourceInfo;
use kinform::{GroupVersionResource, Handlers, Informer, InformerFactory, InformerState, Scope};
use kinform_apiserver::Server;
use kinform_testkit::Link;
use kube_client::Client;
use kube_client::client::Body as RequestBody;
use kube_core::dynamic::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::{Heard, settle};

const SECOND: Duration = Duration::from_secs(1);
/// The longest pause between two questions after a type: the backoff's cap, stretched by jitter.
const WAKES_WITHIN: Duration = Duration::from_secs(60);

/// A reply of a real API server, recorded during the life of a definition.
fn recorded(file: &str) -> (u16, Option<String>, String) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/crd.jsonl.gz");
    let mut text = String::new();
    let packed = std::fs::File::open(golden).unwrap();
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let found = { lines }.find(|line: &Value| line["file"] == format!("crd/{file}"));
    let found = found.unwrap_or_else(|| panic!("{file} is not recorded"));
    let after = found["responseHeaders"]["Retry-After"]
        .as_str()
        .map(str::to_owned);
    let status = found["status"].as_u64().unwrap() as u16;
    (status, after, found["body"].as_str().unwrap().to_owned())
}

/// Files, with what their versions begin with: a second life has later ones.
type Answers = Arc<Mutex<VecDeque<(&'static str, usize, Part)>>>;

/// The part of a recorded body that is the answer.
enum Part {
    Whole,
    /// The list that confirms a streaming list whose first line is its end bookmark.
    EmptyList,
}

impl Part {
    fn of(&self, body: String) -> String {
        let first_end = body.find('\n').map_or(0, |at| at + 1);
        match self {
            Self::Whole => body,
            Self::EmptyList => {
                let bookmark: Value = serde_json::from_str(&body[..first_end]).unwrap();
                let version = &bookmark["object"]["metadata"]["resourceVersion"];
                let metadata = json!({ "resourceVersion": version });
                json!({ "kind": "List", "metadata": metadata, "items": [] }).to_string()
            }
        }
    }
}

/// A client whose server gives these recorded answers, and the first of all when there are none.
/// A stream's lines come two seconds apart.
fn replaying(answers: &Answers) -> Client {
    let answers = Arc::clone(answers);
    let service = tower::service_fn(move |_: Request<RequestBody>| {
        let next = answers.lock().unwrap().pop_front();
        let (file, begin, part) = next.unwrap_or(("before.json", 8, Part::Whole));
        let (status, retry_after, body) = recorded(file);
        let version = format!("\"resourceVersion\":\"{begin}");
        let body = part.of(body.replace("\"resourceVersion\":\"8", &version));
        let media = if status == 404 {
            "text/plain; charset=utf-8"
        } else {
            "application/json"
        };
        let mut reply = Response::builder()
            .status(status)
            .header("content-type", media);
        if let Some(after) = retry_after {
            reply = reply.header("retry-after", after);
        }
        let lines: Vec<String> = body.split_inclusive('\n').map(str::to_owned).collect();
        let lines = stream::iter(lines).then(|line| async move {
            tokio::time::sleep(2 * SECOND).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
        });
        let reply = reply.body(StreamBody::new(lines.boxed())).unwrap();
        async move { Ok::<_, Infallible>(reply) }
    });
    Client::new(service, "default")
}

fn widgets(client: Client) -> (InformerFactory, Informer<DynamicObject>) {
    let factory = InformerFactory::builder(client).env(Env::seeded(7)).build();
    let widgets = factory
        .select::<DynamicObject>(ResourceInfo {
            namespace: Some("shop".to_owned()),
            ..ResourceInfo::new(
                GroupVersionResource::new("stable.example.com", "v1", "widgets"),
                "Widget",
                Scope::Namespaced,
            )
        })
        .build();
    (factory, widgets)
}

fn tell(heard: &Heard) -> Handlers<DynamicObject> {
    let [add, update, delete, synced] = [(); 4].map(|()| heard.clone());
    Handlers::new()
        .on_add(move |object| add.line(format!("add {}", object.name())))
        .on_update(move |_, object| update.line(format!("update {}", object.name())))
        .on_delete(move |object| {
            assert!(!object.is_final_state_unknown(), "each was told as deleted");
            delete.line(format!("delete {}", object.name()));
        })
        .on_synced(move || synced.line("synced".to_owned()))
}

fn no_such_kind(state: &InformerState) -> bool {
    matches!(state, InformerState::NoSuchKind(_))
}

/// Waits for a state, but not for ever.
async fn soon(
    widgets: &Informer<DynamicObject>,
    wanted: fn(&InformerState) -> bool,
) -> InformerState {
    let reached = tokio::time::timeout(3_600 * SECOND, widgets.state_when(wanted)).await;
    reached.unwrap_or_else(|_| panic!("{} {:?}", widgets.state(), widgets.stats()))
}

// fault: F31
#[tokio::test(start_paused = true)]
async fn recorded_an_informer_lives_through_the_life_of_a_definition() {
    let answers = Answers::default();
    let (factory, widgets) = widgets(replaying(&answers));
    let heard = Heard::default();
    widgets.add_handler(tell(&heard)).unwrap();
    factory.start().unwrap();
    for life in 0..2 {
        let state = soon(&widgets, no_such_kind).await;
        let trouble = state.trouble().unwrap();
        assert_eq!(trouble.reason, "NotFound");
        assert!(trouble.message.ends_with("404 page not found"), "{trouble}");
        assert!(trouble.retry_in.unwrap() <= WAKES_WITHIN);
        assert!(widgets.list().is_empty());
        // Whatever the wait was until now, the next is bounded.
        tokio::time::sleep(1_000 * SECOND).await;
        assert!(no_such_kind(&widgets.state()), "{}", widgets.state());
        answers.lock().unwrap().extend([
            ("list-while-establishing-0.json", 8, Part::Whole),
            ("list-while-establishing-1.json", 8, Part::Whole),
            ("watch-objects.jsonl", 8 + life, Part::Whole),
            ("watch-objects.jsonl", 8 + life, Part::EmptyList),
        ]);
        let defined = Instant::now();
        soon(&widgets, InformerState::is_synced).await;
        // One 404 more, a 429, and two seconds each for the first line and the empty list.
        let waited = defined.elapsed();
        assert!(waited <= 3 * WAKES_WITHIN + 4 * SECOND, "{waited:?}");
        soon(&widgets, no_such_kind).await;
        settle().await;
        let mut lines = heard.take();
        if life == 0 {
            assert_eq!(lines.remove(0), "synced");
        }
        let expected = [
            "add a", "add b", "update a", "update a", "delete a", "delete b",
        ];
        assert_eq!(lines, expected, "life {life}");
    }
    assert_eq!(widgets.stats().quarantined, 0);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn send(client: &Client, request: http::request::Builder, body: &Value) -> Value {
    let request = request.header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    client.request(request).await.unwrap()
}

async fn define(client: &Client) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.stable.example.com" },
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    send(client, Request::post(DEFINITIONS), &definition).await;
}

// fault: F31
#[tokio::test(start_paused = true)]
async fn k8_a_definition_made_removed_and_made_again_is_followed() {
    let server = Server::builder().plain().in_process();
    let link = Link::new(server.service(), 7);
    let client = link.client();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    send(&client, Request::post("/api/v1/namespaces"), &namespace).await;
    let (factory, widgets) = widgets(link.client());
    let heard = Heard::default();
    widgets.add_handler(tell(&heard)).unwrap();
    factory.start().unwrap();
    for life in 0..2 {
        soon(&widgets, no_such_kind).await;
        tokio::time::sleep(300 * SECOND).await;
        define(&client).await;
        let defined = Instant::now();
        soon(&widgets, InformerState::is_synced).await;
        assert!(
            defined.elapsed() <= WAKES_WITHIN + SECOND,
            "{:?}",
            defined.elapsed()
        );
        let path = "/apis/stable.example.com/v1/namespaces/shop/widgets";
        for name in ["a", "b"] {
            let widget = json!({
                "apiVersion": "stable.example.com/v1", "kind": "Widget",
                "metadata": { "name": name, "namespace": "shop" },
            });
            send(&client, Request::post(path), &widget).await;
        }
        settle().await;
        assert_eq!(widgets.list().len(), 2);
        let definition = format!("{DEFINITIONS}/widgets.stable.example.com");
        send(&client, Request::delete(definition), &json!({})).await;
        soon(&widgets, no_such_kind).await;
        assert!(widgets.list().is_empty());
        settle().await;
        let mut lines = heard.take();
        lines.retain(|line| life == 0 || line != "synced");
        let expected = ["synced", "add a", "add b", "delete a", "delete b"];
        assert_eq!(lines, expected[usize::from(life > 0)..], "life {life}");
    }
    factory.shutdown().await;
    drop(server);
}
