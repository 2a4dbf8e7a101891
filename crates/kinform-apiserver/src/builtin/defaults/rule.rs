//! One default of a type: its action, and the conditions under which it is set.

use serde_json::Value;

use super::Now;
use crate::builtin::condition::Condition;

/// One rule of a type.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) action: Action,
    pub(super) conditions: Vec<Condition>,
}

/// Effect of a rule.
#[derive(Debug)]
pub(super) enum Action {
    /// Sets the member at a path.
    Put(Vec<String>, Value),
    /// Sets the member at a path unless it is present at all: an empty text behind a pointer counts
    /// as set.
    PutUnlessThere(Vec<String>, Value),
    /// Sets the member at a path, also where there is a zero.
    PutOverZero(Vec<String>, Value),
    Call(fn(&mut Value)),
    CallNow(fn(&mut Value, Now<'_>)),
}
