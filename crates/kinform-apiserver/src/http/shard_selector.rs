//! `shardSelector`: the part of a resource's objects that a request asks for.
//!
//! ```text
//! shardRange(object.metadata.uid, '0x..', '0x..') || .. ──parse──▶ ShardSelector | 500
//! object ──hash of its uid or namespace──▶ in one of the ranges?
//! ```
//!
//! Selectors as clients write them are parsed directly. Every other text is read as CEL: a few are
//! selectors in another notation, and all others are refused in upstream's words. Upstream's error is
//! not an API status, so that it becomes a 500 without a reason.
//!
//! Upstream: `apiserver:pkg/sharding/parser.go`, `apimachinery:pkg/sharding/selector.go`.

use kinform_api::Status;
use kinform_api::shards::{Ranges, ShardField, ShardRange, TOP, key_hash, parse_terms, terms_text};
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use crate::schema::cel::syntax;
use crate::storage::Stored;

/// The ranges of hashes that a request selects.
#[derive(Clone, Debug)]
pub(crate) struct ShardSelector {
    field: ShardField,
    /// The ranges in the order of the request, for the echo.
    terms: Vec<ShardRange>,
    ranges: Ranges,
}

impl ShardSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// The text is no selector.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let terms = match parse_terms(text) {
            Ok(terms) => Ok(terms),
            Err(_) => read(text.trim()),
        };
        let (field, terms) = terms
            .map_err(|why| Status::failure(500, "", format!("invalid shard selector: {why}")))?;
        Ok(Self {
            field,
            ranges: terms.iter().copied().collect(),
            terms,
        })
    }

    /// Returns whether an object is in one of the ranges.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let key = match self.field {
            ShardField::Uid => object.uid(),
            ShardField::Namespace => object.namespace().unwrap_or_default(),
        };
        self.ranges.contains(key_hash(key))
    }

    /// Returns the text that lists echo. It needs no escapes.
    pub(crate) fn text(&self) -> String {
        terms_text(self.field, &self.terms)
    }
}

type Term = (ShardField, ShardRange);

/// Reads a selector as CEL.
fn read(text: &str) -> Result<(ShardField, Vec<ShardRange>), String> {
    if text.is_empty() {
        return Err(
            "empty shard selector is not allowed; omit the parameter for unfiltered lists"
                .to_owned(),
        );
    }
    let terms = syntax::read(text, |tree| {
        let mut terms = Vec::new();
        alternatives(tree, text, &mut terms)?;
        Ok(terms)
    })?;
    // A tree without a call was refused.
    let field = terms.first().map_or(ShardField::Uid, |(field, _)| *field);
    if let Some((other, _)) = terms.iter().find(|(other, _)| *other != field) {
        let (path, other) = (field.path(), other.path());
        return Err(format!(
            "all shard ranges must use the same field, got {path:?} and {other:?}"
        ));
    }
    Ok((field, terms.into_iter().map(|(_, range)| range).collect()))
}

/// Adds the ranges of calls that `||` joins, from left to right.
fn alternatives(tree: &Expr, text: &str, terms: &mut Vec<Term>) -> Result<(), String> {
    match (tree, syntax::called(tree, text)) {
        (Expr::Call(call), Some(operators::LOGICAL_OR)) => call
            .args
            .iter()
            .try_for_each(|side| alternatives(&side.expr, text, terms)),
        (Expr::Call(call), Some("shardRange")) => {
            terms.push(term(call, text)?);
            Ok(())
        }
        (_, Some(name)) => Err(format!(
            "unsupported function {name:?}; only shardRange() and || are allowed"
        )),
        (_, None) => Err(format!(
            "unexpected expression kind {}; expected shardRange() call or || operator",
            kind(tree, text)
        )),
    }
}

/// The range of one call.
fn term(call: &CallExpr, text: &str) -> Result<Term, String> {
    let [path, start, end] = &call.args[..] else {
        let count = call.args.len();
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {count}"
        ));
    };
    let path =
        path_of(&path.expr, text).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let fields = [ShardField::Uid, ShardField::Namespace];
    let Some(field) = fields.into_iter().find(|field| field.path() == path) else {
        let known = fields.map(ShardField::path).join(", ");
        return Err(format!(
            "unsupported field path {path:?}; supported: {known}"
        ));
    };
    let (start, end) = (
        bound("hexStart", &start.expr, text)?,
        bound("hexEnd", &end.expr, text)?,
    );
    let range = u64::try_from(start).ok();
    let range = range.and_then(|start| ShardRange::new(start, end));
    let range = range.ok_or_else(|| {
        format!("shard range start {start:#018x} must be less than end {end:#018x}")
    })?;
    Ok((field, range))
}

/// The names of a chain such as `object.metadata.uid`.
fn path_of(tree: &Expr, text: &str) -> Result<String, String> {
    match tree {
        Expr::Ident(name) if syntax::is_absolute(text, name) => Ok(format!(".{name}")),
        Expr::Ident(name) => Ok(name.clone()),
        Expr::Select(select) if !select.test => {
            let operand = path_of(&select.operand.expr, text)?;
            Ok(format!("{operand}.{}", select.field))
        }
        _ => Err(format!(
            "expected field path (e.g. object.metadata.uid), got expression kind {}",
            kind(tree, text)
        )),
    }
}

/// The number of a bound.
fn bound(name: &str, tree: &Expr, text: &str) -> Result<u128, String> {
    let literal = match tree {
        Expr::Literal(literal) => literal,
        _ => {
            let kind = kind(tree, text);
            return Err(format!(
                "{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"
            ));
        }
    };
    let LiteralValue::String(literal) = literal else {
        let of = go_type(literal);
        return Err(format!("{name} must be a string literal, got {of}"));
    };
    hexadecimal(name, literal.inner())
}

fn hexadecimal(name: &str, text: &str) -> Result<u128, String> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {text:?}"));
    };
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    match digits.len() {
        0 => return Err(format!("{name}: hex value is required after '0x'")),
        length @ 18.. => {
            return Err(format!(
                "{name}: hex value too long ({length} chars, max 17): {digits:?}"
            ));
        }
        _ => {}
    }
    if let Some(other) = digits.chars().find(|c| !is_digit(*c)) {
        let other = other.to_string();
        return Err(format!(
            "{name}: invalid hex character {other:?} in {text:?}"
        ));
    }
    let number = u128::from_str_radix(digits, 16).unwrap_or(TOP + 1);
    match digits.len() {
        16 => Ok(number),
        17 if number == TOP => Ok(TOP),
        17 => Err(format!(
            "{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}"
        )),
        _ => Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean \
             \"{number:#018x}\"?)"
        )),
    }
}

/// The number of an expression's kind in upstream's messages.
fn kind(tree: &Expr, text: &str) -> u8 {
    if syntax::called(tree, text).is_some() {
        return 1;
    }
    match tree {
        Expr::Unspecified => 0,
        Expr::Call(_) => 1,
        Expr::Comprehension(_) => 2,
        Expr::Ident(_) => 3,
        Expr::List(_) => 4,
        Expr::Literal(_) => 5,
        Expr::Map(_) => 6,
        Expr::Select(_) => 7,
        Expr::Struct(_) => 8,
    }
}

/// The type of a literal, as Go names it.
fn go_type(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "[]uint8",
        LiteralValue::Double(_) => "float64",
        LiteralValue::Int(_) => "int64",
        LiteralValue::Null => "structpb.NullValue",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint64",
    }
}
