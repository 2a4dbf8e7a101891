//! One expression of a rule, compiled: parsed, checked, and made to count what it costs.
//!
//! ```text
//! text + types -> Program | what is wrong          Program + values + budget -> value | what went wrong
//! ```
//!
//! The interpreter knows no limits, so each turn of a loop is made to pay first: a call to a function of
//! ours stands in front of every loop's condition. Functions whose results can grow beyond their
//! arguments are replaced by ones that pay for what they make.
//!
//! BOUND: 16 KiB of text, 96 levels of brackets; 10 million units of cost for all rules of an object,
//! as upstream.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel/compilation.go`,
//! `kubernetes/apiserver:pkg/apis/cel/config.go`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::common::ast::{EntryExpr, operators};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};

use super::check::{Checker, Mistake};
use super::functions::TYPE_NAMES;
use super::tokens::{self, Tokens};
use super::types::Type;

const MAX_TEXT: usize = 16 << 10;
const MAX_DEPTH: usize = 96;
/// What all rules of an object may cost.
pub(super) const BUDGET: u64 = 10_000_000;
/// The function that every turn of a loop calls.
const PAY: &str = "@pay";
const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";

/// An expression that can run.
#[derive(Debug)]
pub(super) struct Program {
    expression: IdedExpr,
    /// Whether it names `oldSelf`.
    pub(super) uses_old: bool,
    /// Whether it calls functions whose cost grows with the square of a list.
    is_square: bool,
}

/// A program and the type of its result.
pub(super) type Compiled<'a> = (Program, Type<'a>);

impl Program {
    /// Compiles an expression in which `self` and `oldSelf` have these types.
    ///
    /// # Errors
    /// What is wrong with it, in upstream's words.
    pub(super) fn compile<'a>(
        text: &str,
        this: Type<'a>,
        old: Type<'a>,
    ) -> Result<Compiled<'a>, String> {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {}, limit {MAX_TEXT}",
                text.len()
            ));
        }
        if tokens::depth(text) > MAX_DEPTH {
            return Err(format!(
                "ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
            ));
        }
        let mut expression = parse(text)?;
        if depth(&expression) > MAX_DEPTH * 4 {
            return Err(format!(
                "ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
            ));
        }
        let tokens = Tokens::of(text);
        let mut checker = Checker::new(&tokens, this, old);
        let of = checker
            .check(&expression)
            .map_err(|mistake| shown(text, &mistake))?;
        let uses_old = checker.uses_old;
        let mut is_square = false;
        meter(&mut expression, &mut is_square);
        let program = Self {
            expression,
            uses_old,
            is_square,
        };
        Ok((program, of))
    }

    /// Its expression, with what loops pay.
    pub(super) fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// Runs it.
    ///
    /// # Errors
    /// Why it has no value: a missing key, a value of another type, too high a cost.
    pub(super) fn run(&self, context: &Context<'_>, size: Size) -> Result<Value, ExecutionError> {
        if self.is_square && size.list.saturating_mul(size.list) > BUDGET {
            return Err(out_of_budget());
        }
        // The interpreter panics where an argument is missing: no rule may end the server.
        let run = AssertUnwindSafe(|| Value::resolve(&self.expression, context));
        catch_unwind(run).unwrap_or(Err(ExecutionError::NoSuchOverload))
    }
}

/// Whether a program ended because of what it costs.
pub(super) fn is_out_of_budget(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::FunctionError { function, .. } if function == PAY)
}

fn out_of_budget() -> ExecutionError {
    ExecutionError::function_error(PAY, OUT_OF_BUDGET)
}

/// An error as upstream words it.
pub(super) fn words(error: &ExecutionError) -> String {
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

/// A mistake with the line it stands in.
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

/// The parts of an expression.
fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call
            .target
            .iter()
            .map(|of| &**of)
            .chain(&call.args)
            .collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => entries(map.entries.iter().map(|entry| &entry.expr)),
        Expr::Struct(of) => entries(of.entries.iter().map(|entry| &entry.expr)),
        Expr::Comprehension(of) => vec![
            &of.iter_range,
            &of.accu_init,
            &of.loop_cond,
            &of.loop_step,
            &of.result,
        ],
        _ => Vec::new(),
    }
}

fn entries<'a>(of: impl Iterator<Item = &'a EntryExpr>) -> Vec<&'a IdedExpr> {
    of.flat_map(|entry| match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    })
    .collect()
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

/// What an expression costs when it runs once: its steps, and those that may look at a whole text or
/// list. Loops pay for themselves.
fn weight(expression: &IdedExpr) -> (i64, i64) {
    let (mut steps, mut scans, mut open) = (0, 0, vec![expression]);
    while let Some(expression) = open.pop() {
        steps += 1;
        match &expression.expr {
            Expr::Comprehension(of) => open.extend([&of.iter_range, &of.accu_init, &of.result]),
            Expr::Call(call) => {
                let is_cheap = matches!(
                    call.func_name.as_str(),
                    operators::LOGICAL_AND
                        | operators::LOGICAL_OR
                        | operators::LOGICAL_NOT
                        | operators::CONDITIONAL
                        | operators::INDEX
                        | "size"
                );
                scans += i64::from(!is_cheap);
                open.extend(parts(expression));
            }
            _ => open.extend(parts(expression)),
        }
    }
    (steps, scans)
}

/// Makes every loop pay for its turns.
fn meter(expression: &mut IdedExpr, is_square: &mut bool) {
    match &mut expression.expr {
        Expr::Call(call) => {
            *is_square |= matches!(
                call.func_name.as_str(),
                "contains" | "equivalent" | "intersects" | "distinct" | "sort" | "indexOf"
            );
            if let Some(target) = &mut call.target {
                meter(target, is_square);
            }
            call.args.iter_mut().for_each(|of| meter(of, is_square));
        }
        Expr::Select(select) => meter(&mut select.operand, is_square),
        Expr::List(list) => list.elements.iter_mut().for_each(|of| meter(of, is_square)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    meter(&mut entry.key, is_square);
                    meter(&mut entry.value, is_square);
                }
            }
        }
        Expr::Comprehension(of) => meter_loop(of, is_square),
        _ => {}
    }
}

fn meter_loop(of: &mut ComprehensionExpr, is_square: &mut bool) {
    let (steps, scans) = weight(&of.loop_step);
    meter(&mut of.iter_range, is_square);
    meter(&mut of.loop_step, is_square);
    meter(&mut of.result, is_square);
    let ided = |expr| IdedExpr { id: 0, expr };
    let call = |name: &str, args| {
        ided(Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }))
    };
    let number = |number: i64| ided(Expr::Literal(LiteralValue::Int(number.into())));
    let pay = call(PAY, vec![number(steps), number(scans)]);
    let condition = std::mem::take(&mut of.loop_cond);
    let never = ided(Expr::Literal(LiteralValue::Boolean(false.into())));
    of.loop_cond = call(operators::CONDITIONAL, vec![pay, condition, never]);
}

/// How large the values of a run are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// The longest text.
    pub(super) text: u64,
    /// The longest list or map.
    pub(super) list: u64,
}

/// A context with the functions of rules, which pay from a budget.
pub(super) fn context(budget: &Arc<AtomicU64>, size: Size) -> Context<'static> {
    let mut context = Context::default().with_all();
    let scan = 1 + size.text.max(size.list) / 16;
    let purse = budget.clone();
    context.add_function(PAY, move |steps: i64, scans: i64| {
        let cost = steps.unsigned_abs() + scans.unsigned_abs().saturating_mul(scan);
        pay(&purse, cost).map(|()| Value::Bool(true))
    });
    let purse = budget.clone();
    context.add_function(
        "replace",
        move |this: This<Arc<String>>, with: Arguments| replace(&purse, &this.0, &with.0),
    );
    let purse = budget.clone();
    context.add_function("join", move |this: This<Value>, with: Arguments| {
        join(&purse, &this.0, &with.0)
    });
    let purse = budget.clone();
    context.add_function("lists.range", move |count: i64| {
        let count = u64::try_from(count).unwrap_or(0);
        pay(&purse, count)?;
        let count = i64::try_from(count).unwrap_or(0);
        Ok(Value::List(Arc::new((0..count).map(Value::Int).collect())))
    });
    context.add_function("type", |of: Value| Ok::<_, ExecutionError>(type_of(&of)));
    context.add_function("dyn", |of: Value| Ok::<_, ExecutionError>(of));
    for name in TYPE_NAMES {
        context.add_variable_from_value(name, Value::String(Arc::new(format!("type:{name}"))));
    }
    context
}

/// Takes a cost from a budget.
fn pay(purse: &AtomicU64, cost: u64) -> Result<(), ExecutionError> {
    let left = purse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(cost)
    });
    left.map(drop).map_err(|_| out_of_budget())
}

/// Types are compared as texts that no value is equal to.
fn type_of(value: &Value) -> Value {
    let name = match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        _ => "type",
    };
    Value::String(Arc::new(format!("type:{name}")))
}

fn replace(purse: &AtomicU64, this: &str, with: &[Value]) -> Result<Value, ExecutionError> {
    let (from, to, most) = match with {
        [Value::String(from), Value::String(to)] => (from, to, usize::MAX),
        [Value::String(from), Value::String(to), Value::Int(most)] => {
            (from, to, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let times = this.matches(from.as_str()).count().min(most);
    let length = this.len() as u64 + (times as u64).saturating_mul(to.len() as u64);
    pay(purse, length / 10)?;
    let made = match most {
        usize::MAX => this.replace(from.as_str(), to),
        most => this.replacen(from.as_str(), to, most),
    };
    Ok(Value::String(Arc::new(made)))
}

fn join(purse: &AtomicU64, this: &Value, with: &[Value]) -> Result<Value, ExecutionError> {
    let Value::List(items) = this else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let between = match with {
        [] => "",
        [Value::String(between)] => between.as_str(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items.iter() {
        let Value::String(text) = item else {
            return Err(ExecutionError::NoSuchOverload);
        };
        pay(purse, 1 + (text.len() + between.len()) as u64 / 10)?;
        texts.push(text.as_str());
    }
    Ok(Value::String(Arc::new(texts.join(between))))
}
