//! Rules in CEL: a second evaluator, the same answer twice, and no rule that costs more than allowed.
//!
//! ```text
//! bytes ─┬─ as text ──▶ rule of a definition ──▶ refused │ two creates with the same answer
//!        └─ drawn ──▶ typed expression and its value ──▶ accepted; true: 201, false: 422, error: 422
//! ```
//!
//! The drawn part: booleans, whole numbers with their overflows, texts, lists, macros and the order
//! in which `&&` and `||` forgive errors. The driver bounds the time of an input.
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel`.

use http::Method;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, DEFINITIONS, JSON, Once, THINGS, definition, thing};
use crate::shape::Shape;

/// Pieces of rules.
pub const WORDS: &[&[u8]] = &[
    b"self.i",
    b"self.s",
    b"self.l",
    b"self.m",
    b"oldSelf",
    b"size(",
    b")",
    b".all(x, ",
    b".exists(x, x == 1)",
    b".map(x, x + 1)",
    b".filter(x, x > 0)",
    b".matches('",
    b"')",
    b" && ",
    b" || ",
    b"!",
    b" == ",
    b" in ",
    b"has(",
    b" ? ",
    b" : ",
    b"1",
    b"9223372036854775807",
    b"1.5",
    b"1u",
    b"'a'",
    b"b'a'",
    b"[1, 2]",
    b"{'a': 1}",
    b"null",
    b"duration('1h')",
    b"timestamp('2020-01-01T00:00:00Z')",
    b"int(",
    b"string(",
    b"dyn(",
    b"type(",
    b"quantity('1Ki')",
    b".split(',')",
    b".join()",
    b".replace('a', 'aa')",
    b"url('http://a')",
    b".find('a')",
    b"isSorted()",
    b"cel.bind(x, ",
];

const MERGE: &str = "application/merge-patch+json";

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// A part of an expression: its text, and its value or that its evaluation fails.
type Part<T> = (String, Result<T, Failed>);

/// An evaluation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

/// The object of a rule.
#[derive(Debug)]
struct Facts {
    i: i64,
    j: i64,
    s: &'static str,
    l: Vec<i64>,
}

/// Reads the bytes as a rule.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| cluster.serve_things(&schema("true")));
        match bytes.first() {
            Some(b' '..=b'~') => of_text(cluster, &String::from_utf8_lossy(bytes)),
            _ => drawn(cluster, &mut Draw::new(bytes)),
        }
    })
}

fn schema(rule: &str) -> Value {
    json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "it does not hold"}],
        "properties": {"i": {"type": "integer"}, "j": {"type": "integer"},
            "s": {"type": "string", "maxLength": 20},
            "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
            "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 9}}}})
}

/// Sets a rule; returns the refusal if there is one.
fn set(cluster: &Cluster, rule: &str) -> Option<String> {
    let path = format!("{DEFINITIONS}/things.fuzz.example.com");
    let versions = &definition(&schema(rule))["spec"]["versions"];
    let (code, reply) = cluster.ask(
        Method::PATCH,
        &path,
        (MERGE, &json!({"spec": {"versions": versions}})),
    );
    assert!(matches!(code, 200 | 422), "{rule:?}: {code} {reply}");
    (code == 422).then(|| reply["message"].as_str().unwrap_or_default().to_owned())
}

/// Creates a thing twice; both times the answer is the same.
fn create(cluster: &Cluster, (rule, spec): (&str, &Value)) -> (u16, String) {
    let ask = || {
        let (code, reply) = cluster.ask(
            Method::POST,
            &format!("{THINGS}?dryRun=All"),
            (JSON, &thing("a", spec)),
        );
        (
            code,
            reply["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (first, second) = (ask(), ask());
    assert_eq!(first, second, "{rule:?} of {spec}");
    assert!(matches!(first.0, 201 | 422), "{rule:?}: {first:?}");
    first
}

fn of_text(cluster: &Cluster, rule: &str) -> Shape {
    let mut shape = Shape::default();
    shape.form(rule);
    if let Some(why) = set(cluster, rule) {
        shape.text(&why);
        return shape;
    }
    for spec in [
        json!({"i": 3, "j": -1, "s": "a,b", "l": [1, 2, 3], "m": {"a": "b", "c": ""}}),
        json!({"i": i64::MIN, "j": i64::MAX, "s": "", "l": [], "m": {}}),
        json!({}),
    ] {
        let (code, why) = create(cluster, (rule, &spec));
        shape.saw(code);
        shape.text(&why);
    }
    shape
}

fn drawn(cluster: &Cluster, draw: &mut Draw<'_>) -> Shape {
    let mut shape = Shape::default();
    let numbers = [0, 1, -1, 7, i64::MAX, i64::MIN];
    let length = draw.below(4);
    let facts = Facts {
        i: draw.pick(&numbers),
        j: draw.pick(&numbers),
        s: draw.pick(&["", "x", "xy", "é\u{1f980}"]),
        l: (0..length)
            .map(|_| draw.pick(&[0, 1, 2, i64::MAX]))
            .collect(),
    };
    let (rule, value) = boolean(draw, (&facts, 4));
    if let Some(why) = set(cluster, &rule) {
        panic!("{rule}: {why}");
    }
    let spec = json!({"i": facts.i, "j": facts.j, "s": facts.s, "l": facts.l});
    let (code, why) = create(cluster, (&rule, &spec));
    shape.form(&rule);
    shape.saw((code, value.is_ok()));
    match value {
        Ok(true) => assert_eq!(code, 201, "{rule} of {spec}: {why}"),
        Ok(false) => assert!(
            code == 422 && !why.contains("evaluating rule"),
            "{rule} of {spec}: {code} {why}"
        ),
        Err(Failed) => assert!(
            code == 422 && why.contains("evaluating rule"),
            "{rule} of {spec}: {code} {why}"
        ),
    }
    shape
}

fn boolean(draw: &mut Draw<'_>, (facts, depth): (&Facts, usize)) -> Part<bool> {
    let less = (facts, depth.saturating_sub(1));
    match draw.below(if depth == 0 { 2 } else { 12 }) {
        0 => ("true".to_owned(), Ok(true)),
        1 => ("false".to_owned(), Ok(false)),
        kind @ (2 | 3) => {
            let ((left, a), (right, b)) = (boolean(draw, less), boolean(draw, less));
            // Either side may decide, whatever the other one does.
            let (word, decides) = if kind == 2 {
                ("&&", false)
            } else {
                ("||", true)
            };
            let value = match (a, b) {
                (Ok(a), _) if a == decides => Ok(decides),
                (_, Ok(b)) if b == decides => Ok(decides),
                (Ok(_), Ok(_)) => Ok(!decides),
                _ => Err(Failed),
            };
            (format!("({left} {word} {right})"), value)
        }
        4 => {
            let (text, value) = boolean(draw, less);
            (format!("!({text})"), value.map(|it| !it))
        }
        5 | 6 => {
            let ((left, a), (right, b)) = (whole(draw, less), whole(draw, less));
            let word = draw.pick(&["==", "!=", "<", "<=", ">", ">="]);
            let value = a.and_then(|a| b.map(|b| compared(word, &a, &b)));
            (format!("({left} {word} {right})"), value)
        }
        7 => {
            let ((left, a), (right, b)) = (text(draw, less), text(draw, less));
            let (form, value): (_, fn(&str, &str) -> bool) = match draw.below(4) {
                0 => (format!("({left} == {right})"), |a, b| a == b),
                1 => (format!("({left}).startsWith({right})"), |a, b| {
                    a.starts_with(b)
                }),
                2 => (format!("({left}).contains({right})"), |a, b| a.contains(b)),
                _ => (format!("({left} < {right})"), |a, b| a < b),
            };
            (form, a.and_then(|a| b.map(|b| value(&a, &b))))
        }
        8 => {
            let (condition, decides) = boolean(draw, less);
            let ((left, a), (right, b)) = (boolean(draw, less), boolean(draw, less));
            let value = decides.and_then(|it| if it { a } else { b });
            (format!("({condition} ? {left} : {right})"), value)
        }
        kind => of_members(draw, less, kind),
    }
}

/// A question about the members of the object.
fn of_members(draw: &mut Draw<'_>, less: (&Facts, usize), kind: usize) -> Part<bool> {
    let facts = less.0;
    match kind {
        9 => {
            let (text, value) = whole(draw, less);
            (
                format!("({text} in self.l)"),
                value.map(|it| facts.l.contains(&it)),
            )
        }
        10 => {
            let member = draw.pick(&["i", "s", "m"]);
            (format!("has(self.{member})"), Ok(member != "m"))
        }
        _ => {
            let (word, bound) = (
                draw.pick(&["all", "exists", "exists_one"]),
                draw.pick(&[0, 1, 2]),
            );
            let found = facts.l.iter().filter(|it| **it > bound).count();
            let value = match word {
                "all" => found == facts.l.len(),
                "exists" => found > 0,
                _ => found == 1,
            };
            (format!("self.l.{word}(x, x > {bound})"), Ok(value))
        }
    }
}

fn compared<T: PartialOrd>(word: &str, a: &T, b: &T) -> bool {
    match word {
        "==" => a == b,
        "!=" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        _ => a >= b,
    }
}

fn whole(draw: &mut Draw<'_>, (facts, depth): (&Facts, usize)) -> Part<i64> {
    let less = (facts, depth.saturating_sub(1));
    match draw.below(if depth == 0 { 5 } else { 11 }) {
        0 => {
            let number = draw.pick(&[0, 1, 2, 3, i64::MAX]);
            (number.to_string(), Ok(number))
        }
        1 => ("self.i".to_owned(), Ok(facts.i)),
        2 => ("self.j".to_owned(), Ok(facts.j)),
        3 => ("size(self.l)".to_owned(), Ok(facts.l.len() as i64)),
        4 => ("(-1)".to_owned(), Ok(-1)),
        5 => {
            let (text, value) = text(draw, less);
            (
                format!("size({text})"),
                value.map(|it| it.chars().count() as i64),
            )
        }
        6 => {
            let at = draw.below(4);
            (
                format!("self.l[{at}]"),
                facts.l.get(at).copied().ok_or(Failed),
            )
        }
        kind => {
            let ((left, a), (right, b)) = (whole(draw, less), whole(draw, less));
            let (word, value): (_, fn(i64, i64) -> Option<i64>) = match (kind, draw.below(2)) {
                (7, _) => ("+", i64::checked_add),
                (8, _) => ("-", i64::checked_sub),
                (9, _) => ("*", i64::checked_mul),
                (_, 0) => ("/", i64::checked_div),
                _ => ("%", i64::checked_rem),
            };
            let value = a.and_then(|a| b.and_then(|b| value(a, b).ok_or(Failed)));
            (format!("({left} {word} {right})"), value)
        }
    }
}

fn text(draw: &mut Draw<'_>, (facts, depth): (&Facts, usize)) -> Part<String> {
    let less = (facts, depth.saturating_sub(1));
    match draw.below(if depth == 0 { 2 } else { 4 }) {
        0 => {
            let text = draw.pick(&["", "x", "é", "\\n"]);
            (format!("'{text}'"), Ok(text.replace("\\n", "\n")))
        }
        1 => ("self.s".to_owned(), Ok(facts.s.to_owned())),
        2 => {
            let ((left, a), (right, b)) = (text(draw, less), text(draw, less));
            (
                format!("({left} + {right})"),
                a.and_then(|a| b.map(|b| a + &b)),
            )
        }
        _ => {
            let (text, value) = whole(draw, less);
            (format!("string({text})"), value.map(|it| it.to_string()))
        }
    }
}
