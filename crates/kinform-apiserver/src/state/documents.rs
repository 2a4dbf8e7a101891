//! OpenAPI documents, cached as long as the resources that they describe stay the same.
//!
//! ```text
//! name, resources, function ──▶ cached document, or a new one
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::digest;
use crate::resource::ResourceInfo;

/// The documents of a server.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    // BOUND: one for each version of a group that is served, and one for all.
    kept: Mutex<HashMap<String, Arc<Document>>>,
}

/// A document, and the resources that it was made from.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) of: Vec<Arc<ResourceInfo>>,
    pub(crate) hash: String,
    pub(crate) json: Bytes,
    pub(crate) binary: OnceLock<Bytes>,
}

impl Documents {
    /// Returns the cached document, or makes it. Requests never wait for each other: at worst two
    /// of them make the same document.
    pub(crate) fn document(
        &self,
        name: &str,
        of: Vec<Arc<ResourceInfo>>,
        make: impl FnOnce(&[Arc<ResourceInfo>]) -> Value,
    ) -> Arc<Document> {
        if let Some(kept) = self.lock().get(name)
            && kept.of.len() == of.len()
            && kept.of.iter().zip(&of).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return kept.clone();
        }
        let json = Bytes::from(make(&of).to_string());
        let document = Arc::new(Document {
            of,
            hash: digest::upper_hex(&digest::sha256(&json)),
            json,
            binary: OnceLock::new(),
        });
        self.lock().insert(name.to_owned(), document.clone());
        document
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Document>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops documents of groups that are no longer served.
    pub(crate) fn retain(&self, names: &BTreeMap<String, Vec<Arc<ResourceInfo>>>) {
        let is_served = |name: &str| name.is_empty() || names.contains_key(name);
        self.lock().retain(|name, _| is_served(name));
    }
}
