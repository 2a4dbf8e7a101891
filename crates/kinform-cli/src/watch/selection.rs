//! `--where` of a watch: objects come into a selection and go out of it, as with a selector.
//!
//! ```text
//! Change ──is it shown? does it meet the condition?──▶ add │ update │ delete │ nothing
//! ```
//!
//! An object that begins to meet the condition is an add, one that ceases to a delete. What was shown is
//! deleted even if its last state does not meet the condition.
//!
//! BOUND: a key for each object of the caches.

use std::collections::HashSet;

use kinform_api::ObjectKey;

use crate::exit::Failure;
use crate::expression::Where;
use crate::output::change::Change;
use crate::output::line::Event;

/// The objects that are shown.
#[derive(Debug)]
pub(super) struct Selection {
    expression: Option<Where>,
    /// Empty without an expression.
    shown: HashSet<(usize, ObjectKey)>,
}

impl Selection {
    /// The selection of a flag.
    ///
    /// # Errors
    /// The expression is no condition.
    pub(super) fn parse(expression: Option<&str>) -> Result<Self, Failure> {
        Ok(Self {
            expression: expression.map(Where::parse).transpose()?,
            shown: HashSet::new(),
        })
    }

    /// The change as the selection has it; `None` if it has none.
    ///
    /// # Errors
    /// The expression costs too much.
    pub(super) fn select<'a>(
        &mut self,
        place: usize,
        change: Change<'a>,
    ) -> Result<Option<Change<'a>>, Failure> {
        let Some(expression) = &self.expression else {
            return Ok(Some(change));
        };
        let key = (place, change.object.key());
        let is_wanted = change.event != Event::Delete && expression.selects(change.object)?;
        let was_shown = match is_wanted {
            true => !self.shown.insert(key),
            false => self.shown.remove(&key),
        };
        let event = match (was_shown, is_wanted) {
            (false, false) => return Ok(None),
            (true, true) => change.event,
            (false, true) => Event::Add,
            (true, false) => Event::Delete,
        };
        Ok(Some(match event == change.event {
            true => change,
            false => Change {
                event,
                old: None,
                initial: (event == Event::Add).then_some(false),
                final_state_unknown: (event == Event::Delete).then_some(false),
                object: change.object,
            },
        }))
    }
}
