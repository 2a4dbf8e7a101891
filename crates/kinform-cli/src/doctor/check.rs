//! One check of the doctor: its result in words, and a remedy if it is a problem.
//!
//! ```text
//! Check { name, subject, verdict, message, remedy } → a line or two | one JSON object
//! ```
//!
//! Words of a server may be in a message: they reach the terminal without letters that control it.

use serde::Serialize;

use crate::terminal::visible;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Something does not work, or will not for long.
    Problem,
}

/// A check that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The part that was checked, as `watch`.
    pub(crate) check: &'static str,
    /// The type that it was checked of.
    #[serde(rename = "type")]
    pub(crate) subject: Option<String>,
    #[serde(rename = "result")]
    pub(crate) verdict: Verdict,
    pub(crate) message: String,
    /// The way out of a problem.
    pub(crate) remedy: Option<String>,
}

impl Check {
    fn new(check: &'static str, verdict: Verdict, message: impl Into<String>) -> Self {
        Self {
            check,
            subject: None,
            verdict,
            message: message.into(),
            remedy: None,
        }
    }

    /// All is well.
    pub(crate) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, message)
    }

    /// A fact that needs no remedy.
    pub(crate) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Note, message)
    }

    /// A problem, and its remedy.
    pub(crate) fn problem(
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..Self::new(check, Verdict::Problem, message)
        }
    }

    /// The same of one type.
    pub(crate) fn of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }

    /// Returns whether something has to be done.
    pub(crate) fn is_problem(&self) -> bool {
        self.verdict == Verdict::Problem
    }

    /// A line, and a second one with the remedy.
    pub(crate) fn lines(&self) -> String {
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "PROBLEM",
        };
        let subject = self.subject.as_deref().unwrap_or_default();
        let name = match subject.is_empty() {
            true => self.check.to_owned(),
            false => format!("{} {subject}", self.check),
        };
        let mut lines = visible(&format!("{word:<8} {name:<34} {}", self.message)).into_owned();
        lines.push('\n');
        if let Some(remedy) = &self.remedy {
            lines.push_str(&visible(&format!("{:<8} remedy: {remedy}", "")));
            lines.push('\n');
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line_and_its_remedy_another() {
        let check = Check::ok("clock", "equal");
        assert_eq!(check.lines(), format!("ok       {:<34} equal\n", "clock"));
        let check = Check::problem("watch", "no\u{1b}", "do this").of("pods");
        let expected = format!(
            "PROBLEM  {:<34} no\u{fffd}\n         remedy: do this\n",
            "watch pods"
        );
        assert_eq!(check.lines(), expected);
        assert_eq!(
            serde_json::to_value(&check).unwrap(),
            serde_json::json!({"check": "watch", "type": "pods", "result": "problem",
                "message": "no\u{1b}", "remedy": "do this"})
        );
    }
}
