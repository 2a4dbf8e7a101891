//! One expression of a rule, compiled: parsed, type-checked and metered.
//!
//! ```text
//! text + types -> Program | error          Program + values + budget -> value | error
//! ```
//!
//! Its cost is paid while it runs (`meter.rs`).
//!
//! BOUND: 16 KiB of text, 96 levels of brackets, 384 of the expression; 10 million units of cost for all
//! rules of an object, as upstream.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel/compilation.go`,
//! `kubernetes/apiserver:pkg/apis/cel/config.go`.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};

use super::check::{Checker, Mistake};
use super::mend;
use super::meter;
use super::parts::parts;
use super::tokens::{self, Tokens};
use super::types::Type;

const MAX_TEXT: usize = 16 << 10;
const MAX_DEPTH: usize = 96;
/// The parser recurses for each sign of a chain such as `1+1+1`; this stack suffices for 16 KiB of
/// them.
const PARSER_STACK: usize = 32 << 20;

/// An expression that can run.
#[derive(Debug)]
pub(crate) struct Program {
    /// The expression as it was written.
    expression: IdedExpr,
    /// The expression with metering calls.
    metered: IdedExpr,
    /// The variables that the expression names.
    pub(crate) named: BTreeSet<String>,
    /// The variables of a policy that the expression names.
    pub(crate) composed: BTreeSet<String>,
}

/// A program and the type of its result.
pub(crate) type Compiled<'a> = (Program, Type<'a>);

impl Program {
    /// Compiles an expression in which variables of these names have these types.
    ///
    /// # Errors
    /// A syntax or type error, in upstream's words.
    pub(crate) fn compile<'a>(
        text: &str,
        variables: Vec<(String, Type<'a>)>,
    ) -> Result<Compiled<'a>, String> {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {}, limit {MAX_TEXT}",
                text.len()
            ));
        }
        if tokens::depth(text) > MAX_DEPTH {
            return Err(too_deep());
        }
        let expression = parse_aside(text)?;
        let tokens = Tokens::of(text);
        let mut checker = Checker::new(&tokens, variables);
        let of = checker
            .check(&expression)
            .map_err(|mistake| shown(text, &mistake))?;
        if let Some(mistake) = &checker.bad_constant {
            return Err(shown(text, mistake));
        }
        let named = checker.named;
        let mut metered = expression.clone();
        let composed = mend::before(&mut metered);
        meter::meter(&mut metered);
        if named.iter().any(|name| mend::is_of_admission(name)) {
            mend::after(&mut metered);
        }
        let program = Self {
            expression,
            metered,
            named,
            composed,
        };
        Ok((program, of))
    }

    /// Returns the expression as it was written.
    pub(crate) fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// Runs the expression.
    ///
    /// # Errors
    /// The expression has no value: a missing key, a value of another type, or too high a cost.
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Value, ExecutionError> {
        // The interpreter panics where an argument is missing: no rule may end the server.
        let run = AssertUnwindSafe(|| Value::resolve(&self.metered, context));
        catch_unwind(run).unwrap_or(Err(ExecutionError::NoSuchOverload))
    }
}

/// Returns an error in upstream's words.
pub(crate) fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        _ => "no such overload".to_owned(),
    }
}

fn too_deep() -> String {
    format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}")
}

/// Parses on a thread whose stack suffices for any text. An expression that is too deep for later
/// steps is refused there.
fn parse_aside(text: &str) -> Result<IdedExpr, String> {
    let parsed = aside(|| {
        let expression = parse(text)?;
        match depth(&expression) > MAX_DEPTH * 4 {
            true => Err(too_deep()),
            false => Ok(expression),
        }
    });
    parsed.unwrap_or_else(|| {
        Err("ERROR: <input>:-1:0: the expression could not be parsed".to_owned())
    })
}

/// Calls a function on a thread whose stack suffices for the parser. Returns `None` if the thread
/// could not be started, or panicked.
pub(super) fn aside<T: Send>(call: impl FnOnce() -> T + Send) -> Option<T> {
    let aside = thread::Builder::new().stack_size(PARSER_STACK);
    thread::scope(|scope| aside.spawn_scoped(scope, call).ok()?.join().ok())
}

fn parse(text: &str) -> Result<IdedExpr, String> {
    let parser = Parser::new().enable_optional_syntax(true);
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text)));
    let Ok(parsed) = parsed else {
        return Err("ERROR: <input>:1:1: Syntax error".to_owned());
    };
    parsed.map_err(|errors| {
        let texts = errors.errors.iter().map(|error| {
            let (line, column) = (error.pos.0.max(1), error.pos.1.max(1));
            let source = text
                .lines()
                .nth(line.unsigned_abs() - 1)
                .unwrap_or_default();
            let dots = ".".repeat(column.unsigned_abs() - 1);
            let what = error.msg.trim_start_matches("Syntax error: ");
            format!("ERROR: <input>:{line}:{column}: Syntax error: {what}\n | {source}\n | {dots}^")
        });
        texts.collect::<Vec<_>>().join("\n")
    })
}

/// Formats a mistake with its line of the text.
fn shown(text: &str, mistake: &Mistake) -> String {
    let before = text.get(..mistake.place).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    let source = text.lines().nth(line).unwrap_or_default();
    let (number, what) = (line + 1, &mistake.text);
    let dots = ".".repeat(column);
    format!(
        "ERROR: <input>:{number}:{}: {what}\n | {source}\n | {dots}^",
        column + 1
    )
}

/// The depth of an expression, found without recursion.
fn depth(expression: &IdedExpr) -> usize {
    let (mut deepest, mut open) = (0, vec![(expression, 1)]);
    while let Some((expression, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(parts(expression).into_iter().map(|part| (part, depth + 1)));
    }
    deepest
}
