//! Writes under a hard fence: what reaches the server.
//!
//! ```text
//! guarded client ──▶ embedded server (keeps the stamp; has no policy) │ a fault that refuses as one does
//! ```

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinform_apiserver::FaultRule;
use kinform_operator::leader::{
    FenceError, FencePolicy, LeaseOptions, NotLeading, TERM_ANNOTATION, is_not_leading,
};
use kinform_testkit::{Fault, Link, Network, ProxyMode, TestServer};
use kube_client::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube_client::{Client, Error};
use serde_json::{Value, json};

use super::{Replica, election, server, taking};

/// A leader with a hard fence, and its client.
async fn leader(api: &TestServer, identity: &str) -> (Replica, Client) {
    let link = Link::new(api.server().service(), 1);
    let leadership = election(identity).hard_fence();
    let leadership = leadership.start_here(link.client()).unwrap();
    let replica = Replica { link, leadership };
    replica.won().await;
    let client = replica.leadership.guard().over(&api.client());
    (replica, client)
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn pods(client: &Client) -> Api<Pod> {
    Api::default_namespaced(client.clone())
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn pod(name: &str) -> Pod {
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

/// The term as the lease has it.
async fn term(api: &TestServer) -> String {
    let lease = super::lease(api).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "default/operator {} {} {}",
        text(&lease["metadata"]["uid"]),
        lease["spec"]["leaseTransitions"],
        text(&lease["spec"]["holderIdentity"]),
    )
}

#[track_caller]
fn stamp_of(annotations: &Option<std::collections::BTreeMap<String, String>>) -> &str {
    annotations.as_ref().expect("annotations")[TERM_ANNOTATION].as_str()
}

/// A refusal as kube-apiserver 1.37 words it.
fn refusal() -> Fault {
    let resource = kinform::GroupResource::new("", "configmaps");
    let why = "ValidatingAdmissionPolicy 'fence' with binding 'fence' denied request: \
        kinform.dev/term is \"a\", and the term of the lease is \"b\"";
    Fault::Reply(kinform::Status::forbidden(&resource, "a", why))
}

fn verbs(api: &TestServer, resource: &str) -> Vec<&'static str> {
    let records = api.server().journal().records();
    let records = records
        .into_iter()
        .filter(|r| r.resource.starts_with(resource));
    records.map(|record| record.verb).collect()
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_carries_the_term() {
    let api = server().await;
    let (_a, client) = leader(&api, "a").await;
    let expected = term(&api).await;
    let maps = maps(&client);
    let params = PatchParams::apply("test");
    let made = maps
        .create(&PostParams::default(), &map("x"))
        .await
        .unwrap();
    assert_eq!(stamp_of(&made.metadata.annotations), expected);
    for name in ["put", "merge", "strategic", "json"] {
        api.create(&map(name)).await.unwrap();
    }
    let put = maps.get("put").await.unwrap();
    maps.replace("put", &PostParams::default(), &put)
        .await
        .unwrap();
    let data = json!({ "data": { "a": "b" } });
    let none = PatchParams::default();
    maps.patch("merge", &none, &Patch::Merge(&data))
        .await
        .unwrap();
    maps.patch("strategic", &none, &Patch::Strategic(&data))
        .await
        .unwrap();
    let whole = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "apply" }, "data": { "a": "b" } });
    maps.patch("apply", &params, &Patch::Apply(&whole))
        .await
        .unwrap();
    // It has no annotations before.
    let operations = json!([{ "op": "add", "path": "/data", "value": { "a": "b" } }]);
    let path = "/api/v1/namespaces/default/configmaps/json";
    let request = http::Request::patch(path).header("content-type", "application/json-patch+json");
    let request = request.body(operations.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
    for name in ["put", "merge", "strategic", "apply", "json"] {
        let stored = maps.get(name).await.unwrap();
        assert_eq!(stamp_of(&stored.metadata.annotations), expected, "{name}");
        assert!(name == "put" || stored.data.is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn l16_a_delete_stamps_the_object_and_names_the_version_that_came_of_it() {
    let api = server().await;
    let (_a, client) = leader(&api, "a").await;
    let made = api.create(&map("x")).await.unwrap();
    let maps = maps(&client);
    let stale = DeleteParams {
        preconditions: Some(Preconditions {
            uid: None,
            resource_version: Some("1".to_owned()),
        }),
        ..DeleteParams::default()
    };
    let refused = maps.delete("x", &stale).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Api(status) if status.code == 409),
        "{refused}"
    );
    maps.delete("x", &DeleteParams::default().dry_run())
        .await
        .unwrap();
    let kept = maps.get("x").await.unwrap();
    assert_eq!(
        kept.metadata.resource_version,
        made.metadata.resource_version
    );

    // Between the stamp and the delete another client writes.
    let refuse = FaultRule::new(refusal()).on_resource("configmaps");
    api.server().faults().inject(refuse.on_verb("delete"));
    let delete = tokio::spawn({
        let maps = maps.clone();
        async move { maps.delete("x", &DeleteParams::default()).await }
    });
    let deletes = || {
        verbs(&api, "configmaps")
            .iter()
            .filter(|verb| **verb == "delete")
            .count()
    };
    super::until(|| deletes() == 2).await;
    let stamped = api.get::<ConfigMap>("default/x").await.unwrap().unwrap();
    assert_eq!(stamp_of(&stamped.metadata.annotations), term(&api).await);
    let data = json!({ "data": { "a": "b" } });
    let other = Api::<ConfigMap>::default_namespaced(api.client());
    other
        .patch("x", &PatchParams::default(), &Patch::Merge(&data))
        .await
        .unwrap();
    let error = delete.await.unwrap().map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, Error::Api(status) if status.code == 409),
        "{error}"
    );

    maps.delete("x", &DeleteParams::default()).await.unwrap();
    assert!(api.get::<ConfigMap>("default/x").await.unwrap().is_none());
    let gone = maps
        .delete("x", &DeleteParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&gone, Error::Api(status) if status.code == 404),
        "{gone}"
    );
}

#[tokio::test(start_paused = true)]
async fn l17_a_status_is_written_at_the_version_of_the_stamped_object() {
    let api = server().await;
    let (_a, client) = leader(&api, "a").await;
    api.create(&pod("x")).await.unwrap();
    let status = json!({ "status": { "phase": "Running" } });
    let none = PatchParams::default();
    pods(&client)
        .patch_status("x", &none, &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(verbs(&api, "pods"), ["create", "patch", "patch"]);
    let stored = api.get::<Pod>("default/x").await.unwrap().unwrap();
    assert_eq!(stamp_of(&stored.metadata.annotations), term(&api).await);
    // Between the stamp and the status another client writes: the version no longer fits.
    let refuse = FaultRule::new(refusal()).on_resource("pods").from_nth(2);
    api.server().faults().inject(refuse);
    let write = tokio::spawn({
        let pods = pods(&client);
        async move {
            let status = json!({ "status": { "phase": "Failed" } });
            pods.patch_status("x", &PatchParams::default(), &Patch::Merge(&status))
                .await
        }
    });
    super::until(|| verbs(&api, "pods").len() >= 5).await;
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    pods(&api.client())
        .patch("x", &none, &Patch::Merge(&label))
        .await
        .unwrap();
    let error = write.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Api(status) if status.code == 409),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_with_a_version_stamps_the_object_only_if_the_server_asks_for_it() {
    let api = server().await;
    let (_a, client) = leader(&api, "a").await;
    let made = api.create(&pod("x")).await.unwrap();
    let version = made.metadata.resource_version;
    let status =
        json!({ "metadata": { "resourceVersion": version }, "status": { "phase": "Running" } });
    let none = PatchParams::default();
    let written = pods(&client)
        .patch_status("x", &none, &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(verbs(&api, "pods"), ["create", "patch"]);
    api.server()
        .faults()
        .inject(FaultRule::new(refusal()).on_resource("pods"));
    let version = written.metadata.resource_version;
    let status =
        json!({ "metadata": { "resourceVersion": version }, "status": { "phase": "Failed" } });
    pods(&client)
        .patch_status("x", &none, &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(verbs(&api, "pods").len(), 5, "refused, stamped, written");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_tried_again_until_the_server_has_seen_the_lease_and_no_longer_than_the_term()
{
    let api = server().await;
    let (a, client) = leader(&api, "a").await;
    api.server()
        .faults()
        .inject(FaultRule::new(refusal()).on_resource("configmaps").times(3));
    maps(&client)
        .create(&PostParams::default(), &map("x"))
        .await
        .unwrap();
    assert_eq!(verbs(&api, "configmaps").len(), 4);
    // One that never sees it.
    api.server()
        .faults()
        .inject(FaultRule::new(refusal()).on_resource("configmaps").always());
    let (after, error) = taking(maps(&client).create(&PostParams::default(), &map("y"))).await;
    let error = error.unwrap_err();
    assert!(
        matches!(&error, Error::Api(status) if status.code == 403),
        "{error}"
    );
    assert!(
        after <= LeaseOptions::default().request_timeout + Duration::from_millis(50),
        "{after:?}"
    );
    // The term ends meanwhile.
    a.link.set(ProxyMode::Stall);
    let end = a.leadership.term().expect("it leads").ends_at;
    let error = loop {
        let error = maps(&client)
            .create(&PostParams::default(), &map("z"))
            .await
            .unwrap_err();
        if is_not_leading(&error) {
            break error;
        }
    };
    assert!(
        matches!(&error, Error::Service(cause) if cause.is::<NotLeading>()),
        "{error} {end:?}"
    );
    api.server().faults().clear();
    assert!(api.get::<ConfigMap>("default/z").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_cannot_be_fenced_is_not_sent() {
    let api = server().await;
    let (_a, client) = leader(&api, "a").await;
    api.create(&map("x")).await.unwrap();
    let before = verbs(&api, "configmaps").len();
    let (maps, delete, all) = (
        maps(&client),
        DeleteParams::default(),
        ListParams::default(),
    );
    let error = maps.delete_collection(&delete, &all).await.map(|_| ());
    let error = error.unwrap_err();
    let cause = |error: &Error| match error {
        Error::Service(cause) => cause.downcast_ref::<FenceError>().cloned(),
        _ => None,
    };
    assert!(
        matches!(cause(&error), Some(FenceError::Collection { .. })),
        "{error}"
    );
    let request = http::Request::post("/api/v1/namespaces/default/configmaps");
    let request = request.body(b"apiVersion: v1".to_vec()).unwrap();
    let error = client.request::<Value>(request).await.unwrap_err();
    assert!(
        matches!(cause(&error), Some(FenceError::Body { .. })),
        "{error}"
    );
    assert_eq!(verbs(&api, "configmaps").len(), before);
}

#[tokio::test(start_paused = true)]
async fn without_a_hard_fence_nothing_is_stamped() {
    let api = server().await;
    let a = super::replica(&api, "a");
    a.won().await;
    let client = a.leadership.guard().over(&api.client());
    let made = maps(&client)
        .create(&PostParams::default(), &map("x"))
        .await
        .unwrap();
    assert_eq!(made.metadata.annotations, None);
}

#[test]
fn the_samples_component_has_the_policy_that_the_library_makes() {
    let account = "system:serviceaccount:sample-controller:sample-controller";
    let policy = FencePolicy::new(
        "sample-controller-fence",
        "sample-controller/sample-controller",
        account,
    )
    .resource("samplecontroller.k8s.io", "foos")
    .resource("apps", "deployments");
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/sample-controller/deploy/fence"
    );
    let made = policy.objects();
    for (name, object) in ["policy.json", "binding.json"].into_iter().zip(made) {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file, object, "{name}");
    }
}
