//! Objects whose texts are HTML, scripts, and characters that a page must not obey; and one that
//! cannot be read.
//!
//! ```text
//! 20 texts × 10 ─▶ 200 widgets: name, labels, annotations, values, owners
//! ```
//!
//! A server validates names; a cache does not, and shows what it got. Each text that would run calls
//! `alert(1)`, so that a browser tells.

use serde_json::{Value, json};

/// The namespace of all of them.
pub(super) const NAMESPACE: &str = "hostile";
/// The number of objects.
const OBJECTS: usize = 200;

/// An event whose object has an invalid number at `spec.size`.
pub(super) const POISON: &str = concat!(
    r#"{"type":"ADDED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":"#,
    r#"{"name":"poisoned","namespace":"default","uid":"p","resourceVersion":"9"},"#,
    r#""spec":{"colour":"green","size":1.2.3}}}"#,
    "\n"
);

/// Texts that a page has to show as they are, or as escapes.
const TEXTS: [&str; 20] = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><svg onload=alert(1)>",
    "\"><iframe src=javascript:alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "<a href=\"javascript:alert(1)\" id=\"main\">main</a>",
    "<base href=//evil.example.com>",
    "<meta http-equiv=refresh content=0;url=//evil.example.com>",
    "&lt;b&gt;&amp;&#x3c;i&#x3e;",
    "${alert(1)} {{alert(1)}} `alert(1)`",
    "__proto__ constructor toString",
    "\u{202e}txt.exe\u{202c} \u{2066}reversed\u{2069}",
    "\u{7}bell\u{8}back\u{1b}[31mred\u{0}null",
    "zero\u{200b}width\u{200d}joined\u{feff}mark",
    "line\nbreak\r\ncarriage\ttab\u{2028}separator",
    "\n\ndata: {\"problems\":[]}\n\nevent: forged",
    "../../etc/passwd?q=1&cache=secrets#token=x",
    "\u{1f980}\u{301}\u{301}\u{301} very-long-without-a-space-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

/// The objects.
pub(super) fn objects() -> Vec<Value> {
    let object = |number: usize| {
        let text = TEXTS[number % TEXTS.len()];
        // A name with a slash is no name, and its object is quarantined.
        let name = text.replace('/', "\u{2215}");
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {
                "name": format!("{name}#{number}"), "namespace": NAMESPACE,
                "uid": format!("hostile-{number}"), "resourceVersion": "0",
                "labels": {text: text, "number": number.to_string()},
                "annotations": {text: text},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": text, "name": text, "uid": "o", "controller": true,
                }],
            },
            "spec": {"text": text, "list": [text], text: {"deep": text}},
        })
    };
    (0..OBJECTS).map(object).collect()
}
