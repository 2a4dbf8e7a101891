//! The table of defaults: `rules.txt`, read once.
//!
//! ```text
//! "@ core/v1 Probe" .. "timeoutSeconds = 1" -> Table { type -> [Rule] }
//! ```
//!
//! The grammar stands at the head of the data. An invalid line is a defect of this crate and panics
//! at the first use; a test reads the whole table.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use kinform_schema::{FieldType, Type};

use super::rule::{Action, Rule};
use super::{find_type, functions};
use crate::builtin::condition::Condition;

/// Package and name of a type.
type Key = (&'static str, &'static str);

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Table {
    rules: HashMap<Key, Vec<Rule>>,
    /// Those of new objects.
    new: HashMap<Key, Vec<Rule>>,
    /// Cache: whether a type, or one of its parts, has rules. Filled on demand.
    leads: Mutex<HashMap<Key, bool>>,
}

impl Table {
    pub(super) fn of(&self, of: &Type) -> &[Rule] {
        self.rules.get(&key(of)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_new(&self, of: &Type) -> &[Rule] {
        self.new.get(&key(of)).map_or(&[], Vec::as_slice)
    }

    /// Number of types with rules.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether this type, or a type below it, has a rule.
    pub(super) fn leads_to_rules(&self, of: &'static Type) -> bool {
        let mut known = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_below(of, &mut known)
    }

    fn look_below(&self, of: &'static Type, known: &mut HashMap<Key, bool>) -> bool {
        if let Some(known) = known.get(&key(of)) {
            return *known;
        }
        // A type that contains itself has the rules of its other parts.
        known.insert(key(of), false);
        let mut parts = of
            .fields()
            .iter()
            .filter_map(kinform_schema::Field::message);
        let leads =
            self.rules.contains_key(&key(of)) || parts.any(|part| self.look_below(part, known));
        known.insert(key(of), leads);
        leads
    }
}

fn key(of: &Type) -> Key {
    (of.package(), of.name())
}

/// The rules of `rules.txt`.
pub(super) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| read(include_str!("rules.txt")));
    &TABLE
}

fn read(text: &'static str) -> Table {
    let mut table = Table::default();
    let mut current: Option<(Option<&Type>, &mut Vec<Rule>)> = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix('@') {
            let is_new = head.starts_with("create ");
            let of = head.trim_start_matches("create").trim();
            let rules = if is_new {
                &mut table.new
            } else {
                &mut table.rules
            };
            // A type that does not exist has rules without effect; a test reports it.
            let key = find_type(of).unwrap_or(("", of));
            let of = kinform_schema::named_type(key.0, key.1);
            current = Some((of, rules.entry(key).or_default()));
        } else if let Some((of, rules)) = &mut current {
            let mut rule =
                rule(line).unwrap_or_else(|| panic!("a default that cannot be read: {line}"));
            rule.action = match rule.action {
                Action::Put(path, default) if is_pointer(*of, &path) => {
                    Action::PutUnlessThere(path, default)
                }
                action => action,
            };
            rules.push(rule);
        }
    }
    table
}

/// The types that the data names and the table of types does not know.
#[cfg(test)]
pub(super) fn unknown_types() -> Vec<String> {
    let table = table();
    let keys = table.rules.keys().chain(table.new.keys());
    keys.filter(|(package, _)| package.is_empty())
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

fn rule(line: &str) -> Option<Rule> {
    if let Some(name) = line.strip_prefix(':') {
        let action = functions::named(name)?;
        return Some(Rule {
            action,
            conditions: Vec::new(),
        });
    }
    let (line, conditions) = line.split_once(" if ").unwrap_or((line, ""));
    let (member, default) = line.split_once("= ")?;
    let put = match member.strip_suffix('?') {
        Some(_) => Action::PutOverZero,
        None => Action::Put,
    };
    let member = member.trim_end_matches('?').trim_end();
    Some(Rule {
        action: put(path(member), serde_json::from_str(default).ok()?),
        conditions: Condition::read_all(conditions),
    })
}

/// Returns whether the member at a path is a pointer to a string.
fn is_pointer(of: Option<&Type>, path: &[String]) -> bool {
    let (Some(of), [parents @ .., last]) = (of, path) else {
        return false;
    };
    let parent = parents.iter().try_fold(of, |of, name| {
        of.field(name).and_then(kinform_schema::Field::message)
    });
    let field = parent.and_then(|of| of.field(last));
    field.is_some_and(|field| field.is_pointer() && matches!(field.field_type(), FieldType::String))
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}
