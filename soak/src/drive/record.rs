//! The file of a run, a line of JSON each, and its summary for the terminal.
//!
//! ```text
//! run, before, sample.., trouble.., after, verdict ──▶ file      Evidence ──▶ summary
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::verdict::{Evidence, Growth};

/// The file, and the time since the load began.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: BufWriter<File>,
    began: Instant,
    /// Troubles that were made.
    pub(super) troubles: u32,
}

impl Record {
    /// Makes the file, and the folders that lead to it.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(File::create(path)?),
            began: Instant::now(),
            troubles: 0,
        })
    }

    /// The load begins now.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// The time since then.
    pub(super) fn at(&self) -> Duration {
        self.began.elapsed()
    }

    /// Appends a line: its kind and time before the rest.
    pub(super) fn line(&mut self, kind: &str, value: Value) -> Result<(), crate::Failure> {
        let at = (self.at().as_secs_f64() * 10.0).round() / 10.0;
        let line = json!({"kind": kind, "at_seconds": at, "value": value});
        writeln!(self.file, "{line}")?;
        self.file.flush()?;
        Ok(())
    }
}

impl Growth {
    pub(super) fn to_json(self) -> Value {
        json!({
            "from_seconds": self.from,
            "resident_percent_an_hour": self.resident,
            "live_percent_an_hour": self.live,
            "is_evidence": self.is_evidence,
        })
    }
}

/// A run in a few lines.
pub(super) fn summary(evidence: &Evidence, record: &Record) -> String {
    let (before, after, growth) = (&evidence.before, &evidence.after, evidence.growth());
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let slope = |slope: Option<f64>| slope.map_or("?".to_owned(), |slope| format!("{slope:+.2}"));
    let remark = match growth.is_evidence {
        true => "",
        false => " (too short: these slopes are no evidence)",
    };
    let (made, wanted) = evidence.writes;
    format!(
        "soak: {seconds:.0} s under load, {made} of {wanted} writes, {troubles} troubles, \
         {visits} visits, {terms} terms\n\
         heard: {heard} notifications, {contradictions} contradictions, {panics} planned panics, \
         {relists} relists, {reopens} reopened watches\n\
         tasks: {tasks} before, {tasks_after} after; descriptors: {files} before, {files_after} after\n\
         memory: resident {resident:.1} MiB before, {resident_after:.1} after; live {live:.1} before, \
         {live_after:.1} after\n\
         slope from second {from:.0} on, percent an hour: resident {resident_slope}, live \
         {live_slope}{remark}\n\
         figures: {path}\n",
        seconds = evidence.seconds,
        troubles = record.troubles,
        visits = after.visits,
        terms = after.terms,
        heard = after.heard,
        contradictions = after.contradictions,
        panics = after.panics,
        relists = after.relists,
        reopens = after.reopens,
        tasks = before.tasks,
        tasks_after = after.tasks,
        files = before.usage.descriptors,
        files_after = after.usage.descriptors,
        resident = mebibytes(before.usage.resident_bytes),
        resident_after = mebibytes(after.usage.resident_bytes),
        live = mebibytes(before.live_bytes),
        live_after = mebibytes(after.live_bytes),
        from = growth.from,
        resident_slope = slope(growth.resident),
        live_slope = slope(growth.live),
        path = record.path.display(),
    )
}
