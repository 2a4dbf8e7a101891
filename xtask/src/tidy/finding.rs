//! Something that is not as the house has it.

use std::fmt;

/// A place, the rule that it breaks, and a message.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {} ({})",
            self.path, self.line, self.message, self.rule
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_place_and_rule() {
        let path = "a.rs".to_owned();
        let finding = Finding {
            path,
            line: 3,
            rule: "size",
            message: "too long".into(),
        };
        assert_eq!(finding.to_string(), "a.rs:3: too long (size)");
    }
}
