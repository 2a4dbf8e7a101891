//! The deserializer drives visitors exactly as serde_json does.
//!
//! ```text
//! text ─▶ read::<K> = serde_json::from_str::<K> of the same with apiVersion and kind in front
//! ```

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

fn meta() -> TypeMeta {
    TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
    }
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Thing {
    api_version: String,
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    list: Vec<Small>,
    #[serde(default)]
    map: BTreeMap<String, i64>,
    #[serde(default)]
    float: Option<f64>,
    #[serde(default)]
    choice: Option<Choice>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Small {
    number: i32,
    on: Option<bool>,
}

#[derive(Debug, Deserialize, PartialEq)]
enum Choice {
    One,
    Two { a: u8 },
}

/// The result of serde_json for the same text.
fn by_serde<K: DeserializeOwned>(text: &str) -> Option<K> {
    let inside = &text.trim_start()[1..];
    let comma = if inside.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    let text = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Thing\"{comma}{inside}");
    serde_json::from_str(&text).ok()
}

#[test]
fn a_type_gets_what_serde_json_gives_it() {
    for text in [
        "{}",
        " { } ",
        r#"{"text":"a","list":[{"number":1,"on":true},{"number":-2}],"map":{"x":7}}"#,
        r#"{ "text" : "ä\n\u00e9\ud83d\ude00\"" , "list" : [ ] , "float" : 1.5e3 }"#,
        r#"{"text":null,"float":7,"choice":"One","unknown":{"deep":[[1,[2]],{"a":"]"}]}}"#,
        r#"{"choice":{"Two":{"a":255}}}"#,
        r#"{"choice":{"Two":{"a":256}}}"#,
        r#"{"choice":"Three"}"#,
        r#"{"choice":{"Two":{"a":1}},"text":"after"}"#,
        r#"{"choice":{"Two":{"a":1},"One":null},"text":"after"}"#,
        r#"{"choice":{"One":null},"text":"after"}"#,
        r#"{"choice":{},"text":"after"}"#,
        r#"{"text":5}"#,
        r#"{"list":{"number":1}}"#,
        r#"{"list":[{"number":1.5}]}"#,
        r#"{"list":[{"number":99999999999}]}"#,
        r#"{"float":-0,"map":{"\u0061":-9223372036854775808}}"#,
        r#"{"text":"a","text":"b"}"#,
        "{\"text\" \n:\t\"a\" ,\r\"list\": [ {\"number\" :0 } ] }",
        r#"{"te\u0078t":"a","on":[{"x":[1,2]},3],"list":[{"number":-0}]}"#,
        r#"{"map":{"a":999999999999999999,"b":-999999999999999999,"c":9223372036854775807}}"#,
        r#"{"map":{"a":1000000000000000000,"b":0}}"#,
        r#"{"map":{"a":9223372036854775808}}"#,
        r#"{"map":{"a":1e3}}"#,
        r#"{"float":12.0,"list":[{"number":1,"on":null},{"number":2,"on":false}]}"#,
        r#"{"list":"1"}"#,
        r#"{"list":[{"number":true}]}"#,
        r#"{"list":[{"number":1,"on":"true"}]}"#,
        r#"{"list":[[1,true],{"number":2}],"text":"after"}"#,
        r#"{"list":[[1,true,3]]}"#,
        r#"{"list":[[1]]}"#,
        r#"{"map":[]}"#,
        r#"{"text":["a"],"float":"1"}"#,
    ] {
        let ours = read::<Thing>(text.as_bytes(), &meta()).ok();
        assert_eq!(ours, by_serde(text), "{text}");
    }
    let lone = read::<Thing>(br#"{"text":"\ud800"}"#, &meta()).unwrap();
    assert_eq!(lone.text.as_deref(), Some("\u{fffd}"));
}

#[test]
fn lists_are_as_large_as_what_is_in_them() {
    let five = json!({"list": (0..5).map(|number| json!({"number": number})).collect::<Vec<_>>()});
    let thing: Thing = read(five.to_string().as_bytes(), &meta()).unwrap();
    assert_eq!((thing.list.len(), thing.list.capacity()), (5, 5));
}

#[test]
fn what_breaks_off_is_refused() {
    let text = r#"{"text":"aä","list":[{"number":1}],"map":{"x":[1]},"float":1}"#;
    for end in 0..text.len() {
        assert!(
            read::<Value>(&text.as_bytes()[..end], &meta()).is_err(),
            "{end}"
        );
    }
    for text in [
        "[]",
        "1",
        "",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
    ] {
        assert!(read::<Value>(text.as_bytes(), &meta()).is_err(), "{text}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<u32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        "\\PC*".prop_map(Value::from),
        "[\"\\\\\n\t/a]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\\\\ä]{0,3}", inner, 0..6)
                .prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_what_serde_json_reads(members in prop::collection::btree_map("[a-z]{1,4}", values(), 0..5)) {
        let value = Value::from_iter(members);
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let ours = read::<Value>(text.as_bytes(), &meta()).unwrap();
            prop_assert_eq!(Some(ours), by_serde::<Value>(&text));
        }
    }
}
