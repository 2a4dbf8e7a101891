//! A server as a cluster: what it tells of itself, and how its namespaces end.

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::Server;
use serde_json::{Value, json};

use crate::support::{create, get, namespace, send, server};

#[tokio::test(start_paused = true)]
async fn a_namespace_deletes_its_pods_first_and_waits_for_them() {
    let (server, service) = server().await;
    namespace(&service, "going").await;
    create(&service, "going", "needed", json!({})).await;
    let pods = "/api/v1/namespaces/going/pods";
    let pod = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(send(&service, Method::POST, pods, pod).await.0, 201);
    let path = "/api/v1/namespaces/going";
    let (code, _) = send(&service, Method::DELETE, path, Value::Null).await;
    assert_eq!(code, 200);
    // The pod may need the map to end.
    let map = "/api/v1/namespaces/going/configmaps/needed";
    let (code, kept) = get(&service, map).await;
    assert_eq!(code, 200);
    assert_eq!(kept["metadata"].get("deletionTimestamp"), None);
    let (_, told) = get(&service, path).await;
    let conditions = told["status"]["conditions"].as_array().unwrap();
    let told = |of: &str| {
        let found = conditions.iter().find(|one| one["type"] == of);
        found.unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        told("NamespaceContentRemaining"),
        "Some resources are remaining: pods. has 1 resource instances"
    );
    assert_eq!(
        told("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    let path = format!("{pods}/held");
    let (_, mut pod) = get(&service, &path).await;
    pod["metadata"]["finalizers"] = json!([]);
    assert_eq!(send(&service, Method::PUT, &path, pod).await.0, 200);
    for gone in [path.as_str(), map, "/api/v1/namespaces/going"] {
        assert_eq!(get(&service, gone).await.0, 404, "{gone}");
    }
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn the_server_counts_requests_watches_and_objects() {
    let (server, service) = server().await;
    create(&service, "default", "counted", json!({})).await;
    let watch = Request::get("/api/v1/namespaces/default/configmaps?watch=1")
        .body(Bytes::new())
        .unwrap();
    let watch = service.call(watch).await;
    let request = Request::get("/metrics").body(Bytes::new()).unwrap();
    let reply = service.call(request).await;
    assert_eq!(
        reply.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    );
    let page = reply.into_body().collect().await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let maps = server.objects("configmaps").len();
    for line in [
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",\
         resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 1\n"
            .to_owned(),
        "apiserver_request_duration_seconds_bucket{component=\"apiserver\",dry_run=\"\",group=\"\",\
         resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\",\
         le=\"0.005\"} 1\n"
            .to_owned(),
        "apiserver_request_duration_seconds_count{component=\"apiserver\",dry_run=\"\",group=\"\",\
         resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 1\n"
            .to_owned(),
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",\
         scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1\n"
            .to_owned(),
        // The page itself.
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n".to_owned(),
        format!("apiserver_resource_objects{{group=\"\",resource=\"configmaps\"}} {maps}\n"),
    ] {
        assert!(page.contains(&line), "{line}\n{page}");
    }
    drop(watch);
    let request = Request::get("/metrics").body(Bytes::new()).unwrap();
    let page = service.call(request).await.into_body().collect().await;
    let page = String::from_utf8(page.unwrap().to_vec()).unwrap();
    for line in [
        "verb=\"WATCH\",version=\"v1\"} 0\n",
        "apiserver_request_total{code=\"200\",component=\"\",dry_run=\"\",group=\"\",resource=\"\",\
         scope=\"\",subresource=\"/metrics\",verb=\"GET\",version=\"\"} 1\n",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_kept_without_effect_is_warned_of() {
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let object = json!({"metadata": {"name": "v1.example.com"}, "spec": {
        "group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1,
        "service": {"namespace": "default", "name": "s"}}});
    let ask = |server: &Server| {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Bytes::from(object.to_string()))
            .unwrap();
        let service = server.service();
        async move { service.call(request).await }
    };
    let refusing = Server::builder().in_process();
    assert_eq!(ask(&refusing).await.status(), 501);
    let keeping = Server::builder().keep_inert_objects().in_process();
    let reply = ask(&keeping).await;
    assert_eq!(reply.status(), 201);
    assert_eq!(
        reply.headers()["warning"],
        "299 - \"not supported by this server: requests are never passed on to another API server\""
    );
}

#[tokio::test(start_paused = true)]
async fn documents_describe_what_every_custom_object_has() {
    let (_server, service) = server().await;
    let schema = |open: bool| {
        let mut schema = json!({"type": "object", "properties": {
            "kind": {"type": "string", "description": "my kind"},
            "spec": {"type": "object", "description": "its spec"}}});
        if open {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        schema
    };
    let version = |name: &str, open: bool| {
        json!({"name": name, "served": true, "storage": open,
            "schema": {"openAPIV3Schema": schema(open)}})
    };
    let definition = json!({"metadata": {"name": "anys.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "anys", "kind": "Any"},
        "versions": [version("v1", true), version("v2", false)]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, reply) = send(&service, Method::POST, path, definition).await;
    assert_eq!(code, 201, "{reply}");
    let begins = |value: &Value, words: &str| {
        let text = value["description"].as_str().unwrap_or_default();
        assert!(text.starts_with(words), "{value}");
    };
    let check = |any: &Value| {
        let properties = &any["properties"];
        begins(
            &properties["apiVersion"],
            "APIVersion defines the versioned schema",
        );
        begins(
            &properties["kind"],
            "Kind is a string value representing the REST",
        );
        begins(
            &properties["metadata"],
            "Standard object's metadata. More info: ",
        );
        begins(&properties["spec"], "its spec");
    };
    for version in ["v1", "v2"] {
        let (_, page) = get(&service, &format!("/openapi/v3/apis/example.com/{version}")).await;
        let schemas = &page["components"]["schemas"];
        check(&schemas[format!("com.example.{version}.Any")]);
        let list = &schemas[format!("com.example.{version}.AnyList")];
        begins(list, "AnyList is a list of Any");
        begins(&list["properties"]["items"], "List of anys. More info: ");
    }
    let (_, page) = get(&service, "/openapi/v2").await;
    check(&page["definitions"]["com.example.v2.Any"]);
    // It may have any members, which this dialect cannot say.
    let mut open = page["definitions"]["com.example.v1.Any"].clone();
    open.as_object_mut()
        .unwrap()
        .remove("x-kubernetes-group-version-kind");
    assert_eq!(open, json!({"type": "object"}));
}
