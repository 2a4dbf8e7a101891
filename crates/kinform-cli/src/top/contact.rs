//! The contact with the program: live, or without an answer since a moment.
//!
//! ```text
//! reply │ trouble ─▶ Contact ─▶ words for the head line, or the end of the command
//! ```
//!
//! A program that does not answer is waited for, a few seconds if nobody listens any more. A refusal is
//! the end at once.
//!
//! Upstream counterpart: none.

use std::time::{Duration, Instant};

use crate::attach::{Attach, Trouble};
use crate::exit::Failure;

/// The time after which a program is gone at whose address nobody listens.
const GONE: Duration = Duration::from_secs(3);
/// The time after which a program is given up that listens and does not answer.
const SILENT: Duration = Duration::from_secs(15);

/// Since when there was no answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contact {
    lost: Option<Instant>,
}

impl Contact {
    /// Words for the head line; `None` as long as the program answers.
    pub(super) fn words(&self, now: Instant) -> Option<String> {
        let since = now.duration_since(self.lost?);
        Some(format!("no answer for {} s, trying again", since.as_secs()))
    }

    /// The program answered.
    pub(super) fn answered(&mut self) {
        self.lost = None;
    }

    /// The program did not answer.
    ///
    /// # Errors
    /// It is not waited for any longer.
    pub(super) fn failed(
        &mut self,
        trouble: &Trouble,
        attach: &Attach,
        now: Instant,
    ) -> Result<(), Failure> {
        if !trouble.may_pass() {
            return Err(attach.failure(trouble));
        }
        let began = match trouble {
            Trouble::Silent(time) => now.checked_sub(*time).unwrap_or(now),
            _ => now,
        };
        let since = *self.lost.get_or_insert(began);
        let is_gone = matches!(trouble, Trouble::Gone(_));
        let patience = if is_gone { GONE } else { SILENT };
        if now.duration_since(since) < patience {
            return Ok(());
        }
        Err(match is_gone {
            true => ended(attach),
            false => attach.failure(trouble),
        })
    }
}

fn ended(attach: &Attach) -> Failure {
    Failure::new(format!(
        "{}: the program ended, or it serves no inspector any more",
        attach.place()
    ))
    .with_hint("start it again and attach to the address that it prints then")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_waited_for_and_then_given_up() {
        let attach = Attach::parse("127.0.0.1:1").unwrap();
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let gone = Trouble::Gone("x".to_owned());
        let mut contact = Contact::default();
        assert_eq!(contact.words(start), None);
        assert!(contact.failed(&gone, &attach, start).is_ok());
        let words = contact.words(after(2)).unwrap();
        assert_eq!(words, "no answer for 2 s, trying again");
        contact.answered();
        assert!(contact.failed(&gone, &attach, after(9)).is_ok());
        let end = contact.failed(&gone, &attach, after(12)).unwrap_err();
        assert!(end.to_string().contains("the program ended"), "{end}");

        let mut contact = Contact::default();
        let silent = Trouble::Silent(Duration::from_secs(5));
        assert!(contact.failed(&silent, &attach, after(5)).is_ok());
        let words = contact.words(after(5)).unwrap();
        assert_eq!(words, "no answer for 5 s, trying again");
        assert!(contact.failed(&silent, &attach, after(14)).is_ok());
        assert!(contact.failed(&silent, &attach, after(15)).is_err());
        let refused = Contact::default().failed(&Trouble::Unknown, &attach, start);
        assert!(refused.unwrap_err().to_string().contains("token"));
    }
}
