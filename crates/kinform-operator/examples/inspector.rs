//! The inspector of a small program: an embedded server, two caches, a controller, and some churn.
//!
//! ```text
//! cargo run -p kinform-operator --example inspector [OBJECTS [CHANGES_A_SECOND]]
//! ```
//!
//! It prints an address to open in a browser, and runs until it is interrupted.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "an example may unwrap, and prints its address"
)]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinform::{Action, Controller, Ctx, Handlers, InformerFactory};
use kinform_operator::Inspector;
use kinform_testkit::TestServer;
use kube_client::Client;
use kube_client::api::{Api, Patch, PatchParams};

/// Requests at a time while the server is filled.
const AT_ONCE: usize = 32;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<usize>().unwrap());
    let (objects, changes) = (
        arguments.next().unwrap_or(500),
        arguments.next().unwrap_or(20),
    );
    let server = TestServer::start().await.unwrap();
    let created = (0..objects).map(|number| create(&server, number));
    futures::stream::iter(created)
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;

    let factory = InformerFactory::new(server.client());
    let maps = factory.informer::<ConfigMap>();
    let _ = factory.informer::<Secret>();
    maps.add_handler(Handlers::new().named("counts").on_update(|_, _| {}))
        .unwrap();
    let controller = Controller::of(&maps).named("maps").workers(4);
    let controller = controller.reconciling(reconcile);
    factory.start().unwrap();
    factory
        .synced_within(Duration::from_secs(60))
        .await
        .unwrap();
    let inspector = Inspector::builder()
        .name("example")
        .controller(&controller)
        .quiet();
    let inspector = inspector.serve(&factory).await.unwrap();
    eprintln!("{}", inspector.url());
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted.unwrap(),
        ended = controller.run() => ended.unwrap(),
        () = churn(server.client(), objects, changes) => {}
    }
    inspector.stop().await;
    factory.shutdown().await;
    server.stop().await;
}

async fn create(server: &TestServer, number: usize) {
    let metadata = |name: String| ObjectMeta {
        name: Some(name),
        namespace: Some(["default", "kube-system"][number % 2].to_owned()),
        annotations: Some([("note".to_owned(), "x".repeat(number % 400))].into()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap {
        metadata: metadata(format!("map-{number}")),
        data: Some([("text".to_owned(), "lorem ipsum ".repeat(10))].into()),
        ..ConfigMap::default()
    };
    server.create(&map).await.unwrap();
    if number < 5 {
        let secret = Secret {
            metadata: metadata(format!("secret-{number}")),
            string_data: Some([("password".to_owned(), "never shown".to_owned())].into()),
            ..Secret::default()
        };
        server.create(&secret).await.unwrap();
    }
}

async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, std::io::Error> {
    tokio::time::sleep(Duration::from_millis(3)).await;
    let is_odd = map
        .metadata
        .name
        .as_deref()
        .is_some_and(|name| name.ends_with("13"));
    if is_odd && cx.failures() < 8 {
        return Err(std::io::Error::other("an unlucky number"));
    }
    Ok(Action::await_change())
}

async fn churn(client: Client, objects: usize, changes: usize) {
    let mut interval = tokio::time::interval(Duration::from_secs(1) / changes.max(1) as u32);
    for number in 0.. {
        interval.tick().await;
        let one = (number * 7) % objects.max(1);
        let namespace = ["default", "kube-system"][one % 2];
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let patch = Patch::Merge(serde_json::json!({"data": {"count": number.to_string()}}));
        let (name, parameters) = (format!("map-{one}"), PatchParams::default());
        maps.patch(&name, &parameters, &patch).await.unwrap();
    }
}
