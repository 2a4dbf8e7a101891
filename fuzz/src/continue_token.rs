//! Continue tokens: pages make the list, and a forged token leads nowhere else.
//!
//! ```text
//! bytes ──▶ collection, page size ──▶ pages ──▶ the keys of the collection, in order
//!      └──▶ token, forged ──▶ list ──▶ 400 │ 410 │ the keys of that collection from its start on
//! ```
//!
//! Input is a token as text, or choices. A token states a start key: one that climbs (`..`), that is
//! of another collection or cut off must not show what the path of the request does not.
//! Upstream: `apiserver:pkg/storage/continue.go`, where tokens once led into other resources.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, Once, encoded};
use crate::shape::Shape;

/// Pieces of tokens.
pub const WORDS: &[&[u8]] = &[
    b"{\"v\":\"meta.k8s.io/v1\",\"rv\":-1,\"start\":\"/a/m-1\\u0000\"}",
    b"\"rv\":",
    b"\"start\":\"",
    b"..",
    b"/",
    b"\\u0000",
    b"eyJ2IjoibWV0YS5rOHMuaW8vdjEi",
    b"=",
    b"-",
    b"_",
    b"null",
    b"0",
    b"-1",
    b"a/",
    b"b/",
];

/// Names that sort in another order than they are numbered.
const NAMES: [&str; 7] = ["m-1", "m-10", "m-2", "m.x", "n", "m-3", "zz"];
const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as a token.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| asked(server.get(stock), bytes))
}

fn stock(cluster: &Cluster) {
    for namespace in NAMESPACES {
        cluster.create(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        );
        for name in NAMES {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            cluster.create(
                &path,
                &json!({"metadata": {"name": name}, "data": {"of": namespace}}),
            );
            // What a token must never lead to.
            let path = format!("/api/v1/namespaces/{namespace}/secrets");
            cluster.create(&path, &json!({"metadata": {"name": name}}));
        }
    }
}

fn asked(cluster: &Cluster, bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let mut draw = Draw::new(bytes);
    let namespace = draw.pick(&[None, Some("a"), Some("b"), Some("a-b"), Some("none")]);
    let path = match namespace {
        None => "/api/v1/configmaps".to_owned(),
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/configmaps"),
    };
    let all = keys(&cluster.get(&path).1);
    shape.saw(all.len());
    let limit = 1 + draw.below(9);
    let token = pages(cluster, (&path, limit), &all);
    let forged = match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with('{') => URL_SAFE_NO_PAD.encode(text),
        Ok(text) if text.len() > 20 => text.to_owned(),
        _ => forged(&mut draw, &token),
    };
    follows(cluster, (&path, namespace), (&forged, &all), &mut shape);
    shape
}

/// Reads all pages; returns a token of one of them.
fn pages(cluster: &Cluster, (path, limit): (&str, usize), all: &[String]) -> String {
    let (mut read, mut token, mut first) = (Vec::new(), String::new(), String::new());
    loop {
        let (code, page) = cluster.get(&format!("{path}?limit={limit}&continue={token}"));
        assert_eq!(code, 200, "{page}");
        let items = keys(&page);
        assert!(
            items.len() <= limit && (!items.is_empty() || all.is_empty()),
            "a page makes progress"
        );
        read.extend(items);
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if first.is_empty() {
            first.clone_from(&token);
        }
        if token.is_empty() {
            break;
        }
        let left = page["metadata"]["remainingItemCount"].as_u64();
        assert_eq!(left, Some((all.len() - read.len()) as u64), "{page}");
    }
    assert_eq!(read, all, "pages of {limit}");
    first
}

fn keys(list: &Value) -> Vec<String> {
    let key = |item: &Value| {
        let text = |name: &str| {
            item["metadata"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        assert!(
            item.get("data").is_some() && text("uid").len() > 8,
            "a config map: {item}"
        );
        format!("{}/{}", text("namespace"), text("name"))
    };
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(key)
        .collect()
}

/// A token that a client made or changed.
fn forged(draw: &mut Draw<'_>, token: &str) -> String {
    if draw.one_in(4) && !token.is_empty() {
        let mut bytes = token.as_bytes().to_vec();
        let at = draw.below(bytes.len());
        match draw.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = draw.pick(b"Aa0_-=+/"),
            _ => bytes.extend(draw.pick(&[&b"="[..], b"A", b"AA", b"=="])),
        }
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let version = draw.pick(&["meta.k8s.io/v1", "meta.k8s.io/v1", "meta.k8s.io/v2", ""]);
    let revision = draw.pick(&[-1, -1, 1, 0, -2, i64::MAX, i64::MIN, 9_999_999]);
    let mut start = draw.pick(&["/", "", "//", "/../"]).to_owned();
    for _ in 0..draw.below(4) {
        start.push_str(draw.pick(&[
            "a",
            "b",
            "a-b",
            "m-1",
            "m-2",
            "..",
            ".",
            "/",
            "\0",
            "\u{10ffff}",
            "zz",
            "secrets",
        ]));
        start.push_str(draw.pick(&["", "/"]));
    }
    URL_SAFE_NO_PAD.encode(json!({"v": version, "rv": revision, "start": start}).to_string())
}

/// Asserts that a token is refused, or continues the list of its path.
fn follows(
    cluster: &Cluster,
    (path, namespace): (&str, Option<&str>),
    (token, all): (&str, &[String]),
    shape: &mut Shape,
) {
    // BOUND: the length of a URL, in the client that asks.
    if token.len() > 16 << 10 {
        return;
    }
    let query = encoded(token);
    let (code, list) = cluster.get(&format!("{path}?continue={query}"));
    shape.saw(code);
    shape.form(&stated(token).unwrap_or_default().1);
    shape.text(list["message"].as_str().unwrap_or_default());
    if code != 200 {
        assert!(matches!(code, 400 | 410 | 504), "{token}: {list}");
        assert_eq!(list["code"], code);
        return;
    }
    let found = keys(&list);
    shape.saw(found.len());
    let Some((revision, start)) = stated(token) else {
        assert!(token.is_empty(), "{token} is no token, and was taken");
        return;
    };
    let range = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    let is_behind = |key: &&String| {
        let key = key.strip_prefix(&range);
        key.is_some_and(|key| key >= start.as_str())
    };
    let expected: Vec<&String> = all.iter().filter(is_behind).collect();
    if revision == -1 {
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            expected,
            "from {start:?} on"
        );
    } else {
        // Of an earlier version, some of them.
        assert!(
            found.iter().all(|key| expected.contains(&key)),
            "{found:?} from {start:?} on"
        );
    }
}

/// The version and the start that a token states, without slashes before it.
fn stated(token: &str) -> Option<(i64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let token: Value = serde_json::from_slice(&bytes).ok()?;
    (token["v"] == "meta.k8s.io/v1").then_some(())?;
    let start = token["start"].as_str()?.trim_start_matches('/');
    let climbs = start.split('/').any(|part| part == ".." || part == ".");
    (!climbs && !start.is_empty()).then(|| (token["rv"].as_i64().unwrap_or(-2), start.to_owned()))
}
