//! Paths and the values that they lead to.

use serde_json::json;

use super::parse::MAX_STEPS;
use super::*;

// client-go: util/jsonpath; the values are what a real server showed for such columns
#[test]
fn paths_lead_where_upstreams_lead() {
    let object = json!({
        "metadata": {"labels": {"a.b/c": "lab"}},
        "spec": {"i": 5, "n": 7, "list": [
            {"name": "a", "v": 1}, {"name": "b", "v": "two"}, {"name": "c", "v": null, "deep": "x"},
        ]},
    });
    for (path, expected) in [
        (".spec.i", Some(json!(5))),
        ("{.spec.i}", Some(json!(5))),
        ("$.spec.i", Some(json!(5))),
        (".spec.list[*].name", Some(json!("a"))),
        (".spec.list[?(@.name==\"b\")].v", Some(json!("two"))),
        (".spec.list[?(@.name == 'b')].v", Some(json!("two"))),
        (".spec.list[?(@.name!=\"a\")].name", Some(json!("b"))),
        (".spec.list[?(@.v>=1)].name", Some(json!("a"))),
        (".spec.list[?(@.deep)].name", Some(json!("c"))),
        (".spec.list[?(@.name==\"]\")].v", None),
        (".spec.list[1:].name", Some(json!("b"))),
        (".spec.list[0:2].v", Some(json!(1))),
        (".spec.list[::2].name", Some(json!("a"))),
        (".spec.list[-1].name", Some(json!("c"))),
        (".spec.list[-9].name", None),
        (".spec.list[9].name", None),
        (".metadata.labels.a\\.b/c", Some(json!("lab"))),
        (".metadata.labels['a\\.b/c']", Some(json!("lab"))),
        (".metadata.labels[\"a.b/c\"]", Some(json!("lab"))),
        ("..deep", Some(json!("x"))),
        ("..list[1].name", Some(json!("b"))),
        (".spec['i','n']", Some(json!(5))),
        ("['spec.i']", Some(json!(5))),
        ("['spec..i']", None),
        ("['nope.i','spec.n']", Some(json!(7))),
        (".spec.list[2,0].name", Some(json!("c"))),
        (".spec.*", Some(json!(5))),
        (".spec.nope", None),
        (".spec.list[x]", None),
        (".spec.list[0", None),
        (".spec.list[::0]", None),
        (".spec..", None),
        (".", None),
        ("spec.i", None),
        (".spec.list[?(@.x==)]", None),
        (".spec.list[?@.x]", None),
    ] {
        let read = path.parse::<JsonPath>().ok();
        let found = read.and_then(|path| path.first(&object).cloned());
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn what_a_path_may_find_is_bounded() {
    let wide = Value::from(vec![json!([1]); 50_000]);
    assert!(
        find(&steps("..*..*..*", Reach::Anywhere).unwrap(), &wide).len() <= 2 * MAX_FOUND + 50_000
    );
    assert!(".a".repeat(MAX_STEPS + 1).parse::<JsonPath>().is_err());
    let nested = format!(".a{}.a{}", "[?(@".repeat(5000), ")]".repeat(5000));
    for text in [
        nested.as_str(),
        ".[?(@..a)]",
        "[",
        "[?",
        "[?(",
        "['",
        "[']",
        "..",
        "...",
        "[]",
        ".\\",
        "[?()]",
        "[,]",
    ] {
        let read = text.parse::<JsonPath>().ok();
        assert_eq!(read.and_then(|path| path.first(&wide)), None, "{text}");
    }
}

// client-go: util/jsonpath, evalArray and evalFilter
#[test]
fn a_path_out_of_a_list_is_an_error_and_a_missing_member_is_not() {
    let object = json!({"list": [{"a": 1}, {"a": 2}], "text": "x", "nil": null});
    for (path, expected) in [
        ("{.list[*].a}", Ok(2)),
        ("{@.list[-1].a}", Ok(1)),
        ("{.nope.a}", Ok(0)),
        ("{.nope[0]}", Ok(0)),
        ("{.nil[0]}", Ok(0)),
        (
            "{.list[2]}",
            Err("array index out of bounds: index 2, length 2"),
        ),
        (
            "{.list[0,-3]}",
            Err("array index out of bounds: index -3, length 2"),
        ),
        ("{.text[0]}", Err("a value that is no list has no items")),
        (
            "{.text[?(@.a)]}",
            Err("a value that is no list has no items"),
        ),
    ] {
        let found = path
            .parse::<JsonPath>()
            .unwrap()
            .find(&object)
            .map(|it| it.len());
        let expected = expected.map_err(|it: &str| JsonPathError(it.to_owned()));
        assert_eq!(found, expected, "{path}");
    }
    let many = json!({"items": vec![json!(1); MAX_FOUND + 5]});
    let all: JsonPath = "{.items[*]}".parse().unwrap();
    assert_eq!(all.find(&many).unwrap().len(), MAX_FOUND + 5);
    assert!(
        "{.list[}"
            .parse::<JsonPath>()
            .unwrap_err()
            .to_string()
            .contains(".list[")
    );
}

#[test]
fn a_union_finds_no_more_than_the_bound() {
    let many = json!({"l": vec![json!({"a": 1}); MAX_FOUND]});
    let union = ["'a'"; 20].join(",");
    let path: JsonPath = format!("{{.l[*][{union}]}}").parse().unwrap();
    assert_eq!(find(&path.0, &many).len(), MAX_FOUND);
    assert_eq!(path.find(&many).unwrap().len(), 20 * MAX_FOUND);
}
