//! Causes of a reconcile, as further rows of a key or a run.
//!
//! ```text
//! CauseList ─▶ "updated pods shop/web @123 (spec) ×3" ..
//! ```
//!
//! BOUND: eight causes are in a list, three rows of text show them.
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{CauseList, CauseRow};
use ratatui::text::Span;

use super::Look;
use crate::top::columns::wrapped;
use crate::top::numbers::number;
use crate::top::page::{Kind, Row};
use crate::top::place::key;

const LINES: usize = 3;

/// The rows of a list of causes; none for an empty one.
pub(super) fn rows(list: &CauseList, look: Look) -> Vec<Row> {
    let mut texts: Vec<String> = list.causes.iter().map(text).collect();
    let merged = |cause: &CauseRow| cause.merged.saturating_add(1);
    let told = list.causes.iter().map(merged).fold(0, u64::saturating_add);
    let left = list.total.saturating_sub(told);
    if left > 0 {
        texts.push(format!("and {} more", number(left)));
    }
    if list.are_own {
        texts.push("all by its own writes".to_owned());
    }
    if texts.is_empty() {
        return Vec::new();
    }
    let lines = wrapped(&texts.join("; "), look.width.saturating_sub(4), LINES);
    let row = |line: String| {
        let span = Span::styled(format!("    {line}"), look.paint.faint());
        Row::new(Kind::More, vec![span], None)
    };
    lines.into_iter().map(row).collect()
}

/// One cause in words.
pub(crate) fn text(of: &CauseRow) -> String {
    let mut parts = vec![of.event.clone()];
    parts.extend(of.resource.clone());
    let name = of.name.as_deref();
    parts.extend(name.map(|name| key(of.namespace.as_deref(), name)));
    parts.extend(of.object_version.map(|version| format!("@{version}")));
    if !of.changed.is_empty() {
        parts.push(format!("({})", of.changed));
    }
    if of.origin == "own" {
        parts.push("by itself".to_owned());
    }
    if of.merged > 0 {
        parts.push(format!("×{}", of.merged.saturating_add(1)));
    }
    parts.join(" ")
}
