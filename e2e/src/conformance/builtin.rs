//! Built-in kinds whose rules are their own: workloads with claims, statuses, approvals, selectors.
//!
//! ```text
//! object, status, selector of a built-in ──▶ accepted as there, or refused in the same words
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/apis/*/validation`, `kubernetes:pkg/registry`.

use serde_json::{Value, json};

use super::probe::{Failure, Probe, Question, holds, names, same};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    a_stateful_set_mounts_its_claim_templates: "pkg/apis/apps/validation",
    a_device_is_no_mount: "pkg/apis/core/validation (ValidateVolumeDevices)",
    absent_flags_and_numbers_match_their_zero_values: "pkg/registry/core/pod/strategy.go",
    a_source_is_also_who_reports: "pkg/registry/core/event/strategy.go",
    fields_of_signers_and_slices_are_known: "pkg/apis/certificates/v1/conversion.go",
    addresses_of_a_pod_are_checked: "pkg/apis/core/validation (ValidatePodStatusUpdate)",
    a_container_that_ended_stays_so: "pkg/apis/core/validation (ValidateContainerStateTransition)",
    an_approval_keeps_labels_and_annotations: "pkg/registry/certificates/certificates/strategy.go",
    a_finalized_namespace_keeps_its_labels: "pkg/registry/core/namespace/strategy.go",
    unknown_and_doubled_members_come_in_the_order_of_the_body: "sigs.k8s.io/json",
    an_empty_slice_is_unset: "pkg/printers/internalversion/printers.go",
];

fn container(more: &Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    if let (Some(members), Some(more)) = (container.as_object_mut(), more.as_object()) {
        members.extend(more.clone());
    }
    container
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container(&json!({}))]}});
    if let (Some(members), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
        members.extend(more.clone());
    }
    pod
}

fn stateful_set(container: &Value, claims: &[&str]) -> Value {
    let claim = |name: &&str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
        "serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}},
        "volumeClaimTemplates": claims.iter().map(claim).collect::<Vec<_>>(),
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
    }})
}

async fn a_stateful_set_mounts_its_claim_templates(p: &Probe) -> Result<(), Failure> {
    let path = "~apps/v1/statefulsets";
    let mounts =
        |name: &str| container(&json!({"volumeMounts": [{"name": name, "mountPath": "/d"}]}));
    let set = stateful_set(&mounts("other"), &["data"]);
    p.post(path, &set)
        .await?
        .says(422, "Invalid", "volumeMounts[0].name: Not found: \"other\"")?;
    let set = stateful_set(&mounts("data"), &["Not_A_Label"]);
    p.post(path, &set)
        .await?
        .says(422, "Invalid", "spec.template.spec.volumes[0].name")?;
    let set = stateful_set(&mounts("data"), &["data"]);
    p.post(path, &set).await?.code(201)?;
    Ok(())
}

async fn a_device_is_no_mount(p: &Probe) -> Result<(), Failure> {
    let both = container(&json!({
        "volumeMounts": [{"name": "data", "mountPath": "/d"}],
        "volumeDevices": [{"name": "data", "devicePath": "/d"}, {"name": "none", "devicePath": "/../e"}],
    }));
    let set = stateful_set(&both, &["data"]);
    let path = "~apps/v1/statefulsets";
    p.post(path, &set)
        .await?
        .says(422, "Invalid", "must not already exist in volumeDevices")?;
    let device = container(&json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]}));
    let spec = json!({"containers": [device], "volumes": [{"name": "v", "emptyDir": {}}]});
    p.post("~/pods", &pod("p", &spec)).await?.says(
        422,
        "Invalid",
        "can only use volume source type of PersistentVolumeClaim",
    )?;
    Ok(())
}

/// Asserts the names that a selector finds.
async fn finds(p: &Probe, path: &str, selector: &str, wanted: &[&str]) -> Result<(), Failure> {
    let list = p
        .get(&format!("{path}?fieldSelector={selector}"))
        .await?
        .code(200)?;
    // Lists have other versions, and objects more than is meant here.
    p.forget();
    same(selector, names(&list), wanted.to_vec())
}

async fn absent_flags_and_numbers_match_their_zero_values(p: &Probe) -> Result<(), Failure> {
    p.post("~/pods", &pod("own", &json!({}))).await?.code(201)?;
    p.post("~/pods", &pod("host", &json!({"hostNetwork": true})))
        .await?
        .code(201)?;
    finds(p, "~/pods", "spec.hostNetwork%3Dfalse", &["own"]).await?;
    finds(p, "~/pods", "spec.hostNetwork%21%3Dfalse", &["host"]).await?;
    finds(p, "~/pods", "spec.hostNetwork%3D", &[]).await?;
    finds(p, "~/pods", "status.podIPs%3D", &["host", "own"]).await?;
    let node = p.namespace.as_str();
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    p.post("/api/v1/nodes", &object).await?.code(201)?;
    let of = |selector: &str| format!("{selector},metadata.name%3D{node}");
    let nodes = "/api/v1/nodes";
    finds(p, nodes, &of("spec.unschedulable%3Dfalse"), &[node]).await?;
    finds(p, nodes, &of("spec.unschedulable%3Dtrue"), &[]).await?;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [container(&json!({}))]}}}});
    p.post("~batch/v1/jobs", &job).await?.code(201)?;
    finds(p, "~batch/v1/jobs", "status.successful%3D0", &["j"]).await?;
    finds(p, "~batch/v1/jobs", "status.successful%3D", &[]).await
}

async fn a_source_is_also_who_reports(p: &Probe) -> Result<(), Failure> {
    for (name, source, reporter) in [("a", "src", ""), ("b", "", "rep"), ("c", "src", "rep")] {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
            "source": {"component": source}, "reason": "R", "type": "Normal",
            "reportingComponent": reporter, "reportingInstance": "i"});
        p.post("~/events", &event).await?.code(201)?;
    }
    finds(p, "~/events", "source%3Dsrc", &["a", "c"]).await?;
    finds(p, "~/events", "source%3Drep", &["b"]).await?;
    finds(p, "~/events", "reportingComponent%3Drep", &["b", "c"]).await
}

async fn fields_of_signers_and_slices_are_known(p: &Probe) -> Result<(), Failure> {
    let certificates = "/apis/certificates.k8s.io/v1";
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    for (path, field) in [
        (
            format!("{certificates}/clustertrustbundles"),
            "spec.signerName",
        ),
        (
            format!("{certificates}/podcertificaterequests"),
            "spec.signerName",
        ),
        (
            format!("{certificates}/podcertificaterequests"),
            "spec.podName",
        ),
        (
            format!("{certificates}/podcertificaterequests"),
            "spec.nodeName",
        ),
        (slices.to_owned(), "spec.nodeName"),
        (slices.to_owned(), "spec.driver"),
        (slices.to_owned(), "spec.pool.name"),
    ] {
        finds(p, &path, &format!("{field}%3Dnobody.example.com"), &[]).await?;
    }
    for (path, field) in [
        (slices.to_owned(), "spec.none"),
        (slices.to_owned(), "metadata.namespace"),
        (
            format!("{certificates}/clustertrustbundles"),
            "metadata.namespace",
        ),
        ("/api/v1/nodes".to_owned(), "metadata.namespace"),
        ("/apis/apps/v1/replicasets".to_owned(), "status.replicas"),
    ] {
        let path = format!("{path}?fieldSelector={field}%3Dx");
        p.get(&path).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn addresses_of_a_pod_are_checked(p: &Probe) -> Result<(), Failure> {
    p.post("~/pods", &pod("p", &json!({}))).await?.code(201)?;
    let refused = [
        (json!({"podIP": "bogus"}), "status.podIPs[0]: Invalid value"),
        (
            json!({"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}, {"ip": "10.0.0.4"}]}),
            "no more than one IP for each IP family",
        ),
        (json!({"podIP": "010.0.0.3"}), "must not have leading 0s"),
        (
            json!({"hostIPs": [{"ip": "10.0.0.3"}]}),
            "must be equal to `hostIP`",
        ),
        (json!({"qosClass": "Guaranteed"}), "field is immutable"),
        (
            json!({"nominatedNodeName": "Not_A_Name"}),
            "status.nominatedNodeName",
        ),
        (
            json!({"observedGeneration": -1}),
            "must be a non-negative integer",
        ),
    ];
    for (status, words) in refused {
        p.merge("~/pods/p/status", &json!({ "status": status }))
            .await?
            .says(422, "Invalid", words)?;
    }
    let both = json!({"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}, {"ip": "fd00::1"}]});
    p.merge("~/pods/p/status", &json!({ "status": both }))
        .await?
        .code(200)?;
    Ok(())
}

async fn a_container_that_ended_stays_so(p: &Probe) -> Result<(), Failure> {
    let never = json!({"restartPolicy": "Never"});
    p.post("~/pods", &pod("p", &never)).await?.code(201)?;
    let state = |state: &Value| {
        json!({"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "x",
            "ready": false, "restartCount": 0, "state": state}]}})
    };
    let ended = state(&json!({"terminated": {"exitCode": 0}}));
    p.merge("~/pods/p/status", &ended).await?.code(200)?;
    let again = state(&json!({"running": {}}));
    p.merge("~/pods/p/status", &again).await?.says(
        422,
        "Invalid",
        "may not be transitioned to non-terminated state",
    )?;
    Ok(())
}

/// A signing request, PEM in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIR01HOENBUUF3RFRFTE1Ba0dBMVVFQXd3Q2JXVXdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQwpBQVRvdWdjQ2hsU3FjOWpEVHQrOGM5azd0U3pwck92RnJKTWFMM2l2SmliQjZLMDFTS0FLTjNDeFljWlp3YXlwCjFYcC9rN0xwbzNzeE1GaGFtT2lsejRDNm9BQXdDZ1lJS29aSXpqMEVBd0lEUndBd1JBSWdlM2s4cWYzdUFOODYKdjBMcWhtak0xT1dKM1NLWmtZbWgrdmJZOFJ6Y0dUUUNJQVlleDUyNWNwaVQ3ZkJxSm9SWXIzeVU1d2lpMlNZMwprZzhxRWdMSkJFTVYKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

async fn an_approval_keeps_labels_and_annotations(p: &Probe) -> Result<(), Failure> {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": p.namespace, "labels": {"a": "1"}},
        "spec": {"request": REQUEST, "signerName": "example.com/x", "usages": ["digital signature"]}});
    p.post(path, &object).await?.code(201)?;
    let approval = json!({
        "metadata": {"labels": {"b": "2"}, "annotations": {"c": "3"}},
        "spec": {"signerName": "example.com/y"},
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]},
    });
    let approved = p
        .merge(&format!("{path}/{}/approval", p.namespace), &approval)
        .await?
        .code(200)?;
    // Who made the request differs.
    p.forget();
    let labels = json!({"a": "1", "b": "2"});
    same("the labels", &approved["metadata"]["labels"], &labels)?;
    same(
        "the annotations",
        &approved["metadata"]["annotations"],
        &json!({"c": "3"}),
    )?;
    same(
        "the signer",
        &approved["spec"]["signerName"],
        &json!("example.com/x"),
    )?;
    same(
        "the condition",
        &approved["status"]["conditions"][0]["type"],
        &json!("Approved"),
    )
}

async fn a_finalized_namespace_keeps_its_labels(p: &Probe) -> Result<(), Failure> {
    let path = "/api/v1/namespaces/{ns}";
    let mut namespace = p.get(path).await?.code(200)?;
    namespace["metadata"]["labels"]["a"] = json!("1");
    let done = p
        .put(&format!("{path}/finalize"), &namespace)
        .await?
        .code(200)?;
    same("the label", &done["metadata"]["labels"]["a"], &json!("1"))
}

async fn unknown_and_doubled_members_come_in_the_order_of_the_body(
    p: &Probe,
) -> Result<(), Failure> {
    let bodies = [
        (
            r#"{"metadata":{"name":"x"},"data":{"a":"1","a":"2"},"zzz":1,"bogus":{"b":1}}"#,
            r#"duplicate field "data.a", unknown field "zzz", unknown field "bogus""#,
        ),
        (
            r#"{"bogus":1,"bogus":2,"metadata":{"name":"x","name":"x","q":1}}"#,
            r#"unknown field "bogus", duplicate field "metadata.name", unknown field "metadata.q""#,
        ),
    ];
    for (body, words) in bodies {
        let question = Question {
            media: Some("application/json"),
            body: body.as_bytes(),
            ..Question::new("POST", "~/configmaps?fieldValidation=Strict")
        };
        p.ask(question).await?.says(400, "BadRequest", words)?;
    }
    Ok(())
}

async fn an_empty_slice_is_unset(p: &Probe) -> Result<(), Failure> {
    let path = "~discovery.k8s.io/v1/endpointslices";
    for (name, ports) in [
        ("a", json!([])),
        ("b", json!([{}])),
        ("c", json!([{"port": 1}])),
    ] {
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name}, "addressType": "IPv4", "endpoints": [], "ports": ports});
        p.post(path, &slice).await?.code(201)?;
    }
    let table = p
        .get_as(path, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await?
        .code(200)?;
    p.forget();
    let rows = table["rows"].as_array().into_iter().flatten();
    let cells: Vec<Value> = rows.map(|row| row["cells"].clone()).collect();
    holds("there are three rows", cells.len() == 3)?;
    for (cells, ports) in cells.iter().zip(["<unset>", "<unset>", "1"]) {
        same("the ports", &cells[2], &json!(ports))?;
        same("the endpoints", &cells[3], &json!("<unset>"))?;
    }
    Ok(())
}
