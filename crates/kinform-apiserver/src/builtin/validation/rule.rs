//! One rule about a member of a type, and the function that checks it.

use super::{Errors, Site};
use crate::builtin::condition::Condition;

/// Checks a member, and adds its errors.
pub(super) type Check = fn(&Site<'_>, &mut Errors<'_>);

/// One rule of a type.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `None` if the rule only leads to the rules of the member's own type.
    pub(super) check: Option<Check>,
    pub(super) member: Vec<String>,
    /// Path under which errors are reported.
    pub(super) told: Vec<String>,
    /// Set if the rule applies to each item of the member.
    pub(super) each: bool,
    pub(super) arguments: Vec<String>,
    pub(super) detail: String,
    pub(super) conditions: Vec<Condition>,
}
