//! The table of rules: `rules.txt`, read once.
//!
//! ```text
//! "@ core/v1 Probe" .. "min periodSeconds 0" -> Table { type -> [Rule] }
//! ```
//!
//! The grammar stands at the head of the data. An invalid line is a defect of this crate; a test
//! reads all lines.

use std::collections::HashMap;
use std::sync::LazyLock;

use kinform_schema::Type;

use super::rule::{Check, Rule};
use super::{
    admission, amounts, candidates, certificates, changes, checks, kinds, metrics, mounts, pods,
    scalars, services, singles, trust_bundles, webhooks, workloads,
};
use crate::builtin::condition::Condition;
use crate::builtin::defaults::find_type;

/// Package and name of a type.
type Key = (&'static str, &'static str);

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Table {
    rules: HashMap<Key, Vec<Rule>>,
    /// Those of new objects.
    new: HashMap<Key, Vec<Rule>>,
    /// Those of changes.
    changes: HashMap<Key, Vec<Rule>>,
    /// Lines that do not parse.
    faults: Vec<String>,
}

impl Table {
    pub(super) fn of(&self, of: &Type) -> &[Rule] {
        let key = (of.package(), of.name());
        self.rules.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_new(&self, of: &Type) -> &[Rule] {
        let key = (of.package(), of.name());
        self.new.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_change(&self, of: &Type) -> &[Rule] {
        let key = (of.package(), of.name());
        self.changes.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// The rules of `rules.txt`.
pub(super) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| read(include_str!("rules.txt")));
    &TABLE
}

fn read(text: &'static str) -> Table {
    let mut table = Table::default();
    let mut current: Option<(&str, Key)> = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix('@') {
            let (when, of) = head.split_once(' ').unwrap_or_default();
            current = find_type(of).map(|key| (when, key));
            if current.is_none() {
                table.faults.push(line.to_owned());
            }
            continue;
        }
        let (Some((when, key)), Some(rule)) = (current, rule(line)) else {
            table.faults.push(line.to_owned());
            continue;
        };
        let rules = match when {
            "create" => &mut table.new,
            "update" => &mut table.changes,
            _ => &mut table.rules,
        };
        rules.entry(key).or_default().push(rule);
    }
    table
}

fn rule(line: &str) -> Option<Rule> {
    let (line, detail) = line.split_once(" | ").unwrap_or((line, ""));
    let (line, conditions) = line.split_once(" if ").unwrap_or((line, ""));
    let mut words = line.split(' ');
    let name = words.next()?;
    let member = words.next().unwrap_or(".");
    let (member, told) = member.split_once('>').unwrap_or((member, member));
    let each = member.ends_with("[]");
    let path = |text: &str| {
        let names = text
            .trim_end_matches("[]")
            .split('.')
            .filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    Some(Rule {
        check: match name {
            "in" => None,
            name => Some(named(name)?),
        },
        member: path(member),
        told: path(told),
        each,
        arguments: words.map(str::to_owned).collect(),
        detail: detail.to_owned(),
        conditions: Condition::read_all(conditions),
    })
}

fn named(name: &str) -> Option<Check> {
    checks::named(name)
        .or_else(|| mounts::named(name))
        .or_else(|| pods::named(name))
        .or_else(|| services::named(name))
        .or_else(|| workloads::named(name))
        .or_else(|| kinds::named(name))
        .or_else(|| singles::named(name))
        .or_else(|| changes::named(name))
        .or_else(|| metrics::named(name))
        .or_else(|| scalars::named(name))
        .or_else(|| certificates::named(name))
        .or_else(|| trust_bundles::named(name))
        .or_else(|| candidates::named(name))
        .or_else(|| admission::named(name))
        .or_else(|| amounts::named(name))
        .or_else(|| webhooks::named(name))
}

/// Invalid rules in the data, and rules about a member that their type does not have.
#[cfg(test)]
pub(super) fn faults() -> Vec<String> {
    let table = table();
    let mut faults = table.faults.clone();
    for rules in [&table.rules, &table.new, &table.changes] {
        for ((package, name), rules) in rules {
            let Some(of) = kinform_schema::named_type(package, name) else {
                continue;
            };
            for rule in rules {
                if !rule.member.is_empty() && !super::has_member(of, &rule.member) {
                    faults.push(format!("{name}: {}", rule.member.join(".")));
                }
            }
        }
    }
    faults
}
