//! The page: one file with its script and its style, and the policy that allows nothing else.
//!
//! ```text
//! page.html ─▶ digests of <script> and <style> ─▶ Content-Security-Policy
//! ```
//!
//! It has no data of the program, and so needs no token. BOUND: 60 KB, by a test.
//!
//! Upstream counterpart: none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::reply::Reply;
use super::sight::sha256;
use crate::serve::Body;

const PAGE: &str = include_str!("page.html");

/// The page.
pub(super) fn reply() -> Reply {
    let mut reply = Response::new(Body::Whole(Bytes::from_static(PAGE.as_bytes())));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, html);
    reply
}

/// The policy: this script, this style, requests to this origin.
pub(super) fn policy() -> HeaderValue {
    let (script, style) = (digest("script"), digest("style"));
    let policy = format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    // Without a policy nothing would be forbidden: this one is made of ASCII.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// The digest of the text in an element, of which there is one.
fn digest(element: &str) -> String {
    let text = inside(element).unwrap_or_default();
    format!("sha256-{}", STANDARD.encode(sha256(text.as_bytes())))
}

fn inside(element: &str) -> Option<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("<{element}>"))?;
    rest.split_once(&format!("</{element}>"))
        .map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_has_one_script_and_one_style() {
        assert!(PAGE.len() <= 60_000, "{}", PAGE.len());
        for element in ["<script", "</script", "<style", "</style"] {
            assert_eq!(PAGE.matches(element).count(), 1, "{element}");
        }
        assert!(inside("script").is_some() && inside("style").is_some());
    }

    #[test]
    fn the_script_makes_no_html_of_text_and_knows_no_other_origin() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
            "cookie",
            "localStorage",
            "http:",
            "https:",
            "//cdn",
            " style=\"",
            " onclick=",
            "import(",
        ] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }

    #[test]
    fn the_policy_is_that_of_the_page() {
        let policy = policy();
        let policy = policy.to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'sha256-"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
