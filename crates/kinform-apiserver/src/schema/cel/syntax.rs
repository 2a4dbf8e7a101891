//! Texts that are parsed as CEL and never evaluated.
//!
//! ```text
//! text ──parse──▶ expression ──a walk of the caller's──▶ value | error, in upstream's words
//! ```
//!
//! Optional syntax is off. The parser expands macros, which upstream turns off for such texts:
//! [`called`] names the macro again. An expression is walked on the thread that parsed it, since it
//! may be too deep for another stack.
//!
//! BOUND: 4 KiB of text, 250 levels of brackets.
//!
//! Upstream: `cel-go:parser/parser.go`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::common::ast::{Expr, IdedExpr, operators};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{ParseError, ParseErrors};

use super::parts::parts;
use super::program::aside;
use super::tokens::{self, Tokens};
use super::types::RESERVED;

/// BOUND: bytes of a text. Upstream allows 100,000 code points; this parser's stack would not.
const MAX_TEXT: usize = 4 << 10;
const MAX_DEPTH: usize = 250;
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "existsOne", "map", "filter"];

/// Parses a text and walks it.
///
/// # Errors
/// The first error of the parser, or that of the walk.
pub(crate) fn read<T: Send>(
    text: &str,
    walk: impl FnOnce(&Expr) -> Result<T, String> + Send,
) -> Result<T, String> {
    let wrong = |what: &str| Err(format!("CEL parse error: {what}"));
    if text.len() > MAX_TEXT {
        let size = text.chars().count();
        return wrong(&format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_TEXT}"
        ));
    }
    if tokens::depth(text) >= MAX_DEPTH {
        return wrong(&format!("expression recursion limit exceeded: {MAX_DEPTH}"));
    }
    let read = aside(|| {
        let depth = u16::try_from(MAX_DEPTH).unwrap_or(u16::MAX);
        let parser = Parser::new().max_recursion_depth(depth);
        let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text)));
        match parsed {
            Ok(Ok(tree)) => match reserved(&tree) {
                Some(name) => wrong(&format!("reserved identifier: {name}")),
                None => walk(&tree.expr),
            },
            Ok(Err(errors)) => wrong(first(&errors, text)),
            Err(_) => wrong("Syntax error"),
        }
    });
    read.unwrap_or_else(|| wrong("the expression could not be parsed"))
}

/// The message of the error that upstream finds first. Its parser has read one token more than the
/// one that it does not expect: if that one is no token at all, this is said first.
fn first<'a>(errors: &'a ParseErrors, text: &str) -> &'a str {
    const NO_TOKEN: &str = "Syntax error: token recognition error";
    let is_syntax = |error: &&ParseError| error.msg.starts_with("Syntax error: ");
    // Others are of the tree that was made in spite of these.
    let first = errors.errors.iter().find(is_syntax);
    let Some(first) = first.or(errors.errors.first()) else {
        return "Syntax error";
    };
    let place = |error: &ParseError| match error.pos {
        (1, column) => usize::try_from(column - 1).ok(),
        _ => None,
    };
    let next = place(first).and_then(|at| after_token(text, at));
    let mut others = errors
        .errors
        .iter()
        .filter(|error| next.is_some() && place(error) == next && error.msg.starts_with(NO_TOKEN));
    let is_token = !first.msg.starts_with(NO_TOKEN);
    let other = others.next().filter(|_| is_token);
    &other.unwrap_or(first).msg
}

/// The place of the token after the one at a place.
fn after_token(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let word = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    match word.len() < rest.len() {
        true => Some(text.len() - word.trim_start().len()),
        false => Some(Tokens::of(text).next(at)),
    }
}

/// The first reserved name of an expression.
fn reserved(tree: &IdedExpr) -> Option<&str> {
    let mut open = vec![tree];
    while let Some(tree) = open.pop() {
        let name = match &tree.expr {
            Expr::Ident(name) => name,
            Expr::Call(call) if call.target.is_none() => &call.func_name,
            _ => "",
        };
        if RESERVED.contains(&name) {
            return Some(name);
        }
        open.extend(parts(tree).into_iter().rev());
    }
    None
}

/// Returns whether a name stands behind a dot that begins an operand, which the parser leaves out.
pub(crate) fn is_absolute(text: &str, name: &str) -> bool {
    let tokens = Tokens::of(text);
    let after = |(at, _): (usize, &str)| {
        let before = text[..at].trim_end();
        let is_operand = before.ends_with(|c: char| {
            c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '}' | '\'' | '"' | '`')
        });
        !is_operand && tokens.next(at) > at && text[tokens.next(at)..].starts_with(name)
    };
    text.match_indices('.').any(after)
}

/// Returns the name of the function that an expression of this text calls; `None` if it is no call.
pub(crate) fn called<'a>(expression: &'a Expr, text: &str) -> Option<&'a str> {
    match expression {
        Expr::Call(call) => Some(&call.func_name),
        Expr::Select(select) if select.test => Some(operators::HAS),
        Expr::Comprehension(_) => {
            let tokens = Tokens::of(text);
            let mut macros = MACROS.into_iter();
            let is_used = |name: &&str| tokens.nth(name, 1) > 0;
            Some(macros.find(is_used).unwrap_or(operators::ALL))
        }
        _ => None,
    }
}
