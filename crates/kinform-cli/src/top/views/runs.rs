//! Reconciles that ended, as a table.
//!
//! ```text
//! [RunRow] ─▶ start, controller, key, time, end; its causes below
//! ```
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::RunRow;
use ratatui::style::Style;

use super::{Look, causes};
use crate::top::columns::{Cell, Column, Item, figures, table, words};
use crate::top::numbers::{clock, ms};
use crate::top::page::Row;
use crate::top::place::{Place, key};

const RUNS: [Column; 5] = [
    words("STARTED", 7),
    words("KEY", 9),
    figures("TOOK", 8),
    words("END", 8),
    words("CONTROLLER", 3),
];

/// The rows of the table.
pub(super) fn rows(runs: &[RunRow], look: Look) -> Vec<Row> {
    let run = |of: &RunRow| {
        let key = key(of.namespace.as_deref(), &of.name);
        let end = match of.outcome.as_str() {
            "succeeded" => look.paint.good(),
            "failed" => look.paint.bad(),
            _ => Style::new(),
        };
        Item {
            cells: vec![
                clock(&of.started).into(),
                Cell::from(&key),
                ms(Some(of.took_ms)).into(),
                Cell::styled(&of.outcome, end),
                Cell::from(&of.controller),
            ],
            target: Some(Place::Queues {
                controller: Some(of.controller.clone()),
                q: key,
            }),
            more: causes::rows(&of.causes, look),
        }
    };
    table(
        &RUNS,
        runs.iter().map(run).collect(),
        look.width,
        look.paint,
    )
}
