//! Patterns of schemas: Go's regular expressions, by a matcher that follows every way.
//!
//! ```text
//! bytes ─┬─ as text ──▶ pattern of a definition ──▶ refused │ the same answer twice
//!        └─ drawn ──▶ pattern and a tree ──▶ accepted; a text fits if the matcher of the tree says so
//! ```
//!
//! Upstream: `regexp` of Go, by `kube-openapi:pkg/validation/validate`.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, DEFINITIONS, JSON, Once, THINGS, definition, thing};
use crate::shape::Shape;

/// Pieces of patterns.
pub const WORDS: &[&[u8]] = &[
    b"^",
    b"$",
    b".",
    b"*",
    b"+",
    b"?",
    b"*?",
    b"{2}",
    b"{1,3}",
    b"{,2}",
    b"{1000}",
    b"(",
    b")",
    b"(?:",
    b"(?i)",
    b"(?P<n>",
    b"|",
    b"[",
    b"]",
    b"[^",
    b"a-z",
    b"[[:alpha:]]",
    b"\\d",
    b"\\w",
    b"\\b",
    b"\\pL",
    b"\\p{Greek}",
    b"\\x41",
    b"\\Q",
    b"\\E",
    b"\\z",
    b"\\A",
    b"\\C",
    b"(?=a)",
    b"(?<n>a)",
    b"\\1",
    b"(?s)",
    b"\xc3\xa9",
    b"&&",
    b"[a&&b]",
    b"\\K",
    b"\\R",
];

const MERGE: &str = "application/merge-patch+json";
const TEXTS: [&str; 10] = [
    "", "a", "b", "ab", "aab", "a\nb", "ba1", "é", "abcabc", "]-^",
];

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as a pattern.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| cluster.serve_things(&schema("")));
        match bytes.first() {
            Some(b' '..=b'~') => of_text(cluster, &String::from_utf8_lossy(bytes)),
            _ => drawn(cluster, &mut Draw::new(bytes)),
        }
    })
}

/// One member for each of the texts, all with the pattern.
fn schema(pattern: &str) -> Value {
    let member = json!({"type": "string", "pattern": pattern});
    let members: Map<String, Value> = (0..TEXTS.len())
        .map(|at| (format!("t{at}"), member.clone()))
        .collect();
    json!({"type": "object", "properties": members})
}

fn set(cluster: &Cluster, pattern: &str) -> Option<String> {
    let path = format!("{DEFINITIONS}/things.fuzz.example.com");
    let versions = &definition(&schema(pattern))["spec"]["versions"];
    let (code, reply) = cluster.ask(
        Method::PATCH,
        &path,
        (MERGE, &json!({"spec": {"versions": versions}})),
    );
    assert!(matches!(code, 200 | 422), "{pattern:?}: {code} {reply}");
    (code == 422).then(|| reply["message"].as_str().unwrap_or_default().to_owned())
}

/// The texts that fit the pattern that is set.
fn fitting(cluster: &Cluster) -> Vec<bool> {
    let members: Map<String, Value> = TEXTS
        .iter()
        .enumerate()
        .map(|(at, text)| (format!("t{at}"), Value::from(*text)))
        .collect();
    let object = thing("a", &Value::Object(members));
    let (code, reply) = cluster.ask(
        Method::POST,
        &format!("{THINGS}?dryRun=All"),
        (JSON, &object),
    );
    assert!(matches!(code, 201 | 422), "{code} {reply}");
    let causes = reply["details"]["causes"].as_array();
    let refused = |at: usize| {
        causes.is_some_and(|it| it.iter().any(|it| it["field"] == format!("spec.t{at}")))
    };
    let fits: Vec<bool> = (0..TEXTS.len()).map(|at| !refused(at)).collect();
    assert_eq!(code == 201, fits.iter().all(|it| *it), "{reply}");
    fits
}

fn of_text(cluster: &Cluster, pattern: &str) -> Shape {
    let mut shape = Shape::default();
    shape.form(pattern);
    match set(cluster, pattern) {
        Some(why) => {
            shape.text(why.rsplit_once("error parsing").map_or(&why, |it| it.1));
            assert!(
                !pattern.bytes().all(|it| it.is_ascii_alphanumeric()),
                "{pattern}: {why}"
            );
        }
        None => {
            let fits = fitting(cluster);
            shape.saw(&fits);
            assert_eq!(fits, fitting(cluster), "{pattern:?}");
            if pattern.bytes().all(|it| it.is_ascii_alphanumeric()) {
                let expected: Vec<bool> = TEXTS.iter().map(|it| it.contains(pattern)).collect();
                assert_eq!(fits, expected, "{pattern:?}");
            }
        }
    }
    shape
}

/// A part of a pattern.
#[derive(Debug)]
enum Node {
    Empty,
    /// One letter that the function takes.
    Letter(fn(char) -> bool),
    Start,
    End,
    Both(Box<Node>, Box<Node>),
    Either(Box<Node>, Box<Node>),
    Times(Box<Node>, usize, usize),
}

impl Node {
    /// The ends of the ways from these places on.
    fn ends(&self, text: &[char], from: &BTreeSet<usize>) -> BTreeSet<usize> {
        match self {
            Self::Empty => from.clone(),
            Self::Letter(takes) => {
                let fits = |at: &&usize| text.get(**at).is_some_and(|letter| takes(*letter));
                from.iter().filter(fits).map(|at| at + 1).collect()
            }
            Self::Start => from.iter().copied().filter(|at| *at == 0).collect(),
            Self::End => from
                .iter()
                .copied()
                .filter(|at| *at == text.len())
                .collect(),
            Self::Both(first, second) => second.ends(text, &first.ends(text, from)),
            Self::Either(first, second) => &first.ends(text, from) | &second.ends(text, from),
            Self::Times(inner, least, most) => {
                let (mut here, mut found) = (from.clone(), BTreeSet::new());
                // More rounds than letters lead nowhere new.
                for round in 0..=(*most).min(least + text.len() + 1) {
                    if round >= *least {
                        found.extend(&here);
                    }
                    here = inner.ends(text, &here);
                }
                found
            }
        }
    }

    fn fits(&self, text: &str) -> bool {
        let letters: Vec<char> = text.chars().collect();
        !self
            .ends(&letters, &(0..=letters.len()).collect())
            .is_empty()
    }
}

fn drawn(cluster: &Cluster, draw: &mut Draw<'_>) -> Shape {
    let mut shape = Shape::default();
    let (pattern, node) = node(draw, 4);
    if let Some(why) = set(cluster, &pattern) {
        panic!("{pattern:?}: {why}");
    }
    let expected: Vec<bool> = TEXTS.iter().map(|text| node.fits(text)).collect();
    let fits = fitting(cluster);
    assert_eq!(fits, expected, "{pattern:?} of {TEXTS:?}");
    shape.saw(&fits);
    shape.form(&pattern);
    shape
}

/// A pattern of one letter, and the letters that it takes.
type Letter = (&'static str, fn(char) -> bool);

fn node(draw: &mut Draw<'_>, depth: usize) -> (String, Node) {
    const LETTERS: [Letter; 14] = [
        ("a", |it| it == 'a'),
        ("b", |it| it == 'b'),
        (".", |it| it != '\n'),
        ("[ab]", |it| it == 'a' || it == 'b'),
        ("[^a]", |it| it != 'a'),
        ("\\d", |it| it.is_ascii_digit()),
        ("\\w", |it| it.is_ascii_alphanumeric() || it == '_'),
        ("\\S", |it| !matches!(it, '\t' | '\n' | '\x0c' | '\r' | ' ')),
        ("[]-]", |it| it == ']' || it == '-'),
        ("[[:alpha:]]", |it| it.is_ascii_alphabetic()),
        ("\\pL", char::is_alphabetic),
        ("(?i:A)", |it| it == 'a' || it == 'A'),
        ("(?s:.)", |_| true),
        ("\\x{e9}", |it| it == 'é'),
    ];
    match draw.below(if depth == 0 { 2 } else { 9 }) {
        0 => (String::new(), Node::Empty),
        1 | 2 => {
            let (text, takes) = draw.pick(&LETTERS);
            (text.to_owned(), Node::Letter(takes))
        }
        3 => match draw.below(2) {
            0 => (draw.pick(&["^", "\\A"]).to_owned(), Node::Start),
            _ => (draw.pick(&["$", "\\z"]).to_owned(), Node::End),
        },
        4 | 5 => {
            let ((first, a), (second, b)) = (node(draw, depth - 1), node(draw, depth - 1));
            (
                format!("(?:{first})(?:{second})"),
                Node::Both(Box::new(a), Box::new(b)),
            )
        }
        6 => {
            let ((first, a), (second, b)) = (node(draw, depth - 1), node(draw, depth - 1));
            (
                format!("({first}|{second})"),
                Node::Either(Box::new(a), Box::new(b)),
            )
        }
        _ => {
            let (inner, of) = node(draw, depth - 1);
            let times = [
                ("*", 0, usize::MAX),
                ("+", 1, usize::MAX),
                ("?", 0, 1),
                ("{2}", 2, 2),
                ("{1,3}", 1, 3),
                ("{2,}", 2, usize::MAX),
                ("*?", 0, usize::MAX),
            ];
            let (word, least, most) = draw.pick(&times);
            (
                format!("(?:{inner}){word}"),
                Node::Times(Box::new(of), least, most),
            )
        }
    }
}
