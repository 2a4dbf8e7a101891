use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::budget::{Deadline, Meter};
use crate::clock;

fn definition(schema: Value) -> Value {
    json!({"metadata": {"name": "foos.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]},
        "status": {"storedVersions": ["v1"]}})
}

fn errors(schema: Value) -> Vec<String> {
    let errors = super::errors(&definition(schema), None, &Meter::endless());
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_plain_definition_is_taken() {
    assert_eq!(errors(json!({"type": "object"})), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn patterns_and_rules_of_a_late_request_are_not_compiled() {
    let rule = json!([{"rule": "self."}]);
    for of in [
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "x-kubernetes-validations": rule}),
    ] {
        let schema = json!({"type": "object", "properties": {"a": of}});
        assert_eq!(errors(schema.clone()).len(), 1);
        check_late(&schema);
    }
}

fn check_late(schema: &Value) {
    let stopping = CancellationToken::new();
    stopping.cancel();
    let at = clock::instant();
    let late = Meter::until(Deadline { at, stopping });
    assert!(super::errors(&definition(schema.clone()), None, &late).is_empty());
    assert_eq!(late.check().unwrap_err().code, 504);
}

#[test]
fn a_schema_cannot_be_deeper_than_it_can_be_walked() {
    let mut schema = json!({"type": "string"});
    for _ in 0..40 {
        schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": schema}}});
    }
    let errors = errors(schema);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("must not be nested deeper"),
        "{errors:?}"
    );
}

#[test]
fn a_mistake_in_a_rule_is_shown_where_it_stands() {
    let rule = json!([{"rule": "self.a == 'x' &&\n  self.b > 1", "message": "m"}]);
    let text = json!({"type": "string"});
    let errors = errors(
        json!({"type": "object", "properties": {"a": text, "b": text},
        "x-kubernetes-validations": rule}),
    );
    assert_eq!(errors.len(), 1);
    let place = "ERROR: <input>:2:10: found no matching overload for '_>_' applied to \
                 '(string, int)'\n |   self.b > 1\n | .........^";
    assert!(errors[0].ends_with(place), "{errors:?}");
}
