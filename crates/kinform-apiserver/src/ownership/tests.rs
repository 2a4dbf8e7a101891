//! Tests of ownership: tables, sets against a naive model, and properties of applies.

use std::borrow::Cow;
use std::collections::BTreeSet;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::compare::paths;
use super::conflict::Conflict;
use super::element::Element;
use super::form::Form;
use super::managed::{Managed, Manager, Operation};
use super::set::Set;
use super::track::{Refusal, Track};
use super::*;

fn read(text: &str) -> Set {
    Set::read(&serde_json::from_str(text).unwrap()).unwrap()
}

#[test]
fn a_set_is_written_as_upstream_writes_it_and_read_again() {
    // structured-merge-diff: TestSerializeV1
    for text in [
        "{}",
        r#"{"f:a":{},"f:b":{".":{},"f:c":{}}}"#,
        r#"{"f:l":{"k:{\"a\":1,\"b\":\"x\"}":{".":{},"f:a":{}},"k:{\"a\":2}":{},"k:{\"a\":10}":{}}}"#,
        r#"{"f:x":{},"k:{\"name\":\"n\"}":{},"v:1":{},"v:2.5":{},"v:10":{},"v:\"a\"":{},"v:false":{},"v:true":{},"v:null":{},"i:0":{},"i:10":{}}"#,
        r#"{"f:a \"quoted\" \\ key/ü":{}}"#,
    ] {
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
    }
    // Steps of an unknown kind are skipped; texts that are not steps are refused.
    assert_eq!(read(r#"{"f:a":{},"z:b":{}}"#), read(r#"{"f:a":{}}"#));
    for wrong in [
        "[]",
        r#"{"f":{}}"#,
        r#"{"fa":{}}"#,
        r#"{"k:1":{}}"#,
        r#"{"i:x":{}}"#,
        r#"{"f:a":1}"#,
    ] {
        assert!(
            Set::read(&serde_json::from_str(wrong).unwrap()).is_err(),
            "{wrong}"
        );
    }
}

type Model = BTreeSet<Vec<u8>>;

fn set_of(model: &Model) -> Set {
    let mut set = Set::default();
    for path in model {
        let path: Vec<Element> = path
            .iter()
            .map(|step| Element::Index(i64::from(*step)))
            .collect();
        set.insert(&path);
    }
    set
}

fn model() -> impl Strategy<Value = Model> {
    btree_set(vec(0u8..3, 1..4), 0..12)
}

proptest! {
    #[test]
    fn sets_are_sets(a in model(), b in model()) {
        let (x, y) = (set_of(&a), set_of(&b));
        prop_assert_eq!(x.clone().union(y.clone()), set_of(&a.union(&b).cloned().collect()));
        prop_assert_eq!(x.intersection(&y), set_of(&a.intersection(&b).cloned().collect()));
        prop_assert_eq!(x.clone().difference(&y), set_of(&a.difference(&b).cloned().collect()));
        let is_below = |path: &Vec<u8>| (1..=path.len()).any(|len| b.contains(&path[..len]));
        let outside = a.iter().filter(|path| !is_below(path)).cloned().collect();
        prop_assert_eq!(x.clone().outside(&y), set_of(&outside));
        prop_assert_eq!(Set::read(&x.value()), Ok(x.clone()));
        let mut heard = Model::new();
        x.each(&mut Vec::new(), &mut |path| {
            let steps = path.iter().map(|step| match step {
                Element::Index(step) => u8::try_from(*step).unwrap(),
                _ => unreachable!(),
            });
            heard.insert(steps.collect());
            assert!(x.has(path));
        });
        prop_assert_eq!(heard, a);
    }
}

/// A schema with a list of each kind.
fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "integer"}},
        "args": {"type": "array", "items": {"type": "integer"}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string"},
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
    }}}})
}

fn track<'a>(schema: &'a Value, manager: &'a str) -> Track<'a> {
    Track {
        form: Form::Object {
            of: schema,
            keeps: false,
        },
        version: "example.com/v1",
        part: "",
        serves: Serves::Group("example.com"),
        manager,
        resets: Set::default(),
        others: Others::default(),
        time: "2026-01-01T00:00:00Z",
    }
}

/// A configuration without empty lists and maps: those are owned as such.
fn configuration() -> impl Strategy<Value = Value> {
    let labels = btree_map("[a-d]", "[xy]", 1..4);
    let tags = btree_set("[a-e]", 1..4).prop_map(|tags| tags.into_iter().collect::<Vec<_>>());
    let port = (proptest::option::of("[xy]"), proptest::option::of(0..3));
    let ports = btree_map((0..4, any::<bool>()), port, 1..4).prop_map(|ports| {
        let port = |((port, udp), (name, extra)): ((i32, bool), (Option<String>, Option<i32>))| {
            let mut item = json!({"port": port});
            if udp {
                item["protocol"] = json!("UDP");
            }
            if let Some(name) = name {
                item["name"] = json!(name);
            }
            if let Some(extra) = extra {
                item["extra"] = json!({"deep": {"er": extra}});
            }
            item
        };
        Value::from(ports.into_iter().map(port).collect::<Vec<_>>())
    });
    let option = proptest::option::of::<BoxedStrategy<Value>>;
    (
        option((0..3).prop_map(Value::from).boxed()),
        option(labels.prop_map(|labels| json!(labels)).boxed()),
        option(
            btree_map("[a-c]", 0..2, 1..3)
                .prop_map(|whole| json!(whole))
                .boxed(),
        ),
        option(vec(0..3, 1..4).prop_map(Value::from).boxed()),
        option(tags.prop_shuffle().prop_map(Value::from).boxed()),
        option(ports.boxed()),
    )
        .prop_map(|(size, labels, whole, args, tags, ports)| {
            let members = [
                ("size", size),
                ("labels", labels),
                ("whole", whole),
                ("args", args),
                ("tags", tags),
                ("ports", ports),
            ];
            let members = members
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)));
            let spec: Map<String, Value> = members.collect();
            if spec.is_empty() {
                json!({})
            } else {
                json!({"spec": spec})
            }
        })
}

/// Applies, and asserts that every field has an owner and every owned field exists.
fn apply(
    schema: &Value,
    manager: &str,
    (live, managed): (Value, Managed),
    said: &Value,
) -> (Value, Managed) {
    let track = track(schema, manager);
    let done = track
        .apply((&json!({}), &live), Cow::Borrowed(said), managed, true)
        .unwrap();
    // A value with no content left is null; a real object keeps at least its name.
    let object = done.object.unwrap_or(live);
    let object = if object.is_null() { json!({}) } else { object };
    let owned = done
        .managed
        .owners
        .values()
        .fold(Set::default(), |set, owned| set.union(owned.set.clone()));
    let there = paths(track.form, &object);
    assert_eq!(
        there.clone().difference(&owned),
        Set::default(),
        "nobody owns: {object}"
    );
    assert_eq!(
        owned.difference(&there),
        Set::default(),
        "not there: {object}"
    );
    (object, done.managed)
}

proptest! {
    #[test]
    fn an_apply_owns_what_it_says_and_leaves_what_others_own(
        first in configuration(), second in configuration(), third in configuration(),
    ) {
        let schema = schema();
        let form = track(&schema, "").form;
        let state = apply(&schema, "one", (json!({}), Managed::default()), &first);
        let state = apply(&schema, "two", state, &second);
        let once = apply(&schema, "one", state, &third);
        // The applied fields exist and are owned; the other manager's fields are unchanged.
        let one = Manager {
            name: "one".to_owned(),
            operation: Operation::Apply,
            version: String::new(),
            part: String::new(),
        };
        let owned = once.1.owners.get(&one).map_or(Set::default(), |owned| owned.set.clone());
        prop_assert_eq!(&owned, &paths(form, &third));
        let again = track(&schema, "one").apply((&json!({}), &once.0), Cow::Borrowed(&third), once.1.clone(), false);
        let again = again.unwrap();
        prop_assert_eq!(again.object, None);
        prop_assert_eq!(&again.managed, &once.1);
        // An empty configuration removes exactly the fields that the applier alone owned.
        let left = apply(&schema, "one", once, &json!({}));
        prop_assert!(!left.1.owners.contains_key(&one));
        let gone = apply(&schema, "two", left, &json!({}));
        prop_assert_eq!(paths(form, &gone.0), Set::default());
    }

    #[test]
    fn an_update_owns_what_it_changes(first in configuration(), second in configuration()) {
        let schema = schema();
        let form = track(&schema, "").form;
        let (live, managed) = apply(&schema, "one", (json!({}), Managed::default()), &first);
        let managed = track(&schema, "two").update(&live, &second, managed).unwrap();
        let all = managed.owners.values().fold(Set::default(), |set, owned| set.union(owned.set.clone()));
        let there = paths(form, &second);
        prop_assert_eq!(there.difference(&all), Set::default());
        let again = track(&schema, "three").update(&second, &second, managed.clone()).unwrap();
        prop_assert_eq!(again, managed);
    }

    #[test]
    fn nothing_that_a_client_sends_is_a_panic(name in ".{0,12}", text in ".{0,24}") {
        let entry = json!([{"manager": name, "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {text.clone(): {}}}]);
        let _ = Managed::read(&entry);
        let _ = Element::parse(&text);
    }
}

fn conflicts(
    form_of: &Value,
    (live, managed): (Value, Managed),
    said: &Value,
) -> Vec<(String, String)> {
    match track(form_of, "two").apply((&json!({}), &live), Cow::Borrowed(said), managed, false) {
        Ok(_) => Vec::new(),
        Err(Refusal::Broken(what)) => panic!("{what}"),
        Err(Refusal::Conflicts(found)) => {
            let path = |path: &[Element]| path.iter().map(ToString::to_string).collect();
            let one = |one: &Conflict| (one.manager.to_string(), path(&one.path));
            found.iter().map(one).collect()
        }
    }
}

#[test]
fn s8_conflicts_are_about_what_would_change() {
    // kubernetes: TestApplyConflicts, TestApplyUpdateApplyConflictForced
    let schema = schema();
    let live = json!({"spec": {"size": 1, "tags": ["a"], "args": [1],
        "ports": [{"port": 80, "name": "x"}]}});
    let state = apply(&schema, "one", (json!({}), Managed::default()), &live);
    let check = |said: &Value, expected: &[&str]| {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|path| ("\"one\"".to_owned(), (*path).to_owned()))
            .collect();
        assert_eq!(conflicts(&schema, state.clone(), said), expected, "{said}");
    };
    check(
        &json!({"spec": {"size": 1, "tags": ["b"], "ports": [{"port": 81}]}}),
        &[],
    );
    check(&json!({"spec": {"size": 2}}), &[".spec.size"]);
    check(
        &json!({"spec": {"args": [2], "ports": [{"port": 80, "protocol": "TCP", "name": "y"}]}}),
        &[".spec.args", ".spec.ports[port=80,protocol=\"TCP\"].name"],
    );
    let updated = track(&schema, "three").update(&state.0, &json!({"spec": {"size": 3}}), state.1);
    let found = conflicts(
        &schema,
        (json!({"spec": {"size": 3}}), updated.unwrap()),
        &live,
    );
    let by = "\"three\" using example.com/v1".to_owned();
    assert_eq!(found, [(by, ".spec.size".to_owned())]);
}

#[test]
fn lists_stand_in_the_order_that_upstream_gives_them() {
    // structured-merge-diff: TestMerge (list orders)
    let schema = schema();
    let form = track(&schema, "").form;
    for (live, said, expected) in [
        (vec!["a", "b"], vec!["b", "c"], vec!["a", "b", "c"]),
        (vec!["a", "b", "c"], vec!["c", "a"], vec!["b", "c", "a"]),
        (
            vec!["a", "b", "c", "d"],
            vec!["d", "x", "b"],
            vec!["a", "c", "d", "x", "b"],
        ),
        (vec![], vec!["b", "a"], vec!["b", "a"]),
        (vec!["a", "a"], vec!["b"], vec!["a", "a", "b"]),
    ] {
        let of = |tags: &[&str]| json!({"spec": {"tags": tags}});
        let merged =
            super::merge::merge(form, Some(&of(&live)), Some(Cow::Owned(of(&said)))).unwrap();
        assert_eq!(merged, Some(of(&expected)), "{live:?} {said:?}");
    }
}

#[test]
fn the_oldest_of_many_updaters_become_one() {
    // apimachinery: TestCapManagersManagerMergesEntries
    let schema = schema();
    let mut live = json!({"spec": {"labels": {}}});
    let mut managed = Managed::default();
    for count in 0..14 {
        let mut new = live.clone();
        new["spec"]["labels"][format!("l{count:02}")] = json!("x");
        let (name, time) = (
            format!("m{count:02}"),
            format!("2026-01-01T00:00:{count:02}Z"),
        );
        let by = Track {
            time: &time,
            ..track(&schema, &name)
        };
        managed = by.update(&live, &new, managed).unwrap();
        live = new;
    }
    let names: Vec<&str> = managed
        .owners
        .keys()
        .map(|manager| manager.name.as_str())
        .collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[..2], ["ancient-changes", "m05"]);
    let owned = &managed.owners.values().next().unwrap().set;
    let expected =
        r#"{"f:spec":{"f:labels":{"f:l00":{},"f:l01":{},"f:l02":{},"f:l03":{},"f:l04":{}}}}"#;
    assert_eq!(*owned, read(expected));
    let again = Managed::read(&managed.entries().unwrap()).unwrap();
    assert_eq!(again.owners, managed.owners);
}

#[test]
fn managers_of_versions_that_are_no_more_and_parts_that_are_none_are_forgotten() {
    // apimachinery: TestVersionConverter (missing versions), structured-merge-diff: TestReconcileFieldSetWithSchema
    let entry = |version: &str, fields: Value| {
        json!({"manager": "m", "operation": "Update", "apiVersion": version,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let parts = json!({"f:spec": {"f:replicas": {}, "f:selector": {"f:matchLabels": {"f:a": {}}}}});
    let entries = json!([
        entry("extensions/v1beta1", parts.clone()),
        entry("apps/v1", parts)
    ]);
    let of = kinform_schema::builtin("apps", "v1", "Deployment").unwrap();
    let schema = Value::Null;
    let track = Track {
        form: Form::of_type(of),
        version: "apps/v1",
        serves: Serves::Builtin("Deployment"),
        ..track(&schema, "two")
    };
    let object = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}});
    let managed = track
        .update(&object, &object, Managed::read(&entries).unwrap())
        .unwrap();
    let sets: Vec<&Set> = managed.owners.values().map(|owned| &owned.set).collect();
    assert_eq!(
        sets,
        [&read(r#"{"f:spec":{"f:replicas":{},"f:selector":{}}}"#)]
    );
}

#[test]
fn a_manager_is_named_by_the_request_or_by_its_user_agent() {
    assert_eq!(manager("me", "kubectl/v1"), "me");
    assert_eq!(manager("", "kubectl/v1.37 (linux)"), "kubectl");
    assert_eq!(manager("", "a\tb c"), "ab c");
    assert_eq!(manager("", &"ü".repeat(100)), "ü".repeat(64));
    assert_eq!(manager("", ""), "");
}
