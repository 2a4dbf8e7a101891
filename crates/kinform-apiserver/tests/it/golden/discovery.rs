//! Discovery, the release and health, compared with a real server's.

use bytes::Bytes;
use http::Request;

use kinform_apiserver::{AdmissionPlugins, Server};

use super::comparison::{Comparison, Objects};
use super::recorded::{self, exchanges, reply, send};
use super::rows::Rows;

/// Address of the recorded server.
const ADDRESS: &str = "192.0.2.1:26443";

/// A server with the definitions that the recorded one had.
pub(super) async fn server() -> Server {
    let server = recorded::server().await;
    let all = exchanges("crd");
    let widgets = all
        .iter()
        .find(|exchange| exchange.file == "crd/create.json");
    let (code, reply) = send(&server.service(), widgets.unwrap()).await;
    assert_eq!(code, 201, "{reply}");
    server
}

#[tokio::test(start_paused = true)]
async fn discovery_and_health_are_those_of_a_real_server() {
    let server = server().await;
    let service = server.service();
    let mut rows = Rows::of("discovery");
    for exchange in exchanges("discovery") {
        let exchange = exchange.header("host", ADDRESS);
        let reply = reply(&service, &exchange).await;
        let differences = Comparison::new(Objects::Loaded).reply(&exchange, &reply);
        rows.row(&exchange, &differences);
    }
    rows.finish();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_the_document_is_told_so() {
    let server = server().await;
    let service = server.service();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let get = |path: &str, tag: &str| {
        let request = Request::get(path).header("accept", accept);
        let request = request.header("if-none-match", tag).body(Bytes::new());
        service.call(request.unwrap())
    };
    let reply = get("/apis", "\"older\"").await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["cache-control"], "public");
    assert_eq!(reply.headers()["vary"], "Accept");
    let tag = reply.headers()["etag"].to_str().unwrap().to_owned();
    let again = get("/apis", &tag).await;
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["etag"], tag);
    assert!(again.into_body().collect().await.unwrap().is_empty());

    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.stable.example.com";
    let delete = Request::delete(definition).body(Bytes::new()).unwrap();
    assert_eq!(service.call(delete).await.status(), 200);
    assert_eq!(get("/apis", &tag).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn health_is_told_whole_or_check_by_check() {
    let server = kinform_apiserver::Server::builder()
        .admission(AdmissionPlugins::none())
        .in_process();
    let service = server.service();
    for (path, code, want) in [
        ("/readyz", 200, "ok"),
        ("/readyz/ping", 200, "ok"),
        ("/livez/shutdown", 404, "404 page not found\n"),
        ("/readyz/nope", 404, "404 page not found\n"),
        (
            "/livez?verbose",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n",
        ),
        (
            "/healthz?verbose&exclude=etcd&exclude=nope",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"nope\"\n\
             healthz check passed\n",
        ),
    ] {
        let reply = service
            .call(Request::get(path).body(Bytes::new()).unwrap())
            .await;
        assert_eq!(reply.status(), code, "{path}");
        let body = reply.into_body().collect().await.unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), want, "{path}");
    }
}
