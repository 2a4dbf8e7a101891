//! The parts of a CEL expression.
//!
//! ```text
//! a.f(b, [c]) -> a, b, [c]
//! ```

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// The parts of an expression.
pub(crate) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
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
