//! Objects in the versions of their other managers, where a webhook converts.
//!
//! ```text
//! object + version ──known?──▶ converted object : noted as missing ──the writer converts──▶ known
//! ```
//!
//! A manager of another version owns paths of that version. To see what a write changes of them, both
//! objects are compared in it. Ownership is pure and does not wait: it notes what it misses, and is
//! asked again when that was converted.
//!
//! Upstream: `structured-merge-diff:merge/update.go` (`Converter`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::form::Form;
use crate::resource::ResourceInfo;

/// The objects of one write in other versions.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By the wanted version and the object.
    known: HashMap<(String, String), Value>,
    missing: Vec<Missing>,
}

/// An object that is needed in another version.
#[derive(Debug)]
pub(crate) struct Missing {
    /// The wanted version, without its group.
    pub(crate) version: String,
    pub(crate) object: Value,
}

impl Versions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the objects that are missing.
    pub(crate) fn take_missing(&self) -> Vec<Missing> {
        std::mem::take(&mut self.lock().missing)
    }

    /// Notes what an object is in its wanted version.
    pub(crate) fn know(&self, missing: Missing, converted: Value) {
        let Missing { version, object } = missing;
        let key = (version, object.to_string());
        self.lock().known.insert(key, converted);
    }

    fn get(&self, version: &str, object: &Value) -> Option<Value> {
        let mut inner = self.lock();
        let key = (version.to_owned(), object.to_string());
        if let Some(known) = inner.known.get(&key) {
            return Some(known.clone());
        }
        inner.missing.push(Missing {
            version: key.0,
            object: object.clone(),
        });
        None
    }
}

/// The other versions of a resource, for one write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others<'a> {
    /// `None` where a path means the same in all versions.
    pub(super) of: Option<(&'a ResourceInfo, &'a Versions)>,
}

impl Others<'_> {
    /// Compares two objects as a manager of another version sees them. Returns `None` if the paths of
    /// the write are its own, or if the objects are not known in its version yet.
    pub(super) fn compare(
        &self,
        api_version: &str,
        (live, new): (&Value, &Value),
    ) -> Result<Option<Comparison>, String> {
        let Some((resource, versions)) = self.of else {
            return Ok(None);
        };
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let schema = resource
            .conversion()
            .and_then(|(conversion, _)| conversion.schemas.get(version));
        let (Some(schema), false) = (schema, version == resource.version) else {
            return Ok(None);
        };
        let both = (versions.get(version, live), versions.get(version, new));
        let (Some(live), Some(new)) = both else {
            return Ok(None);
        };
        let form = Form::Object {
            of: schema,
            keeps: false,
        };
        compare(form, &live, &new).map(Some)
    }
}
