use kinform_api::FieldError;
use serde_json::{Value, json};

use crate::budget::Meter;
use crate::schema::compiled::Compiled;
use crate::schema::old_value::Before;

fn errors(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
    let compiled = Compiled::of(schema);
    let checker = super::Checker {
        patterns: &compiled.patterns,
        meter: &Meter::endless(),
    };
    let found = checker.check(schema, value, "", Before(old));
    found.errors.iter().map(FieldError::to_string).collect()
}

fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    assert_eq!(errors(&schema, &json!({"spec": value}), None), expected);
}

#[test]
fn a_schema_refuses_in_upstreams_words() {
    check(json!({"type": "string"}), json!("x"), &[]);
    check(
        json!({"type": "string"}),
        json!(7),
        &["spec: Invalid value: \"integer\": spec in body must be of type string: \"integer\""],
    );
    check(
        json!({"type": "object", "required": ["a"]}),
        json!({}),
        &["spec.a: Required value"],
    );
    check(
        json!({"type": "string", "nullable": true}),
        json!(null),
        &[],
    );
    check(
        json!({"type": "string", "pattern": "^a+$"}),
        json!("b"),
        &["spec: Invalid value: \"b\": spec in body should match '^a+$'"],
    );
    check(
        json!({"type": "object", "additionalProperties": false}),
        json!({"a": 1}),
        &["spec: Invalid value: \"a\": spec.a in body is a forbidden property"],
    );
}

#[test]
fn what_was_wrong_before_may_stay_so() {
    let of = json!({"type": "string", "maxLength": 1});
    let map = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": of}}});
    let schema = json!({"type": "object", "properties": {"a": of, "b": of, "m": map,
        "l": {"type": "array", "items": of}}});
    let old = json!({"a": "long", "b": "x", "l": ["long"], "m": [{"k": "1", "v": "long"}]});
    let mut new = old.clone();
    new["b"] = json!("y");
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new());
    new["m"] = json!([{"k": "0", "v": "z"}, {"k": "1", "v": "long"}]);
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new());
    // Items of other lists have no identity.
    new["l"] = json!(["long", "x"]);
    let wrong = ["l[0]: Too long: may not be more than 1 byte"];
    assert_eq!(errors(&schema, &new, Some(&old)), wrong);
    assert_eq!(errors(&schema, &new, None).len(), 3);
}
