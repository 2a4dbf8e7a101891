//! The length of functions: from `fn` to the closing brace, at most 70 lines.
//!
//! ```text
//! code without tests ──▶ fn name(..) { .. } of more than 70 lines ──▶ counted by crate
//! ```
//!
//! Comments and blank lines count. A function inside of another counts for both.

use super::ceilings::Counted;
use super::finding::Finding;
use crate::text::source::{Source, is_ident, words};

const RULE: &str = "function";
// BOUND: the house's limit, in lines.
const LINES_MAX: usize = 70;

/// Checks one source that is no test, of an area.
pub(crate) fn check(source: &Source<'_>, area: &str) -> Vec<Counted> {
    let code = source.production();
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let Some((name, end)) = function(code, at) else {
            continue;
        };
        let lines = 1 + code[at..end].matches('\n').count();
        if lines > LINES_MAX {
            let finding = Finding {
                path: source.path.to_owned(),
                line: source.line(at),
                rule: RULE,
                message: format!("{name} has {lines} lines, at most {LINES_MAX}"),
            };
            found.push(Counted::new(format!("{RULE}.{area}"), finding));
        }
    }
    found
}

/// The name and the end of a function with a body, by the offset of its `fn`.
fn function(code: &str, at: usize) -> Option<(&str, usize)> {
    let rest = code[at + 2..].trim_start();
    let name = &rest[..rest.bytes().position(|b| !is_ident(b))?];
    if name.is_empty() {
        return None; // a type
    }
    let mut depth = 0_usize;
    let mut has_body = false;
    for (index, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => (has_body, depth) = (true, 1),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if has_body && depth == 0 {
            return Some((name, index));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    #[track_caller]
    fn check_code(code: &str, expected: &[&str]) {
        let file = File {
            path: "crates/x/src/a.rs".to_owned(),
            text: code.to_owned(),
        };
        let found = check(&Source::new(&file), "x").into_iter();
        let found: Vec<String> = found.map(|c| c.finding.message).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_function_has_seventy_lines_at_most() {
        let lines = |count: usize| "\n".repeat(count - 1);
        check_code(&format!("fn a(x: [u8; 2]) {{{}}}", lines(70)), &[]);
        check_code(
            &format!("fn a(x: [u8; 2]) {{{}}}", lines(71)),
            &["a has 71 lines, at most 70"],
        );
        check_code(
            &format!("fn a(\n) {{ b() {{ }}{}}}", lines(70)),
            &["a has 71 lines, at most 70"],
        );
        check_code(
            &format!(
                "trait A {{ fn a(); {} }} type B = fn(u8);{}",
                lines(90),
                lines(90)
            ),
            &[],
        );
        check_code(
            &format!("#[cfg(test)] mod tests {{ fn a() {{{}}} }}", lines(90)),
            &[],
        );
    }
}
