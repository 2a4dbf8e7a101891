//! Meters the cost of an expression while it runs.
//!
//! ```text
//! a.f(b)          -> seen(a).f(seen(b))               each reader of a value pays for its size
//! self.a          -> copied(self.a)                   each copy of a part of the object, too
//! x.all(i, ..)    -> each turn: pay(steps, result)    each turn of a loop pays for itself
//! ```
//!
//! The interpreter has no limits and copies the values that it passes on. So the meter inserts
//! calls to its own functions into the expression: around the arguments of functions and operators,
//! around members of the object, around the items of list and map literals, and in front of each
//! loop's condition. A value cannot grow without being read, so no value grows beyond the budget.
//! Functions whose results differ in size from their arguments are replaced (`paid.rs`).
//!
//! One unit is a plain value or eight letters. Upstream's units differ; its budget is the same.
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/library/cost.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{ExecutionError, Value};

use super::functions;
use super::parts::parts;

/// The budget of all rules of an object together.
const BUDGET: u64 = 10_000_000;
/// The steps of loops in one run of an expression: upstream's limit of one call, where most of the
/// cost are such steps.
const STEPS: u64 = 1_000_000;
/// The function that every turn of a loop calls.
pub(crate) const PAY: &str = "@pay";
/// The function that wraps every value that a function or an operator reads.
pub(crate) const SEEN: &str = "@seen";
/// The function that wraps a part of the object that is only copied.
pub(crate) const COPIED: &str = "@copied";
/// The function that checks the format string of a formatted text.
pub(crate) const FORM: &str = "@form";
/// The function that replaces negation, with an overflow check.
pub(crate) const NEGATE: &str = "@negate";
const OUT_OF_BUDGET: &str = "operation cancelled: actual cost limit exceeded";
/// The number of letters that cost as much as a plain value.
const LETTERS: u64 = 8;
/// The costs of allocating a list, a map and a member of a map, in addition to their contents.
const LIST: u64 = 8;
const MAP: u64 = 32;
const MEMBER: u64 = 8;
/// The number of values that cost one unit where they are only copied.
pub(crate) const COPIES: u64 = 2;

/// The rest of the budget.
#[derive(Clone, Debug)]
pub(crate) struct Purse {
    units: Arc<AtomicU64>,
    /// The steps of loops that are left to the expression that runs.
    steps: Arc<AtomicU64>,
}

impl Default for Purse {
    fn default() -> Self {
        Self {
            units: Arc::new(AtomicU64::new(BUDGET)),
            steps: Arc::new(AtomicU64::new(STEPS)),
        }
    }
}

impl Purse {
    /// Begins a run of an expression.
    pub(crate) fn begin(&self) {
        self.steps.store(STEPS, Ordering::Relaxed);
    }

    /// Sets the rest of the budget for a run of an expression. Returns the rest before.
    pub(crate) fn refill(&self, budget: u64) -> u64 {
        self.begin();
        self.units.swap(budget, Ordering::Relaxed)
    }

    /// Takes a cost.
    pub(crate) fn pay(&self, cost: u64) -> Result<(), ExecutionError> {
        take(&self.units, cost)
    }

    /// Takes the cost of a turn of a loop.
    pub(crate) fn pay_turn(&self, steps: u64) -> Result<(), ExecutionError> {
        take(&self.steps, steps)?;
        self.pay(steps)
    }

    /// Takes the cost of reading a value. A value too large to pay for is not measured to its end.
    pub(crate) fn pay_for(&self, value: &Value, share: u64) -> Result<(), ExecutionError> {
        let most = self.units.load(Ordering::Relaxed).saturating_mul(share);
        self.pay(1 + size(value, most) / share)
    }
}

fn take(left: &AtomicU64, cost: u64) -> Result<(), ExecutionError> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(cost)
    });
    taken
        .map(drop)
        .map_err(|_| ExecutionError::function_error(PAY, OUT_OF_BUDGET))
}

/// Returns whether a program ended because it exceeded the budget.
pub(crate) fn is_out_of_budget(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::FunctionError { function, .. } if function == PAY)
}

/// Returns the cost of copying a value. Counting stops above `most`.
pub(crate) fn size(value: &Value, most: u64) -> u64 {
    let (mut total, mut open) = (0, vec![value]);
    while let Some(value) = open.pop().filter(|_| total <= most) {
        total += 1;
        match value {
            Value::String(text) => total += text.len() as u64 / LETTERS,
            Value::Bytes(bytes) => total += bytes.len() as u64 / LETTERS,
            Value::List(items) => {
                total += LIST;
                open.extend(items.iter());
            }
            Value::Map(map) => {
                total += MAP + MEMBER * map.map.len() as u64;
                for (key, value) in map.map.iter() {
                    if let Key::String(name) = key {
                        total += name.len() as u64 / LETTERS;
                    }
                    open.push(value);
                }
            }
            _ => {}
        }
    }
    total
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

/// The variables that each turn of a loop pays for: its item and its result so far.
#[derive(Clone, Copy)]
struct Turn<'a> {
    item: &'a str,
    result: &'a str,
}

/// Inserts the metering calls into an expression.
pub(crate) fn meter(expression: &mut IdedExpr) {
    within(expression, None);
}

/// Inserts the metering calls into an expression within a loop.
fn within(expression: &mut IdedExpr, turn: Option<Turn<'_>>) {
    match &mut expression.expr {
        Expr::Call(call) => within_call(call, turn),
        Expr::Select(select) => {
            within(&mut select.operand, turn);
            let is_copy = !select.test
                && matches!(&select.operand.expr, Expr::Ident(name)
                    if turn.is_none_or(|turn| turn.item != name));
            if is_copy {
                wrap(expression, COPIED);
            }
        }
        Expr::List(list) => {
            let elements = list.elements.iter_mut();
            elements.for_each(|of| see(of, turn));
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    see(&mut entry.key, turn);
                    see(&mut entry.value, turn);
                }
            }
        }
        Expr::Comprehension(of) => within_loop(of, turn),
        _ => {}
    }
}

fn within_call(call: &mut CallExpr, turn: Option<Turn<'_>>) {
    if is_free(&call.func_name) {
        call.args.iter_mut().for_each(|of| within(of, turn));
        return;
    }
    if let Some(target) = &mut call.target {
        let is_namespace = matches!(&target.expr, Expr::Ident(space)
            if functions::is_known(&format!("{space}.{}", call.func_name)));
        if !is_namespace {
            see(target, turn);
        }
        if call.func_name == "format" {
            wrap(target, FORM);
        }
    }
    call.args.iter_mut().for_each(|of| see(of, turn));
    if call.func_name == operators::NEGATE {
        NEGATE.clone_into(&mut call.func_name);
    }
}

/// Returns whether an operator reads only one value, or a part that is paid for where it is copied.
fn is_free(name: &str) -> bool {
    matches!(
        name,
        operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::CONDITIONAL
            | operators::NOT_STRICTLY_FALSE
            | operators::INDEX
            | operators::OPT_INDEX
            | operators::OPT_SELECT
    )
}

/// Wraps a value in a call that pays for it.
fn see(of: &mut IdedExpr, turn: Option<Turn<'_>>) {
    within(of, turn);
    let is_paid = match &of.expr {
        Expr::Literal(_) => true,
        Expr::Ident(name) => turn.is_some_and(|turn| turn.result == name),
        _ => false,
    };
    if !is_paid {
        wrap(of, SEEN);
    }
}

fn wrap(of: &mut IdedExpr, by: &str) {
    let inner = std::mem::take(of);
    *of = call(by, vec![inner]);
}

/// Counts the steps of an expression that runs once. Loops pay for themselves.
fn steps(expression: &IdedExpr) -> i64 {
    let (mut steps, mut open) = (0, vec![expression]);
    while let Some(expression) = open.pop() {
        steps += 1;
        match &expression.expr {
            Expr::Comprehension(of) => open.extend([&of.iter_range, &of.accu_init, &of.result]),
            _ => open.extend(parts(expression)),
        }
    }
    steps
}

fn within_loop(of: &mut ComprehensionExpr, turn: Option<Turn<'_>>) {
    let steps = steps(&of.loop_step);
    within(&mut of.iter_range, turn);
    within(&mut of.accu_init, turn);
    let inside = Turn {
        item: &of.iter_var,
        result: &of.accu_var,
    };
    within(&mut of.loop_step, Some(inside));
    within(&mut of.result, turn);
    let steps = ided(Expr::Literal(LiteralValue::Int(steps.into())));
    let result = ided(Expr::Ident(of.accu_var.clone()));
    let pay = call(PAY, vec![steps, result]);
    let condition = std::mem::take(&mut of.loop_cond);
    let never = ided(Expr::Literal(LiteralValue::Boolean(false.into())));
    of.loop_cond = call(operators::CONDITIONAL, vec![pay, condition, never]);
}
