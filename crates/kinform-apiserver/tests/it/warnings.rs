//! Warnings to clients, in a `Warning` header.

use bytes::Bytes;
use http::Request;
use kinform_apiserver::Service;

use crate::support::*;

async fn warnings(service: &Service, method: &str, path: &str) -> Vec<String> {
    let request = Request::builder().method(method).uri(path);
    let reply = service.call(request.body(Bytes::new()).unwrap()).await;
    let said = reply.headers().get_all("warning").into_iter();
    said.map(|said| said.to_str().unwrap().to_owned()).collect()
}

// apiserver: TestAPIDeprecationWarnings
#[tokio::test(start_paused = true)]
async fn every_answer_about_endpoints_says_that_they_will_go() {
    let (_server, service) = server().await;
    let words =
        ["299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""];
    for (method, path) in [
        ("GET", "/api/v1/endpoints"),
        ("GET", "/api/v1/namespaces/default/endpoints/none"),
        ("POST", "/api/v1/namespaces/default/endpoints"),
        ("DELETE", "/api/v1/namespaces/default/endpoints"),
    ] {
        assert_eq!(
            warnings(&service, method, path).await,
            words,
            "{method} {path}"
        );
    }
    let others = warnings(&service, "GET", "/api/v1/pods").await;
    assert_eq!(others, Vec::<String>::new());
}

// kubernetes: pkg/registry/batch/job/strategy.go (WarningsOnDelete)
#[tokio::test(start_paused = true)]
async fn a_delete_of_jobs_that_does_not_say_what_becomes_of_their_pods_is_warned_of() {
    let (_server, service) = server().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for path in [jobs.to_owned(), format!("{jobs}/none")] {
        let said = warnings(&service, "DELETE", &path).await;
        assert_eq!(said.len(), 1, "{path}");
        assert!(said[0].contains("child pods are preserved"), "{said:?}");
        for query in ["propagationPolicy=Orphan", "orphanDependents=false"] {
            let said = warnings(&service, "DELETE", &format!("{path}?{query}")).await;
            assert_eq!(said, Vec::<String>::new(), "{path}?{query}");
        }
    }
}
