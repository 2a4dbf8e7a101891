//! F7: one of many streams, or the connection that they share, ends.
//!
//! ```text
//! two informers ──one connection, HTTP/2──▶ server { RST_STREAM of one, GOAWAY to both } ──▶ resume, no list
//! ```
//!
//! Over sockets with TLS, in real time. What must not happen is that the other watch notices.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::source::{ClientOptions, ConfigOverrides, client_for, config_from};
use kinform::{Informer, InformerFactory};
use kinform_apiserver::{FaultRule, Server};
use kinform_core::backoff::BackoffPolicy;
use kinform_testkit::Fault;
use kinform_testkit::checks::stage::StageError;
use kube_client::config::Kubeconfig;
use serde_json::json;

use super::{Cell, Check, SECOND, check, each_live};

const LIMIT: Duration = Duration::from_secs(20);
/// A watch that ends within a second and without an event is a failure of its own.
const VERY_SHORT: Duration = Duration::from_millis(1200);

/// A client, from the kubeconfig that the server writes.
pub(super) async fn client(server: &Server) -> Result<kube_client::Client, StageError> {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig())?;
    let config = config_from(&kubeconfig, &ConfigOverrides::default()).await?;
    Ok(client_for(config, &ClientOptions::default())?)
}

/// A factory with a quick backoff, so that a test of real time is short.
pub(super) fn factory(client: kube_client::Client, cell: Cell) -> InformerFactory {
    let backoff = BackoffPolicy {
        first: SECOND / 50,
        cap: SECOND / 5,
        ..BackoffPolicy::default()
    };
    InformerFactory::builder(client)
        .wire(cell.wire)
        .fifo(cell.policy)
        .reflector(cell.options().with_backoff(backoff))
        .build()
}

/// Creates an object directly.
pub(super) async fn create(server: &Server, plural: &str, kind: &str, name: &str) -> Check {
    let body = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let request = http::Request::post(format!("/api/v1/namespaces/default/{plural}"))
        .header("content-type", "application/json")
        .body(body.to_string().into())?;
    let code = server.service().call(request).await.status().as_u16();
    check(code == 201, || format!("POST {name}: {code}"))
}

/// Waits, in real time, until the cache has an object of this name.
pub(super) async fn has<K: Send + Sync + 'static>(
    informer: &Informer<K>,
    name: &str,
    limit: Duration,
) -> Check {
    let key: kinform::ObjectKey = format!("default/{name}").parse()?;
    let until = informer.until(&key, kinform::until::exists::<K>());
    let waited = until.within(limit).await;
    let state = || format!("{}, {:?}", informer.state(), informer.stats());
    let found = waited.map_err(|why| format!("{why}: {}", state()))?;
    check(found.is_some(), || format!("{name} is gone"))
}

async fn story(cell: Cell) -> Check {
    let server = Server::builder().tls().start().await?;
    let address = server.address().ok_or("no address")?;
    let factory = factory(client(&server).await?, cell);
    let (maps, secrets) = (
        factory.informer::<ConfigMap>(),
        factory.informer::<Secret>(),
    );
    factory.start()?;
    factory.synced_within(LIMIT).await?;
    create(&server, "configmaps", "ConfigMap", "before").await?;
    has(&maps, "before", LIMIT).await?;

    // A stream that breaks in the middle is reset; the connection is not.
    let reset = FaultRule::new(Fault::TruncateAfter(100)).on_verb("watch");
    tokio::time::sleep(VERY_SHORT).await;
    let faults = server.faults();
    faults.inject(reset.on_resource("configmaps").times(2));
    server.cut_watches();
    for number in 0..5 {
        let name = format!("reset-{number}");
        create(&server, "configmaps", "ConfigMap", &name).await?;
        has(&maps, &name, LIMIT).await?;
    }
    create(&server, "secrets", "Secret", "reset").await?;
    has(&secrets, "reset", LIMIT).await?;
    // The other's watch ended once, when all did; the streams that were reset are not its own.
    let (broken, other) = (maps.stats(), secrets.stats());
    let is_alone = broken.retries > 0 && other.retries == 0 && other.reopens == 1;
    check(is_alone, || format!("{broken:?} {other:?}"))?;
    tokio::time::sleep(VERY_SHORT).await;

    // The server leaves with GOAWAY, and comes back at its place.
    let state = server.stop().await;
    let server = Server::builder().tls().state(state).listen(address);
    let server = server.start().await?;
    create(&server, "configmaps", "ConfigMap", "after").await?;
    create(&server, "secrets", "Secret", "after").await?;
    has(&maps, "after", LIMIT).await?;
    has(&secrets, "after", LIMIT).await?;
    let (maps, secrets) = (maps.stats(), secrets.stats());
    check(maps.relists + secrets.relists == 0, || {
        format!("{maps:?} {secrets:?}")
    })?;
    factory.shutdown().await;
    check(factory.task_count() == 0, || "a task is left".to_owned())
}

#[test]
fn f7_a_stream_that_is_reset_and_a_connection_that_goes_away_cost_no_list() {
    let line = "F7 json,protobuf x list,stream x in-order,coalescing";
    each_live(line, story);
}
