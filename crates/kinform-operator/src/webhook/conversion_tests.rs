//! Whole calls of the conversion webhook: what a real API server sent, and what can go wrong.
//!
//! The kind is that of the recordings: `hostPort` of v1 is `host` and `port` of v2. A third version
//! puts these into an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::testing::{convert, post};
use super::tests::recorded;
use super::*;

/// A version of the kind of the recordings.
macro_rules! version {
    ($name:ident, $version:literal, $kind:literal, $group:literal, $spec:ty) => {
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        struct $name {
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: $spec,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                "knots".into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneField {
    #[serde(skip_serializing_if = "Option::is_none")]
    host_port: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TwoFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Renamed {
    address: Option<TwoFields>,
}

version!(V1, "v1", "Knot", "conv.example.com", OneField);
version!(V2, "v2", "Knot", "conv.example.com", TwoFields);
version!(V3, "v3", "Knot", "conv.example.com", Renamed);
version!(Other, "v2", "Other", "conv.example.com", TwoFields);
version!(Foreign, "v2", "Knot", "other.example.com", TwoFields);

fn split(old: V1) -> Result<V2, Error> {
    let mut new = V2 {
        metadata: old.metadata,
        ..V2::default()
    };
    if let Some(both) = old.spec.host_port {
        let Some((host, port)) = both.split_once(':') else {
            return Err(Error::new("spec.hostPort has no colon"));
        };
        new.spec.host = Some(host.to_owned());
        new.spec.port = Some(port.to_owned());
    }
    Ok(new)
}

fn join(new: V2) -> Result<V1, Error> {
    let mut old = V1 {
        metadata: new.metadata,
        ..V1::default()
    };
    if let (Some(host), Some(port)) = (new.spec.host, new.spec.port) {
        assert!(port != "panic", "planted");
        old.spec.host_port = Some(format!("{host}:{port}"));
    }
    Ok(old)
}

fn rename(old: V2) -> Result<V3, Error> {
    let spec = Renamed {
        address: Some(old.spec),
    };
    Ok(V3 {
        metadata: old.metadata,
        spec,
    })
}

fn rename_back(new: V3) -> Result<V2, Error> {
    Ok(V2 {
        metadata: new.metadata,
        spec: new.spec.address.unwrap_or_default(),
    })
}

pub(super) fn webhooks() -> Webhooks {
    let chain = Conversion::of::<V1>()
        .then(split, join)
        .then(rename, rename_back);
    Webhooks::new().convert(chain).unwrap()
}

fn object(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("conv.example.com/{version}"),
        "kind": "Knot",
        "metadata": { "name": name, "namespace": "n", "uid": "u", "generation": 3 },
        "spec": spec,
    })
}

#[tokio::test]
async fn reviews_of_a_real_server_are_answered_as_it_took_them() {
    // controller-runtime: "should convert hub to spoke successfully" and its neighbours
    let mut conversions = recorded();
    conversions.retain(|line| line.request["kind"] == "ConversionReview");
    assert!(conversions.len() > 3);
    for line in conversions {
        let uri = format!("/convert?{}", line.query);
        let (code, reply) = post(&webhooks(), &uri, line.request.to_string())
            .await
            .unwrap();
        assert_eq!(code, 200, "{}: {reply}", line.note);
        assert_eq!(reply, line.response.unwrap(), "{}", line.note);
    }
}

#[tokio::test]
async fn versions_are_reached_along_the_chain_and_nothing_unknown_is_lost() {
    // controller-runtime: "should convert spoke to spoke successfully"
    let mut first = object(
        "v1",
        "a",
        json!({ "hostPort": "h:80", "new": { "x": [null, 1] } }),
    );
    first["metadata"]["managedFields"] = json!([{ "manager": "m" }]);
    first["metadata"]["future"] = json!(1);
    first["status"] = json!({ "phase": "x" });
    let objects = convert(
        &webhooks(),
        "conv.example.com/v3",
        std::slice::from_ref(&first),
    )
    .await
    .unwrap();
    let mut expected = first.clone();
    expected["apiVersion"] = "conv.example.com/v3".into();
    expected["spec"] = json!({
        "address": { "host": "h", "port": "80" }, "new": { "x": [null, 1] },
    });
    assert_eq!(objects, [expected]);
    let back = convert(&webhooks(), "conv.example.com/v1", &objects)
        .await
        .unwrap();
    assert_eq!(back, [first]);
}

#[tokio::test]
async fn of_metadata_labels_and_annotations_change_alone() {
    let chain = Conversion::of::<V1>().then(
        |old: V1| {
            let mut new = split(old)?;
            new.metadata.name = Some("other".to_owned());
            new.metadata.uid = None;
            new.metadata.finalizers = Some(vec!["f".to_owned()]);
            new.metadata
                .labels
                .get_or_insert_default()
                .insert("l".to_owned(), "1".to_owned());
            new.metadata.annotations = None;
            Ok::<_, Error>(new)
        },
        join,
    );
    let webhooks = Webhooks::new().convert(chain).unwrap();
    let mut given = object("v1", "a", json!({}));
    given["metadata"]["annotations"] = json!({ "a": "1" });
    let mut expected = object("v2", "a", json!({}));
    expected["metadata"]["labels"] = json!({ "l": "1" });
    let objects = convert(&webhooks, "conv.example.com/v2", &[given])
        .await
        .unwrap();
    assert_eq!(objects, [expected]);
}

#[tokio::test]
async fn an_object_that_fails_is_named_with_its_place() {
    let good = object("v1", "a", json!({ "hostPort": "h:80" }));
    let mut foreign = good.clone();
    foreign["apiVersion"] = "other.example.com/v1".into();
    let mut other = good.clone();
    other["kind"] = "Other".into();
    let desired = "conv.example.com/v2";
    for (desired, bad, line) in [
        (
            desired,
            object("v1", "b", json!({ "hostPort": "h" })),
            "object 1 (Knot n/b): spec.hostPort has no colon",
        ),
        (
            desired,
            object("v1", "b", json!({ "hostPort": 5 })),
            "object 1 (Knot n/b): it cannot be decoded: invalid type, expected a string",
        ),
        (
            desired,
            object("v9", "b", json!({})),
            "object 1 (Knot n/b): Knot is converted between conv.example.com/v1, conv.example.com/v2, conv.example.com/v3 only",
        ),
        (
            "conv.example.com/v9",
            good.clone(),
            "object 0 (Knot n/a): Knot is converted between",
        ),
        (
            desired,
            foreign,
            "object 1 (Knot n/a): it cannot be converted to another group",
        ),
        (
            desired,
            other,
            "object 1 (Other n/a): this program does not convert its kind",
        ),
        (desired, json!(5), "object 1 is no object: "),
    ] {
        let objects = [good.clone(), bad];
        let error = convert(&webhooks(), desired, &objects).await.unwrap_err();
        assert!(error.to_string().starts_with(line), "{error}");
    }
}

#[tokio::test]
async fn a_panic_is_a_failure_and_counted() {
    // controller-runtime: "should return error on panic in conversion"
    let webhooks = webhooks();
    let bad = object("v2", "a", json!({ "host": "h", "port": "panic" }));
    let error = convert(&webhooks, "conv.example.com/v1", &[bad])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "500: the webhook panicked");
    assert_eq!(webhooks.stats().conversion_panics, 1);
}

#[tokio::test]
async fn an_object_of_the_desired_version_stays_as_it_is() {
    // controller-runtime: "should return error when dest/src objects are of same type"
    let same = object("v2", "a", json!({ "x": 1 }));
    let objects = convert(
        &webhooks(),
        "conv.example.com/v2",
        std::slice::from_ref(&same),
    )
    .await
    .unwrap();
    assert_eq!(objects, [same]);
    let none = convert(&webhooks(), "conv.example.com/v2", &[])
        .await
        .unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_body_that_is_no_conversion_review_is_a_bad_request() {
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": { "uid": "u1", "desiredAPIVersion": "conv.example.com/v2", "objects": [] },
    });
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut review = review.clone();
        change(&mut review);
        review.to_string()
    };
    for (body, line) in [
        (String::new(), "not a ConversionReview: the body is empty"),
        (
            "{}".to_owned(),
            "not a ConversionReview: the body is of another kind",
        ),
        (
            changed(&|review| review["request"]["uid"] = "".into()),
            "not a ConversionReview: the request has no uid",
        ),
        (
            changed(&|review| review["request"]["objects"] = json!({})),
            "not a ConversionReview: request: invalid type",
        ),
        (
            changed(&|review| review["apiVersion"] = "apiextensions.k8s.io/v1beta1".into()),
            "only apiextensions.k8s.io/v1 is spoken",
        ),
    ] {
        let (code, reply) = post(&webhooks(), "/convert", body).await.unwrap();
        let message = reply["message"].as_str().unwrap();
        assert_eq!(code, 400);
        assert!(message.starts_with(line), "{message}");
    }
}

#[test]
fn a_chain_is_of_one_kind_and_has_each_version_once() {
    // controller-runtime: "should return error if same spoke is specified twice" and its neighbours
    let refused = |registered: Result<Webhooks, Error>| registered.unwrap_err().to_string();
    let knot = "Knot.conv.example.com";
    let new = Webhooks::new;
    assert_eq!(
        refused(new().convert(Conversion::of::<V1>())),
        format!("the conversion of {knot} has one version")
    );
    let other = Conversion::of::<V1>().then(
        |_: V1| Ok::<_, Error>(Other::default()),
        |_: Other| Ok::<_, Error>(V1::default()),
    );
    let line = format!("Other.conv.example.com is no version of {knot}");
    assert_eq!(refused(new().convert(other)), line);
    let foreign = Conversion::of::<V1>().then(
        |_: V1| Ok::<_, Error>(Foreign::default()),
        |_: Foreign| Ok::<_, Error>(V1::default()),
    );
    let line = format!("Knot.other.example.com is no version of {knot}");
    assert_eq!(refused(new().convert(foreign)), line);
    let twice = Conversion::of::<V1>().then(split, join).then(join, split);
    let line = format!("the conversion of {knot} has conv.example.com/v1 twice");
    assert_eq!(refused(new().convert(twice)), line);
    let again = webhooks().convert(Conversion::of::<V2>().then(rename, rename_back));
    assert_eq!(refused(again), format!("{knot} has two conversions"));
}

#[tokio::test]
async fn kinds_share_the_path() {
    let other = Conversion::of::<Foreign>().then(Ok::<_, Error>, Ok::<_, Error>);
    let error = webhooks().convert::<Foreign>(other).unwrap_err();
    let line = "the conversion of Knot.other.example.com has other.example.com/v2 twice";
    assert_eq!(error.to_string(), line);
    version!(ForeignV1, "v1", "Knot", "other.example.com", TwoFields);
    let up = |old: ForeignV1| {
        Ok::<_, Error>(Foreign {
            metadata: old.metadata,
            spec: old.spec,
        })
    };
    let down = |new: Foreign| {
        Ok::<_, Error>(ForeignV1 {
            metadata: new.metadata,
            spec: new.spec,
        })
    };
    let both = webhooks()
        .convert(Conversion::of::<ForeignV1>().then(up, down))
        .unwrap();
    for group in ["conv.example.com", "other.example.com"] {
        let mut given = object("v1", "a", json!({}));
        given["apiVersion"] = format!("{group}/v1").into();
        let desired = format!("{group}/v2");
        let objects = convert(&both, &desired, &[given]).await.unwrap();
        assert_eq!(objects[0]["apiVersion"], desired.as_str());
    }
}
