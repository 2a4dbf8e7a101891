//! Tests of reading a value as a built-in type.

use serde_json::json;

use super::*;

fn check(kind: (&str, &str, &str), given: Value, expected: &Value, unknown: &[&str]) {
    let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
    let mut found = Vec::new();
    let read = read(of, given, &mut found).unwrap();
    assert_eq!(&read, expected);
    assert_eq!(found, unknown);
}

#[test]
fn a_value_goes_through_as_through_the_struct() {
    check(
        ("", "v1", "ConfigMap"),
        json!({"kind": "ConfigMap", "metadata": {"name": "x", "labels": null, "annotations": {}},
            "data": {"a": "b", "n": null}, "binaryData": {}, "nope": 1}),
        &json!({"metadata": {"name": "x"}, "data": {"a": "b", "n": ""}}),
        &["nope"],
    );
    let many: Map<String, Value> = (0..300).map(|at| (format!("f{at:03}"), json!(1))).collect();
    let told: Vec<String> = many.keys().take(strict::MOST).cloned().collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let expected = json!({"metadata": {}});
    check(
        ("", "v1", "ConfigMap"),
        Value::Object(many),
        &expected,
        &told,
    );
    check(
        ("", "v1", "Pod"),
        json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05.678Z"},
            "spec": {"containers": [{"name": "c", "bad": 1, "tty": false}], "hostNetwork": false,
                "priority": 0, "nodeName": ""}}),
        &json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"containers": [{"name": "c", "resources": {}}], "priority": 0},
            "status": {}}),
        &["spec.containers[0].bad"],
    );
    check(
        ("apps", "v1", "Deployment"),
        json!({"spec": {"paused": false, "replicas": 0}}),
        &json!({"metadata": {}, "spec": {"replicas": 0, "selector": null, "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        &[],
    );
}

#[test]
fn a_value_of_another_type_is_refused_in_gos_words() {
    let of = kinform_schema::builtin("", "v1", "ConfigMap").unwrap();
    let error = |given| read(of, given, &mut Vec::new()).unwrap_err().0;
    assert_eq!(
        error(json!({"data": {"a": 1}})),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(
        error(json!({"data": []})),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type \
         map[string]string"
    );
    assert_eq!(
        error(json!({"binaryData": {"a": "%"}})),
        "illegal base64 data at input byte 0"
    );
    assert_eq!(
        error(json!({"metadata": {"creationTimestamp": "2026-1"}})),
        "parsing time \"2026-1\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1\" as \"01\""
    );
    assert!(error(json!({"metadata": {"generation": 1.5}})).contains("number 1.5"));
    assert!(error(json!(1)).contains("of type v1.ConfigMap"));
    let of = kinform_schema::builtin("networking.k8s.io", "v1", "Ingress").unwrap();
    let given = json!({"spec": {"rules": [{"http": {"paths": [1]}}]}});
    assert_eq!(
        read(of, given, &mut Vec::new()).unwrap_err().0,
        "json: cannot unmarshal number into Go struct field \
         HTTPIngressRuleValue.spec.rules.IngressRuleValue.http.paths of type v1.HTTPIngressPath"
    );
}

#[test]
fn a_patch_is_refused_in_the_converters_words() {
    let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
    let error = |given| {
        let words = (Voice::Converter, &Meter::endless());
        read_as(of, given, &mut Vec::new(), words).unwrap_err().0
    };
    for (given, words) in [
        (
            json!({"spec": {"nodeName": true}}),
            "unrecognized type: string",
        ),
        (
            json!({"spec": {"nodeName": 1}}),
            "cannot convert int64 to string",
        ),
        (
            json!({"spec": {"containers": 1}}),
            "cannot restore slice from int64",
        ),
        (
            json!({"metadata": {"labels": true}}),
            "cannot restore map from bool",
        ),
        (
            json!({"spec": {"priority": 1.5}}),
            "cannot convert float64 to int32",
        ),
    ] {
        assert_eq!(error(given), words);
    }
}
