//! The object as its neighbours see it: head, bytes, lenses, comparisons, errors.

use super::*;

fn object(json: &str) -> Object {
    Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
}

fn meta() -> TypeMeta {
    TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    }
}

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop","uid":"u-1","resourceVersion":"42","labels":{"app":"web","a/b":"\u0063"},"annotations":{"note":"x\ny"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u-2","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kubelet","fieldsV1":{"f:spec":{}}}]},"spec":{"containers":[{"image":"nginx","n":1},{"image":"envoy","n":2.50}],"on":true,"no":null}}"#;

#[test]
fn a_head_stays_small() {
    assert!(size_of::<Head>() <= 104, "{}", size_of::<Head>());
    assert_eq!(size_of::<Object>(), size_of::<usize>());
}

#[test]
fn an_object_does_not_keep_the_body_that_it_came_in() {
    // client-go: TestReflectorListExtract
    let item = r#"{"metadata":{"name":"a","uid":"u"},"data":{"k":"v"}}"#;
    let body = format!(r#"{{"items":[{}{item}]}}"#, format!("{item},").repeat(999));
    let mut splitter = crate::wire::encoding::ListReader::new(Encoding::Json);
    let mut kept = None;
    let fed = splitter.feed(body.as_bytes(), &mut |part| {
        if let crate::wire::list::ListPart::Item(item) = part {
            kept = Object::from_item(&item, &Projection::default()).ok();
        }
    });
    fed.unwrap();
    let kept = kept.unwrap();
    assert!(
        !body
            .as_bytes()
            .as_ptr_range()
            .contains(&kept.bytes().as_ptr())
    );
    drop(body);
    assert_eq!(kept.bytes(), item.as_bytes());
    assert!(
        kept.heap_size() < 2 * item.len() + 200,
        "{}",
        kept.heap_size()
    );
}

#[test]
fn an_object_tells_its_head() {
    let pod = object(POD);
    assert_eq!(pod.key().as_str(), "shop/web-0");
    assert_eq!(
        (pod.namespace(), pod.name(), pod.uid()),
        (Some("shop"), "web-0", "u-1")
    );
    assert_eq!((pod.resource_version(), pod.revision()), ("42", Some(42)));
    assert_eq!(pod.key_hash(), pod.key_ref().hash64());
    assert_eq!((pod.is_projected(), pod.is_terminating()), (false, false));
    assert_eq!(format!("{pod:?}"), "Object(shop/web-0@42)");
    assert_eq!(pod.label("a/b").as_deref(), Some("c"));
    assert_eq!(pod.label("c"), None);
    assert_eq!(pod.annotation("note").as_deref(), Some("x\ny"));
    let labels: Vec<_> = pod.labels().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(labels, ["app=web", "a/b=c"]);
    let owner = &pod.owner_references()[0];
    assert_eq!(
        (&*owner.kind, &*owner.name, owner.controller),
        ("ReplicaSet", "web", true)
    );
    assert!(pod.ptr_eq(&pod.clone()) && !pod.ptr_eq(&object(POD)));
}

#[test]
fn type_and_managed_fields_are_not_kept() {
    let kept = object(POD);
    let kept = std::str::from_utf8(kept.bytes()).unwrap();
    assert!(kept.starts_with(r#"{"metadata":{"name":"web-0""#), "{kept}");
    assert!(
        !kept.contains("managedFields") && !kept.contains("apiVersion\":\"v1\""),
        "{kept}"
    );
    for (input, expected) in [
        (
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#" {"kind":"K","metadata":{"name":"a"},"apiVersion":"v1"} "#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"managedFields":[],"name":"a"},"kind":"K"}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ),
        (
            r#"{"metadata":{"name":"a","managedFields":[{}]},"x":1,"kind":"K","y":2}"#,
            r#"{"metadata":{"name":"a"},"x":1,"y":2}"#,
        ),
        (
            r#"{"metadata":{"managedFields":[],"n\u0061me":"a","managedFields":[]}}"#,
            r#"{"metadata":{"n\u0061me":"a"}}"#,
        ),
        (
            r#"{"metadata":{"name":"b","uid":"u"},"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"b","uid":"u"},"metadata":{"name":"a"}}"#,
        ),
    ] {
        let object = object(input);
        assert_eq!(std::str::from_utf8(object.bytes()).unwrap(), expected);
        assert_eq!((object.name(), object.uid()), ("a", ""), "{input}");
    }
    let all = Projection::new().keep_managed_fields();
    let all = Object::from_json(POD.as_bytes(), &all).unwrap();
    assert!(all.bytes().len() > kept.len() && !all.is_projected());
}

#[test]
fn type_is_put_back_in_views() {
    let json = object(POD).to_json(&meta());
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["kind"], &json["apiVersion"]),
        (&"Pod".into(), &"v1".into())
    );
    assert_eq!(json["metadata"]["name"], "web-0");
}

#[test]
fn escaped_strings_of_the_head_are_read_as_texts() {
    let object = object(
        r#"{"metadata":{"name":"\u0061","namespace":"\u00e9","uid":"\"","resourceVersion":"1\u0032"}}"#,
    );
    assert_eq!(
        (object.name(), object.namespace(), object.uid()),
        ("a", Some("é"), "\"")
    );
    assert_eq!(object.revision(), Some(12));
    assert!(object.bytes().ends_with(b"}}"));
}

#[test]
fn scalars_are_found_at_paths() {
    let pod = object(POD);
    for (path, expected) in [
        ("spec.containers[*].image", vec!["nginx", "envoy"]),
        ("spec.containers[1].n", vec!["2.50"]),
        ("spec.on", vec!["true"]),
        ("spec.no", vec![]),
        ("spec", vec![]),
        ("spec.containers[7].n", vec![]),
        ("metadata.labels['a/b']", vec!["c"]),
    ] {
        assert_eq!(pod.at(&path.parse().unwrap()), expected, "{path}");
    }
}

#[test]
fn contents_are_compared_with_and_without_the_version() {
    let (old, new) = (object(POD), object(&POD.replace("\"42\"", "\"1043\"")));
    assert!(old.same_content(&object(POD)) && !old.same_content(&new));
    assert!(old.same_but_version(&new));
    assert!(!old.same_but_version(&object(&POD.replace("envoy", "proxy"))));
}

#[test]
fn an_unreadable_object_says_what_could_be_read() {
    let check = |json: &str, key: Option<&str>, path: &str, reason: &str| {
        let error = Object::from_json(json.as_bytes(), &Projection::new()).unwrap_err();
        assert_eq!(error.key.as_ref().map(ObjectKey::as_str), key, "{json}");
        assert_eq!((&*error.path, &*error.reason), (path, reason), "{json}");
    };
    check(
        r#"{"metadata":{"name":"a","namespace":"n"},"data":{"p":tru}}"#,
        Some("n/a"),
        "data.p",
        "expected a JSON value at byte 56",
    );
    check(
        r#"{"metadata":{"name":"a"},"x":{"y":["#,
        Some("a"),
        "x.y",
        "the JSON ends in the middle at byte 35",
    );
    check("{}", None, "metadata.name", "is missing");
    check(r#"{"metadata":null}"#, None, "metadata.name", "is missing");
    check(
        r#"{"metadata":[]}"#,
        None,
        "metadata",
        "is not a JSON object",
    );
    check(
        r#"{"metadata":{"name":7}}"#,
        None,
        "metadata.name",
        "is not a string",
    );
    check(
        r#"{"metadata":{"name":"a/b"}}"#,
        None,
        "metadata.name",
        "contains a slash",
    );
    check("[]", None, "", "is not a JSON object");
    let hostile = r#"{"metadata":{"name":"a\nb","resourceVersion":"1\r"},"x":}"#;
    let error = Object::from_json(hostile.as_bytes(), &Projection::new()).unwrap_err();
    let expected = "a?b at version 1? cannot be read: x: expected a JSON value at byte 56";
    assert_eq!(error.to_string(), expected);
    check("", None, "", "the JSON ends in the middle at byte 0");
}

#[test]
fn the_order_of_a_list_is_that_of_paths() {
    // In the order in which a server that keeps `/registry/pods/NAMESPACE/NAME` lists them.
    let pairs = [
        ("", "z"),
        ("a-b", "x"),
        ("a", "n"),
        ("a", "n-1"),
        ("a", "n.1"),
        ("a", "x"),
        ("a0", "a"),
        ("b", "a"),
    ];
    for (at, (namespace, name)) in pairs.into_iter().enumerate() {
        let object = object(&format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#
        ));
        for (behind, (namespace, name)) in pairs.into_iter().enumerate() {
            let key = KeyRef { namespace, name };
            assert_eq!(object.is_listed_before(key), at < behind, "{at} {behind}");
        }
    }
}
