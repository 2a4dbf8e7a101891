//! Regular expressions in Go's syntax.
//!
//! ```text
//! pattern ──parse──▶ Hir ──▶ Regex          an error of the syntax, in Go's words
//! ```
//!
//! * `parse.rs`: operators, groups, flags, repetitions, escapes;
//! * `class.rs`: character classes; `unicode.rs`: the names of Unicode classes.
//!
//! The syntax is RE2's with Perl's flags. It differs from the one of the `regex` crate: `\d`,
//! `\s`, `\w` and `\b` mean ASCII, a class knows no set operators, `{` may be a literal, and a
//! repetition has at most 1,000 copies. So no pattern is handed to that crate as text.
//!
//! A program runs in linear time.
//!
//! BOUND: 64 KiB of pattern, 2 MiB of program, 256 levels, 262,144 ranges in classes.
//!
//! Upstream: `go:regexp/syntax`.

mod class;
mod parse;
#[cfg(test)]
mod tests;
mod unicode;

use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::WhichCaptures;

/// The error message for a pattern beyond a bound.
pub(crate) const TOO_LARGE: &str = "expression too large";
/// BOUND: the length of a pattern. A longer literal exceeds the size of a program.
const MAX_PATTERN: usize = 64 << 10;
/// BOUND: the size of a program.
pub(crate) const MAX_PROGRAM: usize = 2 << 20;

/// Compiles a pattern, or returns the error in Go's words.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(too_large(pattern));
    }
    let tree = parse::parse(pattern)?;
    let config = Regex::config()
        .nfa_size_limit(Some(MAX_PROGRAM))
        .which_captures(WhichCaptures::Implicit);
    let built = Regex::builder().configure(config).build_from_hir(&tree);
    // A program has one error: its size.
    built.map_err(|_| too_large(pattern))
}

/// Returns the error of a pattern beyond a bound.
pub(crate) fn too_large(pattern: &str) -> String {
    error(TOO_LARGE, pattern)
}

/// Formats an error as Go does.
fn error(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}
