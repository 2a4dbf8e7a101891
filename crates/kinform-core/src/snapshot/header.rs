//! The header of a snapshot: what it is of, its version, and its quarantine.
//!
//! ```text
//! identity, Root → Header → JSON → Header → compared with the reader's identity
//! ```
//!
//! An identity is lines `name: value`. The first line that differs is the reason for a refusal: its
//! name is stated, never its value.
//! Numbers of built-in types belong to the program that wrote them: their names are written, too.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;

use kinform_api::ObjectKey;
use serde::{Deserialize, Serialize};

use super::refused::Refused;
use crate::delta::{Quarantine, QuarantineOrigin};
use crate::object::Object;
use crate::store::root::Root;

/// The first frame.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    identity: String,
    pub(super) version: String,
    /// Names of built-in types by their numbers.
    types: BTreeMap<u16, String>,
    quarantined: Vec<Row>,
}

/// One quarantined object.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    key: String,
    version: Option<String>,
    path: String,
    reason: String,
    origin: u8,
}

const ORIGINS: [QuarantineOrigin; 4] = [
    QuarantineOrigin::List,
    QuarantineOrigin::Watch,
    QuarantineOrigin::Deletion,
    QuarantineOrigin::Duplicate,
];

impl Header {
    pub(super) fn of(root: &Root, identity: &str) -> Self {
        let numbers = root.objects().filter_map(Object::type_number);
        let mut types = BTreeMap::new();
        for number in numbers {
            types.entry(number).or_insert_with(|| name(number));
        }
        let row = |(key, quarantine): (&ObjectKey, &Quarantine)| Row {
            key: key.as_str().to_owned(),
            version: quarantine.version.clone(),
            path: quarantine.path.clone(),
            reason: quarantine.reason.clone(),
            origin: ORIGINS
                .iter()
                .position(|origin| *origin == quarantine.origin)
                .unwrap_or_default() as u8,
        };
        Self {
            identity: identity.to_owned(),
            version: root.version().to_string(),
            types,
            quarantined: root.quarantined().iter().map(row).collect(),
        }
    }

    /// Checks that the snapshot is of what the reader is about.
    pub(super) fn check(&self, identity: &str) -> Result<(), Refused> {
        if self.identity != identity {
            let mut theirs = self.identity.lines();
            let differs = identity.lines().find(|line| theirs.next() != Some(line));
            let part = differs.and_then(|line| line.split(':').next());
            return Err(Refused::of_other(part.unwrap_or("identity")));
        }
        let is_known = |(number, named): (&u16, &String)| name(*number) == *named;
        match self.types.iter().all(is_known) {
            true => Ok(()),
            false => Err(Refused::of_other("release of kinform")),
        }
    }

    pub(super) fn into_quarantined(self) -> BTreeMap<ObjectKey, Quarantine> {
        let quarantine = |row: Row| {
            let key: ObjectKey = row.key.parse().ok()?;
            let quarantine = Quarantine {
                key: Some(key.clone()),
                version: row.version,
                path: row.path,
                reason: row.reason,
                origin: *ORIGINS.get(usize::from(row.origin))?,
            };
            Some((key, quarantine))
        };
        self.quarantined
            .into_iter()
            .filter_map(quarantine)
            .collect()
    }
}

fn name(number: u16) -> String {
    match kinform_schema::numbered_type(number) {
        Some(of) => format!("{}.{}", of.package(), of.name()),
        None => String::new(),
    }
}
