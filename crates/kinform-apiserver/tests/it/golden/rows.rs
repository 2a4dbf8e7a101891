//! Outcome of all exchanges of a folder, and the conditions on it.
//!
//! ```text
//! exchange + differences -> row          finish: each recorded once, each listed differs
//! ```
//!
//! A listed exchange that matches fails, and so does one that is no longer recorded: no entry of
//! the list outlives its reason. The report page shows the outcome.

use super::DIFFERENCES;
use super::recorded::{Exchange, exchanges};
use super::report;

/// The outcome of a folder.
pub(crate) struct Rows {
    folder: &'static str,
    /// The files of all compared exchanges, with repetitions.
    compared: Vec<String>,
    listed: usize,
    wrong: Vec<String>,
}

/// Reason for an intended difference of an exchange; `None` if it should be equal.
pub(super) fn reason(file: &str) -> Option<&'static str> {
    let listed = DIFFERENCES.iter().find(|(listed, _)| *listed == file);
    listed.map(|(_, reason)| *reason)
}

impl Rows {
    pub(crate) fn of(folder: &'static str) -> Self {
        Self {
            folder,
            compared: Vec::new(),
            listed: 0,
            wrong: Vec::new(),
        }
    }

    /// Records the outcome of an exchange.
    pub(crate) fn row(&mut self, exchange: &Exchange, differences: &[String]) {
        self.compared.push(exchange.file.clone());
        let row = format!("{} {}", exchange.method, exchange.file);
        match (reason(&exchange.file), differences.is_empty()) {
            (None, true) => {}
            (Some(_), false) => self.listed += 1,
            (Some(reason), true) => {
                self.wrong
                    .push(format!("{row}: is listed ({reason}), but matches"));
            }
            (None, false) => {
                let few: Vec<&str> = differences.iter().take(6).map(String::as_str).collect();
                self.wrong.push(format!(
                    "{row} {}\n    {}",
                    exchange.path,
                    few.join("\n    ")
                ));
            }
        }
    }

    /// Returns whether the differences are exactly the listed ones.
    pub(crate) fn are_as_listed(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Ends the folder.
    pub(crate) fn finish(mut self) {
        let mut recorded: Vec<String> = exchanges(self.folder)
            .into_iter()
            .map(|exchange| exchange.file)
            .collect();
        for (file, reason) in DIFFERENCES {
            let is_of_here = file.split('/').next() == Some(self.folder);
            if is_of_here && !recorded.iter().any(|recorded| recorded == file) {
                self.wrong
                    .push(format!("{file}: is listed ({reason}), but not recorded"));
            }
        }
        let count = self.wrong.len();
        assert!(
            self.wrong.is_empty(),
            "{count} rows differ:\n{}",
            self.wrong.join("\n")
        );
        recorded.sort();
        self.compared.sort();
        assert_eq!(self.compared, recorded, "every exchange, once");
        report::tell(self.folder, recorded.len(), recorded.len() - self.listed);
    }
}
