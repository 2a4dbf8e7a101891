//! The faults, their cells, and the tests and reasons behind each cell.
//!
//! ```text
//! "F8 json x list,stream x in-order" in a test    │
//! // fault: F6 json x list x in-order  above one  ├──▶ cells of F6, F8, F10: tested │ excused │ open
//! // no fault: F10 json x stream x in-order: why  │
//! ```
//!
//! A line `// fault: F6` without cells names a further proof. Linear in the texts.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::file::File;

/// The faults, in the words of the table.
pub(super) const FAULTS: [&str; 33] = [
    "connection refused, or broken in a frame",
    "watch ended cleanly",
    "connection dead both ways",
    "peer that acknowledges and forwards nothing",
    "idle connection forgotten on the way",
    "a byte a second, never a frame",
    "stream reset, connection going away",
    "history expired in the stream",
    "history expired before the watch",
    "continue token expired",
    "429 with a time to wait",
    "500, 502, 503, 504",
    "version in the server's future",
    "401, 403",
    "restart with history",
    "restore from a backup: versions go back",
    "replica that lags",
    "events twice",
    "events in another order",
    "event lost by the server",
    "streaming list without an end",
    "list without an end",
    "object that cannot be read, body cut",
    "delete and create in a gap",
    "handler that panics or blocks",
    "reconcile that panics, hangs, requeues for ever",
    "transform or index that fails",
    "clocks that step, differ or sleep",
    "future dropped at an await",
    "process or power lost, disk full or damaged",
    "kind or namespace gone and back",
    "process paused for a minute",
    "name, address, authority or token changed",
];

const AXES: [[&str; 2]; 3] = [
    ["json", "protobuf"],
    ["list", "stream"],
    ["in-order", "coalescing"],
];

/// The cells of a fault: encoding, way of listing, policy of the queue.
pub(super) const CELLS: usize = 8;

/// A set of cells, a bit each.
type Cells = u8;

/// The state of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Tested,
    Excused,
    Open,
}

/// One fault.
#[derive(Debug, Default)]
pub(super) struct Row {
    tested: Cells,
    excused: Cells,
    pub(super) tests: BTreeSet<String>,
    pub(super) reasons: BTreeSet<String>,
}

impl Row {
    pub(super) fn cell(&self, number: usize) -> Cell {
        let bit = 1 << number;
        match (self.tested & bit != 0, self.excused & bit != 0) {
            (true, _) => Cell::Tested,
            (false, true) => Cell::Excused,
            (false, false) => Cell::Open,
        }
    }
}

/// All faults by number.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    pub(super) rows: BTreeMap<usize, Row>,
    wrong: Vec<(String, String)>,
}

impl Matrix {
    /// Reads the lines of all tests.
    pub(super) fn new(files: &[File]) -> Self {
        let mut matrix = Self::default();
        for number in 1..=FAULTS.len() {
            matrix.rows.insert(number, Row::default());
        }
        let is_read = |file: &&File| {
            let folder = file.path.split('/').next();
            file.path.ends_with(".rs") && matches!(folder, Some("crates" | "e2e" | "examples"))
        };
        for file in files.iter().filter(is_read) {
            matrix.read(file);
        }
        matrix
    }

    fn read(&mut self, file: &File) {
        let mut test = String::new();
        let mut waiting = Vec::new();
        for line in file.text.lines() {
            let text = line.trim_start();
            if let Some(name) = function(text) {
                name.clone_into(&mut test);
                for proof in std::mem::take(&mut waiting) {
                    self.add(file, proof, Some(&test));
                }
            }
            if let Some(proof) = text.strip_prefix("// fault: ") {
                waiting.push(proof);
            } else if let Some(excuse) = text.strip_prefix("// no fault: ") {
                self.add(file, excuse, None);
            } else if !text.starts_with("//")
                && let Some(cells) = literal(text)
            {
                self.add(file, cells, Some(&test));
            }
        }
        if !waiting.is_empty() {
            self.wrong(file, "a fault above no test");
        }
    }

    fn add(&mut self, file: &File, line: &str, test: Option<&str>) {
        let (line, reason) = match line.split_once(": ") {
            Some((line, reason)) => (line, Some(reason)),
            None => (line, None),
        };
        let (fault, axes) = line.split_once(' ').unwrap_or((line, ""));
        let number = fault
            .strip_prefix('F')
            .and_then(|n| n.parse::<usize>().ok());
        let row = number.and_then(|number| self.rows.get_mut(&number));
        let (Some(row), Some(cells)) = (row, cells(axes)) else {
            return self.wrong(file, &format!("{line:?} is no fault and cells"));
        };
        match (test, reason) {
            (Some(test), None) => {
                row.tested |= cells;
                row.tests.insert(test.to_owned());
            }
            (None, Some(reason)) => {
                row.excused |= cells;
                row.reasons.insert(reason.to_owned());
            }
            _ => self.wrong(file, &format!("{line:?} needs a test, or a reason")),
        }
    }

    fn wrong(&mut self, file: &File, what: &str) {
        self.wrong.push((file.path.clone(), what.to_owned()));
    }

    /// The faults of the matrix itself, with the file: unreadable lines, cells without test or reason.
    pub(super) fn problems(&self) -> impl Iterator<Item = (String, String)> {
        let open = self.rows.iter().filter_map(|(number, row)| {
            let open = (0..CELLS)
                .filter(|cell| row.cell(*cell) == Cell::Open)
                .count();
            let what = format!("F{number} has {open} cells without a test or a reason");
            (open > 0).then(|| (super::PAGE.to_owned(), what))
        });
        self.wrong.iter().cloned().chain(open)
    }

    /// The numbers of cells.
    pub(super) fn summary(&self) -> String {
        let count = |state: Cell| -> usize {
            let rows = self.rows.values();
            rows.map(|row| (0..CELLS).filter(|cell| row.cell(*cell) == state).count())
                .sum()
        };
        let tests: BTreeSet<_> = self.rows.values().flat_map(|row| &row.tests).collect();
        format!(
            "{} cells are tested, {} do not apply; {} tests",
            count(Cell::Tested),
            count(Cell::Excused),
            tests.len()
        )
    }
}

/// The cells of `json,protobuf x list x in-order`; none of an empty text.
fn cells(axes: &str) -> Option<Cells> {
    if axes.is_empty() {
        return Some(0);
    }
    let chosen: Vec<Vec<&str>> = axes
        .split(" x ")
        .map(|axis| axis.split(',').collect())
        .collect();
    let is_known = chosen.len() == AXES.len()
        && chosen
            .iter()
            .zip(AXES)
            .all(|(names, axis)| names.iter().all(|name| axis.contains(name)));
    if !is_known {
        return None;
    }
    let has = |number: usize, axis: usize| {
        let at = number >> (AXES.len() - 1 - axis) & 1;
        chosen[axis].contains(&AXES[axis][at])
    };
    let is_chosen = |number: &usize| (0..AXES.len()).all(|axis| has(*number, axis));
    Some(
        (0..CELLS)
            .filter(is_chosen)
            .fold(0, |cells, number| cells | 1 << number),
    )
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let name = ["fn ", "async fn ", "pub(super) fn ", "pub(super) async fn "];
    let rest = name.iter().find_map(|start| line.strip_prefix(start))?;
    rest.split(['(', '<']).next()
}

/// The text of a string that is a fault and its cells.
fn literal(line: &str) -> Option<&str> {
    let text = line.split('"').nth(1)?;
    let number = text.strip_prefix('F')?.split(' ').next()?;
    (number.parse::<usize>().is_ok() && text.contains(" x ")).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_line_is_cells_and_the_test_around_it() {
        let text = "//! \"F2 json x list,stream x coalescing\" in a header\n\
                    #[test]\nfn a_fault() {\n    let line = \"F2 json x list,stream x in-order\";\n}\n\
                    // no fault: F3 json,protobuf x list x coalescing: no such list\n\
                    // fault: F2\n#[test]\nasync fn another() {}\n";
        let matrix = Matrix::new(&[
            file("crates/a/tests/it/a.rs", text),
            file("xtask/a.rs", text),
        ]);
        let row = &matrix.rows[&2];
        let tested: Vec<_> = (0..CELLS)
            .filter(|n| row.cell(*n) == Cell::Tested)
            .collect();
        assert_eq!(tested, [0, 2]);
        assert!(row.tests.iter().eq(["a_fault", "another"]));
        let excused = (0..CELLS).filter(|n| matrix.rows[&3].cell(*n) == Cell::Excused);
        assert!(excused.eq([1, 5]));
        let problems: Vec<_> = matrix.problems().map(|(_, what)| what).collect();
        assert_eq!(problems.len(), 33);
        assert_eq!(problems[1], "F2 has 6 cells without a test or a reason");
    }

    #[test]
    fn lines_that_cannot_be_read_are_named() {
        for (text, expected) in [
            ("// fault: F34\nfn a() {}", "\"F34\" is no fault and cells"),
            (
                "// fault: F3 json x list\nfn a() {}",
                "\"F3 json x list\" is no fault and cells",
            ),
            (
                "// no fault: F3 json x list x in-order\n",
                "\"F3 json x list x in-order\" needs a test, or a reason",
            ),
            ("// fault: F3\n", "a fault above no test"),
        ] {
            let matrix = Matrix::new(&[file("crates/a/tests/it/a.rs", text)]);
            let first = matrix.problems().next();
            assert_eq!(
                first,
                Some(("crates/a/tests/it/a.rs".to_owned(), expected.to_owned()))
            );
        }
    }
}
